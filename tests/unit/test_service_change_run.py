"""The run of changes to Services on a simulated clock: what it asks the API server for, and what it waits for."""

import copy
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.waiting import Budget, Convergence, Reading
from esipp.checks.disruption import Disruption, Proof
from esipp.checks.model import Backends, Family, Protocol, Role, TrafficPolicy
from esipp.checks.stream import StreamKind
from esipp.cluster.client import ApiError
from esipp.judging.timeline import OURS, Sample, Stream
from esipp.judging.topology import parse_address
from esipp.probing.prober import LAST_PORT
from esipp.scenarios import events
from esipp.scenarios.service_change import run
from esipp.scenarios.service_change.objects import objects, service
from esipp.scenarios.service_change.run import ASKED_EVERY, HOLDS, LOOKED_AT_EVERY, Driver, off_beat
from esipp.scenarios.service_change.subject import INSIDE, SECOND_INSIDE, At, Claim, Do, Pods, service_of
from esipp.testbed import manifests
from esipp.testbed.objects import Ground
from suites.changes.checks import CHECKS
from suites.changes.events import EVENTS
from suites.changes.streams import (
    EXPIRED,
    HEALTH_CHECKS,
    TCP_NEW,
    TCP_ONE_PORT,
    TCP_PORT,
    UDP_IDLE,
    UDP_NEW,
    UDP_ONE_WAY,
    UDP_SOCKET,
)
from tests.unit.service_change_world import event_of
from tests.unit.world import NODE_ADDRESSES, ROLES, topology

RUN = "0a1b2c"
PODS = (
    "changes-1", "changes-2", "changes-elsewhere", "changes-killed", "changes-guarded", "changes-guarded-vip",
    "changes-two-servers",
)  # fmt: skip
CLIENT = parse_address("203.0.113.5")
LAST = TCP_NEW.timeout
ASKED = [(At.BARE_NODE, kind, Family.IPV4) for kind in (TCP_NEW, UDP_NEW, UDP_SOCKET, UDP_ONE_WAY)]
ALL = [*ASKED, (At.CLUSTER_IP, TCP_NEW, Family.IPV4)]


