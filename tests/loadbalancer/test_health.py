"""Thresholds, the schedule of checks, and steering by what checks find, with real connections to nodes on loopback."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from images.loadbalancer.balancer.balancer import choose
from images.loadbalancer.balancer.checks import Checker, Target, next_slot, weight_of
from images.loadbalancer.balancer.faults import Faults
from images.loadbalancer.balancer.objects import Mode
from images.loadbalancer.balancer.thresholds import Health, Result
from tests.loadbalancer.objects import World, node_object, service_object, settings

PATIENCE = 10.0
Patch = pytest.MonkeyPatch


def turns(results: str, healthy: int, unhealthy: int) -> str:
    """For each result, + or -, what the node is after it."""
    health = Health(healthy, unhealthy, since=0.0)
    after = ""
    for at, passed in enumerate(results, 1):
        health.record(Result(200 if passed == "+" else 503, None, float(at)), passed=passed == "+")
        after += "+" if health.healthy else "-"
    return after


@pytest.mark.parametrize(
    ("results", "thresholds", "after"),
    [
        ("+--+-+--", (1, 2), "++-+++ +-".replace(" ", "")),
        ("--+", (1, 2), "--+"),
        ("++-+++", (3, 1), "-----+"),
        ("+-", (1, 1), "+-"),
        ("+---", (1, 3), "+++-"),
        ("+-+-+-", (2, 2), "------"),
    ],
)
def test_so_many_results_in_a_check_turn_a_node(results: str, thresholds: tuple[int, int], after: str) -> None:
    assert turns(results, *thresholds) == after


def test_since_is_when_it_turned_and_last_is_the_last_result() -> None:
    health = Health(1, 2, since=5.0)
    health.record(Result(503, None, 6.0), passed=False)
    assert (health.since, str(health.last)) == (5.0, "status 503")
    health.record(Result(200, None, 7.0), passed=True)
    health.record(Result(None, "timeout", 8.0), passed=False)
    assert (health.since, health.healthy, str(health.last)) == (7.0, True, "timeout")


@pytest.mark.parametrize("phase", [0.0, 0.25, 0.999])
def test_the_schedule_keeps_its_phase_and_always_goes_on(phase: float) -> None:
    now, slots = 1000.3, []
    for _ in range(50):
        now = next_slot(phase, 0.5, now)
        slots.append(now)
    steps = {round(b - a, 6) for a, b in pairwise(slots)}
    assert steps == {0.5}
    assert slots[0] - 1000.3 <= 0.5


def test_phases_are_spread_over_nodes_and_services() -> None:
    phases = [Target(("ns", f"s{n}"), "u", "IPv4", f"n{m}").phase for n in range(50) for m in range(4)]
    assert {int(phase * 10) for phase in phases} == set(range(10))


KEY = ("test", "web")


@pytest.mark.parametrize(
    ("mode", "good", "stale", "before", "after"),
    [
        (Mode.ECMP, {"a", "b"}, set(), {}, {"a": 1, "b": 1}),
        (Mode.ECMP, set(), set(), {"a": 1}, {}),
        (Mode.ECMP, {"a"}, {"b"}, {"a": 1, "b": 1}, {"a": 49, "b": 1}),
        (Mode.FORWARD, {"a", "b"}, set(), {"a": 1}, {"a": 1}),
        (Mode.FORWARD, {"a", "b"}, set(), {"b": 1}, {"b": 1}),
        (Mode.FORWARD, {"b"}, set(), {"a": 1}, {"b": 1}),
        (Mode.FORWARD, set(), set(), {"a": 1}, {}),
    ],
)
def test_which_nodes_are_steered_to(
    mode: Mode, good: set[str], stale: set[str], before: dict[str, int], after: dict[str, int]
) -> None:
    assert choose(mode, KEY, good, stale, before) == after


def test_forwarders_to_one_node_spread_over_the_nodes() -> None:
    nodes = {f"n{number}" for number in range(4)}
    chosen = {next(iter(choose(Mode.FORWARD, ("ns", f"s{n}"), nodes, set(), {}))) for n in range(40)}
    assert chosen == nodes


@pytest.mark.parametrize(
    ("fault", "good", "stale"),
    [("ignore-health", {"a", "b"}, set()), ("keep-one", {"b", "c"}, set()), ("one-in-fifty-stale", {"b"}, {"c"})],
)
def test_what_faults_make_of_health(fault: str, good: set[str], stale: set[str]) -> None:
    assert Faults([fault]).steer({"a", "b"}, {"b"}, {"c": 1}) == (good, stale)
    assert Faults().steer({"a", "b"}, {"b"}, {"c": 1}) == ({"b"}, set())


def test_a_flapping_balancer_inverts_every_other_result_now_and_then() -> None:
    flapping = Faults(["flap"])
    assert [flapping.result(True, count, 21.0) for count in range(4)] == [True, False, True, False]
    assert flapping.result(True, 1, 25.0)
    assert Faults(["slow"]).period(1.0) == 10 * Faults().period(1.0)


class Nodes:
    """Answers health checks at 127.0.0.2 and 127.0.0.3, as set for each; counts connections."""

    def __init__(self) -> None:
        self.answers = {"127.0.0.2": b"HTTP/1.1 200 OK\r\n\r\n", "127.0.0.3": b"HTTP/1.1 200 OK\r\n\r\n"}
        self.requests: list[tuple[str, bytes]] = []
        self.ending = False
        self.port = 0
        self.listeners = []
        for address in self.answers:
            listener = socket.create_server((address, self.port), backlog=64)
            self.port = listener.getsockname()[1]
            self.listeners.append(listener)
            threading.Thread(target=self._serve, args=[address, listener], daemon=True).start()

    def _serve(self, address: str, listener: socket.socket) -> None:
        while not self.ending:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                try:
                    self.requests.append((address, sock.recv(4096)))
                    sock.sendall(self.answers[address])
                except OSError:
                    continue

    def close(self) -> None:
        self.ending = True
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.close()


def world_of(nodes: Nodes, mode: str = "reference-ecmp", faults: tuple[str, ...] = (), **changes: bool) -> World:
    world = World(settings(faults=faults, **changes))
    world.tell("nodes", "all", node_object("two", "127.0.0.2"), node_object("three", "127.0.0.3"))
    world.tell("services", "all", service_object(mode=mode, healthCheckNodePort=nodes.port))
    return world


def until(world: World, way: dict[str, int], vip: str = "192.0.2.10") -> None:
    end = time.monotonic() + PATIENCE
    while world.kernel.ways.get(vip) != way:
        assert time.monotonic() < end, world.kernel.ways
        world.run(0.01)


BOTH = {"127.0.0.2": 1, "127.0.0.3": 1}


def test_nothing_is_steered_to_before_a_check_has_passed(nodes: Nodes) -> None:
    world = world_of(nodes)
    until(world, BOTH)
    assert world.decided("steer")[0]["nodes"] == []
    healthy = {one["node"]: one["monotonic"] for one in reversed(world.decided("health")) if one["healthy"]}
    steered = {node: one["monotonic"] for one in reversed(world.decided("steer")) for node in one["nodes"]}
    assert all(healthy[node] <= at for node, at in steered.items())
    assert nodes.requests[0][1].startswith(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.")
    world.close()


def test_one_that_fails_open_sends_to_all_nodes_while_none_is_healthy(nodes: Nodes) -> None:
    down, up = b"HTTP/1.1 503 no\r\n", b"HTTP/1.1 200 OK\r\n"
    nodes.answers = dict.fromkeys(nodes.answers, down)
    closed, opened = world_of(nodes), world_of(nodes, fail_open=True)
    for world, way in ((closed, {}), (opened, BOTH)):
        world.run(0.2)
        assert world.kernel.ways["192.0.2.10"] == way
    assert "none is healthy" in opened.decided("steer")[-1]["why"]
    assert {(one["steered"], one["healthy"]) for one in opened.balancer.view()["services"][0]["nodes"]} == {
        (True, False)
    }
    nodes.answers["127.0.0.3"] = up
    until(opened, {"127.0.0.3": 1})
    assert "none is healthy" not in opened.decided("steer")[-1]["why"]
    nodes.answers["127.0.0.3"] = down
    until(opened, BOTH)
    closed.close()
    opened.close()


def test_the_leader_has_all_vips_with_or_without_an_endpoint_until_it_fails(nodes: Nodes, monkeypatch: Patch) -> None:
    monkeypatch.setattr("images.loadbalancer.balancer.objects.KUBE_PROXY_PORT", nodes.port)
    world = World(settings())
    world.tell("nodes", "all", node_object("a", "127.0.0.2"))
    # the health-check node ports of these Services are closed: no node has an endpoint
    both = [service_object(name, "reference-leader", healthCheckNodePort=1) for name in ("one", "two")]
    world.tell("services", "all", *both)
    until(world, {"127.0.0.2": 1}, "192.0.2.11")
    assert world.kernel.ways["192.0.2.10"] == {"127.0.0.2": 1}
    world.tell("nodes", "changed", node_object("b", "127.0.0.3"))
    world.run(0.2)
    assert list(world.kernel.ways.values()) == [{"127.0.0.2": 1}] * 2, "the first one leads until it fails"
    nodes.answers["127.0.0.2"] = b"HTTP/1.1 503 no\r\n"
    until(world, {"127.0.0.3": 1})
    assert world.kernel.ways["192.0.2.11"] == {"127.0.0.3": 1}
    nodes.answers["127.0.0.2"] = b"HTTP/1.1 200 OK\r\n"
    world.run(0.2)
    assert list(world.kernel.ways.values()) == [{"127.0.0.3": 1}] * 2
    world.close()


def told(world: World, name: str, *addresses: str) -> None:
    """Wait until the status of a Service was made to name these addresses."""
    end = time.monotonic() + PATIENCE
    wanted = [{"ip": address, "ipMode": "VIP"} for address in addresses]
    while dict(world.writer.wrote).get(name) != wanted:
        assert time.monotonic() < end, world.writer.wrote
        world.run(0.01)


def test_addresses_of_nodes_as_vips_follow_the_endpoints(nodes: Nodes) -> None:
    world = World(settings())
    world.tell("nodes", "all", node_object("a", "127.0.0.2"), node_object("b", "127.0.0.3"))
    world.tell("services", "all", service_object("web", "reference-nodes", healthCheckNodePort=nodes.port))
    told(world, "web", "127.0.0.2", "127.0.0.3")
    assert (world.kernel.vips, world.kernel.ways) == (set(), {}), "they are the nodes' own"
    nodes.answers["127.0.0.2"] = b"HTTP/1.1 503 no\r\n"
    until_view(world, {"IPv4": ["127.0.0.3"]})
    told(world, "web", "127.0.0.3")
    world.tell("nodes", "changed", node_object("b", "127.0.0.3", external=("192.0.2.99", "2001:db8::99")))
    told(world, "web", "192.0.2.99")
    excluded = {"node.kubernetes.io/exclude-from-external-load-balancers": ""}
    world.tell("nodes", "changed", node_object("b", "127.0.0.3", labels=excluded))
    told(world, "web", "127.0.0.3")
    world.tell("nodes", "gone", node_object("b", "127.0.0.3"))
    assert world.balancer.view()["services"][0]["vips"] == {"IPv4": []}
    world.tell("services", "gone", service_object("web", "reference-nodes"))
    assert world.balancer.view()["services"] == []
    world.close()


def until_view(world: World, vips: dict[str, list[str]]) -> None:
    end = time.monotonic() + PATIENCE
    while (seen := world.balancer.view()["services"][0]["vips"]) != vips:
        assert time.monotonic() < end, seen
        world.run(0.01)


def test_a_port_of_a_node_serves_one_service_and_the_next_when_that_is_gone(nodes: Nodes) -> None:
    def asking(name: str, port: int, protocol: str = "TCP") -> dict[str, object]:
        ports = [{"protocol": protocol, "port": port, "nodePort": 30080}]
        return service_object(name, "reference-nodes", healthCheckNodePort=nodes.port, ports=ports)

    world = World(settings())
    world.tell("nodes", "all", node_object("a", "127.0.0.2"))
    first = asking("a", 80)
    world.tell("services", "all", first, asking("b", 80), asking("c", 81), asking("d", 80, "UDP"))
    for name in ("a", "c", "d"):
        told(world, name, "127.0.0.2")
    world.run(0.1)
    assert "b" not in dict(world.writer.wrote)
    world.tell("services", "gone", first)
    told(world, "b", "127.0.0.2")
    world.close()


def test_a_faulty_one_sends_to_a_node_until_its_checks_have_failed(nodes: Nodes) -> None:
    nodes.answers["127.0.0.3"] = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
    world = world_of(nodes, faults=("joins-unchecked",))
    assert world.decided("steer")[0]["nodes"] == ["three", "two"]
    until(world, {"127.0.0.2": 1})
    world.close()


def test_a_node_that_fails_is_left_and_taken_back(nodes: Nodes) -> None:
    world = world_of(nodes)
    until(world, BOTH)
    nodes.answers["127.0.0.3"] = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
    until(world, {"127.0.0.2": 1})
    nodes.answers["127.0.0.3"] = b"HTTP/1.1 200 OK\r\n\r\n"
    until(world, BOTH)
    decided = [(one["node"], one["healthy"], one["why"]) for one in world.decided("health")]
    assert sorted(decided[:2]) == [(name, True, "status 200, 1 in a row") for name in ("three", "two")]
    assert decided[2:] == [("three", False, "status 503, 2 in a row"), ("three", True, "status 200, 1 in a row")]
    steered = [one["nodes"] for one in world.decided("steer")]
    assert steered[-3:] == [["three", "two"], ["two"], ["three", "two"]]
    times = [one["monotonic"] for one in world.decisions.after(0, 0)[0]]
    assert times == sorted(times)
    view = {one["node"]: one for one in world.balancer.view()["services"][0]["nodes"]}
    assert all(one["healthy"] and one["steered"] and one["last"]["status"] == 200 for one in view.values())
    world.close()


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n", b"HTTP/1.1 301 Moved\r\n", b"HTTP/1.1 two\r\n"])
def test_only_200_is_healthy(nodes: Nodes, answer: bytes) -> None:
    nodes.answers["127.0.0.2"] = answer
    world = world_of(nodes)
    until(world, {"127.0.0.3": 1})
    world.run(0.1)
    until(world, {"127.0.0.3": 1})
    world.close()


def test_the_forwarder_to_one_node_moves_only_when_it_must(nodes: Nodes) -> None:
    world = world_of(nodes, "reference-forward")
    end = time.monotonic() + PATIENCE
    while not world.kernel.ways["192.0.2.10"]:
        assert time.monotonic() < end
        world.run(0.01)
    (first,) = world.kernel.ways["192.0.2.10"]
    world.run(0.1)
    until(world, {first: 1})
    nodes.answers[first] = b"HTTP/1.1 503 no\r\n"
    (other,) = set(nodes.answers) - {first}
    until(world, {other: 1})
    nodes.answers[first] = b"HTTP/1.1 200 OK\r\n"
    world.run(0.2)
    until(world, {other: 1})
    world.close()


@pytest.mark.parametrize(
    "change",
    [
        node_object("three"),
        node_object("three", "127.0.0.3", labels={"node.kubernetes.io/exclude-from-external-load-balancers": ""}),
        node_object("three", "127.0.0.3", deletionTimestamp="2026-01-01T00:00:00Z"),
    ],
)
def test_a_node_that_is_no_target_any_more_is_left_at_once(nodes: Nodes, change: dict[str, object]) -> None:
    world = world_of(nodes)
    until(world, BOTH)
    world.tell("nodes", "changed", change)
    assert world.kernel.ways["192.0.2.10"] == {"127.0.0.2": 1}
    world.close()


def test_a_removed_node_is_left_at_once_and_checked_no_more(nodes: Nodes) -> None:
    world = world_of(nodes)
    until(world, BOTH)
    world.tell("nodes", "gone", node_object("three", "127.0.0.3"))
    assert world.kernel.ways["192.0.2.10"] == {"127.0.0.2": 1}
    world.run(0.05)
    seen = len([1 for address, _ in nodes.requests if address == "127.0.0.3"])
    world.run(0.1)
    assert len([1 for address, _ in nodes.requests if address == "127.0.0.3"]) == seen
    world.close()


def test_a_node_that_is_kept_or_ignored_on_purpose(nodes: Nodes) -> None:
    nodes.answers["127.0.0.3"] = b"HTTP/1.1 503 no\r\n"
    ignoring = world_of(nodes, faults=("ignore-health",))
    assert ignoring.kernel.ways["192.0.2.10"] == BOTH
    ignoring.close()
    stale = world_of(nodes, faults=("one-in-fifty-stale",))
    nodes.answers["127.0.0.3"] = b"HTTP/1.1 200 OK\r\n"
    until(stale, BOTH)
    nodes.answers["127.0.0.3"] = b"HTTP/1.1 503 no\r\n"
    until(stale, {"127.0.0.2": 49, "127.0.0.3": 1})
    stale.close()


def test_a_balancer_that_prefers_nodes(nodes: Nodes) -> None:
    assert Faults(["unequal"]).shares(["c", "a", "b"]) == {"a": 1, "b": 4, "c": 16}
    assert Faults().shares(["c", "a"]) == {"a": 1, "c": 1}
    preferring = world_of(nodes, faults=("unequal",))
    until(preferring, {"127.0.0.3": 1, "127.0.0.2": 4})  # three, two
    preferring.close()


def test_a_balancer_that_is_uneven_by_a_little(nodes: Nodes) -> None:
    uneven = world_of(nodes, faults=("uneven",))
    until(uneven, {"127.0.0.3": 11, "127.0.0.2": 9})  # three, two
    uneven.close()


def test_a_vip_that_wanders_though_nothing_changes(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("images.loadbalancer.balancer.faults.WANDER_SECONDS", 0.1)
    monkeypatch.setattr("images.loadbalancer.balancer.balancer.WANDER_SECONDS", 0.1)
    wandering = world_of(nodes, faults=("wander",))
    for _ in range(2):
        until(wandering, {"127.0.0.2": 1})
        until(wandering, {"127.0.0.3": 1})
    wandering.close()


def test_a_gap_whenever_nodes_change(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("images.loadbalancer.balancer.faults.GAP_SECONDS", 0.2)
    world = world_of(nodes, faults=("gap",))
    until(world, BOTH)
    nodes.answers["127.0.0.3"] = b"HTTP/1.1 503 no\r\n\r\n"
    until(world, {})
    until(world, {"127.0.0.2": 1})
    world.close()


def test_weights_of_health_checks(nodes: Nodes) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Load-Balancing-Endpoint-Weight: %d\r\n\r\n"
    nodes.answers["127.0.0.3"] = answer % 2
    equal = world_of(nodes)
    until(equal, BOTH)
    equal.close()
    weighing = World(settings(weigh=True))
    weighing.tell("nodes", "all", node_object("two", "127.0.0.2"), node_object("three", "127.0.0.3"))
    weighing.tell("services", "all", service_object(mode="reference-ecmp", healthCheckNodePort=nodes.port))
    until(weighing, {"127.0.0.2": 1, "127.0.0.3": 2})
    nodes.answers["127.0.0.3"] = answer % 3
    until(weighing, {"127.0.0.2": 1, "127.0.0.3": 3})
    nodes.answers["127.0.0.3"] = b"HTTP/1.1 503 no\r\n\r\n"
    until(weighing, {"127.0.0.2": 1})
    assert [one["why"] for one in weighing.decided("steer")][-2] == "three weighs 3"
    weighing.close()


@pytest.mark.parametrize(
    ("head", "weight"),
    [
        (b"HTTP/1.1 200 OK", 1),
        (b"HTTP/1.1 200 OK\r\nx-load-balancing-endpoint-weight:  7", 7),
        (b"HTTP/1.1 200 OK\r\nX-Load-Balancing-Endpoint-Weight: 0", 1),
        (b"HTTP/1.1 200 OK\r\nX-Load-Balancing-Endpoint-Weight: 1000", 100),
        (b"HTTP/1.1 200 OK\r\nX-Load-Balancing-Endpoint-Weight: many", 1),
    ],
)
def test_what_an_answer_says_of_a_share(head: bytes, weight: int) -> None:
    assert weight_of(head) == weight


def test_checks_keep_to_their_period(nodes: Nodes) -> None:
    world = World(settings(period=0.05))
    world.tell("nodes", "all", node_object("two", "127.0.0.2"))
    world.tell("services", "all", service_object(healthCheckNodePort=nodes.port))
    world.run(1.0)
    assert 10 <= len(nodes.requests) <= 21  # never more often; less often only because the machine is busy
    world.close()


class Slow:
    """A node on loopback that answers so many seconds late, or never; keeps when it was asked."""

    def __init__(self, after: float | None) -> None:
        self.after = after
        self.asked: list[float] = []
        self.listener = socket.create_server(("127.0.0.2", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.asked.append(time.monotonic())
            threading.Thread(target=self._answer, args=[sock], daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            sock.recv(4096)
            if self.after is None:
                sock.recv(1)  # until the other side gives up
                return
            time.sleep(self.after)
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def results_of(node: Slow, period: float, timeout: float, seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the checks of a slow node found in so many seconds."""
    found: list[str] = []
    record = Health.record

    def keep(self: Health, result: Result, *, passed: bool) -> bool:
        found.append(str(result))
        return record(self, result, passed=passed)

    monkeypatch.setattr(Health, "record", keep)
    loop = asyncio.new_event_loop()
    checker = Checker(loop, (period, timeout), (1, 2), Faults(), lambda check: None)
    checker.set_targets({Target(KEY, "u", "IPv4", "two"): ("127.0.0.2", node.port)})
    loop.run_until_complete(asyncio.sleep(seconds))
    checker.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    node.close()
    return found


def test_an_answer_between_period_and_timeout_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Slow(0.7)
    found = results_of(node, 0.5, 1.0, 4.0, monkeypatch)
    assert set(found) == {"status 200"}
    assert len(found) >= 2
    assert all(later - before > 0.7 for before, later in pairwise(node.asked)), node.asked  # no two at a time


def test_a_timeout_as_long_as_the_period_skips_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Slow(None)
    found = results_of(node, 0.3, 0.3, 2.0, monkeypatch)
    assert set(found) == {"timeout"}
    gaps = [later - before for before, later in pairwise(node.asked)]
    # One that waited for the check before would be two periods apart. Not all: the machine may be busy.
    assert min(gaps) < 0.45, gaps
