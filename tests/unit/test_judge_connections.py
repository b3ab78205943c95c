"""The judge of many connections together: what the network does alike is no fault, nor what a machine did."""

from dataclasses import replace
from typing import Any

import pytest

from esipp.checks.catalog import all_checks
from esipp.checks.check import Feature, Level, Status, Verdict, checks_about
from esipp.checks.connections import Aspect, ConnectionsCheck, OnConnections
from esipp.checks.exclusions import features_of
from esipp.checks.model import NO_ANSWER, OUTSIDE, POD_BACKEND, AddressClass, EntryKind, Family, Path
from esipp.judging.frame import run_queue
from esipp.judging.observation import Irregular, Observation
from esipp.scenarios.paths.evidence import Evidence, FirstAnswers, Stall, Wait
from tests.unit.verdicts import judge_with
from tests.unit.world import CLIENT_ADDRESSES, NODE_ADDRESSES, NODES, changed_evidence, evidence, group, show

CHECKS = checks_about(OnConnections, all_checks())
BY_ID = {check.id: check for check in CHECKS}
NODE_PORT = "connections.nodeport.tcp.ipv4."
WAIT = "late-after-accept"
MANY = 2000
OWN = CLIENT_ADDRESSES["outside-1"][Family.IPV4]
MASQUERADED = NODE_ADDRESSES[NODES[0]][Family.IPV4]


def judge(check: ConnectionsCheck, seen: Evidence) -> Verdict:
    return judge_with(check, seen, seen.features, seen.facts)


def members(check: ConnectionsCheck) -> dict[str, Path]:
    """The paths of a check."""
    return {each.path.key: each.path for each in check.subject.members}


def controls(check: ConnectionsCheck) -> dict[str, Path]:
    """The paths without a Service that it compares with."""
    every = (control.path for each in check.subject.members for control in each.controls)
    return {path.key: path for path in every if path.service is None}


def right(check: ConnectionsCheck, path: Path) -> AddressClass:
    """A class that every check of a path accepts."""
    accepted = frozenset.intersection(*(each.accept for each in check.subject.members if each.path == path))
    return min(accepted, key=[AddressClass.CLIENT, AddressClass.NODE, AddressClass.HAIRPIN].index)


def many(path: Path, what: AddressClass, troubled: int, *, again: int = 1, copies: int = 0, seconds: int = 20,
         took: float = 1.1, waited: bool = False) -> list[Observation]:  # fmt: skip
    """Connections of a path, of which some are irregular, spread over so many seconds."""
    moments = [seconds * number / max(troubled, 1) for number in range(troubled)]
    irregular = tuple(
        Irregular(began, began + (0.01 if waited else took), began + took, again, copies) for began in moments
    )
    return [replace(group(show(path, what), MANY), irregular=irregular)]


def judged(
    name: str,
    troubled: int,
    without: int = 0,
    only: str = "",
    stalls: tuple[Stall, ...] = (),
    queue: float = 0.0,
    **how: Any,
) -> Verdict:
    """The verdict if so many connections are irregular on each path, or on those whose key has this part.

    ``queue``: tasks for each core of the nodes' machine.
    """
    check = BY_ID[name]
    made = {
        key: many(path, right(check, path), troubled if only in key else 0, **how)
        for key, path in members(check).items()
    }
    made |= {key: many(path, AddressClass.CLIENT, without, **how) for key, path in controls(check).items()}
    facts = {**evidence().facts, run_queue("paths"): f"{queue:.1f}"}
    return judge(check, changed_evidence(made, samples=MANY, stalls=stalls, facts=facts))


def first(check: ConnectionsCheck) -> dict[str, list[FirstAnswers]]:
    """What every path showed at first: what it shows always."""
    found = {}
    for key in members(check).keys() | controls(check).keys():
        (seen, *_) = evidence().observations[key]
        assert seen.seen
        assert seen.source
        found[key] = [FirstAnswers(seen.seen[0], seen.source[0], seen.backend, 3)]
    return found


def with_evidence(name: str, **fields: object) -> Verdict:
    return judge(BY_ID[name], changed_evidence({}, **fields))


