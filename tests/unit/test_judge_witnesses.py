"""Two witnesses: what packets tell of a row, besides the echo server."""

from dataclasses import replace

import pytest

from esipp.cell import Cell, Override
from esipp.model import NO_ANSWER, AddressClass, Family
from esipp.observation import Observation, Outcome, Witness
from esipp.rows import Status
from tests.unit.world import (
    CLIENT_ADDRESSES,
    by_id,
    show,
    verdict,
)

OUTSIDE_LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
OUTSIDE_BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"
OWN = CLIENT_ADDRESSES["outside-1"][Family.IPV4]


def test_witnesses_that_contradict_each_other_are_our_error_and_both_are_shown() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    witness = Witness(cell.path.key, 0, True, contradiction=f"packets show 10.244.3.1, the echo server says {OWN}")
    said = verdict(cell, witnesses={cell.path.key: [witness]})
    assert said.status is Status.ERROR
    assert "packets show 10.244.3.1" in said.reason
    assert OWN in said.observed


def delivered(cell: Cell) -> dict[str, list[Witness]]:
    words = f"worker-b eth0: {OWN}:40000 > 10.244.2.5:8081"
    return {cell.path.key: [Witness(cell.path.key, 0, True, words, delivered=(OWN, 40000))]}


def test_a_silent_row_whose_packets_reach_a_backend_fails() -> None:
    cell = by_id(OUTSIDE_BARE)
    said = verdict(cell, witnesses=delivered(cell), blind="")
    assert said.status is Status.FAIL
    assert "packets went to a backend: worker-b eth0" in said.reason


def test_packets_that_reach_a_backend_may_be_a_known_difference() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-bare-node")
    assert any(override.forwarded for override in cell.overrides)
    facts = {"detect-local": "ClusterCIDR", "pod-to-node.ipv4": "unchanged"}
    assert verdict(cell, witnesses=delivered(cell), facts=facts).status is Status.KNOWN
    assert verdict(cell, witnesses=delivered(cell), facts={**facts, "detect-local": "NodeCIDR"}).status is Status.FAIL
    assert verdict(cell, facts=facts).status is Status.PASS, "where nothing is forwarded nothing is excused"


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
    cell = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-bare-node")
    said = verdict(cell, witnesses=delivered(cell), facts={"detect-local": "ClusterCIDR", **facts})
    assert said.status is Status.FAIL
    misdirected = Observation(cell.path.key, 0, Outcome.MISDIRECTED)
    assert verdict(cell, misdirected, facts={"detect-local": "ClusterCIDR", **facts}).status is Status.FAIL


def test_an_override_that_says_nothing_of_packets_excuses_none() -> None:
    cell = by_id(OUTSIDE_BARE)
    free = Override((("x", "y"),), NO_ANSWER, "a reason", "a reference")
    cell = replace(cell, overrides=(free,))
    assert verdict(cell, witnesses=delivered(cell), facts={"x": "y"}).status is Status.FAIL


def test_one_witness_is_said_when_blind() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    assert verdict(cell, blind="--without packets").witnesses == "echo server only: --without packets"
    seen = {cell.path.key: [Witness(cell.path.key, seq, True) for seq in range(2)]}
    assert verdict(cell, witnesses=seen, blind="").witnesses == "echo server and packets (2 connections)"
    said = verdict(cell, witnesses=seen, blind="the capture on worker-b lacks 1 of 2")
    assert said.witnesses == "echo server and packets (2 connections); the capture on worker-b lacks 1 of 2"
    missed = {cell.path.key: [Witness(cell.path.key, 0, False)]}
    assert "do not show the way to a backend" in verdict(cell, witnesses=missed, blind="").witnesses


def test_where_packets_changed_is_in_the_verdict_once() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    change = "node worker-a, between eth0 and veth1: 172.18.0.101 became 10.244.3.1"
    seen = {cell.path.key: [Witness(cell.path.key, seq, True, change=change) for seq in range(2)]}
    assert verdict(cell, show(cell.path, AddressClass.NODE), witnesses=seen).change == change
