"""Two witnesses: what packets tell of a check, besides the echo server."""

from dataclasses import replace

import pytest

from esipp.checks.check import Status
from esipp.checks.known_differences import Connections, KnownDifference
from esipp.checks.model import NO_ANSWER, AddressClass, Family, Outcome, Path
from esipp.checks.path import PathCheck
from esipp.checks.reference import Reference
from esipp.judging.observation import Observation, Tracked, Witness
from tests.unit.world import (
    CLIENT_ADDRESSES,
    by_id,
    group,
    show,
    verdict,
)

OUTSIDE_LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
OUTSIDE_BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"
OWN = CLIENT_ADDRESSES["outside-1"][Family.IPV4]


def test_witnesses_that_contradict_each_other_are_our_error_and_both_are_shown() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    witness = Witness(
        path_check.subject.path.key, 0, True, contradiction=f"packets show 10.244.3.1, the echo server says {OWN}"
    )
    said = verdict(path_check, witnesses={path_check.subject.path.key: [witness]})
    assert said.status is Status.ERROR
    assert "packets show 10.244.3.1" in said.reason
    assert OWN in said.observed


def contradicted(path_check: PathCheck, *seqs: int, of: int = 4) -> dict[str, list[Witness]]:
    lie = f"packets show 10.244.3.1, the echo server says {OWN}"
    made = [
        Witness(path_check.subject.path.key, seq, seq not in seqs, contradiction=lie if seq in seqs else "")
        for seq in range(of)
    ]
    return {path_check.subject.path.key: made}


def sampled(path: Path, count: int, total: int = 200) -> list[Observation]:
    """Connections of which so many are kept whole."""
    one = show(path, AddressClass.CLIENT)
    return [*(replace(one, seq=seq, nonce=one.nonce) for seq in range(count)), group(one, total - count)]


@pytest.mark.parametrize(
    ("seqs", "of", "status"),
    [
        ((), 4, Status.PASS),
        ((0,), 4, Status.PASS),
        ((1,), 2, Status.PASS),
        ((0,), 1, Status.ERROR),
        ((0, 1), 2, Status.ERROR),
        ((0, 3), 4, Status.ERROR),
        ((0, 1, 2, 3), 4, Status.ERROR),
    ],
)
def test_one_contradiction_costs_itself_and_a_lying_echo_server_the_check(
    seqs: tuple[int, ...], of: int, status: Status
) -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(
        path_check, *sampled(path_check.subject.path, of), witnesses=contradicted(path_check, *seqs, of=of), blind=""
    )
    assert said.status is status
    if status is Status.PASS:
        assert ("1 of 200 set aside: packets show 10.244.3.1" in said.sees) is bool(seqs)
        assert said.witnesses == f"echo server, and packets of {of - len(seqs)} of 200 connections"


def test_a_contradiction_that_is_set_aside_is_not_judged_as_the_products() -> None:
    """The one connection whose echo and packets differ is the one that shows a wrong address."""
    path_check = by_id(OUTSIDE_LOCAL)
    first, *others = sampled(path_check.subject.path, 4)
    wrong = replace(show(path_check.subject.path, AddressClass.NODE), seq=0)
    said = verdict(path_check, wrong, *others, witnesses=contradicted(path_check, 0))
    assert (said.status, said.shown) == (Status.PASS, (AddressClass.CLIENT,))
    assert verdict(path_check, wrong, *others, witnesses=contradicted(path_check)).status is Status.FLAKY
    assert first.seq == 0


def test_what_packets_did_not_tell_apart_rests_on_the_echo_server() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    apart = Witness(path_check.subject.path.key, 3, False, "ambiguous: ...", doubt="ambiguous: ...")
    seen = {
        path_check.subject.path.key: [*(Witness(path_check.subject.path.key, seq, True) for seq in range(3)), apart]
    }
    said = verdict(path_check, *sampled(path_check.subject.path, 4), witnesses=seen, blind="")
    assert said.status is Status.PASS
    assert said.witnesses == (
        "echo server, and packets of 3 of 200 connections; the packets of 1 more cannot be distinguished from others"
    )
    alone = verdict(
        path_check, *sampled(path_check.subject.path, 4), witnesses={path_check.subject.path.key: [apart]}, blind=""
    )
    assert (
        alone.witnesses == "echo server only: the packets of 1 of its connections cannot be distinguished from others"
    )


