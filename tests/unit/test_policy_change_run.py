"""The run of policy changes on a simulated clock: what it waits for, and when it no longer does."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.base.clock import Clock
from esipp.base.interrupt import Stop
from esipp.base.waiting import Budget, Convergence, Reading
from esipp.checks.model import POD_BACKEND, Family, Outcome, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService
from esipp.judging.observation import Observation, Witness
from esipp.judging.timeline import Sample, Stream
from esipp.probing.prober import Traffic
from esipp.scenarios import events
from esipp.scenarios.policy_change import changes, run
from esipp.scenarios.policy_change.evidence import SAMPLED, PolicyChangeEvidence
from esipp.scenarios.policy_change.run import ROUNDS, Driver
from tests.unit.policy_change_world import BARE, GROUND, HOME, frozen
from tests.unit.world import CLIENT_ADDRESSES, NODE_ADDRESSES, topology

LOCAL, CLUSTER = TrafficPolicy.LOCAL, TrafficPolicy.CLUSTER
Lag = Callable[[At, TrafficPolicy, int], float]


@dataclass
class World:
    """A NodePort Service over IPv4; each entry follows ``lag`` seconds after a change. Its clock waits for nothing."""

    lag: Lag
    now: float = 1000.0
    changes: list[tuple[float, TrafficPolicy]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changes.append((0.0, LOCAL))

    # what the driver needs of a cluster, a prober and a clock
    def patch(self, path: str, body: dict[str, Any], kind: str) -> dict[str, Any]:
        policy = body["spec"]["externalTrafficPolicy"]
        self.changes.append((self.now, TrafficPolicy(policy)))
        return {"spec": {"externalTrafficPolicy": policy}}

    def connect(self, name: str, *_: object) -> Any:
        at = At.BARE_NODE if At.BARE_NODE in name else At.ENDPOINT_NODE
        return SimpleNamespace(name=name, view=lambda since, until, now: self._view(at, since, until))

    def stop(self, streams: object) -> None:
        """Nothing runs."""

    def converge(self, look: Callable[[], Reading], budget: Budget, since: float | None = None) -> Convergence:
        began, reading = self.now, look()
        while not reading.right and self.now - began + budget.spacing <= budget.seconds:
            self.now += budget.spacing
            reading = look()
        return Convergence(reading.right, self.now - began, 1, reading.state)

    def _view(self, at: At, since: float, until: float) -> list[Sample]:
        times = [since + 0.1 * number for number in range(int((until - since) / 0.1))]
        return [self._sample(at, when) for when in times]

    def _sample(self, at: At, when: float) -> Sample:
        followed = [to for n, (made, to) in enumerate(self.changes) if made + (self.lag(at, to, n) if n else 0) <= when]
        if followed[-1] is LOCAL and at is At.BARE_NODE:
            return Sample(0, when, when + 0.9, "timeout")
        node = NODE_ADDRESSES[BARE if at is At.BARE_NODE else HOME][Family.IPV4]
        source = CLIENT_ADDRESSES["outside-1"][Family.IPV4] if followed[-1] is LOCAL else node
        return Sample(0, when, when + 0.002, "answered", POD_BACKEND, HOME, source)


def drive(monkeypatch: pytest.MonkeyPatch, lag: Lag) -> tuple[int, float]:
    """The number of policy changes that were made, and their seconds."""
    world = World(lag)
    service = {"spec": {"ipFamilies": ["IPv4"], "ports": [{"nodePort": 30000}], "externalTrafficPolicy": "Local"}}
    nodes = {name: SimpleNamespace(internal=addresses) for name, addresses in NODE_ADDRESSES.items()}
    testbed: Any = SimpleNamespace(
        cluster=world, namespace="esipp", roles=topology().roles, nodes=nodes,
        services={ChangingService.NODE_PORT.object_name: service},
    )  # fmt: skip
    for module in (run, changes, events):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: world.now))
    stop = Stop()
    monkeypatch.setattr(stop, "converge", world.converge)
    traffic: Any = world
    driver = Driver(testbed, GROUND, ChangingService.NODE_PORT, traffic, stop)
    driver.perform()
    return len(list(driver.course.changes_made())), world.now - 1000.0


def test_a_healthy_cluster_gets_all_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    made, seconds = drive(monkeypatch, lambda at, to, number: 0.3)
    assert made == 2 * ROUNDS
    assert seconds < 20


def test_a_cluster_that_follows_just_in_time_gets_all_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = drive(monkeypatch, lambda at, to, number: 28.0)
    assert made == 2 * ROUNDS


def test_what_did_not_follow_once_may_still_follow_promptly_later(monkeypatch: pytest.MonkeyPatch) -> None:
    made, seconds = drive(monkeypatch, lambda at, to, number: 35.0 if number == 1 else 3.0)
    assert made == 2 * ROUNDS
    assert seconds > 30


@pytest.mark.parametrize(("frozen", "towards"), [(At.BARE_NODE, CLUSTER), (At.ENDPOINT_NODE, LOCAL)])
def test_what_never_follows_takes_its_whole_time_once(
    monkeypatch: pytest.MonkeyPatch, frozen: At, towards: TrafficPolicy
) -> None:
    made, seconds = drive(monkeypatch, lambda at, to, number: 1e9 if at is frozen and to is towards else 0.3)
    assert made == 4, "the second change to that policy shows it again, and each change to Cluster is undone"
    assert 30 < seconds < 45


def test_other_entries_have_their_whole_time_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    def lag(at: At, to: TrafficPolicy, number: int) -> float:
        if to is CLUSTER:
            return 0.3
        return 1e9 if at is At.BARE_NODE else 20.0

    made, seconds = drive(monkeypatch, lag)
    assert made == 4
    assert seconds > 30 + 20


# ------------------------------------------------------------------------------------------------------ the captures
@pytest.mark.parametrize("captured", [True, False])
def test_captures_run_from_before_the_first_connection_until_after_the_last(
    monkeypatch: pytest.MonkeyPatch, captured: bool
) -> None:
    done: list[str] = []
    listener = frozen(Stream("listener", 0.2, [Sample(seq, seq, seq + 0.01, "answered") for seq in range(20)]))

    @contextmanager
    def watched() -> Iterator[object]:
        done.append("capture")
        yield "watch" if captured else None
        done.append("end of capture")

    def controls(traffic: Traffic, _: object) -> dict[tuple[At, Family], Stream]:
        done.append("dial")
        assert (traffic.observations is not None) is captured
        for seq in range(20):
            observation = Observation(listener.name, seq, Outcome.ANSWERED)
            (traffic.observations if captured else {})[listener.name, seq] = observation
        return {(At.BARE_NODE, Family.IPV4): listener}

    def follow(watch: object, sampled: dict[str, list[Observation]]) -> tuple[dict[str, list[Witness]], str]:
        assert watch == ("watch" if captured else None)
        assert [each.seq for each in sampled.get(listener.name, ())] == (
            [*range(SAMPLED), *range(20 - SAMPLED, 20)] if captured else []
        )
        return {"listener": [Witness("listener", 0, True)]}, "why"

    monkeypatch.setattr(run, "controls", controls)
    monkeypatch.setattr(run, "perform", lambda *_: done.append("change"))
    monkeypatch.setattr(run, "spare", lambda *_: None)
    monkeypatch.setattr(Traffic, "stop", lambda *_: done.append("stop"))
    prober = SimpleNamespace(clock=lambda: Clock(0.0, 0.0))
    context: Any = SimpleNamespace(
        run=None, testbed=None, findings=SimpleNamespace(ways=()), topology=topology(), timeouts=None,
        clients=SimpleNamespace(probers={"outside-1": prober}), watched=watched, follow=follow,
    )  # fmt: skip
    seen = PolicyChangeEvidence()
    run._change_services(context, [ChangingService.NODE_PORT], Stop(), seen, keeps=False)
    assert done == ["capture", "dial", "change", "stop", "end of capture"]
    assert (list(seen.witnesses), seen.blind) == (["listener"], "why")


@pytest.mark.parametrize(("cores", "shared", "captured"), [(2, True, False), (4, True, True), (2, False, True)])
def test_captures_need_cores_where_the_nodes_share_them(
    monkeypatch: pytest.MonkeyPatch, cores: int, shared: bool, captured: bool
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    why = run._too_few(cast(Any, SimpleNamespace(ways=("docker",) if shared else ())))
    assert (why == "") is captured
    assert captured or "share 2 with esipp" in why
