"""Streams beside the trials: control listeners of nodes, and health checks that move to another port. No cluster."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from esipp.base.clock import Clock
from esipp.checks.continuity import NODEPORT, Way
from esipp.checks.health import Place
from esipp.checks.model import Family, Protocol, TrafficPolicy
from esipp.probing.prober import Job, Target
from esipp.scenarios.continuity.traffic import HEALTH_PACE, OTHERS_PACE, Streams, Targets
from esipp.scenarios.health import run


class FakeProber:
    """Answers each job once when it is started, and takes down what was ended."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.ended: list[str] = []

    def clock(self) -> Clock:
        return Clock(100.0, 0.0)

    def stream(self, job: Job, take: Callable[[dict[str, Any]], None]) -> Any:
        self.jobs.append(job)
        echo = {"pod": "agent", "node": "a", "peer_address": "192.0.2.9"}
        take({"seq": 0, "started": 101.0, "ended": 101.5, "outcome": "answered", "echo": echo})
        where = f"{job.host}:{job.port}"
        return SimpleNamespace(cancel=lambda: self.ended.append(where), wait=lambda _seconds: 0)


def test_the_listeners_of_all_nodes_are_asked_while_trials_go_on_and_no_longer() -> None:
    prober = FakeProber()
    places = {Place.ENDPOINT_NODE: "a", Place.BARE_NODE: "b", Place.OTHER_NODE: "c"}
    asker: Any = SimpleNamespace(
        clients=SimpleNamespace(probers={"outside-1": prober}),
        places=places,
        families=[Family.IPV4],
        address=lambda place, family: f"192.0.2.{list(places).index(place)}",
        testbed=SimpleNamespace(listeners={"a": {Protocol.TCP: 40000}, "b": {Protocol.TCP: 40000}}),
    )
    with run.listened(asker) as streams:
        assert set(streams) == {(Place.ENDPOINT_NODE, Family.IPV4), (Place.BARE_NODE, Family.IPV4)}, "c has no agent"
        assert prober.ended == []
    assert len(prober.ended) == 2
    assert all(stream.frozen for stream in streams.values())
    (sample,) = streams[Place.BARE_NODE, Family.IPV4].samples
    assert (sample.started, sample.ended) == (1.0, 1.5), "on our clock"


def test_without_a_client_outside_no_listener_is_asked() -> None:
    asker: Any = SimpleNamespace(clients=SimpleNamespace(probers={}))
    with run.listened(asker) as streams:
        assert streams == {}


def test_health_checks_move_to_the_port_that_a_service_has_now() -> None:
    prober: Any = FakeProber()
    health = {Family.IPV4: {"a": ("192.0.2.1", 31000), "c": ("192.0.2.3", 31000)}}
    others = {("b", Family.IPV4): ("192.0.2.2", 40000)}
    streams = Streams(prober, Targets({}, health, {}, others), Clock(100.0, 0.0))
    streams.start()
    kept = dict(streams.health[Family.IPV4])
    streams.redirect_health(31000, 31999)
    assert sorted(prober.ended) == ["192.0.2.1:31000", "192.0.2.3:31000"]
    assert [job.port for job in prober.jobs if job.protocol == "get"] == [31000, 31000, 31999, 31999]
    assert streams.health[Family.IPV4] == kept, "the same streams go on"
    assert {len(stream.samples) for stream in kept.values()} == {2}
    streams.redirect_health(31000, 32000)
    assert len(prober.jobs) == 5, "no stream goes there any more"
    spacings = {job.protocol: job.spacing for job in prober.jobs}
    assert spacings == {"get": HEALTH_PACE.every, "tcp": OTHERS_PACE.every}


def test_a_node_that_joins_is_dialled_at_its_node_ports_and_asked_whether_it_can_serve() -> None:
    prober: Any = FakeProber()
    cluster, local, vip = (Way(by, policy) for by, policy in (
        (NODEPORT, TrafficPolicy.CLUSTER), (NODEPORT, TrafficPolicy.LOCAL), ("default", TrafficPolicy.CLUSTER),
    ))  # fmt: skip
    ways = {
        (way, family): Target("192.0.2.1", port)
        for way, port in ((cluster, 31001), (local, 31002), (vip, 80))
        for family in Family
    }
    health = {Family.IPV4: {"a": Target("192.0.2.1", 31000), "c": Target("192.0.2.3", 31000)}}
    streams = Streams(prober, Targets(ways, health, {}), Clock(100.0, 0.0))
    streams.redirect_health(31000, 31999)
    streams.dial_joined({Family.IPV4: "192.0.2.9"})
    assert [(job.protocol, job.host, job.port) for job in prober.jobs] == [
        ("tcp", "192.0.2.9", 31001), ("get", "192.0.2.9", 10256),
        ("tcp", "192.0.2.9", 31002), ("get", "192.0.2.9", 31999),
    ]  # fmt: skip
    assert set(streams.joined) == set(streams.joined_health) == {(cluster, Family.IPV4), (local, Family.IPV4)}
    streams.leave_joined()
    assert len(prober.ended) == 4
    assert all(stream.frozen for stream in (*streams.joined.values(), *streams.joined_health.values()))