@dataclass
class World:
    """An API server that notes requests, nodes that follow after a while, and a clock that waits for nothing."""

    follows: Callable[[str], float] = lambda _: 0.3
    knows: bool = False
    now: float = 1000.0
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    changes: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)
    dialled: list[tuple[str, Any]] = field(default_factory=list)
    stopped: int = 0
    asked: list[tuple[Any, str]] = field(default_factory=list)
    says_counts: bool = True
    known_until: float = -math.inf
    disrupted: list[tuple[Disruption, str, float]] = field(default_factory=list)
    sick_since: float = math.inf
    sick_until: float = math.inf
    refuses: str = ""
    refused_at: str = ""
    others: list[dict[str, Any]] = field(default_factory=list)
    policies: list[tuple[float, str]] = field(default_factory=list)
    family_policies: list[tuple[float, str]] = field(default_factory=list)
    enforces: bool = True
    seen_as: str = "203.0.113.5"
    slices: dict[str, tuple[str, ...]] = field(default_factory=lambda: {service_of("namesake"): Pods.FIRST.names})
    writes_slices: bool = True
    other: tuple[str, ...] = ()

    def patch(self, path: str, body: dict[str, Any], kind: str) -> None:
        assert kind == "merge-patch"
        self.requests.append(("patch", path, body))
        if self.refused_at == "patch" and "clusterIPs" in body.get("spec", {}):
            raise ApiError(422, "Invalid", self.refuses, f"PATCH {path}")
        if "endpoints" in body:
            self._endpoints(path, body)
        elif "spec" in body:
            self.family_policies.append((self.now, body["spec"].get("ipFamilyPolicy", "")))
            self._select(path.rpartition("/")[2], body["spec"]["selector"])
        elif body["metadata"]["finalizers"] is None:
            self.changes.append((self.now, ()))

    def request(self, method: str, path: str) -> dict[str, Any]:
        assert method == "GET"
        self.now += 2.0
        return {"metadata": {"name": path}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    def delete(self, path: str, *, grace: int | None = None) -> None:
        assert (grace == 0) is ("/pods/" in path)
        self.requests.append(("delete", path, None))
        if self.refused_at == "delete":
            raise ApiError(500, "InternalError", self.refuses, f"DELETE {path}")
        if not path.endswith(f"/{service_of('finalizer')}"):
            self.changes.append((self.now, ()))

    def create(self, path: str, manifest: dict[str, Any]) -> None:
        self.requests.append(("create", path, manifest))
        if self.refused_at == "create":
            raise ApiError(422, "Invalid", self.refuses, f"POST {path}")
        if manifest["kind"] == "NetworkPolicy":
            self.policies.append((self.now, manifest["metadata"]["name"].rpartition("-")[2]))
            return
        if manifest["kind"] == "EndpointSlice":
            self._endpoints(manifest["metadata"]["name"], manifest)
            return
        if manifest["kind"] == "Pod":
            self.changes.append((self.now, (manifest["metadata"]["name"],)))
            return
        self._select(manifest["metadata"]["name"], manifest["spec"]["selector"])

    def _endpoints(self, path: str, of_slice: dict[str, Any]) -> None:
        """What the endpoint node serves under Local: the endpoints whose nodeName is its own."""
        own = [each for each in of_slice["endpoints"] if each.get("nodeName") == ROLES[Role.ENDPOINT_NODE]]
        names = tuple(f"changes-{each['addresses'][0][-1]}" for each in own)
        if "again" in path:
            self.other = names
        else:
            self.changes.append((self.now, names))

    def _select(self, service: str, selector: dict[str, Any]) -> None:
        which = next(key for key, value in selector.items() if value == "yes").removeprefix("esipp.dev/changes-")
        if service == "changes-namesake":  # nobody dials it
            self.slices |= {service: Pods(which).names} if self.writes_slices else {}
            return
        if self.writes_slices:
            self.changes.append((self.now, Pods(which).names))

    # what the driver needs of a prober and a clock
    def send(self, kind: StreamKind, name: str, target: Any, first_port: int) -> Any:
        assert first_port >= 20000
        self.dialled.append((kind.name, target))
        samples = [self._sample(name, self.now)]
        return SimpleNamespace(
            name=name, samples=samples, view=lambda since, until, now: self._view(name, since, until),
            known_until=lambda end: self.knows and self.now > end + 0.4,
        )  # fmt: skip

    def ask_arrived(self, prober: object, pod: Any, node: str, streams: Sequence[Any]) -> None:
        assert prober == "inside"
        assert {stream.name.split()[2] for stream in streams} == {UDP_ONE_WAY.name}
        self.asked.append((pod, node))
        if self.says_counts:
            self.known_until = self.now

    def counted(self, stream: Any, since: float, until: float) -> list[Sample]:
        """A one-way stream: what was sent after pods were last asked counts as lost."""
        made = self._view(stream.name, since, until)
        return [each if each.started < self.known_until else each._replace(outcome="timeout") for each in made]

    @property
    def prober(self) -> str:
        return "inside"

    # and of a disruptor
    def disrupt(self, what: Disruption, node: str, meanwhile: Callable[[float], object]) -> Proof:
        began = self.now
        self.now += 1.0
        meanwhile(began)
        ending = self.now
        self.disrupted.append((what, node, ending))
        self.now += 2.0
        return Proof(what, node, "", began, began + 1.0, ending, self.now)

    def check_health(self, name: str, target: Any, pace: Any) -> Any:
        self.dialled.append((name.split()[2], target))
        return SimpleNamespace(
            name=name, view=lambda since, until, now: self._health(since, until), known_until=lambda end: self.knows
        )

    def stop(self, streams: object) -> None:
        self.stopped += len(list(streams))

    def converge(self, look: Callable[[], Reading], budget: Budget, since: float | None = None) -> Convergence:
        began, reading = self.now, look()
        while not reading.right and self.now - began + budget.spacing <= budget.seconds:
            self.now += budget.spacing
            reading = look()
        return Convergence(reading.right, self.now - began, 1, reading.state)

    def _view(self, name: str, since: float, until: float) -> list[Sample]:
        times = [since + 0.1 * number for number in range(int((until - since) / 0.1))]
        return [self._sample(name, when) for when in times]

    def _health(self, since: float, until: float) -> list[Sample]:
        times = [since + 0.5 * number for number in range(int((until - since) / 0.5))]
        return [Sample(0, when, when, "503" if self.sick_since <= when < self.sick_until else "200") for when in times]

    def _sample(self, name: str, when: float) -> Sample:
        pods = [pods for at, pods in self.changes if at == 0 or at + self.follows(name) <= when][-1]
        pods = self.other if "another-service" in name else pods
        followed = [policy for at, policy in self.family_policies if at + self.follows(name) <= when]
        lacks_family = name.endswith("IPv4") and followed[-1:] == ["SingleStack"]
        if not pods or lacks_family or not self._admitted(name, when):
            return Sample(0, when, when + 0.9, "timeout")
        return Sample(0, when, when + 0.002, "answered", pods[0], source=self.seen_as)

    def _admitted(self, name: str, when: float) -> bool:
        """Whether a NetworkPolicy admits a stream; without one, everybody is admitted."""
        there = {policy for at, policy in self.policies if at + self.follows(name) <= when}
        inside = "clusterip" in name or "pod-ip" in name
        return not there or not self.enforces or ("pods" if inside else "client") in there

    def list(self, path: str, labelSelector: str = "") -> Any:  # noqa: N803 - the API's own name
        if path.endswith("/endpointslices"):
            own = self.slices.get(labelSelector.rpartition("=")[2], ())
            version = str(len(self.changes))
            return [
                {"metadata": {"name": "of-pods", "resourceVersion": version}, "endpoints": [
                    {"targetRef": {"name": name}} for name in own
                ]},
                {"metadata": {"name": "empty", "resourceVersion": "1"}, "endpoints": None},
            ]  # fmt: skip
        assert path == "/api/v1/services", "ports and ClusterIPs are the cluster's"
        return self.others


def driven(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    world: World,
    asked: list[tuple[At, StreamKind, Family]] = ALL,
    *,
    disruptor: bool = True,
    client: str = "pod-on-bare-node",
    performed: bool = True,
) -> Driver:
    event = event_of(name)
    created = service(event, RUN, (Protocol.TCP, Protocol.UDP), external=["192.0.2.11"])
    created["spec"] |= {
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7"],
        "ipFamilies": ["IPv4"],
        "healthCheckNodePort": 32109,
    }
    if event.first:
        created["spec"] |= {"ipFamilies": ["IPv6", "IPv4"], "clusterIPs": ["fd00:10:96::7", "10.96.0.7"]}
    for number, port in enumerate(created["spec"]["ports"]):
        port["nodePort"] = 31000 + number
    other = copy.deepcopy(created)
    other["spec"]["clusterIPs"] = ["10.96.0.8"]
    for port in other["spec"]["ports"]:
        port["nodePort"] += 10
    world.changes.append((0.0, event.changes[0].pods.names))
    nodes = {name: SimpleNamespace(name=name, internal=own) for name, own in NODE_ADDRESSES.items()}
    testbed: Any = SimpleNamespace(
        cluster=world,
        namespace="esipp",
        roles=topology().roles,
        nodes=nodes,
        services={event.service: created, **({event.another: other} if event.another else {})},
        run=RUN,
        agents={ROLES[Role.ENDPOINT_NODE]: "agent-x"},
        listeners={ROLES[Role.ENDPOINT_NODE]: {Protocol.TCP: 40001, Protocol.UDP: 40002}},
        pods={
            name: SimpleNamespace(addresses={Family.IPV4: f"10.244.1.{name[-1]}"}, node=_node_of(name)) for name in PODS
        },
        vips={event.service: {Family.IPV4: "192.0.2.80"}},
        obstacles={},
        network_policies=[],
    )
    for module in (run, events):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: world.now))
    stop = Stop()
    monkeypatch.setattr(stop, "converge", world.converge)
    traffic: Any = {"outside-1": world, INSIDE.name: world, client: world}
    pods = {name: {"kind": "Pod", "metadata": {"name": name, "labels": {}}} for name in event.changes[0].names}
    driver = Driver(testbed, event, asked, traffic, stop, pods, ["203.0.113.5/32"], [CLIENT])
    driver.disrupt = world.disrupt if disruptor else None
    if performed:
        driver.perform()
    return driver


def _node_of(pod: str) -> str:
    return ROLES[Role.BARE_NODE if pod in Pods.ELSEWHERE.names else Role.ENDPOINT_NODE]


