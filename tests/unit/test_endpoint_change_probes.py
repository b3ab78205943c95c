"""What a prober is asked while pods move: which ways, how often, and a control for the connections that are counted."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.checks.model import Family
from esipp.probing.prober import Job
from esipp.scenarios.endpoint_change import run as changes
from esipp.scenarios.endpoint_change.run import PORT_PACE, SECOND_FAMILY, Observing, Targets

NODES = {node: {Family.IPV4: f"192.0.2.{n}", Family.IPV6: f"2001:db8::{n}"} for n, node in enumerate("ab", 1)}
VIPS = {Family.IPV4: "192.0.2.100", Family.IPV6: "2001:db8::100"}


class Fake:
    """A prober that takes down its jobs; node a tells a weight, b none. ``starved``: it makes so few."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.cancelled: list[Job] = []
        self.starved = 0

    def stream(self, job: Job, sink: Any) -> Any:
        self.jobs.append(job)
        if job.count == 2600 or job.count == 1300:
            for seq in range(self.starved or job.count):
                sink({"seq": seq})
        return SimpleNamespace(
            cancel=lambda: self.cancelled.append(job),
            wait=lambda _seconds: None,
            ends=lambda _seconds: not self.starved,
        )

    def ask(self, job: Job) -> "Future[list[Any]]":
        self.jobs.append(job)
        done: Future[list[Any]] = Future()
        headers = {"X-Load-Balancing-Endpoint-Weight": "2"} if job.host == "192.0.2.1" else {"Content-Type": "x"}
        done.set_result([{"seq": n, "response": {"status": 200, "headers": headers}} for n in range(job.count)])
        return done


def observing(**vips: str) -> tuple[Observing, Fake]:
    fake: Any = Fake()
    clock: Any = SimpleNamespace(ours=lambda theirs: theirs)
    targets = Targets({Family(name): vip for name, vip in vips.items()} or VIPS, NODES, 30080, 30081)
    return Observing("s", fake, targets, clock), fake


def test_node_ports_are_asked_in_both_families() -> None:
    made, fake = observing()
    made.start()
    asked = {(job.host, job.spacing) for job in fake.jobs if job.port == 30080}
    first = {(NODES[node][Family.IPV4], PORT_PACE.every) for node in NODES}
    assert asked == first | {(NODES[node][Family.IPV6], SECOND_FAMILY.every) for node in NODES}
    assert set(made.ports) == set(made.beside) == set(NODES)
    single, _ = observing(IPv4="192.0.2.100")
    single.start()
    assert not single.beside


def test_connections_are_counted_beside_a_control_of_as_many() -> None:
    made, fake = observing()
    lines, control = made.connect(Family.IPV4, 2600, 0.002, ["a", "b"])
    assert (len(lines), len(control)) == (2600, 2600)
    vip, *straight = fake.jobs
    assert (vip.host, vip.spacing) == (VIPS[Family.IPV4], 0.002)
    assert {(job.host, job.port, job.count, job.spacing) for job in straight} == {
        (NODES[node][Family.IPV4], 30080, 1300, 0.004) for node in NODES
    }


def test_connections_that_do_not_end_in_time_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prober that is starved: the judge then has too few connections, which is no failure of anybody's."""
    monkeypatch.setattr(changes, "CONNECT_SECONDS", 0.0)
    made, fake = observing()
    fake.starved = 7
    lines, control = made.connect(Family.IPV4, 2600, 0.002, ["a", "b"])
    assert (len(lines), len(control)) == (7, 2 * 7)
    assert len(fake.cancelled) == 3


def test_only_weights_that_were_reported_are_weights() -> None:
    made, _ = observing()
    assert made.weights(["a", "b"], Family.IPV4) == {"a": 2}
