"""The end of a run's output: short whatever went wrong, printed before teardown, and the same afterwards."""

from dataclasses import replace
from pathlib import Path

import pytest

from esipp.checks.check import Level, Status
from esipp.checks.known_differences import Nature
from esipp.checks.model import AddressClass
from esipp.checks.reference import Reference
from esipp.ledger.reading import RecordedRun, read_judged_run, read_run
from esipp.report.ending import MOST_LINES, Detail, ending, whereabouts
from esipp.report.formats import write_reports
from tests.unit.recorded_world import recorded
from tests.unit.report_world import failing, made, write
from tests.unit.test_terminal import CHECKS, judged, rewritten
from tests.unit.world import by_id

LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"


def run_of(**changes: object) -> RecordedRun:
    return recorded(CHECKS, judged(**changes))


def test_a_healthy_run_ends_with_its_figures_its_sentence_and_where_to_read_more() -> None:
    run = run_of()
    lines = [*ending(run), *whereabouts(run)]
    core = sum(1 for c in run.qualified if c.level is Level.CORE and run.verdicts[c.id].status is Status.PASS)
    assert lines[0] == "figures"
    assert lines[1].startswith(f"  as required  {core:,} of {core:,} core checks, ")
    assert any(line == f"CONFORMANT: all {core:,} core checks that could run are as required" for line in lines)
    assert lines[-1] == "all tables: esipp summary --full run"
    assert len(lines) < 20


def test_a_cause_is_reported_once_with_what_was_seen_where_to_look_and_its_command() -> None:
    masquerades = rewritten(lambda path: "nodeport.local" in path.key and path.client.name == "outside-1")
    run = run_of(changes=masquerades)
    lines = ending(run)
    title = next(line for line in lines if line.startswith("FAIL"))
    assert title.endswith(f"and {len([v for v in run.verdicts.values() if v.status is Status.FAIL]) - 1} more checks")
    at = lines.index(title)
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["observed", "likely", "repeat"]
    assert lines[at + 3].endswith(f"esipp run --context x {title.split()[2]}"), "the command stays whole"
    assert sum(line.startswith("FAIL") for line in lines) == 1


def test_the_end_fits_however_much_went_wrong() -> None:
    """A worst case: many causes, long texts, faults of the ledger."""
    kinds = list(AddressClass)
    wrong = {}
    for number, (path, _) in enumerate(rewritten(lambda _: True).items()):
        wrong[path] = kinds[number % len(kinds)]
    run = run_of(changes=wrong)
    run.trouble += [f"line {number} is damaged " + "x" * 300 for number in range(20)]
    differing(run, *(f"defect {number} " + "x" * 300 for number in range(20)))
    lines = [*ending(run), *whereabouts(run), "reports: one line", "another"]
    assert len(lines) <= MOST_LINES
    assert any("more causes" in line for line in lines)
    assert sum("and 18 more" in line for line in lines) == 2, "faults of the ledger, known defects"


def differing(run: RecordedRun, *defects: str) -> None:
    """Each of these is a known defect of a check that passed."""
    passed = (name for name, each in run.verdicts.items() if each.status is Status.PASS and not each.instrument)
    for name, why in zip(passed, defects, strict=False):
        given = replace(run.verdicts[name], status=Status.KNOWN, reason=why, nature=Nature.DEFECT)
        run.verdicts[name] = replace(given, references=(Reference(f"repository#{len(why)}: a title"),))


def test_known_defects_are_named_with_their_references() -> None:
    run = run_of()
    differing(run, "it drops", "it is slow", "it lies a lot")
    lines = ending(run)
    at = lines.index("known defects")
    assert lines[at + 1].endswith("repository#8: a title: it drops")
    assert lines[at + 2].endswith("repository#10: a title: it is slow")
    assert lines[at + 3] == "  and 1 more"
    assert "known defects" not in ending(run_of())


def test_what_decides_the_result_comes_first() -> None:
    run = run_of()
    recorded_only = next(c.id for c in run.qualified if c.level is Level.EXTENDED and c.place)
    for identity, status in ((LOCAL, Status.INCONCLUSIVE), (recorded_only, Status.FAIL)):
        run.verdicts[identity] = type(run.verdicts[identity])(
            identity, by_id(identity).level, status, "the client", "", reason="because"
        )
    titles = [line for line in ending(run) if line.startswith(("FAIL", "INCONCLUSIVE"))]
    assert [title.split()[0] for title in titles] == ["INCONCLUSIVE", "FAIL"], "extended checks do not bind here"
    assert "  reason  because" in ending(run)


def test_full_has_the_tables_and_quiet_the_sentence() -> None:
    run = run_of()
    assert ending(run, Detail.SENTENCE) == [run.conclusion.headline]
    assert whereabouts(run, Detail.SENTENCE) == []
    assert any("How to read the matrix" in line for line in ending(run, Detail.FULL))
    assert not any("How to read the matrix" in line for line in ending(run))
    assert [Detail.of(each) for each in (1, 0, -1, -2)] == [Detail.FULL, Detail.SHORT, Detail.SHORT, Detail.SENTENCE]


@pytest.mark.parametrize("status", [Status.PASS, Status.FAIL])
def test_what_is_said_before_the_run_has_cleared_up_is_what_its_ledger_says_in_the_end(
    tmp_path: Path, status: Status
) -> None:
    folder = tmp_path / "run"
    run = write(folder, said=failing(status))
    assert run.ledger is not None
    first = read_judged_run(run.ledger, run.conclude())
    said = ending(first)
    assert first.end is None
    run.record("phase", name="teardown", seconds=1.0)
    run.end()
    assert ending(read_run(folder)) == said


def test_a_ledger_with_faults_is_not_called_conformant_before_its_end(tmp_path: Path) -> None:
    run = write(tmp_path / "run")
    assert run.ledger is not None
    with run.ledger.path.open("a") as file:
        file.write("not a record\n")
    said = ending(read_judged_run(run.ledger, run.conclude()))
    run.ledger.close()
    assert "INCOMPLETE: " in "\n".join(said)


def test_reports_are_named_on_one_line(tmp_path: Path) -> None:
    made(tmp_path / "run")
    (line,) = write_reports(read_run(tmp_path / "run"))
    assert line.startswith(f"reports: {tmp_path / 'run' / 'report.html'}, summary.txt, ")