LOCAL = [(At.ENDPOINT_NODE, TCP_NEW, Family.IPV4)]


def test_a_service_without_a_selector_gets_endpoint_slices_with_node_names(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driver = driven(monkeypatch, "endpoint-slices", world, LOCAL)
    assert "selector" not in driver.testbed.services[driver.event.service]["spec"]
    (verb, path, made), *others = world.requests
    assert (verb, path) == ("create", "/apis/discovery.k8s.io/v1/namespaces/esipp/endpointslices")
    labels = made["metadata"]["labels"]
    assert labels["kubernetes.io/service-name"] == driver.event.service
    assert labels["endpointslice.kubernetes.io/managed-by"] == "esipp"
    assert made["addressType"] == "IPv4"
    assert [(port["name"], port["port"]) for port in made["ports"]] == [("tcp", manifests.TCP), ("udp", manifests.UDP)]
    bodies = [made, *(body for _, _, body in others)]
    ends = [(each["addresses"], each["nodeName"]) for body in bodies for each in body["endpoints"]]
    own, bare = ROLES[Role.ENDPOINT_NODE], ROLES[Role.BARE_NODE]
    assert ends == [(["10.244.1.1"], own), (["10.244.1.2"], own), (["10.244.1.e"], bare)]
    assert {path.rpartition("/")[2] for _, path, _ in others} == {made["metadata"]["name"]}
    assert driver.seen.stages[2].pods == Pods.ELSEWHERE.names


def test_the_address_of_a_former_endpoint_becomes_that_of_another_service(monkeypatch: pytest.MonkeyPatch) -> None:
    world, sent = World(), list[tuple[str, Any, int, float]]()
    usual = world.send
    world.send = lambda kind, name, target, port: (
        sent.append((kind.name, target, port, world.now)) or usual(kind, name, target, port)
    )
    kinds = (TCP_NEW, TCP_PORT)
    asked = [(at, kind, Family.IPV4) for at in (At.ENDPOINT_NODE, At.ANOTHER_SERVICE) for kind in kinds]
    asked.append((At.ANOTHER_CLUSTER_IP, TCP_NEW, Family.IPV4))
    driver = driven(monkeypatch, "address-reused", world, asked)
    (*_, (verb, _, made)) = world.requests
    assert (verb, made["metadata"]["labels"]["kubernetes.io/service-name"]) == ("create", driver.event.another)
    ends = [[end["addresses"] for end in body["endpoints"]] for _, _, body in world.requests]
    assert ends == [[["10.244.1.1"]], [["10.244.1.2"]], [["10.244.1.1"]]]
    first, replaced, reused = driver.seen.stages
    assert reused.accepted - replaced.accepted >= 3.0
    assert [when for *_, when in sent[:1] + sent[2:]] == [first.accepted] + [reused.accepted] * 3
    assert sent[1][0] == "tcp-port"
    assert sent[1][-1] >= first.accepted + HOLDS, "no SYN of a used port meets a Service without rules"
    ports = {(name, target.port): port for name, target, port, _ in sent}
    assert ports["tcp-port", 31000] == ports["tcp-port", 31010], "the same client, from the same source ports"
    assert ports["tcp-new", 31000] == ports["tcp-new", 31010]
    assert sent[-1][1] == ("10.96.0.8", 80)
    at_other, at_own = ((at, "tcp-new", Family.IPV4) for at in (At.ANOTHER_SERVICE, At.ENDPOINT_NODE))
    assert [stage.at(at_other).pods for stage in driver.seen.stages] == [(), (), Pods.FIRST.names]
    assert [stage.at(at_own).pods for stage in driver.seen.stages][1:] == [Pods.SECOND.names] * 2
    services = [each["metadata"]["name"] for each in objects(OF_REUSED, Ground(RUN, "image", {}, ROLES, {})).services]
    assert services == [driver.event.service, driver.event.another]


OF_REUSED = [check for check in CHECKS if check.subject.event.name == "address-reused"]


def test_an_endpoint_loses_its_node_name_and_gets_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driver = driven(monkeypatch, "endpoint-without-node", world, LOCAL)
    named = [["nodeName" in each for each in body["endpoints"]] for _, _, body in world.requests]
    assert named == [[True], [False], [True]]
    assert [bool(stage.at((At.ENDPOINT_NODE, "tcp-new", Family.IPV4)).pods) for stage in driver.seen.stages] == [
        True, False, True,
    ]  # fmt: skip
    assert world.now - 1000.0 < 25


def test_a_stage_under_a_disruption_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(lambda name: 5.0 if "bare-node" in name else 0.3)
    driver = driven(monkeypatch, "proxy-stopped", world, [*ALL, (At.ENDPOINT_NODE, TCP_NEW, Family.IPV4)])
    first, stuck, last = driver.seen.stages
    ((what, node, ended),) = world.disrupted
    assert (what, node) == (Disruption.PROXY_STOPPED, ROLES[Role.BARE_NODE])
    assert stuck.cause + 1.0 == stuck.accepted
    assert stuck.stuck == {"bare-node", "clusterip"}
    assert stuck.words == "selects other pods while kube-proxy of a node is stopped"
    assert ended - stuck.accepted == pytest.approx(3.0, abs=0.3), "nobody waits for the node that cannot follow"
    assert (last.cause, last.accepted) == (ended, ended + 2.0)
    assert last.pods == stuck.pods == Pods.SECOND.names != first.pods


def test_stages_of_the_same_disruption_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(lambda name: 9.0)
    driver = driven(monkeypatch, "proxy-slow", world)
    first, *slow, last = driver.seen.stages
    ((what, _, ended),) = world.disrupted
    assert what is Disruption.PROXY_SLOW
    assert [stage.pods for stage in slow] == [each.names for each in (Pods.SECOND, Pods.FIRST, Pods.ELSEWHERE)]
    assert {stage.within for stage in slow} == {40.0} != {last.within} == {first.within}
    assert all(before.accepted < after.cause == after.accepted for before, after in pairwise(slow))
    assert (last.cause, last.accepted) == (ended, ended + 2.0)


def test_an_agent_that_is_stopped_twice_starts_between(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driven(monkeypatch, "network-agent-stopped", world)
    assert [(what, node) for what, node, _ in world.disrupted] == [
        (Disruption.NETWORK_STOPPED, ROLES[Role.BARE_NODE])
    ] * 2


def test_a_service_of_the_reference_balancer_has_its_class() -> None:
    made = service(event_of("balancer-cut-off"), RUN, (Protocol.TCP,))
    assert made["spec"]["loadBalancerClass"] == "esipp.dev/reference-ecmp"
    own = {check.subject.event.name for check in CHECKS if check.subject.own_service}
    assert ("balancer-cut-off" in own, "controller-stopped" in own) == (False, True)
    features = {name for check in CHECKS if check.subject.event.name == "balancer-cut-off" for name in check.features}
    assert ("load-balancer.reference-ecmp" in features, "load-balancer" in features) == (True, False)


def test_a_vip_may_be_lost_only_while_whoever_announces_it_is_away() -> None:
    lossless = {check.subject.event.name for check in CHECKS if check.subject.claim is Claim.NO_LOSS}
    assert "announcer-stopped" not in lossless
    assert lossless >= {"speaker-stopped", "controller-stopped", "balancer-cut-off", "network-agent-stopped"}


def test_a_disruption_that_is_not_allowed_breaks_the_event_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="is not allowed"):
        driven(monkeypatch, "proxy-stopped", World(), disruptor=False)


def test_a_sick_proxy_is_waited_for_until_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(sick_since=1062.0, sick_until=1075.0)
    asked = [(At.ENDPOINT_NODE, kind, Family.IPV4) for kind in (TCP_NEW, *HEALTH_CHECKS)]
    driver = driven(monkeypatch, "proxy-sick", world, asked)
    first, sick, well = driver.seen.stages
    assert sick.sick == {"proxy-healthz", "service-health"} != well.sick == first.sick
    assert 1062.0 < well.cause < 1066.0
    assert dict(world.dialled)["proxy-healthz"].port == 10256
    assert dict(world.dialled)["service-health"].port == 32109


@pytest.mark.parametrize("name", ["scaled-to-zero", "replaced", "deleted", "taken-over", "killed"])
def test_a_healthy_cluster_goes_through_all_stages_in_seconds(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    world = World()
    driver = driven(monkeypatch, name, world)
    assert [stage.pods for stage in driver.seen.stages] == [change.names for change in event_of(name).changes]
    assert world.now - 1000.0 < 5.0 * len(driver.seen.stages) + LAST
    assert world.now - driver.seen.end >= LAST, "what stays silent is known to have done so only then"
    assert world.stopped == 2 * len(driver.seen.streams) == 2 * 5


def test_an_event_ends_once_every_probe_that_began_in_it_has_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(knows=True)
    driver = driven(monkeypatch, "replaced", world)
    assert 0.4 < world.now - driver.seen.end < 1.0


def test_a_killed_pod_is_replaced_by_one_of_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driven(monkeypatch, "killed", world)
    (_, killed, _), (_, _, made) = world.requests
    assert killed.endswith("/pods/changes-killed")
    assert made["metadata"] == {"name": "changes-killed-again", "labels": {"esipp.dev/pod": "changes-killed-again"}}


def test_an_endpoint_that_moves_goes_to_the_node_without_endpoints() -> None:
    asked = [check for check in CHECKS if check.subject.event.name == "moved"]
    made = objects(list(asked), Ground(RUN, "image", {}, ROLES, {}))
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in made.pods}
    assert nodes == {"changes-1": ROLES[Role.ENDPOINT_NODE], "changes-elsewhere": ROLES[Role.BARE_NODE]}


def test_a_target_port_changes_to_that_of_a_second_server_in_the_same_pod() -> None:
    asked = [check for check in CHECKS if check.subject.event.name == "target-port"]
    (pod,) = objects(list(asked), Ground(RUN, "image", {}, ROLES, {})).pods
    first, second = pod["spec"]["containers"]
    assert {port["containerPort"] for port in second["ports"]} == {9080, 9081, 9082}
    assert not {port["name"] for port in second["ports"]} & {port["name"] for port in first["ports"]}
    assert second["readinessProbe"]["httpGet"]["port"] == 9080 != first["readinessProbe"]["httpGet"]["port"]
    assert [each for each in second["env"] if each["name"] == "POD_NAME"] == [
        {"name": "POD_NAME", "value": event_of("target-port").changes[1].names[0]}
    ]
    assert second["args"][:2] == ["--control", "off"], "both would listen at one port of the loopback interface"


def test_what_is_freed_stays_free_for_longer_than_a_flow_without_packets_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(follows=lambda name: 2.0)
    began: dict[str, float] = {}
    usual = world.send
    world.send = lambda kind, name, target, port: (
        began.setdefault(kind.name, world.now) and usual(kind, name, target, port)
    )
    asked = [(At.BARE_NODE, kind, Family.IPV4) for kind in (UDP_NEW, UDP_IDLE)]
    driver = driven(monkeypatch, "freed", world, asked)
    before, gone = driver.seen.stages[1:]
    assert began["udp-new"] < began["udp-idle"] <= before.accepted, "its first datagram must reach a pod"
    assert driver.seen.end - began["udp-idle"] > EXPIRED + UDP_IDLE.timeout
    assert not gone.is_there
    assert gone.accepted - before.accepted < 10.0, "no stage waits for a stream of two datagrams"


def test_a_service_that_loses_its_udp_port_has_another_one_whatever_is_asked() -> None:
    asked = [check for check in CHECKS if check.id == "changes.port-removed.bare-node.udp-new.ipv4.gone"]
    (made,) = objects(list(asked), Ground(RUN, "image", {}, ROLES, {})).services
    assert [port["protocol"] for port in made["spec"]["ports"]] == ["TCP", "UDP"]


def test_both_ports_are_dialled_and_each_stage_closes_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    later = [(at, TCP_NEW, Family.IPV4) for at in (At.CLUSTER_IP, At.CLUSTER_IP_LATER, At.VIP_LATER)]
    driver = driven(monkeypatch, "port-changed", world, [later[1], (At.BARE_NODE, UDP_NEW, Family.IPV4)])
    assert [target.port for _, target in world.dialled[:2]] == [90, 31001]
    assert driver._target(At.VIP_LATER, Protocol.TCP, Family.IPV4) == ("192.0.2.80", 90)
    first, second = driver.seen.stages
    assert [first.at((at, "tcp-new", Family.IPV4)).pods for at, _, _ in later] == [Pods.FIRST.names, (), ()]
    assert second.at((At.CLUSTER_IP, "tcp-new", Family.IPV4)).pods == ()
    assert second.at((At.CLUSTER_IP_LATER, "tcp-new", Family.IPV4)).pods == Pods.FIRST.names
    assert second.at((At.BARE_NODE, "udp-new", Family.IPV4)).pods == Pods.FIRST.names


def test_a_service_with_a_cluster_ip_alone_follows_its_internal_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    asked = [(At.OWN_CLUSTER_IP, TCP_NEW, Family.IPV4)]
    driver = driven(monkeypatch, "internal-policy", world, asked, client="pod-on-endpoint-node")
    shut = driver.seen.stages[1]
    assert shut.at((At.CLUSTER_IP, "tcp-new", Family.IPV4)).pods == ()
    assert shut.at((At.OWN_CLUSTER_IP, "tcp-new", Family.IPV4)).pods == Pods.FIRST.names
    policies = [body["spec"]["internalTrafficPolicy"] for _, _, body in world.requests]
    assert policies == ["Local", "Cluster"]


BOTH = [(at, TCP_NEW, family) for at in (At.BARE_NODE, At.CLUSTER_IP) for family in Family]


def test_a_service_loses_its_second_family_and_gets_it_again_with_its_cluster_ips(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    driver = driven(monkeypatch, "families", world, BOTH)
    asked = [body["spec"] for _, _, body in world.requests]
    assert [each["ipFamilyPolicy"] for each in asked] == ["SingleStack", "RequireDualStack"]
    assert "ipFamilies" not in asked[0]
    assert (asked[1]["ipFamilies"], asked[1]["clusterIPs"]) == (["IPv6", "IPv4"], ["fd00:10:96::7", "10.96.0.7"])
    assert {str(target[0]) for _, target in world.dialled} >= {"fd00:10:96::7", "10.96.0.7"}
    alone = driver.seen.stages[1]
    served = {family: bool(alone.at((At.BARE_NODE, "tcp-new", family)).pods) for family in Family}
    assert served == {Family.IPV6: True, Family.IPV4: False}
    assert world.now - 1000.0 < 20


def test_a_cluster_ip_that_stays_taken_is_the_api_servers_and_one_of_another_service_is_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = {
        "metadata": {"namespace": "esipp", "name": service_of("families")},
        "spec": {"clusterIPs": ["fd00:10:96::7"]},
    }
    lies: dict[str, Any] = {"refuses": "10.96.0.7: provided IP is already allocated", "refused_at": "patch"}
    driver = driven(monkeypatch, "families", World(others=[own], **lies), BOTH)
    assert "already allocated" in driver.seen.stages[-1].refused
    rival = {"metadata": {"namespace": "theirs", "name": "web"}, "spec": {"clusterIPs": ["10.96.0.7"]}}
    with pytest.raises(HarnessError, match="theirs/web took"):
        driven(monkeypatch, "families", World(others=[own, rival], **lies), BOTH)


GUARDED = [(at, TCP_NEW, Family.IPV4) for at in (At.ENDPOINT_NODE, At.CLUSTER_IP, At.POD_IP)]


def test_network_policies_admit_others_then_the_client_outside_then_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driver = driven(monkeypatch, "network-policy", world, GUARDED)
    paths, made = {path for _, path, _ in world.requests}, [manifest for _, _, manifest in world.requests]
    assert paths == {"/apis/networking.k8s.io/v1/namespaces/esipp/networkpolicies"}
    assert [each["metadata"]["name"].rpartition("-")[2] for each in made] == ["others", "client", "pods"]
    assert {each["spec"]["podSelector"]["matchLabels"]["esipp.dev/pod"] for each in made} == {"changes-guarded"}
    assert all(each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "esipp" for each in made)
    others, client, pods = ([peer for rule in each["spec"]["ingress"] for peer in rule["from"]] for each in made)
    assert {peer["ipBlock"]["cidr"] for peer in others} == {"192.0.2.0/24", "2001:db8::/32"}
    assert (len(client), client[-1]) == (101, {"ipBlock": {"cidr": "203.0.113.5/32"}})
    assert {peer["podSelector"]["matchLabels"]["esipp.dev/pod"] for peer in pods} == {
        "pod-on-bare-node", "pod-on-endpoint-node",
    }  # fmt: skip
    seen = {
        at: [bool(stage.at((at, "tcp-new", Family.IPV4)).pods) for stage in driver.seen.stages] for at, *_ in GUARDED
    }
    assert seen[At.ENDPOINT_NODE] == [True, False, True, True]
    assert seen[At.CLUSTER_IP] == seen[At.POD_IP] == [True, False, False, True]
    assert world.now - 1000.0 < 25
    assert driver.enforced
    assert driver.enforced.present
    assert dict(world.dialled)["tcp-new"] == ("10.244.1.d", manifests.TCP)


@pytest.mark.parametrize("others", [[], ["theirs"]])
def test_policies_without_an_effect_end_the_event_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, others: list[str]
) -> None:
    world = World(enforces=False)
    driver = driven(monkeypatch, "network-policy", world, GUARDED, performed=False)
    driver.testbed.network_policies = others
    driver.perform()
    assert len(driver.seen.stages) == 2
    assert driver.enforced
    assert not driver.enforced.present
    assert "a pod still reached another one's own address over IPv4" in driver.enforced.why
    assert ("allows all traffic in its namespace, as others added theirs" in driver.enforced.why) is bool(others)


def test_a_policy_that_only_the_service_evades_has_an_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(lambda name: 0.3 if "pod-ip" in name else 1e9)
    driver = driven(monkeypatch, "network-policy", world, GUARDED)
    assert driver.enforced
    assert driver.enforced.present
    assert len(driver.seen.stages) == 4


def test_nothing_is_said_of_policies_if_too_few_requests_had_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    usual = world._sample
    world._sample = lambda name, when: (
        Sample(0, when, when, OURS) if "pod-ip" in name and world.policies else usual(name, when)
    )
    with pytest.raises(HarnessError, match="not observed whether NetworkPolicies have an effect"):
        driven(monkeypatch, "network-policy", world, GUARDED)


def test_one_late_answer_of_the_pod_itself_shows_that_policies_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(enforces=False)
    usual = world._sample
    world._sample = lambda name, when: (
        Sample(0, when, when + 0.9, "timeout") if "pod-ip" in name and when > world.now - 2.0 else usual(name, when)
    )
    driver = driven(monkeypatch, "network-policy", world, GUARDED)
    assert driver.enforced
    assert not driver.enforced.present


def test_silence_proves_nothing_of_policies_where_the_pod_was_never_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    usual = world._sample
    world._sample = lambda name, when: Sample(0, when, when + 0.9, "timeout") if "pod-ip" in name else usual(name, when)
    with pytest.raises(HarnessError, match="did not reach another one before"):
        driven(monkeypatch, "network-policy", world, GUARDED)


@pytest.mark.parametrize(("source", "hidden"), [("203.0.113.5", False), ("192.0.2.99", True)])
def test_a_vip_that_hides_the_client_is_an_obstacle(monkeypatch: pytest.MonkeyPatch, source: str, hidden: bool) -> None:
    asked = [(At.VIP, TCP_NEW, Family.IPV4), (At.POD_IP, TCP_NEW, Family.IPV4)]
    driver = driven(monkeypatch, "network-policy-vip", World(seen_as=source), asked)
    assert (driver.seen.obstacles.keys() == {(At.VIP, Family.IPV4)}) is hidden
    assert all("192.0.2.99" in why for why in driver.seen.obstacles.values())


def ports_of(port: int = 80, targets: tuple[int, int] = (8081, 8082)) -> list[dict[str, Any]]:
    return [
        {"name": name.lower(), "protocol": name, "port": port, "targetPort": target, "nodePort": 31000 + number}
        for number, (name, target) in enumerate(zip(("TCP", "UDP"), targets, strict=True))
    ]


SPECS = {
    Do.OTHER_TARGET: {"ports": ports_of(targets=(9081, 9082))},
    Do.TO_CLUSTER_IP: {"type": "ClusterIP", "loadBalancerClass": None, "externalTrafficPolicy": None},
    Do.AFFINITY_ON: {"sessionAffinity": "ClientIP"},
    Do.AFFINITY_MINUTE: {
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
    },
    Do.AFFINITY_OFF: {"sessionAffinity": "None", "sessionAffinityConfig": None},
    Do.ADMIT_OTHERS: {"loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/32"]},
    Do.ADMIT_ALL: {"loadBalancerSourceRanges": None},
    Do.INTERNAL_LOCAL: {"internalTrafficPolicy": "Local"},
    Do.INTERNAL_CLUSTER: {"internalTrafficPolicy": "Cluster"},
    Do.PREFER_CLOSE: {"trafficDistribution": "PreferClose"},
    Do.PREFER_NONE: {"trafficDistribution": None},
    Do.OTHER_PORT: {"ports": ports_of(port=90)},
    Do.WITHOUT_UDP: {"ports": ports_of()[:1]},
    Do.FIRST_TARGET: {"ports": ports_of()},
    Do.NO_EXTERNAL_IP: {"externalIPs": None},
}