# ------------------------------------------------------------------------------------------------------------- checks
def test_every_check_has_an_aspect_and_members_that_show_it() -> None:
    assert {check.subject.aspect for check in CHECKS} == set(Aspect)
    for check in CHECKS:
        silent = check.subject.aspect is Aspect.SILENCE
        assert all((each.accept <= NO_ANSWER) == silent for each in check.subject.members), check.id
        assert all(each.path.service is not None for each in check.subject.members), check.id


def test_an_excess_is_extended_and_what_the_api_promises_is_core() -> None:
    core = {check.subject.aspect for check in CHECKS if check.level is Level.CORE}
    assert core == {Aspect.FIRST, Aspect.SILENCE}


# -------------------------------------------------------------------------------------------------------- comparisons
def test_lost_syns_are_noticed_and_the_reason_says_how_many() -> None:
    said = judged(NODE_PORT + "late", 60)
    assert said.status is Status.FAIL
    assert "after a repeated SYN" in said.reason
    assert not said.reason.startswith(("at ", "from ", "of "))  # no part is worse than the others
    assert "0 of" in said.reason


@pytest.mark.parametrize(
    ("troubled", "without", "how"),
    [
        (0, 0, {}),
        (60, 60, {}),  # the network loses as many
        (60, 35, {}),  # it loses on two links what its control loses on one
        (60, 0, {"seconds": 2}),  # something stood still for a moment
        (60, 0, {"again": 0, "took": 0.4}),
        (60, 0, {"again": 0, "took": 1.4, "waited": True}),  # another aspect
    ],
)  # fmt: skip
def test_what_is_no_fault_of_the_service_is_right(troubled: int, without: int, how: dict[str, float]) -> None:
    assert judged(NODE_PORT + "late", troubled, without, **how).status is Status.PASS


def test_a_fault_at_one_entry_is_named() -> None:
    said = judged(NODE_PORT + "late", 60, only="-to-bare-node")
    assert said.status is Status.FAIL
    assert said.reason.startswith("at bare-node: ")


ACCEPTED = {"again": 0, "waited": True}
"""Connections that are accepted at once and answered late."""


def test_connections_that_are_accepted_and_answered_late_are_noticed() -> None:
    said = judged(NODE_PORT + WAIT, 60, **ACCEPTED)
    assert (said.status, said.level) == (Status.FAIL, Level.EXTENDED)
    assert "accepted and then answered late (the slowest after 1.1 s)" in said.reason
    assert judged(NODE_PORT + WAIT, 60, only="-to-bare-node", **ACCEPTED).reason.startswith("at bare-node: ")


@pytest.mark.parametrize(
    ("troubled", "without", "how"),
    [
        (0, 60, ACCEPTED),
        (60, 60, ACCEPTED),  # the network loses as many
        (60, 35, ACCEPTED),
        (60, 0, {**ACCEPTED, "seconds": 2}),
        (60, 0, {**ACCEPTED, "took": 0.9}),
        (60, 0, {"again": 1}),  # accepted late: another aspect
    ],
)  # fmt: skip
def test_what_is_late_elsewhere_or_for_a_moment_is_right(troubled: int, without: int, how: dict[str, Any]) -> None:
    assert judged(NODE_PORT + WAIT, troubled, without, **how).status is Status.PASS


def test_answers_that_wait_for_the_end_of_one_pause_are_right() -> None:
    check = BY_ID[NODE_PORT + WAIT]
    made = {}
    for key, path in members(check).items():
        (whole,) = many(path, right(check, path), 60, seconds=8, again=0, waited=True)
        pause = tuple(one._replace(ended=9.5) for one in whole.irregular)
        made[key] = [replace(whole, irregular=pause)]
    made |= {key: many(path, AddressClass.CLIENT, 0) for key, path in controls(check).items()}
    assert judge(check, changed_evidence(made, samples=MANY)).status is Status.PASS


@pytest.mark.parametrize("aspect", ["late", WAIT])
def test_late_answers_without_a_service_show_a_busy_machine_and_those_of_services_do_not(aspect: str) -> None:
    check, waited = BY_ID[NODE_PORT + aspect], aspect == WAIT
    made = {
        key: many(path, right(check, path), 60, again=0, waited=waited, seconds=18)
        for key, path in members(check).items()
    }
    made |= {key: many(path, AddressClass.CLIENT, 0) for key, path in controls(check).items()}
    other = BY_ID["connections.clusterip.tcp.ipv4.late"]
    for key, path in members(other).items():
        made[key] = many(path, right(other, path), 20, again=0, waited=True)
    assert judge(check, changed_evidence(made, samples=MANY)).status is Status.FAIL
    key, path = next((key, path) for key, path in controls(check).items() if path.entry.kind is EntryKind.POD_IP)
    made[key] = many(path, AddressClass.CLIENT, 20, again=0, waited=True)
    said = judge(check, changed_evidence(made, samples=MANY))
    assert (said.status, "answers without a Service were late" in said.reason) == (Status.INCONCLUSIVE, True)


