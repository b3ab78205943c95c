"""What a comparison of two runs makes of every change of a check."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esipp.base.errors import ExitCode
from esipp.checks.check import Binding, Level, Status, Verdict
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.checks import FAILING, Kind
from esipp.report.comparing.diff import Diff, compare
from esipp.report.comparing.words import ranges
from tests.unit.comparing_world import OTHER_NODES, one, recorded_check, run_of, said

P, F, FLAKY, K = Status.PASS, Status.FAIL, Status.FLAKY, Status.KNOWN
R, D = Status.RECORDED, "a known defect"
U, I, E = Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.ERROR  # noqa: E741 - one letter each, as in a matrix


@pytest.mark.parametrize(
    ("old", "new", "kind", "code"),
    [
        (P, F, Kind.REGRESSED, 1),
        (P, FLAKY, Kind.REGRESSED, 1),
        (K, F, Kind.REGRESSED, 1),
        (P, D, Kind.REGRESSED, 1),
        (K, D, Kind.REGRESSED, 1),
        (U, D, Kind.FAILS_NOW, 1),
        (D, P, Kind.FIXED, 0),
        (D, K, Kind.FIXED, 0),
        (D, U, Kind.FAILED_ONCE, 0),
        (D, F, Kind.OTHERWISE, 0),
        (F, D, Kind.OTHERWISE, 0),
        (P, R, Kind.NOT_SHOWN, 1),
        (R, P, Kind.SHOWN_NOW, 0),
        (R, F, Kind.FAILS_NOW, 1),
        (R, U, Kind.OTHERWISE, 0),
        (P, U, Kind.NOT_SHOWN, 1),
        (P, I, Kind.NOT_SHOWN, 1),
        (K, E, Kind.NOT_SHOWN, 1),
        (U, F, Kind.FAILS_NOW, 1),
        (I, FLAKY, Kind.FAILS_NOW, 1),
        (F, P, Kind.FIXED, 0),
        (FLAKY, K, Kind.FIXED, 0),
        (U, P, Kind.SHOWN_NOW, 0),
        (E, K, Kind.SHOWN_NOW, 0),
        (F, U, Kind.FAILED_ONCE, 0),
        (P, K, Kind.KNOWN_NOW, 0),
        (K, P, Kind.KNOWN_ONCE, 0),
        (F, FLAKY, Kind.OTHERWISE, 0),
        (U, I, Kind.OTHERWISE, 0),
    ],
)
def test_every_change_of_a_core_check_has_its_kind_and_exit_code(
    old: Status | str, new: Status | str, kind: Kind, code: int
) -> None:
    diff = compare(
        *(one(Status.KNOWN, nature="known defect") if each == D else one(Status(each)) for each in (old, new))
    )
    assert [change.kind for change in diff.changes] == [kind]
    assert diff.exit_code == code


@pytest.mark.parametrize(
    ("level", "fail_on", "code"),
    [
        (Level.CORE, Binding.CORE, 1),
        (Level.EXTENDED, Binding.CORE, 0),
        (Level.EXTENDED, Binding.EXTENDED, 1),
        (Level.RECORD, Binding.EXTENDED, 0),
    ],
)
def test_only_binding_checks_make_it_fail(level: Level, fail_on: Binding, code: int) -> None:
    old, new = (one(status, level=level) for status in (P, F))
    assert compare(old, new, fail_on).exit_code == code


def test_a_run_compared_with_itself_shows_nothing() -> None:
    run = run_of([said("a.row", P), said("b.row", F), said("c.row", U, reason="needs x")])
    diff = compare(run, run)
    assert (diff.changes, diff.redefined, diff.environment) == ([], [], [])
    assert diff.exit_code is ExitCode.CONFORMANT
    assert diff.sentence == "Nothing changed: the 3 checks of both runs have the same verdicts and observations."


VERDICTS = st.dictionaries(
    st.sampled_from([f"row.{number}" for number in range(8)]),
    st.tuples(st.sampled_from(Status), st.sampled_from(Level), st.sampled_from(["this", "that"])),
)
MIRROR = {
    Kind.REGRESSED: Kind.FIXED,
    Kind.NOT_SHOWN: Kind.SHOWN_NOW,
    Kind.FAILS_NOW: Kind.FAILED_ONCE,
    Kind.KNOWN_NOW: Kind.KNOWN_ONCE,
    Kind.NEW: Kind.GONE,
}
MIRROR |= {two: one for one, two in MIRROR.items()}


def drawn(made: dict[str, tuple[Status, Level, str]]) -> RecordedRun:
    return run_of([said(name, status, level, observed) for name, (status, level, observed) in made.items()])


@given(VERDICTS, VERDICTS)
def test_what_regressed_one_way_is_fixed_the_other_way(
    one: dict[str, tuple[Status, Level, str]], two: dict[str, tuple[Status, Level, str]]
) -> None:
    there, back = compare(drawn(one), drawn(two)), compare(drawn(two), drawn(one))
    assert there.regressed == back.fixed
    assert there.fixed == back.regressed
    kinds = {each.id: each.kind for each in there.changes}
    assert {each.id: MIRROR.get(each.kind, each.kind) for each in back.changes} == kinds


@given(VERDICTS, VERDICTS)
def test_no_core_check_fails_unnoticed_that_did_not_before(
    one: dict[str, tuple[Status, Level, str]], two: dict[str, tuple[Status, Level, str]]
) -> None:
    failing = [
        name
        for name, (status, level, _) in two.items()
        if status in FAILING and name in one and one[name][0] not in FAILING and Level.CORE in (level, one[name][1])
    ]
    code = compare(drawn(one), drawn(two)).exit_code
    assert code is ExitCode.NOT_CONFORMANT or not failing


def test_checks_of_one_run_only_are_new_or_gone_and_no_regression() -> None:
    diff = compare(run_of([said("a.row", P)]), run_of([said("b.row", F)]))
    assert [(change.id, change.kind) for change in diff.changes] == [("a.row", Kind.GONE), ("b.row", Kind.NEW)]
    assert diff.exit_code is ExitCode.CONFORMANT
    assert diff.sentence == "The runs have no check in common."


def test_new_checks_that_fail_are_reported_in_the_first_sentence() -> None:
    diff = compare(run_of([said("a.row", P)]), run_of([said("a.row", P), said("b.row", F)]))
    assert diff.sentence == "No core check regressed, none fixed, 1 only in the new run (1 of them fails)."


def test_the_first_sentence_counts_core_checks_first() -> None:
    old = [said("a", P), said("b", P), said("c", P), said("d", F), said("e", P, Level.EXTENDED)]
    new = [said("a", F), said("b", FLAKY), said("c", U), said("d", P), said("e", F, Level.EXTENDED)]
    sentence = compare(run_of(old), run_of(new)).sentence
    assert sentence.startswith(
        "3 core checks (1 of them no longer shown to hold) and 1 extended check regressed, 1 fixed"
    )


def test_the_stricter_level_counts_where_suites_disagree() -> None:
    old, new = run_of([said("a", P, Level.EXTENDED)]), run_of([said("a", F, Level.CORE)])
    assert compare(old, new).exit_code is ExitCode.NOT_CONFORMANT
    assert compare(new, old).fixed == {"a"}


@pytest.mark.parametrize(
    ("texts", "whole"),
    [
        (["0 of 175 lost, gap 0.10 s"] * 2, "0 of 175 lost, gap 0.10 s"),
        (["3 of 175 lost, gap 0.40 s", "0 of 175 lost, gap 1.2 s"], "0 to 3 of 175 lost, gap 0.40 to 1.2 s"),
        (["p=1.5e-73 at pod a-5b", "p=0.2 at pod a-5b"], "p=1.5e-73 to 0.2 at pod a-5b"),
        (["3 lost", "none lost", "4 refused"], "3 lost (2 other results)"),
    ],
)
def test_numbers_of_several_checks_are_ranges(texts: list[str], whole: str) -> None:
    assert ranges(texts) == whole


def test_a_change_keeps_the_numbers_that_the_comparison_ignores() -> None:
    old, new = said("a", P, observed="0 of 70 requests lost"), said("a", F, observed="9 of 72 requests lost")
    (change,) = compare(run_of([old]), run_of([new])).changes
    assert (change.before, change.after) == ("0 of all requests lost", "some of all requests lost")
    assert (change.measured_before, change.measured_after) == ("0 of 70 requests lost", "9 of 72 requests lost")


# ------------------------------------------------------------------------------------------------ not whole
def cut(run: RecordedRun, *missing: str) -> RecordedRun:
    for name in missing:
        del run.verdicts[name]
    run.end = None
    return run


def test_a_run_that_is_not_whole_is_compared_and_reported() -> None:
    new = cut(run_of([said("a", P), said("b", P)]), "b")
    diff = compare(run_of([said("a", P), said("b", P)]), new)
    assert diff.exit_code is ExitCode.HARNESS
    assert diff.incomplete == ["NEW is incomplete: the run has no closing record: it was killed"]
    assert [(each.id, each.kind) for each in diff.changes] == [("b", Kind.NO_VERDICT)]
    assert diff.sentence.startswith("In the recorded parts of the ledgers, no core check regressed")


def test_a_regression_in_a_run_that_is_not_whole_is_one() -> None:
    new = cut(run_of([said("a", F), said("b", P)]), "b")
    assert compare(run_of([said("a", P), said("b", P)]), new).exit_code is ExitCode.NOT_CONFORMANT


def test_a_damaged_old_ledger_is_reported_too() -> None:
    old = one(P)
    old.trouble.append("line 7 is cut off")
    diff = compare(old, one(P))
    assert diff.incomplete == ["OLD is incomplete: line 7 is cut off"]
    assert diff.exit_code is ExitCode.HARNESS


def test_an_interrupted_run_is_not_whole_though_it_was_closed() -> None:
    new = run_of([said("a", P)], checks=[recorded_check("a"), recorded_check("b")])
    new.end = {"result": "incomplete", "why": "the run was interrupted", "exit_code": 2}
    diff = compare(run_of([said("a", P), said("b", P)]), new)
    assert diff.incomplete == ["NEW is incomplete: 1 of its checks has no verdict (the run was interrupted)"]
    assert diff.exit_code is ExitCode.HARNESS


# -------------------------------------------------------------------------------------- same verdict, other observation
def seen(status: Status = P, **fields: Any) -> Verdict:
    return said("a.row", status, **fields)


def observed(old: Verdict, new: Verdict, **other: Any) -> list[tuple[str, str, str]]:
    diff: Diff = compare(run_of([old]), run_of([new], **other))
    assert {each.kind for each in diff.changes} <= {Kind.OBSERVED}
    return [(each.aspect, each.before, each.after) for each in diff.changes]


def test_allocated_addresses_counts_and_names_are_no_difference() -> None:
    old = seen(tally={"10.244.2.1 = node worker (the node dialled)": 200}, observed="10.244.2.1 ... x200")
    new = seen(tally={"fd00:10::1 = node n8 (the node dialled)": 20}, observed="fd00:10::1 ... x20")
    assert observed(old, new, nodes=OTHER_NODES) == []


def test_another_class_is_a_difference() -> None:
    old = seen(tally={"10.244.2.10 = client outside-1": 200})
    new = seen(tally={"10.244.2.1 = node worker (the node dialled)": 200})
    assert observed(old, new) == [("seen", "client", "node (the node dialled)")]


def test_another_node_is_a_difference_though_its_class_is_the_same() -> None:
    old = seen(tally={"10.244.2.1 = node worker": 9})
    new = seen(tally={"10.244.3.1 = node worker-2": 9})
    assert observed(old, new) == [("seen", "node endpoint-node", "node bare-node")]


def test_something_shown_beside_is_a_difference_and_its_share_is_none() -> None:
    both = {"no answer": 3, "refused": 17}
    assert observed(seen(tally=both), seen(tally={"no answer": 17, "refused": 3})) == []
    assert observed(seen(tally=both), seen(tally={"no answer": 20, "refused": 0})) == [
        ("seen", "no answer and refused", "no answer")
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("kept 200 of 200", "rewritten 20 of 20", ("source ports", "kept", "rewritten")),
        ("kept 200 of 200", "kept 197 of 200", None),
        ("rewritten 200 of 200", "kept 1 of 200", None),
        ("kept 3 of 3", "", None),
    ],
)
def test_ports_differ_where_most_of_them_do(old: str, new: str, expected: tuple[str, str, str] | None) -> None:
    assert observed(seen(ports=old), seen(ports=new)) == ([expected] if expected else [])


def test_where_the_source_changed_is_compared_by_place_not_by_interface() -> None:
    old = seen(change="worker, between eth0 and veth0a1b: 10.0.0.1 became 10.0.0.2")
    new = seen(change="worker, between eth0 and vethffff: 10.9.0.1 became 10.9.0.2")
    assert observed(old, new) == []
    elsewhere = replace(new, change="worker-2, between eth0 and eth0: 10.9.0.1 became 10.9.0.2")
    assert [each[0] for each in observed(old, elsewhere)] == ["where the source changed"]


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ("200 x20", "200 x500", False),
        ("200 x20", "503 x20", True),
        (
            "7 of 219 requests lost, 14 late, longest gap 1.40 s",
            "3 of 20 requests lost, 1 late, longest gap 9 s",
            False,
        ),
        ("0 of 219 requests lost, 0 late", "3 of 219 requests lost, 0 late", True),
        ("healthCheckNodePort 31375", "healthCheckNodePort 30001", False),
        ("healthCheckNodePort 31375", "no healthCheckNodePort", True),
        ("refused as Invalid (422)", "refused as Forbidden (403)", True),
        ("application/json, esipp-0102-030405-abcd/health x20", "application/json, esipp-9-9-a/health x20", False),
        ("loadBalancerSourceRanges 192.0.2.0/24", "loadBalancerSourceRanges 198.51.100.0/24", True),
        ("clusterIPs 10.96.158.0", "clusterIPs 10.96.0.7", False),
        ("2 nodes healthy: worker, worker-2", "2 nodes healthy: worker, worker-3", True),
    ],
)
def test_sentences_are_compared_without_what_is_measured_or_allocated(old: str, new: str, differs: bool) -> None:
    found = observed(seen(observed=old), seen(observed=new), name="9-9-a")
    assert bool(found) is differs, found


def test_another_reason_for_not_being_asked_is_a_difference() -> None:
    old, new = (seen(U, observed="not asked", reason=f"needs {what}") for what in ("SCTP", "IPv6"))
    assert observed(old, new) == [("reason", "needs SCTP", "needs IPv6")]


# ---------------------------------------------------------------------------------------------------- beside
def test_what_suites_define_otherwise_is_reported() -> None:
    old = run_of([said("a", P)], checks=[recorded_check("a", Level.EXTENDED, "It should.")])
    new = run_of([said("a", P)], checks=[recorded_check("a", Level.CORE, "It must.")])
    redefined = {each.what: (each.old, each.new) for each in compare(old, new).redefined}
    assert redefined == {"level": ("extended", "core"), "requirement": ("It should.", "It must.")}


def test_the_environment_is_reported_where_it_differs() -> None:
    old = run_of([said("a", P)], facts={"proxy-mode": "iptables", "kernel": "6"}, samples=200, moves=10)
    new = run_of([said("a", P)], facts={"proxy-mode": "nftables", "kernel": "6"}, samples=20, moves=10, suite="2")
    differences = {each.name: each.values for each in compare(old, new).environment}
    assert differences == {
        "suite version": ("1", "2"),
        "proxy-mode": ("iptables", "nftables"),
        "samples": ("200", "20"),
    }