def test_what_each_change_of_a_service_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driver = driven(monkeypatch, "replaced", world)
    changes = {change.do: change for event in EVENTS for change in event.changes}
    for do, fields in SPECS.items():
        driver._does[do](changes[do])
        spec = world.requests[-1][2]["spec"]
        assert {key: value for key, value in spec.items() if key != "selector"} == fields
        chosen = [key for key, value in spec["selector"].items() if value == "yes"]
        assert chosen == [f"esipp.dev/changes-{changes[do].pods.value}"]
    driver._does[Do.TO_LOAD_BALANCER](changes[Do.TO_LOAD_BALANCER])
    spec = world.requests[-1][2]["spec"]
    assert (spec["type"], [port["nodePort"] for port in spec["ports"]]) == ("LoadBalancer", [31000, 31001])
    driver._does[Do.TO_NODE_PORT](changes[Do.TO_NODE_PORT])
    spec = world.requests[-1][2]["spec"]
    assert (spec["type"], [port["nodePort"] for port in spec["ports"]]) == ("NodePort", [31000, 31001])
    driver._does[Do.SHARE_PORT](changes[Do.SHARE_PORT])
    spec = world.requests[-1][2]["spec"]
    assert [(port["protocol"], port["nodePort"]) for port in spec["ports"]] == [("TCP", 31000), ("UDP", 31000)]
    driver._does[Do.ADMIT_CLIENT](changes[Do.ADMIT_CLIENT])
    ranges = world.requests[-1][2]["spec"]["loadBalancerSourceRanges"]
    assert (len(ranges), ranges[-1]) == (101, "203.0.113.5/32")
    assert {*driver._does} == {*Do} - {Do.CREATE}


