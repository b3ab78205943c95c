"""report.md: short whatever the run found, the last word first, and no text of others that means anything."""

import re
from pathlib import Path

import pytest

from esipp.base.customisation import INTERNAL
from esipp.checks.check import Binding, Level, Status
from esipp.checks.model import Balancer
from esipp.checks.path import PathCheck
from esipp.checks.reference import Reference
from esipp.checks.timing import AS_STARTED
from esipp.ledger.codec import judged
from esipp.ledger.reading import read_run
from esipp.ledger.run import Run
from esipp.report.escaping import block, code, one_line, prose, table_cell
from esipp.report.markdown import MOST_CAUSES, MOST_FACTS, render
from esipp.scenarios.endpoint_change.evidence import BalancerEvidence, Moved, Result
from tests.unit.report_world import HOSTILE, failing, made, measured, some_checks, verdict, write
from tests.unit.world import CHECKS

LINKED = re.compile(r"@\w|#\s*\d|\bGH-\d|://|www\.|[0-9a-f]{7}|:\w+:", re.IGNORECASE)


def bare(text: str) -> str:
    """A line without its code and without what a backslash escapes, as CommonMark reads it."""
    found, at = [], 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text) and not text[at + 1].isalnum():
            at += 2
            continue
        if text[at] == "`":
            run = re.match(r"`+", text[at:])
            assert run is not None
            end = re.search(rf"(?<!`){run[0]}(?!`)", text[at + len(run[0]) :])
            assert end is not None, f"code that does not end: {text}"
            at += len(run[0]) + end.end()
            found.append("CODE")
            continue
        found.append(text[at])
        at += 1
    return "".join(found)


# ------------------------------------------------------------------------------------------------------------ escaping
@pytest.mark.parametrize(
    "text",
    [
        HOSTILE, "@octocat", "see #123", "GH-7", "http://e.example", "www.e.example", "0123abc is a commit", ":tada:",
        "`", "``", "` `` ```", "a\\", "a\\|b", "\\`", "<b>", "a|b", "*x*", "_x_", "~~x~~", "$x$", "![i](u)", "&lt;", "",
        " ", "x" * 5000, "a\nb\r\n\n# c", "\u202eabc", "\ud800", "octo/repo@abc", "mailto:a", "\u2028- x", "defaced",
    ],
)  # fmt: skip
@pytest.mark.parametrize("escape", [code, table_cell, prose])
def test_no_text_means_anything(escape: type[str], text: str) -> None:
    escaped = str(escape(text))
    assert "\n" not in escaped
    assert "\r" not in escaped
    assert len(escaped) < 650
    rest = bare(escaped)
    assert not LINKED.search(rest)
    assert not re.search(r"[<>\[\]*_~$&!|]", rest)
    escaped.encode()
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", escaped)


def test_a_bar_never_divides_a_path_check() -> None:
    assert "|" not in table_cell("a|b\\|c")


def test_harmless_text_is_left_as_it_is() -> None:
    said = "A client (outside) that dials the VIP of a Service over TCP is seen with its own address: 50 % of 200."
    assert prose(said) == said


def test_text_is_cut_where_it_is_long() -> None:
    assert one_line("a" * 10, 10) == "a" * 10
    assert one_line("a" * 11, 10) == "a" * 9 + "…"
    assert one_line("\n" * 100 + "a", 10) == "…"


def test_a_block_ends_where_it_must() -> None:
    first, _, last = block("x ```` y\n```\n# z")
    assert first == "`````sh"
    assert last == "`````"


# ------------------------------------------------------------------------------------------------------------ the page
def test_the_last_word_is_first(tmp_path: Path) -> None:
    lines = render(made(tmp_path, said=failing())).splitlines()
    assert lines[0] == "# Source IP qualification: NONCONFORMANT"
    assert lines[2] == "**NONCONFORMANT**: 1 check fails"


def test_the_page_tells_what_was_qualified_how_fast_and_how_to_repeat_it(tmp_path: Path) -> None:
    text = render(made(tmp_path, said=failing(), left_out=3, more=measured))
    (name,) = failing()
    assert "| `kubernetes` | `v1.36.3` | `API server /version` |" in text
    assert "| `load-balancer` | `registry.example/speaker:v1` | `no digest` |" in text
    assert f"  - repeat: `esipp run --context kind-test --image echo:1 --seed 0 {name}`" in text
    assert "Not selected: 3 core checks." in text
    numbers = r"[\d.]+ / [\d.]+ / [\d.]+ \(IPv4, n=3\)"
    assert re.search(rf"\| `reference-ecmp` \| {numbers} \| {numbers} \| \d+ \| [\d.]+ \| 3.00, {AS_STARTED}", text)
    assert "| `reference-proxy` | - | - | - | - | `it is not there` |" in text
    assert text.rstrip().endswith("```sh\nesipp run --context kind-test --image echo:1 --seed 0\n```")


def test_the_table_has_every_profile_and_level_that_was_asked(tmp_path: Path) -> None:
    run = made(tmp_path, said=failing())
    table = [line.strip("| ").split(" | ") for line in render(run).splitlines() if line.startswith("| ")]
    counted = {(line[0], line[1]): int(line[2]) for line in table if line[1] in {level.words for level in Level}}
    assert sum(counted.values()) == len(run.checks)
    assert {profile for profile, _ in counted} == {"ClusterIP", "NodePort", "LoadBalancer"}


