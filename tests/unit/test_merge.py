"""Runs merged into one matrix, and the parts of one run into one run."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esipp.app.cli import main
from esipp.base.document import Items, Section, Table, Text, plain
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.check import Binding, Level, Status, Verdict
from esipp.checks.reference import Reference
from esipp.ledger.conclusion import conclude
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.merge import agreed, merge, merge_shards
from esipp.report.comparing.merge_report import TITLE, as_json, marks, matters, report
from esipp.report.rendering.html import as_html
from esipp.report.rendering.markdown import as_markdown
from esipp.report.rendering.terminal import as_text
from tests.unit.comparing_world import run_of, said
from tests.unit.report_world import HOSTILE, failing, made, some_checks, write

P, F, FLAKY, K = Status.PASS, Status.FAIL, Status.FLAKY, Status.KNOWN
U, I, E = Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.ERROR  # noqa: E741 - one letter each, as in a matrix


def lane(name: str, *statuses: Status, left_out: int = 0) -> RecordedRun:
    verdicts = [said(f"a.row.{number}", status) for number, status in enumerate(statuses)]
    return run_of(verdicts, name=f"run-{name}-{len(statuses)}", lane=name, left_out=left_out)


def test_each_run_is_a_column_called_by_lane_version_and_mode() -> None:
    run = run_of([said("a", P)], lane="kind", facts={"kubernetes": "v1.36.3", "proxy-mode": "ipvs"})
    assert [each.name for each in merge([run]).columns] == ["kind v1.36.3 ipvs"]


def test_columns_of_one_name_get_the_run_and_one_ledger_named_twice_is_one() -> None:
    one, two = lane("kind", P), lane("kind", P, P)
    assert [each.name for each in merge([one, two, one]).columns] == [
        "kind v1.36.3 run-kind-1",
        "kind v1.36.3 run-kind-2",
    ]


def test_two_ledgers_of_one_run_are_distinguished() -> None:
    one, other = lane("kind", P), killed(lane("kind", P))
    other.sha256 = "cut off"
    assert [each.name for each in merge([one, other]).columns] == [
        "kind v1.36.3 run-kind-1 (1)",
        "kind v1.36.3 run-kind-1 (2)",
    ]


def ended(result: str, code: ExitCode) -> RecordedRun:
    run = lane(result, P)
    run.end = {"result": result, "why": "made up", "exit_code": int(code)}
    return run


@pytest.mark.parametrize(
    ("codes", "worst"),
    [((0, 0), 0), ((0, 1, 3), 1), ((0, 3, 2), 3), ((0, 2, 5), 2), ((0, 5), 5), ((2, 4, 5), 2)],
)
def test_the_worst_run_decides_in_the_order_that_is_documented(codes: Sequence[int], worst: int) -> None:
    runs = [ended(f"word{number}", ExitCode(code)) for number, code in enumerate(codes)]
    for order in (runs, runs[::-1]):
        assert merge(order).exit_code == worst


def test_all_conform_or_it_is_said_which_is_worst() -> None:
    assert merge([lane("a", P), lane("b", P)]).sentence == "CONFORMANT: 2 of 2 runs conform"
    assert merge([lane("a", P), lane("b", P, left_out=3)]).sentence.startswith(
        "PARTIAL: 1 of 2 runs conform; the worst"
    )
    found = merge([lane("a", P), lane("b", F), lane("c", F, F, F)]).sentence
    assert found == "NONCONFORMANT: 1 of 3 runs conform; the worst is c v1.36.3: 3 checks fail"


def killed(run: RecordedRun) -> RecordedRun:
    run.end = None
    return run


@pytest.mark.parametrize("shards", [False, True])
def test_a_run_that_is_not_whole_never_makes_anything_green(shards: bool) -> None:
    runs = [lane("a", P), killed(lane("a", P, P))]
    merged = merge_shards(runs) if shards else merge(runs)
    assert merged.exit_code is ExitCode.HARNESS
    assert merged.sentence.startswith("INCOMPLETE")
    assert "it was killed" in merged.faults[0]
    assert "INCOMPLETE:" in as_text(report(merged))


def test_a_failure_beside_a_run_that_is_not_whole_stays_one() -> None:
    for merged in (merge([lane("a", F), killed(lane("b", P))]), merge_shards([lane("a", F), killed(lane("a", F, P))])):
        assert merged.exit_code is ExitCode.NOT_CONFORMANT


# ------------------------------------------------------------------------------------------------------ matrix
def test_only_what_differs_or_is_not_fine_matters() -> None:
    assert not matters(("P", "P"))
    assert not matters(("k", ".", "k"))
    assert matters(("P", "k"))
    assert matters(("!", "!"))
    assert matters(("∅", "."))


def test_a_check_has_the_mark_of_each_column_or_none() -> None:
    one, two = run_of([said("a", P), said("b", F)], name="1"), run_of([said("b", FLAKY), said("c", K)], name="2")
    assert marks(merge([one, two]).columns) == {"a": ("P", "."), "b": ("!", "~"), "c": (".", "k")}


def matrix_of(text: str) -> list[str]:
    return [line for line in text[text.index("\nMatrix") : text.index("\nEnvironment")].splitlines() if "core " in line]


def test_checks_of_one_kind_of_which_all_say_the_same_are_one_line() -> None:
    ids = [f"nodeport.local.{protocol}.{number}" for protocol in ("tcp", "udp") for number in range(30)]
    good = run_of([said(name, P) for name in ids], name="good")
    bad = run_of([said(name, F if name.startswith("nodeport.local.udp") else P) for name in ids], name="bad")
    assert len(matrix_of(as_text(report(merge([good]))))) == 1
    assert re.search(r"nodeport\.local\.\* +core +60 +P", as_text(report(merge([good]))))
    text = as_text(report(merge([good, bad]), only_differences=True))
    lines = matrix_of(text)
    assert len(lines) == 1
    assert re.search(r"core +30 +P +!", lines[0])
    assert "30 checks are not listed" in re.sub(r"\s+", " ", text)
    assert len(matrix_of(as_text(report(merge([good, bad]), only_differences=False)))) == 2


def test_a_long_matrix_tells_differences_unless_all_is_asked_for() -> None:
    verdicts = [said(f"kind{number}.of.row", P) for number in range(100)]
    runs = [run_of(verdicts, name="one"), run_of([*verdicts[1:], said("kind0.of.row", F)], name="two")]
    assert len(matrix_of(as_text(report(merge(runs))))) == 1
    assert len(matrix_of(as_text(report(merge(runs), only_differences=False)))) == 100


@given(st.lists(st.lists(st.sampled_from(Status), min_size=6, max_size=6), min_size=1, max_size=3))
def test_no_check_is_lost_in_the_matrix(table: list[list[Status]]) -> None:
    names = [f"x.{one}.{two}" for one in "ab" for two in "cde"]
    merged = merge(
        [run_of([said(*each) for each in zip(names, check, strict=True)], name=str(n)) for n, check in enumerate(table)]
    )
    blocks = report(merged, False).blocks
    (matrix,) = [each for each in blocks if isinstance(each, Section) and each.title == "Matrix"]
    table = matrix.blocks[-1]
    assert isinstance(table, Table)
    assert sum(int(plain(check[2])) for check in table.rows) == len(names)


def test_the_environment_says_what_is_the_same_and_what_is_not() -> None:
    one = run_of([said("a", P)], lane="one", name="1", facts={"kernel": "6", "proxy-mode": "iptables"})
    two = run_of([said("a", P)], lane="two", facts={"kernel": "6", "proxy-mode": "nftables"})
    text = as_text(report(merge([one, two])))
    assert re.search(r"The same in all runs: .*kernel 6", re.sub(r"\s+", " ", text))
    assert re.search(r"fact +proxy-mode +iptables +nftables", text)


def test_every_form_says_the_same_and_none_is_taken_over() -> None:
    runs = [run_of([said("a", F)], lane=HOSTILE), lane("b", P)]
    merged = merge(runs)
    page = as_html(report(merged))
    assert "<img" not in page
    assert page.count('<strong class="v v-fail">!</strong>') == 1
    assert "\x1b" not in as_text(report(merged))
    assert "NONCONFORMANT" in as_markdown(report(merged))
    data = json.loads(as_json(merged))
    assert data["rows"][0] == {"id": "a", "suite": "source_ip", "level": "core", "verdicts": ["fail", None]}
    assert data["exit_code"] == 1


# ------------------------------------------------------------------------------------------------------ parts
VERDICTS = st.dictionaries(
    st.sampled_from([f"row.{number}" for number in range(9)]),
    st.tuples(st.sampled_from(Status), st.sampled_from(Level)),
    min_size=1,
)


@given(VERDICTS, st.lists(st.integers(0, 2), min_size=9, max_size=9), st.integers(0, 2))
def test_parts_conclude_what_the_whole_run_would(
    drawn: dict[str, tuple[Status, Level]], which: list[int], left_out: int
) -> None:
    verdicts = [said(name, status, level) for name, (status, level) in drawn.items()]
    core = sum(1 for each in verdicts if each.level is Level.CORE)
    parts: list[list[Verdict]] = [[], [], []]
    for number, verdict in enumerate(verdicts):
        parts[which[number]].append(verdict)
    runs = []
    for number, part in enumerate(parts):
        own = sum(1 for each in part if each.level is Level.CORE)
        runs.append(run_of(part, left_out=core - own + left_out, name=f"part-{number}"))
    whole = conclude(verdicts, left_out, Binding.CORE)
    (column,) = merge_shards(runs).columns
    assert column.conclusion == whole
    assert not column.disagreements


def test_parts_that_are_partial_are_conformant_together() -> None:
    runs = [run_of([said("a", P)], left_out=1, name="1"), run_of([said("b", P)], left_out=1, name="2")]
    assert [run.conclusion.result for run in runs] == ["partial", "partial"]
    merged = merge_shards(runs)
    assert merged.sentence.startswith("CONFORMANT: all 2 core checks that could run are as required; ")
    assert merged.exit_code is ExitCode.CONFORMANT
    assert merge_shards(runs[:1]).worst.conclusion.result == "partial"


@pytest.mark.parametrize(
    ("one", "two", "together"),
    [
        (P, P, P),
        (F, F, F),
        (P, F, FLAKY),
        (P, K, FLAKY),
        (P, U, FLAKY),
        (F, FLAKY, FLAKY),
        (P, I, I),
        (P, E, E),
        (U, I, I),
        (F, I, F),
        (FLAKY, E, FLAKY),
    ],
)
def test_parts_that_saw_one_check_must_agree(one: Status, two: Status, together: Status) -> None:
    for first, second in ((one, two), (two, one)):
        assert agreed([("1", said("a", first)), ("2", said("a", second))]).status is together


def why(*runs: RecordedRun) -> list[str]:
    blocks = report(merge(list(runs))).blocks
    (found,) = [each for each in blocks if isinstance(each, Section) and each.title == TITLE]
    about, items = found.blocks
    assert isinstance(about, Text)
    assert isinstance(items, Items)
    texts = [f"{item.head} | {dict(item.details)} | {' '.join(item.ids)}" for item in items.items]
    return [plain(about.words), *texts]


def test_every_path_check_that_is_not_green_is_explained_once() -> None:
    known = {"reason": "as reported", "references": (Reference("an/issue#1"),)}
    one = run_of([said("a.1", K, **known), said("a.2", U, reason="needs it"), said("b.1", P)], name="1", lane="x")
    two = run_of([said("a.1", K, **known), said("a.2", P), said("b.1", F, observed="a node")], name="2", lane="y")
    assert why(one, two) == [
        "4 verdicts: 1 fail, 2 known, 1 unsupported.",
        "fail: a node | {'checks': '1 in y v1.36.3'} | b.1",
        "known (allowed): as reported | {'checks': '1 in x v1.36.3, 1 in y v1.36.3', 'see': 'an/issue#1'} | a.1",
        "unsupported: needs it | {'checks': '1 in x v1.36.3'} | a.2",
    ]
    data = json.loads(as_json(merge([one, two])))["reasons"]
    assert [each["verdict"] for each in data] == ["fail", "known", "unsupported"]
    assert data[1]["rows"] == {"x v1.36.3": ["a.1"], "y v1.36.3": ["a.1"]}


def test_what_failed_alike_has_one_reason_whatever_was_measured() -> None:
    reasons = ("3.62 s, known within 0.45 s; 7 of 7 requests were late", "6.1 s; 12 of 12 requests were late")
    lines = why(
        *(run_of([said("a", F, observed="9 of 70 lost", reason=each)], name=each, lane=each) for each in reasons)
    )
    assert lines[0] == "2 verdicts: 2 fail."
    (line,) = lines[1:]
    assert line.startswith("fail: 9 of 70 lost | ")
    assert "3.62 s, known within 0.45 s; 7 of 7 requests were late (1 other result)" in line


def test_where_all_is_green_nothing_needs_a_reason() -> None:
    assert why(lane("x", P, P)) == ["Every check of every run passed."]


def test_a_contradiction_is_flaky_and_reported() -> None:
    runs = [
        run_of([said("a", P, observed="the client")], name="1"),
        run_of([said("a", F, observed="a node")], name="2"),
    ]
    merged = merge_shards(runs)
    assert merged.exit_code is ExitCode.NOT_CONFORMANT
    assert merged.columns[0].verdicts["a"].observed == "pass in run 1: the client; fail in run 2: a node"
    assert "pass in run 1, fail in run 2" in as_text(report(merged))


def test_a_part_that_must_not_ask_contradicts_nobody() -> None:
    without = said("a", U, left_out=True)
    runs = [run_of([without], name="1"), run_of([said("a", P)], name="2")]
    merged = merge_shards(runs)
    assert merged.columns[0].conclusion.result == "conformant"
    assert merge_shards(runs[:1]).columns[0].conclusion.result == "partial"


def test_trouble_of_a_part_that_its_verdicts_do_not_show_is_kept() -> None:
    run = run_of([said("a", P)], name="1")
    run.end = {"result": "error", "why": "the cluster could not be cleaned", "exit_code": 3}
    merged = merge_shards([run, run_of([said("b", P)], name="2")])
    assert merged.exit_code is ExitCode.HARNESS
    assert "could not be cleaned" in merged.sentence


def test_the_strictest_part_says_what_is_binding() -> None:
    extended = said("b", F, Level.EXTENDED)
    runs = [run_of([said("a", P)], name="1", fail_on="extended"), run_of([extended, said("c", P)], name="2")]
    assert merge_shards(runs[1:]).exit_code is ExitCode.CONFORMANT
    assert merge_shards(runs).exit_code is ExitCode.NOT_CONFORMANT


@pytest.mark.parametrize("other", [{"facts": {"kubernetes": "v1.35.0"}}, {"suite": "2"}])
def test_runs_of_two_clusters_or_suites_are_no_parts_of_one(other: dict[str, object]) -> None:
    with pytest.raises(PreflightError, match="not parts of one"):
        merge_shards([run_of([said("a", P)], name="1"), run_of([said("b", P)], name="2", **other)])


# -------------------------------------------------------------------------------------------------- the command
@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("merge")
    checks = some_checks()
    core = [check for check in checks if check.level is Level.CORE]
    made(folder / "whole")
    made(folder / "bad", said=failing())
    made(folder / "first", checks=checks[:9], left_out=len(core) - sum(check in core for check in checks[:9]))
    made(folder / "second", checks=checks[9:], left_out=len(core) - sum(check in core for check in checks[9:]))
    run = write(folder / "killed")
    assert run.ledger
    run.ledger.close()
    return folder


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["whole"], 0),
        (["whole", "bad"], 1),
        (["whole", "killed"], 3),
        (["whole", "nothing"], 4),
        (["first", "second", "--shards"], 0),
        (["first", "bad", "--shards"], 1),
        (["first", "killed", "--shards"], 3),
    ],
)
@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_the_command_exits_as_its_worst_run(
    folders: Path, tmp_path: Path, arguments: list[str], code: int, form: str
) -> None:
    named = [each if each.startswith("-") else str(folders / each) for each in arguments]
    assert main(["merge", *named, "--format", form, "--out", str(tmp_path / "out")]) == code
    assert (tmp_path / "out").exists() is (code != 4)


def test_parts_become_conformant_on_the_command_line(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", str(folders / "first"), str(folders / "second")]) == 0
    assert capsys.readouterr().out.startswith("PARTIAL: 0 of 2 runs conform")
    assert main(["merge", str(folders / "first"), str(folders / "second"), "--shards"]) == 0
    assert capsys.readouterr().out.startswith("CONFORMANT")


def test_parts_accept_known_defects_only_if_all_of_them_do() -> None:
    defect = {"nature": "known defect", "reason": "so it is", "references": (Reference("issue 1"),)}
    for both, code in (((True, True), 0), ((True, False), 1)):
        runs = [
            run_of([said(f"row.{number}", Status.KNOWN, **defect)], name=f"{number}", accept_known_defects=accepts)
            for number, accepts in enumerate(both)
        ]
        assert merge_shards(runs).exit_code == code


def test_columns_say_which_of_them_have_known_differences() -> None:
    merged = merge([lane("a", P), run_of([said("a", P), said("b", Status.KNOWN)], lane="b")])
    assert merged.sentence == (
        "CONFORMANT WITH KNOWN DIFFERENCES: 2 of 2 runs conform, 1 of them with known differences"
    )