def test_a_load_balancer_s_external_ip_is_the_bare_node_s_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [check for check in CHECKS if check.subject.event.name == "external-ip"]
    found = topology()
    (made,) = objects(list(asked), Ground(RUN, "image", found.nodes, ROLES, {})).services
    bare = found.nodes[ROLES[Role.BARE_NODE]].internal
    assert (made["spec"]["type"], made["spec"]["externalIPs"]) == ("LoadBalancer", [*bare.values()])
    own = made["spec"]["ports"][0]["port"]
    numbers = manifests.Numbers.of(RUN)
    others = {*map(numbers.external, (None, *TrafficPolicy)), numbers.agent_sctp}
    assert own not in others | {*numbers.backend(Backends.HOST_NETWORK).values()}, "others have these ports there"

    world = World()
    driver = driven(monkeypatch, "external-ip", world, [(at, TCP_NEW, Family.IPV4) for at in (At.VIP, At.EXTERNAL_IP)])
    assert [target.port for _, target in world.dialled] == [own, own]
    assert world.dialled[1][1].host == bare[Family.IPV4]
    given = [body["spec"].get("externalIPs") for _, _, body in world.requests]
    assert given == [None, None, ["192.0.2.11"]]
    closed = [stage.at((At.EXTERNAL_IP, "tcp-new", Family.IPV4)).pods for stage in driver.seen.stages]
    assert closed == [Pods.FIRST.names, Pods.SECOND.names, (), Pods.SECOND.names]
    assert all(stage.at((At.VIP, "tcp-new", Family.IPV4)).pods for stage in driver.seen.stages)


