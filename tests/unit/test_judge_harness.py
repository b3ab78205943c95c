"""What is wrong with the harness is an error of ours, on a check's own path and on those of its controls.

A few connections in doubt are set aside.
"""

from dataclasses import replace

import pytest

from esipp.checks.check import Status
from esipp.checks.model import AddressClass, EntryKind, Family, Outcome, Path
from esipp.checks.path import PathCheck
from esipp.judging.observation import Observation, Witness
from tests.unit.verdicts import judge
from tests.unit.world import (
    CLIENT_ADDRESSES,
    SAMPLES,
    answer,
    as_many,
    by_id,
    changed_evidence,
    evidence,
    group,
    show,
    verdict,
)

OUTSIDE_LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
OUTSIDE_BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"
OWN = CLIENT_ADDRESSES["outside-1"][Family.IPV4]


def test_a_path_that_was_probed_too_little_is_our_error() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(path_check, group(show(path_check.subject.path, AddressClass.CLIENT), 199), samples=200)
    assert said.status is Status.ERROR
    assert said.reason == "199 probes were made instead of 200"


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"peer_address_raw": "::ffff:198.51.100.1"}, "its socket saw"),
        ({"peer_address": "not an address"}, "no valid addresses"),
        ({"nonce": "of another probe"}, "of another probe"),
        ({"nonce": None}, "nonce None"),
        ({"local_address": "fd00::1"}, "another IP family"),
    ],
)
def test_an_echo_that_lies_is_our_error_not_the_products(lie: dict[str, str], words: str) -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(path_check, answer(path_check.subject.path, OWN, **lie))
    assert said.status is Status.ERROR
    assert words in said.reason


def test_a_group_of_one_has_no_nonce_and_is_no_lie() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    assert verdict(path_check, group(show(path_check.subject.path, AddressClass.CLIENT), 1)).status is Status.PASS


def test_a_prober_in_trouble_is_our_error() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(path_check, Observation(path_check.subject.path.key, 0, Outcome.ERROR, detail="too many open files"))
    assert said.status is Status.ERROR
    assert "too many open files" in said.reason


def test_what_was_never_probed_is_our_error() -> None:
    assert judge(by_id(OUTSIDE_LOCAL), replace(evidence(), observations={}, _read={})).status is Status.ERROR


CONTROLS = [
    (identity, number)
    for identity in (OUTSIDE_LOCAL, OUTSIDE_BARE)
    for number in range(len(by_id(identity).subject.controls))
]


@pytest.mark.parametrize(("identity", "number"), CONTROLS)
def test_a_control_that_was_probed_too_little_is_our_error(identity: str, number: int) -> None:
    path_check = by_id(identity)
    control = path_check.subject.controls[number].path
    few = as_many(evidence().observations[control.key], SAMPLES)[:-1]
    said = judge(path_check, changed_evidence({control.key: few}))
    assert said.status is Status.ERROR
    assert said.reason == f"2 probes were made instead of 3 (on {control.key}, a control)"


@pytest.mark.parametrize(("identity", "number"), CONTROLS)
def test_a_prober_in_trouble_on_a_control_is_our_error(identity: str, number: int) -> None:
    path_check = by_id(identity)
    control = path_check.subject.controls[number].path
    said = verdict(path_check, also=[Observation(control.key, 0, Outcome.ERROR, detail="too many open files")])
    assert said.status is Status.ERROR
    assert said.reason == f"the prober failed: too many open files (on {control.key}, a control)"


@pytest.mark.parametrize(("identity", "number"), CONTROLS)
def test_a_lie_or_a_contradiction_on_a_control_is_our_error(identity: str, number: int) -> None:
    path_check = by_id(identity)
    control = path_check.subject.controls[number].path
    lie = verdict(path_check, also=[answer(control, OWN, peer_address_raw="::ffff:198.51.100.1")])
    assert lie.status is Status.ERROR
    assert "its socket saw 198.51.100.1" in lie.reason
    witness = Witness(control.key, 0, True, contradiction="packets show 10.244.3.1")
    said = verdict(path_check, witnesses={control.key: [witness]})
    assert (said.status, said.reason) == (Status.ERROR, f"packets show 10.244.3.1 (on {control.key}, a control)")


def test_our_own_error_comes_before_a_control_that_does_not_hold() -> None:
    path_check = by_id(OUTSIDE_BARE)
    listener, sibling = path_check.subject.controls[0].path, path_check.subject.controls[1].path
    broken = Observation(sibling.key, 0, Outcome.ERROR, detail="x")
    assert verdict(path_check, also=[show(listener, AddressClass.DROPPED), broken]).status is Status.ERROR


def test_a_source_port_twice_is_one_connection_less() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    twice = [replace(show(path_check.subject.path, AddressClass.CLIENT), seq=seq) for seq in range(SAMPLES)]
    said = judge(path_check, changed_evidence({path_check.subject.path.key: twice}))
    assert said.status is Status.ERROR
    assert said.reason == "3 probes had only 1 source ports, so they were fewer connections"
    control = path_check.subject.controls[0].path
    twice = [replace(show(control, AddressClass.CLIENT), seq=seq) for seq in range(SAMPLES)]
    assert judge(path_check, changed_evidence({control.key: twice})).status is Status.ERROR