@pytest.mark.parametrize(
    ("name", "troubled", "how", "status"),
    [
        (WAIT, 60, ACCEPTED, Status.INCONCLUSIVE),
        (WAIT, 400, ACCEPTED, Status.INCONCLUSIVE),  # one in five
        (WAIT, 600, ACCEPTED, Status.FAIL),
        ("late", 60, {"again": 0}, Status.INCONCLUSIVE),
        ("late", 60, {"again": 1}, Status.FAIL),  # kernels answer SYNs whatever processes do
    ],
)  # fmt: skip
def test_on_an_overloaded_machine_few_late_answers_prove_nothing(
    name: str, troubled: int, how: dict[str, Any], status: Status
) -> None:
    said = judged(NODE_PORT + name, troubled, queue=26.0, **how)
    assert said.status is status
    assert ("overloaded: 26 tasks for each core" in said.reason) == (status is Status.INCONCLUSIVE)
    assert judged(NODE_PORT + name, troubled, queue=18.0, **how).status is Status.FAIL


def test_what_is_wrong_at_one_node_or_is_not_late_fails_on_an_overloaded_machine_too() -> None:
    at_one_node = judged(NODE_PORT + WAIT, 1900, only="-to-bare-node", queue=26.0, **ACCEPTED)
    assert (at_one_node.status, at_one_node.reason.startswith("at bare-node: ")) == (Status.FAIL, True)
    name = "connections.nodeport.udp.ipv6.copies"
    assert judged(name, 60, again=0, copies=1, took=0.1, queue=26.0).status is Status.FAIL


def test_a_machine_that_stood_still_leaves_it_undecided() -> None:
    said = judged(NODE_PORT + "late", 60, stalls=(Stall("outside-1", 0.0, 20.0),))
    assert (said.status, "machines of clients paused" in said.reason) == (Status.INCONCLUSIVE, True)
    assert judged(NODE_PORT + "late", 60, stalls=(Stall("outside-1", 90.0, 1.0),)).status is Status.FAIL


@pytest.mark.parametrize(("aspect", "how"), [("late", {}), (WAIT, ACCEPTED)])
def test_what_the_network_does_to_a_client_is_not_blamed_on_what_it_dials(aspect: str, how: dict[str, Any]) -> None:
    check = BY_ID[NODE_PORT + aspect]
    made = {}
    for key, path in {**controls(check), **members(check)}.items():
        shown = right(check, path) if key in members(check) else AddressClass.CLIENT
        made[key] = many(path, shown, 1900 if path.client == OUTSIDE else 0, **how)
    assert judge(check, changed_evidence(made, samples=MANY)).status is Status.PASS


def test_doubled_datagrams_are_noticed() -> None:
    name = "connections.nodeport.udp.ipv6.copies"
    assert judged(name, 60, again=0, copies=1, took=0.1).status is Status.FAIL
    assert judged(name, 60, 60, again=0, copies=1, took=0.1).status is Status.PASS
    assert judged(name, 60, again=0, copies=0, took=3.0).status is Status.PASS


def test_moved_ports_are_noticed_where_the_address_is_kept() -> None:
    check = BY_ID[NODE_PORT + "ports"]
    made = {}
    for key, path in {**members(check), **controls(check)}.items():
        (one,) = many(path, AddressClass.CLIENT, 0)
        moved = tuple((own, (seen or 0) + 1) for own, seen in one.port_pairs)
        made[key] = [replace(one, ports=moved) if ".outside-2-" in key and key in members(check) else one]
    said = judge(check, changed_evidence(made, samples=MANY))
    assert said.status is Status.FAIL
    assert said.reason.startswith("from outside-2: ")