def test_no_two_events_share_a_source_port() -> None:
    """Their pods are the same, and Cilium takes two connections from one port to one pod for the same."""
    asked = run.streams_of(CHECKS)
    first = run.first_ports(asked)
    used = [
        port
        for event, streams in asked.items()
        for port in range(first[event], first[event] + sum(max(kind.ports, 1) for _, kind, _ in streams))
    ]
    assert first.keys() == {*EVENTS}
    assert len(used) == len({*used})
    assert max(used) <= LAST_PORT


def test_two_pods_of_a_node_have_the_same_source_ports_at_the_same_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    (event,) = (each for each in EVENTS if each.name == "one-source-port")
    asked = run.streams_of(CHECKS)[event]
    given = run.source_ports(asked, 20000)
    for one, other in ((At.FROM_POD, At.FROM_SECOND_POD), (At.CLUSTER_IP, At.CLUSTER_IP_FROM_SECOND_POD)):
        kinds = [[kind for at, kind, _ in asked if at is which] for which in (one, other)]
        assert kinds[0] == kinds[1]
        assert (one.ports_of, other.ports_of) == (one, one)
        assert (one.client, other.client) == (INSIDE, SECOND_INSIDE)
        assert one.client.role is other.client.role
    taken = [port + number for (_, kind, _), port in given.items() for number in range(max(kind.ports, 1))]
    assert len(taken) == len({*taken}), "others share none"
    world, sent = World(), list[tuple[str, int, float]]()
    usual = world.send
    world.send = lambda kind, name, target, port: (
        sent.append((kind.name, port, world.now)) or usual(kind, name, target, port)
    )
    pair = [(at, kind, Family.IPV4) for kind in (TCP_NEW, TCP_ONE_PORT) for at in (At.FROM_POD, At.FROM_SECOND_POD)]
    driver = driven(monkeypatch, "one-source-port", world, pair, client=SECOND_INSIDE.name)
    kept = [(port, when) for name, port, when in sent if name == "tcp-one-port"]
    assert len({port for port, _ in kept}) == 1
    followed = driver.seen.stages[0].accepted + HOLDS
    assert all(when == pytest.approx(followed) for _, when in kept), "once nodes follow the creation"
    assert {*driver._shown.values()} == {TCP_NEW, TCP_ONE_PORT}, "stages wait for all of them"