@pytest.mark.parametrize(
    ("tracked", "status"),
    [
        (Tracked(200), Status.PASS),
        (Tracked(199, 1, "tracking has 10.244.3.1"), Status.PASS),  # one may be set aside, as with packets
        (Tracked(0, 1, "tracking has 10.244.3.1"), Status.ERROR),
        (Tracked(198, 2, "tracking has 10.244.3.1"), Status.ERROR),
    ],
)
def test_an_echo_server_that_connection_tracking_contradicts_is_not_believed(tracked: Tracked, status: Status) -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    key = path_check.subject.path.key
    said = verdict(path_check, *sampled(path_check.subject.path, 4), tracked={key: tracked}, blind="no captures")
    assert said.status is status
    if status is Status.PASS:
        more = "; tracking contradicts 1 more: tracking has 10.244.3.1" if tracked.contradicted else ""
        count = f"echo server, and connection tracking of {tracked.agreed} of 200 connections"
        assert said.witnesses == f"{count}; no captures{more}"
    else:
        assert "tracking has 10.244.3.1" in said.reason


def test_packets_and_connection_tracking_are_told_together() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    key = path_check.subject.path.key
    seen = [Witness(key, seq, True) for seq in range(4)]
    made = sampled(path_check.subject.path, 4)
    said = verdict(path_check, *made, witnesses={key: seen}, tracked={key: Tracked(196)}, blind="")
    packets = "packets of 4 of 200 connections"
    assert said.witnesses == f"echo server, {packets}, and connection tracking of 196 of 200 connections"


def delivered(path_check: PathCheck) -> dict[str, list[Witness]]:
    words = f"worker-b eth0: {OWN}:40000 > 10.244.2.5:8081"
    return {path_check.subject.path.key: [Witness(path_check.subject.path.key, 0, True, words, delivered=(OWN, 40000))]}


def test_a_silent_check_whose_packets_reach_a_backend_fails() -> None:
    path_check = by_id(OUTSIDE_BARE)
    said = verdict(path_check, witnesses=delivered(path_check), blind="")
    assert said.status is Status.FAIL
    assert "packets reached a backend: worker-b eth0" in said.reason


def test_packets_that_reach_a_backend_may_be_a_known_difference() -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-bare-node")
    assert any(known.in_packets for known in path_check.differences)
    facts = {"detect-local": "ClusterCIDR", "pod-to-node.ipv4": "unchanged"}
    assert verdict(path_check, witnesses=delivered(path_check), facts=facts).status is Status.KNOWN
    assert (
        verdict(path_check, witnesses=delivered(path_check), facts={**facts, "detect-local": "NodeCIDR"}).status
        is Status.FAIL
    )
    assert verdict(path_check, facts=facts).status is Status.PASS, "where nothing is forwarded nothing is excused"


@pytest.mark.parametrize(
    "facts",
    [
        {"pod-to-node.ipv4": "masqueraded"},
        {"pod-to-node.ipv4": "mixed"},
        {"pod-to-node.ipv6": "unchanged"},
        {},
    ],
)
def test_pods_that_are_masqueraded_cannot_be_taken_for_local_ones(facts: dict[str, str]) -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-bare-node")
    said = verdict(path_check, witnesses=delivered(path_check), facts={"detect-local": "ClusterCIDR", **facts})
    assert said.status is Status.FAIL
    misdirected = Observation(path_check.subject.path.key, 0, Outcome.MISDIRECTED)
    assert verdict(path_check, misdirected, facts={"detect-local": "ClusterCIDR", **facts}).status is Status.FAIL


def test_an_override_that_says_nothing_of_packets_excuses_none() -> None:
    path_check = by_id(OUTSIDE_BARE)
    free = KnownDifference((("x", "y"),), Connections(NO_ANSWER), "a reason", (Reference("a reference"),))
    path_check = replace(path_check, differences=(free,))
    assert verdict(path_check, witnesses=delivered(path_check), facts={"x": "y"}).status is Status.FAIL


def test_one_witness_is_said_when_blind() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    assert verdict(path_check, blind="--without packets").witnesses == "echo server only: --without packets"
    seen = {path_check.subject.path.key: [Witness(path_check.subject.path.key, seq, True) for seq in range(2)]}
    assert verdict(path_check, witnesses=seen, blind="").witnesses == "echo server, and packets of 2 of 3 connections"
    said = verdict(path_check, witnesses=seen, blind="the capture on worker-b lacks 1 of 2")
    assert said.witnesses == "echo server, and packets of 2 of 3 connections; the capture on worker-b lacks 1 of 2"
    missed = {path_check.subject.path.key: [Witness(path_check.subject.path.key, 0, False)]}
    assert "do not show the way to a backend" in verdict(path_check, witnesses=missed, blind="").witnesses


def test_where_packets_changed_is_in_the_verdict_once() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    change = "node worker-a, between eth0 and veth1: 172.18.0.101 became 10.244.3.1"
    seen = {
        path_check.subject.path.key: [
            Witness(path_check.subject.path.key, seq, True, change=change) for seq in range(2)
        ]
    }
    assert verdict(path_check, show(path_check.subject.path, AddressClass.NODE), witnesses=seen).change == change