def test_nothing_to_compare_with_leaves_it_undecided() -> None:
    check = BY_ID[NODE_PORT + "late"]
    made: dict[str, list[Observation]] = {key: [] for key in controls(check)}
    assert judge(check, changed_evidence(made)).status is Status.INCONCLUSIVE
    assert (
        judge(check, changed_evidence(made | {key: [] for key in members(check)})).reason
        == "no path of this kind was asked"
    )


def test_a_check_is_unsupported_if_every_path_of_its_kind_is_for_a_reason_of_its_own() -> None:
    check = BY_ID["connections.clusterip.tcp.ipv4.silence"]
    seen = changed_evidence({})
    excluded = seen.features | features_of((("*clusterip.itp-local*", "another team's"),))
    said = judge_with(check, seen, excluded, seen.facts)
    assert said.status is not Status.UNSUPPORTED, "paths to external IPs are asked"
    excluded |= {"vantage.outside.ipv4": Feature(False, "no client outside", ours=True)}
    said = judge_with(check, seen, excluded, seen.facts)
    assert (said.status, said.reason) == (Status.UNSUPPORTED, "excluded by --exclude: another team's")
    assert said.left_out
    assert said.missing == ("excluded.*clusterip.itp-local*", "vantage.outside.ipv4")


# ------------------------------------------------------------------------------------------------------ first answers
def test_first_connections_as_always_are_right() -> None:
    check = BY_ID[NODE_PORT + "first"]
    said = with_evidence(check.id, first=first(check))
    assert said.status is Status.PASS
    assert with_evidence(check.id).status is Status.INCONCLUSIVE  # nobody looked


LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([FirstAnswers(MASQUERADED, OWN, POD_BACKEND), FirstAnswers(OWN, OWN, POD_BACKEND, 2)], Status.FAIL),
        ([FirstAnswers(OWN, OWN, "another-pod")], Status.FAIL),
        ([FirstAnswers(OWN, OWN, POD_BACKEND)], Status.PASS),
    ],
)  # fmt: skip
def test_a_first_connection_that_differs_is_noticed(answers: list[FirstAnswers], status: Status) -> None:
    check = BY_ID[NODE_PORT + "first"]
    said = with_evidence(check.id, first=first(check) | {LOCAL: answers})
    assert said.status is status
    assert (LOCAL in said.reason) == (status is Status.FAIL)


def test_what_the_network_rewrote_at_first_is_no_fault_of_the_service() -> None:
    check = BY_ID[NODE_PORT + "first"]
    wrong = [FirstAnswers(MASQUERADED, OWN, POD_BACKEND)]
    listener = next(key for key in controls(check) if key == "node-listener.tcp.ipv4.outside-1-to-endpoint-node")
    assert with_evidence(check.id, first=first(check) | {LOCAL: wrong, listener: wrong}).status is Status.PASS


def test_a_path_that_is_wrong_in_the_window_is_its_own_checks_business() -> None:
    check = BY_ID[NODE_PORT + "first"]
    path = members(check)[LOCAL]
    made = {LOCAL: [show(path, AddressClass.NODE, seq) for seq in range(evidence().samples)]}
    wrong = first(check) | {LOCAL: [FirstAnswers(MASQUERADED, OWN, POD_BACKEND)]}
    assert judge(check, changed_evidence(made, first=wrong)).status is Status.PASS


# ------------------------------------------------------------------------------------------------------------ silence
BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"


@pytest.mark.parametrize(("late", "status"), [(False, Status.PASS), (True, Status.FAIL)])
def test_a_node_that_serves_late_is_noticed(late: bool, status: Status) -> None:
    check = BY_ID[NODE_PORT + "silence"]
    waits = {key: [Wait(False, 10.0)] * 2 for key in members(check)}
    said = with_evidence(check.id, waits=waits | {BARE: [Wait(False, 10.0), Wait(late, 7.1)]})
    assert said.status is status
    assert (f"{BARE}: 1 of 2 answered after 7.1 s" in said.reason) == late


def test_silence_is_not_believed_where_the_controls_are_silent_too() -> None:
    check = BY_ID[NODE_PORT + "silence"]
    member = next(each for each in check.subject.members if each.path.key == BARE)
    (control, *_) = (each.path for each in member.controls if each.path.service)
    made = {control.key: [show(control, AddressClass.DROPPED, seq) for seq in range(evidence().samples)]}
    said = judge(check, changed_evidence(made, waits={BARE: [Wait(True, 7.1)]}))
    assert said.status is Status.INCONCLUSIVE