def test_a_namesake_gets_the_pods_and_loses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driver = driven(monkeypatch, "namesake", world)
    (_, _, made), (verb, path, emptied) = world.requests
    assert driver.event.service.startswith(made["metadata"]["name"])
    assert made["spec"]["selector"] == {"esipp.dev/run": RUN, "esipp.dev/changes-first": "yes"}
    assert not [port for port in made["spec"]["ports"] if "nodePort" in port]
    assert (verb, path.rpartition("/")[2]) == ("patch", made["metadata"]["name"])
    assert [key for key, value in emptied["spec"]["selector"].items() if value == "yes"] == ["esipp.dev/changes-none"]
    assert world.slices == {driver.event.service: Pods.FIRST.names, "changes-namesake": ()}
    assert [stage.pods for stage in driver.seen.stages] == [Pods.FIRST.names] * 3


@pytest.mark.parametrize(
    "world",
    [World(writes_slices=False), World(slices={})],
    ids=["the namesake never gets the pod", "the Service itself does not have it"],
)
def test_a_namesake_that_is_not_proven_breaks_the_event_off(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    with pytest.raises(HarnessError, match="EndpointSlices do not follow"):
        driven(monkeypatch, "namesake", world)


@pytest.mark.parametrize("name", ["target-port", "distribution"])
def test_where_nobody_writes_the_endpoint_slices_no_node_can_follow(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """On a starved machine the controller manager lost its Lease, and started again after 30 s (2026-11-29)."""
    unwritten = driven(monkeypatch, name, World(writes_slices=False)).seen
    ends = [*(stage.cause for stage in unwritten.stages[1:]), unwritten.end]
    late = [end - stage.unwritten for stage, end in zip(unwritten.stages, ends, strict=True) if stage.unwritten]
    assert late
    assert max(late) < LOOKED_AT_EVERY
    for follows in (0.3, 1e9):
        written = driven(monkeypatch, name, World(lambda _, follows=follows: follows))
        assert all(each.unwritten is None for each in written.seen.stages)


def test_how_late_endpoint_slices_were_written_is_kept_where_a_stream_does_not_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, reads = World(lambda _: 1e9), list[float]()

    def list_(path: str, labelSelector: str = "") -> Any:  # noqa: N803 - the API's own name
        reads.append(world.now)
        version = "2" if world.now > 1020.0 else "1"
        return [{"metadata": {"name": "of-pods", "resourceVersion": version}, "endpoints": None}]

    world.list = list_
    (_, changed, *_) = driven(monkeypatch, "replaced", world, LOCAL).seen.stages
    assert changed.unwritten is not None
    assert 1018.0 - LOOKED_AT_EVERY <= changed.unwritten <= 1020.0
    assert len(reads) < 20, "one look every other second, until they changed"


def test_what_never_follows_has_its_whole_time_in_its_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(lambda name: 1e9 if "udp-socket" in name else 0.3)
    driver = driven(monkeypatch, "deleted", world)
    causes = [stage.cause for stage in driver.seen.stages]
    assert causes[2] - causes[1] > 30
    assert driver.seen.end - causes[2] > 30, "a pod that is not reached is something else than one that still is"


@pytest.mark.parametrize(("results", "shows"), [(2, False), (3, True)])
def test_probes_that_a_busy_machine_has_not_begun_are_no_silence(
    monkeypatch: pytest.MonkeyPatch, results: int, shows: bool
) -> None:
    world = World()
    driver = driven(monkeypatch, "deleted", world)
    asked = (At.BARE_NODE, TCP_NEW.name, Family.IPV4)
    gone = driver.seen.stages[1].at(asked)
    assert not gone.pods
    silent = [
        Sample(seq, gone.accepted + 0.6 * seq, gone.accepted + 0.6 * seq + 3.0, "timeout") for seq in range(results)
    ]
    driver.seen.streams = {**driver.seen.streams, asked: Stream("one that the machine forgot", 0.4, silent)}
    assert driver._shows(asked, gone, gone.accepted + 20.0) is shows


def test_a_service_is_created_again_with_its_addresses_and_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, again in (("deleted", service_of("deleted")), ("taken-over", f"heir-of-{service_of('taken-over')}")):
        world = World()
        driven(monkeypatch, name, world)
        (_, gone, _), (_, _, made) = world.requests
        assert gone.endswith(f"/services/{service_of(name)}")
        assert made["metadata"]["name"] == again
        assert made["spec"]["clusterIPs"] == ["10.96.0.7"]
        assert {port["protocol"]: port["nodePort"] for port in made["spec"]["ports"]} == {"TCP": 31000, "UDP": 31001}


def test_a_service_that_is_kept_by_its_finalizer_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driver = driven(monkeypatch, "finalizer", world)
    (_, held, kept), (_, gone, _), (_, status, freed), (_, _, made) = world.requests
    assert (held, kept) == (gone, {"metadata": {"finalizers": ["esipp.dev/kept"]}})
    assert (status, freed) == (held, {"metadata": {"finalizers": None}})
    assert {port["protocol"]: port["nodePort"] for port in made["spec"]["ports"]} == {"TCP": 31000, "UDP": 31001}
    assert not any(stage.refused for stage in driver.seen.stages)


def test_a_finalizer_is_removed_whatever_breaks_the_event_off(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(refuses="the API server is gone", refused_at="delete")
    with pytest.raises(ApiError):
        driven(monkeypatch, "finalizer", world)
    assert world.requests[-1][1].endswith(f"/{service_of('finalizer')}")


TAKEN = "Service is invalid: spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated"


def test_ports_that_stay_taken_after_a_deletion_are_the_api_server_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(refuses=TAKEN, refused_at="create")
    driver = driven(monkeypatch, "finalizer", world)
    assert [bool(stage.refused) for stage in driver.seen.stages] == [False, False, False, True]
    assert TAKEN in driver.seen.stages[-1].refused


@pytest.mark.parametrize(
    ("spec", "words"),
    [({"ports": [{"nodePort": 31000}]}, "took port 31000"), ({"clusterIPs": ["10.96.0.7"]}, "took 10.96.0.7")],
)
def test_ports_and_addresses_that_another_namespace_got_are_nobody_s_fault(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], words: str
) -> None:
    rival = {"metadata": {"namespace": "another", "name": "theirs"}, "spec": spec}
    with pytest.raises(HarnessError, match=f"the Service another/theirs {words} meanwhile"):
        driven(monkeypatch, "finalizer", World(refuses=TAKEN, refused_at="create", others=[rival]))


def test_another_refusal_breaks_the_event_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApiError):
        driven(monkeypatch, "finalizer", World(refuses="exceeded quota", refused_at="create"))


def test_a_pod_dials_out_of_its_node_from_the_number_of_the_node_port(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    sent: list[tuple[str, int, int]] = []
    usual = world.send
    world.send = lambda kind, name, target, port: (
        sent.append((kind.name, target.port, port)) or usual(kind, name, target, port)
    )
    driver = driven(monkeypatch, "replaced", world, [(At.OUT, kind, Family.IPV4) for kind in (UDP_NEW, UDP_SOCKET)])
    assert sent[0][:2] == ("udp-new", 40002)
    assert sent[1] == ("udp-socket", 40002, 31001)
    assert {stage.at((At.OUT, "udp-socket", Family.IPV4)).pods for stage in driver.seen.stages} == {("agent-x",)}


def test_each_stream_goes_to_its_own_port(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driven(monkeypatch, "replaced", world)
    ports = [(name, target.port) for name, target in world.dialled]
    udp = [(kind.name, 31001) for kind in (UDP_NEW, UDP_SOCKET, UDP_ONE_WAY)]
    assert ports == [("tcp-new", 31000), *udp, ("tcp-new", 80)]


def test_every_pod_is_asked_what_it_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    driven(monkeypatch, "replaced", world)
    assert {(pod.host, pod.port) for pod, _ in world.asked} == {("10.244.1.1", 8080), ("10.244.1.2", 8080)}


def test_a_stage_waits_until_pods_counted_what_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(lambda name: 6.0 if "one-way" in name else 0.3)
    driver = driven(monkeypatch, "replaced", world)
    _, second, third = (stage.accepted for stage in driver.seen.stages)
    assert 6.0 + HOLDS <= third - second < 12.0
    assert len(world.asked) <= 6 * (world.now - 1000.0), "two pods by three clients, once a second at most"


def test_a_stage_does_not_wait_forever_for_pods_that_do_not_say_what_they_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(says_counts=False)
    first, second, third = (stage.accepted for stage in driven(monkeypatch, "replaced", world).seen.stages)
    assert second - first >= event_of("replaced").changes[0].within
    assert third - second < 10.0


def test_a_pod_that_does_not_say_what_it_counted_does_not_end_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    world, silent, refused = World(), iter([True] * 3), list[float]()
    usual = world.ask_arrived

    def ask_arrived(prober: object, pod: Any, node: str, streams: Sequence[Any]) -> None:
        if next(silent, False):
            refused.append(world.now)
            raise HarnessError("a pod does not say")
        usual(prober, pod, node, streams)

    world.ask_arrived = ask_arrived
    assert len(driven(monkeypatch, "replaced", world).seen.stages) == 3
    assert min(after - before for before, after in pairwise(refused)) >= ASKED_EVERY, "it is not asked all the time"


def test_an_entry_without_an_address_is_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = driven(monkeypatch, "replaced", World(), [(At.CLUSTER_IP, UDP_NEW, Family.IPV6)])
    assert driver.seen.obstacles == {(At.CLUSTER_IP, Family.IPV6): "the Service has no IPv6 ClusterIP"}


@pytest.mark.parametrize("number", [2, 3, 4])
def test_of_few_streams_at_a_node_hardly_one_gets_none_of_the_icmp_errors_that_it_may_send(number: int) -> None:
    """Linux sends a client one a second, and saves up six."""
    starved = 0
    for trial in range(100):
        names = [f"event-{trial} node-{trial} udp-{each} IPv4" for each in range(number)]
        asks = sorted(
            (0.05 * at + turn * off_beat(UDP_NEW, name).every, name)
            for at, name in enumerate(names)
            for turn in range(67)
        )
        saved, last, got = 1.0, 0.0, Counter[str]()
        for at, name in asks:
            saved, last = min(6.0, saved + at - last), at
            if saved >= 1.0:
                saved -= 1.0
                got[name] += 1
        starved += any(got[name] < 2 for name in names)
    assert starved <= 12
