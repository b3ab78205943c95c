"""The breaks of a node that joins: when its rules are there."""

import subprocess
from typing import Any

import pytest

from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.model import Family
from tests.broken.breaks.nodes import joined
from tests.broken.nodes import Live, Rule

SOON = Budget("the break to act", 10.0, need=1, spacing=0.05)
LATE = 0.3
ASKED = 4
"""Looks that take longer than the node is late."""


class FakeNode:
    """The container of the node that joins: whether it runs, and says 200; how often it was asked, and its rules."""

    def __init__(self) -> None:
        self.runs = self.well = False
        self.asked = self.rules = 0

    def run(self, _: object, command: str) -> "subprocess.CompletedProcess[str]":
        if command == joined.SAYS_200:
            self.asked += 1
            return subprocess.CompletedProcess([], 0 if self.well else 1)
        if self.runs:
            self.rules += 1 if "--insert" in command else -1
        return subprocess.CompletedProcess([], 0 if self.runs else 1)


def test_a_late_node_is_late_from_its_first_200_on(monkeypatch: pytest.MonkeyPatch) -> None:
    node, nodes = FakeNode(), Any
    monkeypatch.setattr(joined, "run_on", node.run)
    monkeypatch.setattr(joined, "set_up_run", lambda *_: Live("r", [], []))
    apply = joined.at_the_joined_node(lambda _: [Rule(Family.IPV4, "INPUT", ())], late=LATE)
    with apply(nodes) as placed:
        assert placed.at == 0, "there is no container yet"
        node.runs = True
        assert converge(lambda: Reading(node.asked >= ASKED, f"asked {node.asked} times"), SOON).held
        assert node.rules == 1, "it has not said 200"
        node.well = True
        assert converge(lambda: Reading(node.rules == 0, f"{node.rules} rules"), SOON).held
    assert placed.at > 0
