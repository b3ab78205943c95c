"""The driver, in real time, against a small live world: a thread that probes what the driver's calls made of it."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.checks.model import Balancer, Family
from esipp.judging.timeline import Mark, Sample, Stream
from esipp.scenarios.endpoint_change import objects
from esipp.scenarios.endpoint_change import run as drive
from esipp.scenarios.endpoint_change.evidence import Result
from esipp.scenarios.endpoint_change.judge import Judge
from esipp.scenarios.endpoint_change.run import TIMEOUT, Driver, plan
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts

NODES = ("a", "b", "c")
CLIENT = "192.0.2.9"
FAMILY = Family.IPV4
SERVICE = objects.service_name(Balancer.ECMP)


class LiveWorld:
    """The API server, the watches, the nodes, the balancer and the prober of one service, all at once."""

    def __init__(self, *, steers: bool = True, takes: float = 0.0, dead: bool = False) -> None:
        self.steers, self.takes, self.dead = steers, takes, dead
        self.marks: dict[str, list[Mark]] = {SERVICE: []}
        self.pods: dict[str, Any] = {}
        self.where = {objects.pod_name(Balancer.ECMP, slot, 1): node for slot, node in enumerate(NODES)}
        for name in self.where:
            self._appear(name)
        self.open: dict[str, str] = {}
        self.vip = {FAMILY: Stream("VIP", 0.02)}
        self.ports = {node: Stream(f"nodePort of {node}", 0.02) for node in NODES}
        self.health = {FAMILY: {node: Stream(f"health of {node}", 0.02) for node in NODES}}
        self.beside: dict[str, Stream] = {}
        self.clock = SimpleNamespace(ours=lambda theirs: theirs)
        self.over = threading.Event()
        self._seq = 0
        self.rested = 0.0  # seconds since the last pod came, when connections were counted

    # ------------------------------------------------------------------------------------------------ the API server
    def patch(self, path: str, body: dict[str, Any]) -> None:
        name = path.split("/")[-2]
        if body["status"]["conditions"][0]["status"] == "True":
            self.open[self.where[name]] = name
            self._mark(name, "ready", "slice-ready")
        else:
            self.open.pop(self.where[name], None)
            self._mark(name, "unready", "slice-unready")

    def delete(self, path: str, *, grace: int | None = None) -> None:
        name = path.rpartition("/")[2]
        self.open.pop(self.where[name], None)
        self._mark(name, "gone" if grace == 0 else "deleting", "slice-unready", "slice-gone")
        self.pods.pop(name)

    def create(self, _collection: str, manifest: dict[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        self.where[name] = manifest["spec"]["nodeName"]
        self._appear(name)

    def check(self) -> None:
        pass

    def _appear(self, name: str) -> None:
        conditions = [{"type": "ContainersReady", "status": "True"}]
        spec = {"readinessGates": [{}], "nodeName": self.where[name]}
        self.pods[name] = {"metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}}

    def _mark(self, name: str, *what: str) -> None:
        for each in what:
            family = "IPv4" if each.startswith("slice") else ""
            self.marks[SERVICE].append(Mark(time.monotonic(), each, name, family))

    # ------------------------------------------------------------------------------------------------------ the prober
    def probe(self) -> None:
        used = ["a"]
        history: list[tuple[float, list[str]]] = []
        while not self.over.wait(0.02):
            now, seq, self._seq = time.monotonic(), self._seq, self._seq + 1
            now_open = dict(self.open)
            history.append((now, sorted(now_open)))
            known = [nodes for at, nodes in history if at <= now - self.takes]
            used = (known[-1] if known else ["a"]) if self.steers else used
            for node in NODES:
                self.ports[node].add(self._answer(seq, now, node, now_open))
                status = "200" if node in now_open else "503"
                self.health[FAMILY][node].add(Sample(seq, now, now + 0.001, status))
            through = used[seq % len(used)] if used and not self.dead else ""
            self.vip[FAMILY].add(self._answer(seq, now, through, now_open))

    def stop(self) -> None:
        self.over.set()

    def connect(
        self, _family: Family, count: int, _spacing: float, control: Sequence[str]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        assert self.over.is_set(), "no steady request is beside these"
        self.rested = time.monotonic() - max(mark.at for mark in self.marks[SERVICE] if mark.what == "slice-ready")
        nodes = sorted(self.open)
        line = {"seq": 0, "started": 1.0, "ended": 1.0, "outcome": "answered"}
        assert list(control) == nodes
        made = [line | {"echo": {"node": nodes[n % len(nodes)], "pod": "p"}} for n in range(count)]
        return made, made

    def weights(self, nodes: Sequence[str], _family: Family) -> dict[str, int]:
        return dict.fromkeys(nodes, 1)

    def _answer(self, seq: int, now: float, node: str, now_open: dict[str, str]) -> Sample:
        if node not in now_open:
            return Sample(seq, now, now + 0.001, "timeout")
        return Sample(seq, now, now + 0.001, "answered", now_open[node], node, CLIENT)


HASTY = replace(TIMEOUTS, change_followed=0.6)


@contextmanager
def driven(
    world: LiveWorld,
    moves: int,
    bound: float | None = None,
    serves: int = 7,
    patience: float = 0.0,
    timeouts: Timeouts = TIMEOUTS,
    *,
    single: bool = False,
    balance: bool = True,
) -> Iterator[Driver]:
    prober = threading.Thread(target=world.probe)
    prober.start()
    steps = plan("7", 3, moves)
    timeouts = replace(timeouts, first_pod=replace(timeouts.first_pod, seconds=3.0))
    anything: Any = world
    driver = Driver(
        anything, "ns", "run", "image", Balancer.ECMP, NODES, steps, "7", anything, anything, (), threading.Event(),
        period=0.05, bound=bound, serves=serves, patience=patience, timeouts=timeouts,
        single=single, balance=balance,
    )  # fmt: skip
    try:
        driver.drive()
        yield driver
    finally:
        world.over.set()
        prober.join()


def test_all_moves_are_made_followed_and_judged() -> None:
    with driven(LiveWorld(), 3) as driver:
        pass
    assert len(driver.changes) == 6
    assert sum(change.up for change in driver.changes) == 3
    for stream in (*driver.seen.vip.values(), *driver.seen.ports.values(), *driver.seen.checks):
        stream.freeze()
    opened = [(driver.first_pod, -1.0), *driver.opened_last.items()]
    judge = Judge(Result(Balancer.ECMP, driver.seen, driver.changes, driver.ends, opened, counted=driver.counted))
    assert all(line.health_followed and line.steered(FAMILY) for line in judge.lines if line.must_steer(FAMILY, True))
    assert not judge.wrong_at_vip[FAMILY]
    assert not judge.wrong_at_ports
    split = driver.counted[FAMILY]
    assert set(split.nodes) == set(split.pods) == driver.open_nodes
    assert sorted(split.pods.values()) == [1, 2]


@pytest.mark.parametrize(("single", "count"), [(False, drive.CONNECTIONS), (True, drive.FEW)])
def test_a_balancer_that_uses_one_node_is_not_weighed_by_thousands(single: bool, count: int) -> None:
    with driven(LiveWorld(), 2, single=single) as driver:
        pass
    assert driver.counted[FAMILY].total == count


def test_nothing_is_weighed_that_no_check_asks_for() -> None:
    with driven(LiveWorld(), 2, balance=False) as driver:
        pass
    assert len(driver.changes) == 4
    assert not driver.counted
    assert not driver.opened_last


def test_what_the_last_change_silenced_has_timed_out_before_the_streams_end() -> None:
    with driven(LiveWorld(), 2, balance=False) as driver:
        assert time.monotonic() - max(driver.ends.values()) >= TIMEOUT


def test_connections_are_counted_once_a_balancer_that_weighs_nodes_has_asked_them() -> None:
    world = LiveWorld()
    with driven(world, 3, bound=1.5) as driver:
        pass
    assert driver.counted
    assert world.rested >= 1.5


def test_a_second_node_is_given_the_time_that_the_balancer_needs() -> None:
    timeouts = replace(TIMEOUTS, both_nodes=replace(TIMEOUTS.both_nodes, seconds=0.0))
    with driven(LiveWorld(), 1, bound=4.0, timeouts=timeouts) as driver:
        pass
    assert driver.counted


class ServesOn(LiveWorld):
    """Pods that are deleted are there for a while yet, whatever balancer they are for."""

    context = "kind"

    def delete(self, path: str, *, grace: int | None = None) -> None:
        name = path.rpartition("/")[2]
        kept = self.pods[name]
        super().delete(path, grace=grace)
        if grace != 0:
            self.pods[name] = kept
            threading.Timer(4.0, self.pods.pop, (name, None)).start()


@pytest.mark.parametrize("serves", [0, 9])
def test_a_pod_that_serves_on_is_given_the_time_for_it(serves: int) -> None:
    timeouts = replace(TIMEOUTS, pod_again=replace(TIMEOUTS.pod_again, seconds=0.1))
    with nullcontext() if serves else pytest.raises(HarnessError, match="to exist again"):
        with driven(ServesOn(), 6, serves=serves, timeouts=timeouts) as driver:
            pass
        assert len({change.number for change in driver.changes}) == len(driver.steps)


def test_a_balancer_that_does_not_follow_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "MOST_LATE", 2)
    with driven(LiveWorld(steers=False), 10, timeouts=HASTY) as driver:
        pass
    assert len(driver.steps) > len({change.number for change in driver.changes}) >= 2
    assert not driver.counted


def test_a_slow_balancer_that_nobody_knows_is_waited_for() -> None:
    """It took longer than any move is waited for, and was called broken: here it is given the time, and follows."""
    with driven(LiveWorld(takes=1.5), 2, serves=0, patience=8.0, timeouts=HASTY) as driver:
        pass
    assert driver._late == 0
    assert len(driver.changes) == 4


def test_a_vip_that_never_answered_is_no_failure_where_nothing_says_how_long_it_takes() -> None:
    with driven(LiveWorld(dead=True), 2, patience=8.0) as driver:
        pass
    assert not driver.changes
    assert "did not answer once within 3 s" in driver.obstacle
    assert "--bound SECONDS" in driver.obstacle
