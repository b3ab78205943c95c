"""Health checks of many nodes: whose slice they are, what is made of the lines, and what a lying node looks like."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from esipp.base.clock import Clock
from esipp.base.errors import HarnessError
from esipp.probing.jobs import Job
from esipp.probing.prober import Line
from esipp.scenarios.endpoint_change import other_nodes as everywhere
from esipp.scenarios.endpoint_change.evidence import Answers
from esipp.scenarios.endpoint_change.other_nodes import Everywhere, joined, slices

NODES = {f"n{number}": f"192.0.2.{number + 1}" for number in range(7)}


def test_every_node_is_asked_by_one_agent_and_none_asks_itself() -> None:
    found = slices(["n0", "n1", "n2"], NODES)
    assert sorted(node for those in found.values() for node in those) == sorted(NODES)
    assert all(agent not in those for agent, those in found.items())
    sizes = [len(those) for those in slices([f"a{each}" for each in range(10)], map(str, range(300))).values()]
    assert sizes == [30] * 10


def test_the_only_agent_asks_its_own_node_too() -> None:
    assert slices(["n0"], ["n0", "n1"]) == {"n0": ["n0", "n1"]}


def test_what_goes_on_as_it_was_is_one_stretch() -> None:
    first = joined([], [Answers("200", 5.0, 6.0, 2), Answers("503", 1.0, 4.0, 3)])
    assert [each.said for each in first] == ["503", "200"], "in order of time, whatever comes first"
    more = joined(first, [Answers("200", 7.0, 9.0, 5)])
    assert more == [Answers("503", 1.0, 4.0, 3), Answers("200", 5.0, 9.0, 7)]
    assert len(joined(more, [Answers("503", 10.0, 10.0, 1)])) == 3


class Agent:
    """A prober whose jobs are done at once; ``says`` is what an address tells, ``last`` is called with each job."""

    def __init__(self, says: Callable[[str], list[tuple[int, int]]], ahead: float = 0.0) -> None:
        self.says, self.ahead = says, ahead
        self.jobs: list[Job] = []
        self.trouble: HarnessError | None = None

    def clock(self) -> Clock:
        return Clock(self.ahead, 0.001)

    def stream(self, job: Job, sink: Callable[[Line], None]) -> Any:
        self.jobs.append(job)
        for number, (status, count) in enumerate(self.says(job.host)):
            times = {"started": self.ahead + number, "ended": self.ahead + number + 0.5}
            sink({"outcome": "answered", "response": {"status": status}, "count": count, "brief": True, **times})
        return self

    def wait(self, _timeout: float) -> int:
        if self.trouble:
            raise self.trouble
        return 1

    def cancel(self) -> None:
        """Nothing is under way."""


def once(agents: dict[str, Agent], nodes: dict[str, str] = NODES) -> Everywhere:
    """One round."""
    made = Everywhere(cast(Any, agents), nodes, 31000)
    made._round({name: agent.clock() for name, agent in agents.items()})
    return made


def test_a_round_is_a_brief_job_a_node_and_times_are_ours() -> None:
    agents = {name: Agent(lambda _: [(503, 5)], ahead) for name, ahead in (("a", 100.0), ("b", -7.0))}
    polls = once(agents)
    jobs = [job for agent in agents.values() for job in agent.jobs]
    assert sorted(job.host for job in jobs) == sorted(NODES.values())
    assert {(job.protocol, job.port, job.url, job.brief, job.count) for job in jobs} == {
        ("get", 31000, "/healthz", True, everywhere.PROBES)
    }
    assert polls.told == {node: [Answers("503", 0.0, 0.5, 5)] for node in NODES}


def test_an_agent_is_never_asked_for_more_than_it_can_do() -> None:
    many = {f"n{number}": "192.0.2.1" for number in range(1000)}
    polls = once({"a": Agent(lambda _: [])}, many)
    assert polls.pace == pytest.approx(1000 / everywhere.MOST_A_SECOND)
    assert once({"a": Agent(lambda _: [])}).pace == everywhere.SPACING


def test_an_agent_that_is_gone_ends_it_and_is_told() -> None:
    agent = Agent(lambda _: [(503, 5)])
    agent.trouble = HarnessError("The prober of the agent on a is gone: it ended.", "look")
    polls = Everywhere(cast(Any, {"a": agent}), NODES, 31000)
    polls.start()
    polls.stop()
    assert "is gone" in polls.trouble
    assert "is gone" in polls.answers("s").lines()[-1]


@pytest.mark.parametrize(("agents", "nodes"), [({}, NODES), ({"a": Agent(lambda _: [])}, {})])
def test_nothing_is_asked_without_an_agent_or_a_node(agents: dict[str, Agent], nodes: dict[str, str]) -> None:
    polls = Everywhere(cast(Any, agents), nodes, 31000)
    polls.start()
    polls.stop()
    assert polls.told == {}
    assert all(not agent.jobs for agent in agents.values())


# --------------------------------------------------------------------------------------------------------- bystanders
def test_where_all_say_503_a_line_says_so() -> None:
    found = once({"a": Agent(lambda _: [(503, 5)])}).answers("moves-default")
    assert (found.wrong, found.finding) == ({}, "")
    assert found.lines() == [
        "7 nodes without endpoint changes, probed by 1 agent every 1.0 s: 35 answers from 7 nodes, all 503"
    ]


def test_a_node_that_says_200_once_is_named() -> None:
    liar = NODES["n3"]
    found = once({"a": Agent(lambda host: [(503, 4), (200, 1)] if host == liar else [(503, 5)])}).answers("s")
    assert list(found.wrong) == ["n3"]
    assert "1 answered its health check with something other than 503: n3 (200 x1)" in found.finding
    assert found.finding in found.lines()[1]
    assert found.wrong["n3"] == [Answers("200", 1.0, 1.5, 1)]


def test_of_many_liars_a_few_are_named_and_the_others_counted() -> None:
    found = once({"a": Agent(lambda _: [(200, 5)])}).answers("s")
    assert found.finding.endswith("and 2 more")


def test_where_nobody_could_ask_that_is_said() -> None:
    found = Everywhere({}, NODES, 31000).answers("s")
    assert found.lines()[-1] == "  incomplete: there is no agent to probe them"


def test_small_clusters_have_none_and_nothing_is_said() -> None:
    assert Everywhere({}, {}, 0).answers("s").lines() == []