def test_a_source_port_twice_is_found_among_what_is_grouped() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    one = show(path_check.subject.path, AddressClass.CLIENT)
    for again, status in ((0, Status.PASS), (1, Status.PASS), (10, Status.PASS), (11, Status.ERROR)):
        groups = [group(one, 180, 40000), group(one, 20, 40180 - again)]
        listener = {c.path.key: [group(show(c.path, AddressClass.CLIENT), 200)] for c in path_check.subject.controls}
        made = changed_evidence({path_check.subject.path.key: groups, **listener}, samples=200)
        said = judge(path_check, made)
        assert said.status is status
        if status is Status.ERROR:
            assert said.reason == "200 probes had only 189 source ports, so they were fewer connections"
        else:
            assert f"0 of {200 - again} differ" in said.sees
            found = f"{again} of 200 set aside: reused the source port of an earlier connection"
            assert (found in said.sees) is bool(again)


def test_the_later_of_two_connections_from_one_port_is_set_aside() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    one = show(path_check.subject.path, AddressClass.CLIENT)
    wrong = replace(show(path_check.subject.path, AddressClass.NODE), seq=0)
    made = as_many([one], 100)
    twice = [*made[:-1], replace(made[-1], count=98, ports=made[-1].ports[:98]), wrong]
    assert sum(each.count for each in twice) == 100
    said = judge(
        path_check, changed_evidence({path_check.subject.path.key: twice, **listeners(path_check, 100)}, samples=100)
    )
    assert (said.status, said.shown) == (Status.PASS, (AddressClass.CLIENT,))
    assert sum(said.tally.values()) == 100, "what was seen is reported all the same"


def listeners(path_check: PathCheck, count: int) -> dict[str, list[Observation]]:
    return {c.path.key: [group(show(c.path, AddressClass.CLIENT), count)] for c in path_check.subject.controls}


def in_doubt(path: Path, how: str, seq: int) -> Observation:
    """A connection that our own harness spoilt."""
    if how == "the prober failed":
        return Observation(path.key, seq, Outcome.ERROR, detail="too many open files")
    if how == "its socket saw":
        return answer(path, OWN, seq, peer_address_raw="::ffff:198.51.100.1")
    return answer(path, OWN, seq, pod=None)


@pytest.mark.parametrize("how", ["the prober failed", "its socket saw", "its own pod"])
@pytest.mark.parametrize("identity", [OUTSIDE_LOCAL, OUTSIDE_BARE])
def test_a_doubtful_connection_costs_itself_on_a_checks_path_and_on_its_controls(how: str, identity: str) -> None:
    path_check = by_id(identity)
    for path in dict.fromkeys(path_check.subject.paths):
        if path.entry.kind is EntryKind.NODE_LISTENER and how == "its own pod":
            continue  # a control listener is known by its node
        (healthy, *_) = evidence().observations[path.key]
        for doubtful, status in ((1, Status.PASS), (10, Status.PASS), (11, Status.ERROR)):
            spoilt = [in_doubt(path, how, seq) for seq in range(doubtful)]
            said = verdict(path_check, also=[*spoilt, group(healthy, 200 - doubtful)])
            assert said.status is status
            if status is Status.ERROR:
                assert said.reason.startswith("11 of 200 connections are in doubt, most: ")
                assert how in said.reason
            else:
                assert f"{doubtful} of 200 set aside: " in said.sees
                assert how in said.sees
                assert (f" (on {path.key}, a control)" in said.sees) is (path != path_check.subject.path)


def test_what_is_left_is_judged_when_doubtful_connections_are_set_aside() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    spoilt = in_doubt(path_check.subject.path, "the prober failed", 0)
    right = group(show(path_check.subject.path, AddressClass.CLIENT), 198)
    wrong = show(path_check.subject.path, AddressClass.NODE)
    said = verdict(path_check, spoilt, right, wrong)
    assert (said.status, said.reason) == (Status.FLAKY, "1 of 199 differ")
    assert verdict(path_check, spoilt, group(wrong, 199)).status is Status.FAIL
    silent = by_id(OUTSIDE_BARE)
    answered = [
        in_doubt(silent.subject.path, "the prober failed", 0),
        group(show(silent.subject.path, AddressClass.CLIENT), 199),
    ]
    assert verdict(silent, *answered).status is Status.FAIL


def test_one_socket_has_one_source_port_and_says_so() -> None:
    path_check = by_id("nodeport.local.udp.ipv4.outside-1-to-endpoint-node.one-socket")
    one = show(path_check.subject.path, AddressClass.CLIENT)
    made = changed_evidence({path_check.subject.path.key: [replace(one, seq=seq) for seq in range(SAMPLES)]})
    said = judge(path_check, made)
    assert (said.status, said.sees) == (Status.PASS, "0 of 3 datagrams of one flow differ")


@pytest.mark.parametrize("pod", [None, ""])
def test_an_echo_server_that_does_not_know_its_pod_is_our_error(pod: str | None) -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(path_check, answer(path_check.subject.path, OWN, pod=pod))
    assert (said.status, said.reason) == (Status.ERROR, "the echo server does not know its own pod")
    sibling = by_id(OUTSIDE_BARE).subject.controls[1].path
    assert verdict(by_id(OUTSIDE_BARE), also=[answer(sibling, OWN, pod=pod)]).status is Status.ERROR