def test_known_differences_and_what_was_not_tested_are_reported(tmp_path: Path) -> None:
    said = failing(
        Status.KNOWN, reason="the kernel does so", references=(Reference("torvalds/linux#1"),), nature="known defect"
    )
    other = next(check for check in some_checks()[1:] if "family.ipv4" in check.features)
    said[other.id] = verdict(other, Status.UNSUPPORTED, reason="needs warp: not there", left_out=True)
    text = render(made(tmp_path, said=said))
    assert "- known defect, 1 check (1 core): the kernel does so (`torvalds/linux#1`)" in text

    def nothing(run: Run) -> None:
        for name in sorted({name for check in some_checks() for name in check.features}):
            run.record("feature", name=name, present=False, why="--without it", ours=True)

    (tmp_path / "b").mkdir()
    text = render(made(tmp_path / "b", said=said, more=nothing))
    assert "without `family.ipv4` (excluded by user): --without it" in text


@pytest.mark.parametrize("end", [False, True])
def test_a_run_that_is_not_whole_says_so_at_once(tmp_path: Path, end: bool) -> None:
    run = write(tmp_path)
    if end:
        run.end()
        ledger = tmp_path / "ledger.jsonl"
        ledger.write_text(ledger.read_text().replace("a node's x20", "a client's x2"))
    elif run.ledger is not None:
        run.ledger.close()
    lines = render(read_run(tmp_path)).splitlines()
    assert lines[0].endswith("INCOMPLETE")
    assert "**INCOMPLETE: the ledger of this run is incomplete. Do not sign anything below.**" in lines[:6]
    assert any(line.startswith("- ") for line in lines[:8])
    assert "conformant" not in "\n".join(lines).lower()


def hundreds(statuses: tuple[Status, ...]) -> dict[str, tuple[PathCheck, Status]]:
    return {check.id: (check, statuses[number % len(statuses)]) for number, check in enumerate(CHECKS[:900])}


def test_the_page_is_short_however_much_went_wrong(tmp_path: Path) -> None:
    """Each check with a cause of its own, all that can be reported is, and all of it is hostile and long."""
    statuses = (Status.FAIL, Status.FLAKY, Status.ERROR, Status.INCONCLUSIVE, Status.KNOWN, Status.UNSUPPORTED)
    said = {
        name: verdict(
            check, status, reason=f"{number} {chr(97 + number % 26)}{HOSTILE}" * 9, references=(Reference(f"{number}"),)
        )
        for number, (name, (check, status)) in enumerate(hundreds(statuses).items())
    }
    checks = [check for check, _ in hundreds(statuses).values()]
    parts = [{"name": f"{n}", "kind": "k", "image": HOSTILE * 9, "digest": ""} for n in range(50)]

    def more(run: Run) -> None:
        for number in range(90):
            run.fact(f"fact-{number}", HOSTILE * 9, HOSTILE * 9)
        results = {each: Result(each, BalancerEvidence({}, {}, {}), obstacle=HOSTILE * 9) for each in Balancer}
        run.record("judged", **judged("convergence", Moved(results)))
        for name in {name for check in checks for name in check.features}:
            run.record("feature", name=name, present=False, why=HOSTILE * 9, ours=False)

    run = made(tmp_path, checks=checks, said=said, components=parts, more=more, left_out=7)
    run.trouble += [HOSTILE * 9] * 30
    text = render(run)
    assert text.count("\n") < 190
    assert len(text) < 60_000
    assert len(re.findall(r"^- \*\*(?:FAIL|FLAKY|ERROR|INCONCLUSIVE)\*\*", text, re.MULTILINE)) == MOST_CAUSES
    assert re.search(r"^And \d+ more causes \(\d+ checks\) in report\.json\.$", text, re.MULTILINE)
    fenced = text.rpartition("## Repeat")[0]
    for line in fenced.splitlines():
        rest = bare(line)
        assert not LINKED.search(rest), line
        assert not re.search(r"[<>~$&!]|\]\(", rest), line
        if line.startswith("|"):
            assert rest.count("|") in (4, 7, *range(9, 13)), line


def test_the_causes_that_bind_come_first(tmp_path: Path) -> None:
    said = failing(level=Level.EXTENDED) | failing(Status.INCONCLUSIVE, reason="the control failed")
    run = made(tmp_path, said=said, fail_on=Binding.CORE)
    titles = [line for line in render(run).splitlines() if line.startswith("- **")]
    assert [title.split()[1] for title in titles] == ["**INCONCLUSIVE**", "**FAIL**"]


def test_the_same_ledger_gives_the_same_bytes(tmp_path: Path) -> None:
    made(tmp_path, said=failing(), more=measured)
    assert render(read_run(tmp_path)) == render(read_run(tmp_path))


def test_that_load_balancers_are_internal_is_reported_however_many_facts_there_are(tmp_path: Path) -> None:
    def tell(run: Run) -> None:
        for number in range(3 * MOST_FACTS):
            run.fact(f"a-{number:03}", "x", "made up")
        run.fact(INTERNAL, "yes, by cloud.example.com/internal=true", "given on the command line")

    lines = render(made(tmp_path / "run", more=tell)).splitlines()
    assert [line for line in lines if "load-balancer" in line and "cloud.example.com/internal=true" in line]
