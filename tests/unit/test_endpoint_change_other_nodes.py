"""Nodes that never have a pod say 503 all the time; any one that says 200 is reported, from wherever it was asked."""

from dataclasses import replace

import pytest

from esipp.checks.catalog import checks_of
from esipp.checks.check import Feature, Status, Verdict
from esipp.checks.model import Balancer, Family
from esipp.judging.timeline import Stream
from esipp.scenarios.endpoint_change.evidence import Answers, Bystanders, Moved
from esipp.scenarios.endpoint_change.judge import judges_of
from tests.unit.endpoint_change_world import World
from tests.unit.verdicts import judge_with

CHECK = next(each for each in checks_of("convergence") if each.id == "convergence.default.nodes.health-of-other-nodes")
FEATURES = {name: Feature(True, "made up") for name in CHECK.features}


def of(first: str = "", *, then: str = "503", agents: dict[str, str] | None = None, trouble: str = "") -> Verdict:
    """The verdict where a fourth node says this first and that from then on, and others that agents ask say that."""
    result = World(Balancer.DEFAULT).result()
    like = result.seen.health[Family.IPV4]["c"].samples
    said = [sample._replace(outcome=then if at else first) for at, sample in enumerate(like)]
    health = {Family.IPV4: {**result.seen.health[Family.IPV4], **({"d": Stream("d", 0.02, said)} if first else {})}}
    found = {node: [Answers(answer, 0.0, 9.0, 10)] for node, answer in (agents or {}).items()}
    others = Bystanders("moves-default", 3, 1.0, found, len(found), trouble) if found or trouble else None
    moved = Moved({Balancer.DEFAULT: replace(result, seen=replace(result.seen, health=health))}, bystanders=others)
    return judge_with(CHECK, judges_of(moved), FEATURES, {})


@pytest.mark.parametrize(
    ("first", "then", "agents", "status"),
    [
        ("503", "503", {}, Status.PASS),
        ("503", "503", {"e": "503", "f": "503"}, Status.PASS),
        ("timeout", "503", {}, Status.PASS),
        ("200", "503", {}, Status.FAIL),
        ("timeout", "timeout", {}, Status.FAIL),
        ("503", "503", {"e": "503", "f": "200"}, Status.FAIL),
        ("", "", {}, Status.INCONCLUSIVE),
    ],
)
def test_a_node_without_a_pod_says_503_and_nothing_else(
    first: str, then: str, agents: dict[str, str], status: Status
) -> None:
    assert of(first, then=then, agents=agents).status is status


def test_the_node_is_named() -> None:
    said = of("503", agents={"e": "503", "f": "200"})
    assert said.observed.endswith(" answers of 3 nodes, 2 of them always said 503")
    assert said.reason == "f: 200 x10"


def test_agents_that_no_longer_answer_leave_it_undecided() -> None:
    said = of("503", trouble="an agent no longer answers")
    assert (said.status, said.reason) == (Status.INCONCLUSIVE, "an agent no longer answers")
