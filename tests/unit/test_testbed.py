"""Where a path leads, and how load balancers are announced: what of the testbed needs no cluster."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.base.errors import HarnessError
from esipp.base.labels import RUN_LABEL
from esipp.base.waiting import Budget
from esipp.checks.check import Check, Fact
from esipp.checks.model import Family, Path, Protocol
from esipp.cluster.client import ApiError, Cluster
from esipp.loadbalancers.detection import NOTHING_FOUND, Detected
from esipp.loadbalancers.profiles.loading import provider
from esipp.testbed import announced as announcing
from esipp.testbed import manifests
from esipp.testbed.agents import waited_for
from esipp.testbed.batches import balanced, batches
from esipp.testbed.integrity import Harm
from esipp.testbed.manifests import PORTS_OF_ONE, Numbers
from esipp.testbed.objects import Objects
from esipp.testbed.testbed import Testbed, sharing
from tests.unit.world import BACKEND_ADDRESSES, CHECKS, NODES, ROLES, VIP, by_id, topology

RUN = "0101-000000-abcd"
NODE_PORT = 30123
NODE_IP = {name: node.internal for name, node in topology().nodes.items()}


def set_testbed(*paths: Path) -> Testbed:
    """A stage that stands, as far as these paths need it."""
    made = Testbed(cast(Cluster, SimpleNamespace(context="x")), RUN, "image", topology().nodes, ROLES)
    made.pods = dict(topology().backends)
    for name in {path.object_name for path in paths if path.service}:
        item = manifests.service(name, [p for p in paths if p.service and p.object_name == name], RUN)
        item["spec"]["clusterIPs"] = ["10.96.0.1", "fd00:96::1"]
        for port in item["spec"]["ports"]:
            port["nodePort"] = NODE_PORT
        made.services[name] = item
        made.vips[name] = dict(VIP)
    made.listeners = {NODES[0]: {Protocol.TCP: 41000, Protocol.UDP: 42000}}
    made.second_addresses = {NODES[0]: {Family.IPV4: "172.18.9.2"}}
    return made


def where(identity: str) -> tuple[str, int] | str:
    path = by_id(identity).subject.path
    return set_testbed(path).address(path)


@pytest.mark.parametrize(
    ("identity", "target"),
    [
        ("pod-ip.tcp.ipv4.pod-on-other-node-to-pod-ip", (BACKEND_ADDRESSES["backend"][Family.IPV4], manifests.TCP)),
        ("pod-ip.udp.ipv6.pod-on-other-node-to-pod-ip", (BACKEND_ADDRESSES["backend"][Family.IPV6], manifests.UDP)),
        ("clusterip.tcp.ipv4.pod-on-other-node-to-clusterip", ("10.96.0.1", 80)),
        ("clusterip.tcp.ipv6.pod-on-other-node-to-clusterip", ("fd00:96::1", 80)),
        ("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", (NODE_IP[NODES[0]][Family.IPV4], NODE_PORT)),
        ("nodeport.local.tcp.ipv6.outside-1-to-bare-node", (NODE_IP[NODES[1]][Family.IPV6], NODE_PORT)),
        (
            "nodeport.local.tcp.ipv4.pod-on-other-node-to-other-node",
            (NODE_IP[NODES[2]][Family.IPV4], NODE_PORT),
        ),
        ("nodeport.local.tcp.ipv4.outside-1-to-second-address-of-endpoint-node", ("172.18.9.2", NODE_PORT)),
        ("loadbalancer.local.tcp.ipv4.outside-1-to-vip", (VIP[Family.IPV4], 80)),
        (
            "nodeport.local.several-ports.tcp.ipv4.pod-on-other-node-to-clusterip.port-same",
            ("10.96.0.1", manifests.TCP),
        ),
        ("loadbalancer.local.several-ports.tcp.ipv4.outside-1-to-vip.port-named", (VIP[Family.IPV4], 81)),
        ("nodeport.local.several-ports.tcp.ipv4.outside-1-to-endpoint-node.port-http", ("172.18.0.2", NODE_PORT)),
    ],
)
def test_where_a_path_leads(identity: str, target: tuple[str, int]) -> None:
    assert where(identity) == target


def test_external_ips_are_dialled_at_the_port_of_their_policy() -> None:
    for policy in ("cluster", "local"):
        path = by_id(f"external-ips.{policy}.tcp.ipv4.outside-1-to-external-ip-of-endpoint-node").subject.path
        assert path.service is not None
        expected = (NODE_IP[NODES[0]][Family.IPV4], Numbers.of(RUN).external(path.service.policy))
        assert set_testbed(path).address(path) == expected


def test_every_path_of_every_check_leads_somewhere_or_says_why() -> None:
    paths = sorted({path for path_check in CHECKS for path in path_check.subject.paths}, key=lambda path: path.key)
    made = set_testbed(*paths)
    for path in paths:
        target = made.address(path)
        if isinstance(target, tuple):
            assert ":" in target[0] or path.family is Family.IPV4, path.key
            assert target[1] > 0
        else:
            assert target.startswith(("node ", "there is no agent on node")), (path.key, target)


def test_what_cannot_be_dialled_is_a_sentence() -> None:
    second = where("nodeport.local.tcp.ipv6.outside-1-to-second-address-of-endpoint-node")
    assert second == f"node {NODES[0]} has no second IPv6 address"
    path = by_id("loadbalancer.local.tcp.ipv4.outside-1-to-vip").subject.path
    made = set_testbed(path)
    made.vips[path.object_name] = {}
    assert made.address(path) == "the Service has no IPv4 VIP"
    made.obstacles[path.object_name, Family.IPV4] = "no VIP came"
    assert made.address(path) == "no VIP came"
    listener = by_id("nodeport.local.tcp.ipv4.outside-1-to-bare-node").subject.controls[0].path
    assert made.address(listener) == f"there is no agent on node {NODES[1]}"


def test_source_ranges_are_the_addresses_of_the_clients_they_name() -> None:
    path = by_id("loadbalancer.local.source-ranges.tcp.ipv4.outside-1-to-vip").subject.path
    made = set_testbed(path)
    made.outside = {"outside-1": ["192.0.2.1", "2001:db8::1"], "outside-2": ["192.0.2.2"]}
    item = made._service(path.object_name, [path])
    assert item["spec"]["loadBalancerSourceRanges"] == ["192.0.2.1/32", "2001:db8::1/128"]


# ----------------------------------------------------------------------------------------- how a VIP is announced
def announced(*ingress: dict[str, str], families: tuple[str, ...] = ("IPv4", "IPv6")) -> dict[str, Any]:
    return {"spec": {"ipFamilies": list(families)}, "status": {"loadBalancer": {"ingress": list(ingress)}}}


FOUR, SIX = {"ip": "192.0.2.1", "ipMode": "VIP"}, {"ip": "2001:db8::1"}


@pytest.mark.parametrize(
    ("service", "way", "complete"),
    [
        (announced(), "none", False),
        ({"spec": {"ipFamilies": ["IPv4"]}}, "none", False),
        (announced(FOUR), "VIP", False),
        (announced(FOUR, SIX), "VIP", True),
        (announced(FOUR, families=("IPv4",)), "VIP", True),
        (announced({**FOUR, "ipMode": "Proxy"}, SIX), "Proxy", True),
        (announced({"hostname": "lb.example"}), "hostname", True),
        (announced({"hostname": "nowhere.example"}), "hostname", False),
    ],
)
def test_how_a_load_balancer_is_announced(
    service: dict[str, Any], way: str, complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(name: str, *_: object, **__: object) -> list[Any]:
        if name != "lb.example":
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.9", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert announcing.ingress_of(service) == way
    assert announcing.is_announced(service) is complete
    if way == "hostname" and complete:
        assert announcing.announced(service) == ["192.0.2.9"]


# ------------------------------------------------------------------------------------------------------------- agents
def there(pod: dict[str, Any], node: str, name: str, *, ready: bool = True) -> dict[str, Any]:
    """A pod as a watch shows it."""
    conditions = [{"type": "Ready", "status": str(ready)}, {"type": "ContainersReady", "status": str(ready)}]
    return {
        "metadata": {**pod["metadata"], "name": name, "uid": name},
        "spec": {**pod["spec"], "nodeName": node},
        "status": {"phase": "Running", "podIPs": [{"ip": "192.0.2.7"}], "conditions": conditions},
    }


class Watched(Cluster):
    """A cluster of which only a watch is asked."""

    def __init__(self, events: list[tuple[str, dict[str, Any]]]) -> None:
        self.context, self.events = "x", events

    def list(self, collection: str, **_: str) -> list[dict[str, Any]]:
        assert collection == "/api/v1/nodes"
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "t0"}
        return [{"metadata": {"name": name}, "status": {"conditions": [ready]}} for name in (*NODES, "elsewhere")]

    def watch(self, collection: str, **_: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        assert collection.endswith("/pods")
        yield from self.events


def waited(*events: tuple[str, dict[str, Any]]) -> Testbed:
    """A stage with a backend, after it has waited for that and for its agents."""
    made = set_testbed()
    made.cluster, made.pods = Watched(list(events)), {}
    made._wait_for_pods({"backend", *map(waited_for, made.sampled)})
    return made


BACKEND = manifests.echo_pod("backend", RUN, NODES[0], "image", raw=False)
AGENT = set_testbed().daemon_set()["spec"]["template"]


def test_agents_are_known_by_their_node_whatever_they_are_called() -> None:
    agents = [("ADDED", there(AGENT, node, f"agent-{number}xyz")) for number, node in enumerate(NODES)]
    made = waited(("ADDED", there(BACKEND, NODES[0], "backend")), *agents)
    assert made.agents == {node: f"agent-{number}xyz" for number, node in enumerate(NODES)}
    assert set(made.pods) == {"backend", *made.agents.values()}
    made._keep_identities([BACKEND], Objects())
    assert set(made._identities) == set(made.pods), "an agent that is replaced costs what needs it"
    assert set(made._node_states) == set(NODES), "nodes without a pod of ours may come and go"


def test_what_happens_to_a_node_that_esipp_disturbs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made, (here, other, *_) = set_testbed(), NODES
    made.agents = {node: f"agent-{node}" for node in NODES}
    pods = {name for name, pod in made.pods.items() if pod.node == here} | {f"agent-{here}"}
    elsewhere = {name for name, pod in made.pods.items() if pod.node == other} | {f"agent-{other}"}
    harm = Harm({name: f"{name} is gone" for name in pods | elsewhere}, {here: "not Ready", other: "not Ready"})
    monkeypatch.setattr(made, "harmed", lambda: harm)
    assert made.harmed_parts() == harm
    assert made.harmed_parts([here]) == harm.among(elsewhere, [other])


def test_an_agent_that_does_not_come_is_named_by_its_node() -> None:
    come = [("ADDED", there(AGENT, node, f"agent-{node}")) for node in NODES[1:]]
    with pytest.raises(HarnessError, match=f"1 of {len(NODES) + 1} pods are not ready .* the agent on {NODES[0]}"):
        waited(("ADDED", there(BACKEND, NODES[0], "backend")), *come)


def test_agents_of_another_run_or_node_are_not_waited_for() -> None:
    come = [("ADDED", there(AGENT, node, f"agent-{node}")) for node in NODES]
    made = waited(
        ("ADDED", there(AGENT, "elsewhere", "agent-x")), ("ADDED", there(BACKEND, NODES[0], "backend")), *come
    )
    assert set(made.agents) == set(NODES)


def test_where_no_agents_are_admitted_none_are_made() -> None:
    made = Testbed(cast(Cluster, SimpleNamespace(context="x")), RUN, "image", topology().nodes, ROLES, hosted=False)
    assert made.sampled == ()


def test_addresses_are_in_the_order_of_the_services_own_families() -> None:
    given = {Family.IPV4: "192.0.2.1", Family.IPV6: "2001:db8::1"}
    service = {"spec": {"ipFamilies": ["IPv6", "IPv4"]}}
    assert list(announcing.in_order(service, given)) == [Family.IPV6, Family.IPV4]
    assert list(announcing.in_order({"spec": {"ipFamilies": ["IPv6"]}}, given)) == [Family.IPV6, Family.IPV4]
    assert announcing.in_order(service, {Family.IPV4: "192.0.2.1"}) == {Family.IPV4: "192.0.2.1"}


# ------------------------------------------------------------------------- what is refused, and what stands in batches
PROP = {
    "metadata": {"name": "prop"},
    "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ports": [{"name": "tcp", "port": 80}]},
}
QUOTA = "exceeded quota: few, requested: services.loadbalancers=1, used: services.loadbalancers={0}, limited: "
QUOTA += "services.loadbalancers={0}"


class Creating(Cluster):
    """An API server that keeps Services, and refuses some: by name, or all load balancers but so many."""

    def __init__(self, most: int | None = None, **refused: ApiError) -> None:
        self.context, self.most, self.refused = "x", most, refused
        self.services: dict[str, dict[str, Any]] = {}
        self.stood: list[set[str]] = []
        self.warnings: list[dict[str, Any]] = []

    def create(self, collection: str, manifest: dict[str, Any]) -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        if name in self.refused:
            raise self.refused[name]
        balanced = [each for each in self.services.values() if each["spec"]["type"] == "LoadBalancer"]
        if manifest["spec"]["type"] == "LoadBalancer" and self.most is not None and len(balanced) >= self.most:
            raise ApiError(403, "Forbidden", QUOTA.format(self.most), f"POST {collection}")
        vip = {"loadBalancer": {"ingress": [{"ip": f"192.0.2.{len(self.services) + 1}"}]}}
        spec = {"ipFamilies": ["IPv4"], "clusterIPs": ["10.96.0.1"], **manifest["spec"]}
        self.services[name] = {**manifest, "spec": spec, "status": vip}
        self.stood.append({n for n, each in self.services.items() if each["spec"]["type"] == "LoadBalancer"})
        return manifest

    def delete(self, path: str, *, grace: int | None = None) -> None:
        self.services.pop(path.rpartition("/")[2])

    def wait_gone(self, path: str, *, budget: float) -> bool:
        return path.rpartition("/")[2] not in self.services

    def list(self, collection: str, **query: str) -> list[dict[str, Any]]:
        if collection.endswith("/events"):
            assert query["fieldSelector"] == "involvedObject.kind=Service,involvedObject.name=prop,type=Warning"
            return self.warnings
        return list(self.services.values()) if collection.endswith("/services") else []

    def wait_for(self, *_: Any, **__: Any) -> dict[str, dict[str, Any]]:
        return {}


VIP_PATHS = [
    by_id(f"loadbalancer.{policy}.tcp.ipv4.outside-1-to-vip").subject.path for policy in ("local", "cluster", "unset")
]
NODE_PORT_PATH = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").subject.path


def arranged(
    cluster: Creating, monkeypatch: pytest.MonkeyPatch, parallel: int | None = None, balancer: Detected = NOTHING_FOUND
) -> Testbed:
    """A stage after it was arranged for these paths and a prop of another suite; pods are left out."""
    checks: list[Check] = [
        path_check for path_check in CHECKS if path_check.subject.path in [*VIP_PATHS, NODE_PORT_PATH]
    ]
    monkeypatch.setattr(Testbed, "pods_for", lambda *_: [])
    monkeypatch.setattr("esipp.testbed.testbed.wait_for_account", lambda *_: None)
    monkeypatch.setattr("esipp.testbed.testbed.network_policies.lift", lambda *_: [])
    monkeypatch.setattr("esipp.testbed.testbed.COUNTED", Budget("quota", 0.05, need=1, spacing=0.01))
    for name in ("_wait_for_pods", "_read_listeners", "_keep_identities"):
        monkeypatch.setattr(Testbed, name, lambda *_: None)
    made = Testbed(
        cluster, RUN, "image", topology().nodes, ROLES, hosted=False, parallel=parallel, balancer=balancer,
        batching=lambda most: batches(checks, {"continuity": [PROP]}, most),
    )  # fmt: skip
    cluster.create = _apart(cluster.create)
    made.set_up([*VIP_PATHS, NODE_PORT_PATH], Objects(services=(PROP,), announced=frozenset({"prop"})))
    return made


def _apart(create: Any) -> Any:
    """Only Services are kept."""
    return lambda collection, manifest: create(collection, manifest) if collection.endswith("/services") else manifest


NAMES = {path.object_name for path in VIP_PATHS}


def test_all_load_balancers_stand_at_once_where_nothing_limits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Creating()
    made = arranged(cluster, monkeypatch)
    assert cluster.stood[-1] == {*NAMES, "prop"} == set(made.vips)
    made.balance(frozenset())
    assert set(made.vips) == {*NAMES, "prop"}, "nothing is taken away"


def test_services_that_share_their_vips_have_ports_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    servicelb, metallb = provider("k3s-servicelb"), provider("metallb-l2")
    objects = {path.object_name: [path] for path in (*VIP_PATHS, NODE_PORT_PATH)}
    assert sharing([], objects) == sharing([metallb], objects) == sharing([servicelb, metallb], objects) == {}
    assert set(sharing([servicelb], objects)) == NAMES

    cluster = Creating()
    arranged(cluster, monkeypatch, balancer=Detected(Fact("k3s", "told"), (servicelb,)))
    ports = {
        name: {port["port"] for port in cluster.services[name]["spec"]["ports"]}
        for name in (*NAMES, NODE_PORT_PATH.object_name)
    }
    assert ports.pop(NODE_PORT_PATH.object_name) == {80}
    assert len(set.union(*ports.values())) == sum(map(len, ports.values())) > 1


def test_no_two_services_of_a_run_share_a_port_and_nodes_have_none_of_them() -> None:
    assert max(len({(each.port, each.protocol) for each in of}) for of in all_objects().values()) <= PORTS_OF_ONE
    runs = [f"0101-000000-{number:04x}" for number in range(2000)]
    own = len([name for name, of in all_objects().items() if balanced(of)])
    used = {
        first + more
        for run in runs
        for first in map(Numbers.of(run).shared, range(own))
        for more in range(PORTS_OF_ONE)
    }
    assert min(used) > 10_259  # above the ports of Kubernetes' own components
    assert max(used) < min(Numbers.of(run).base for run in runs)


def all_objects() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for check in CHECKS:
        for path in check.subject.paths:
            if path.service:
                found.setdefault(path.object_name, []).append(path)
    return found


def run_with_the_same_ports() -> str:
    runs = (f"0101-000000-{number:04x}" for number in range(0x10000))
    return next(run for run in runs if run != RUN and Numbers.of(run) == Numbers.of(RUN))


@pytest.mark.parametrize(("other", "stands"), [(run_with_the_same_ports(), False), (RUN, True), ("x", True)])
def test_two_runs_never_share_their_ports_on_nodes(other: str, stands: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the one's backends answer the other's probes, and at externalIPs one Service takes both."""
    monkeypatch.setattr(
        "esipp.testbed.testbed.of_runs", lambda _: [{"metadata": {"name": "n", "labels": {RUN_LABEL: other}}}]
    )
    if stands:
        assert arranged(Creating(), monkeypatch).services
    else:
        with pytest.raises(HarnessError, match=f"The run {other} uses the same ports on nodes"):
            arranged(Creating(), monkeypatch)


def test_an_account_that_may_not_list_namespaces_cannot_know_of_other_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Cluster) -> list[dict[str, Any]]:
        raise ApiError(403, "Forbidden", "namespaces is forbidden", "GET")

    monkeypatch.setattr("esipp.testbed.testbed.of_runs", refused)
    assert arranged(Creating(), monkeypatch).services


def test_only_so_many_stand_at_the_same_time_and_each_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Creating()
    made = arranged(cluster, monkeypatch, parallel=2)
    assert NODE_PORT_PATH.object_name in made.services
    turns = [*made.batches.windows, made.batches.scenarios["continuity"]]
    seen: set[str] = set()
    for names in turns:
        made.balance(names)
        assert set(made.vips) == names
        seen |= names
        for path in VIP_PATHS:
            target = made.address(path)
            assert isinstance(target, tuple) == (path.object_name in names), target
    assert seen == {*NAMES, "prop"}
    assert max(map(len, cluster.stood)) == 2


def test_a_quota_that_refuses_some_makes_batches_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Creating(most=3)
    made = arranged(cluster, monkeypatch)
    assert made.batches.most == 3
    assert not made.refused, "each of them has its turn"
    for names in (*made.batches.windows, made.batches.scenarios["continuity"]):
        made.balance(names)
        assert set(made.vips) == names
    assert max(map(len, cluster.stood)) == 3


def test_a_quota_that_lets_none_be_otherleaves_their_checks_undecided_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = arranged(Creating(most=0), monkeypatch)
    assert set(made.refused) == {*NAMES, "prop"}
    said = made.address(VIP_PATHS[0])
    assert isinstance(said, str)
    assert said.startswith(f"the API server refused the Service {VIP_PATHS[0].object_name}: exceeded quota: few")
    assert NODE_PORT_PATH.object_name in made.services
    assert made.obstacles["prop", Family.IPV4] == made.refused["prop"]


@pytest.mark.parametrize(
    "refused",
    [
        ApiError(403, "Forbidden", 'admission webhook "lb.example.com" denied the request: no load balancers', "POST"),
        ApiError(500, "InternalError", 'failed calling webhook "lb.example.com": no answer', "POST"),
        ApiError(422, "Invalid", "spec.ports: not here", "POST"),
    ],
    ids=str,
)
def test_what_is_refused_of_one_service_concerns_its_checks(refused: ApiError, monkeypatch: pytest.MonkeyPatch) -> None:
    made = arranged(Creating(prop=refused), monkeypatch)
    assert list(made.refused) == ["prop"]
    assert refused.message in made.refused["prop"]
    assert all(isinstance(made.address(path), tuple) for path in VIP_PATHS)
    with pytest.raises(HarnessError, match="refused the Service prop"):
        made.services["prop"]


@pytest.mark.parametrize(
    "refused",
    [
        ApiError(401, "Unauthorized", "Unauthorized", "POST"),
        ApiError(403, "Forbidden", 'services is forbidden: User "x" cannot create resource "services"', "POST"),
        ApiError(403, "Forbidden", "namespace esipp-x is being terminated", "POST"),
        ApiError(503, "ServiceUnavailable", "away", "POST"),
    ],
    ids=str,
)
def test_what_is_refused_of_everything_ends_the_run(refused: ApiError, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="Cannot set up the testbed"):
        arranged(Creating(prop=refused), monkeypatch)


def test_why_no_vip_came_is_known_by_its_last_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Creating()
    made = arranged(cluster, monkeypatch)
    assert "warning" not in made._why_no_vip(PROP, Family.IPV4)
    cluster.warnings = [
        {"reason": "Old", "message": "no", "lastTimestamp": "2026-01-01T00:00:00Z"},
        {"reason": "SyncLoadBalancerFailed", "message": "quota\nexceeded", "lastTimestamp": "2026-01-01T00:00:09Z"},
    ]
    assert made._why_no_vip(PROP, Family.IPV4).endswith("; its last warning: SyncLoadBalancerFailed: quota exceeded")


def test_an_agent_that_does_not_come_on_a_node_without_a_part_is_done_without() -> None:
    made = set_testbed()
    made.sampled = (*NODES, "spot")
    come = [("ADDED", there(AGENT, node, f"agent-{node}")) for node in NODES]
    made.cluster, made.pods = Watched([("ADDED", there(BACKEND, NODES[0], "backend")), *come]), {}
    made._wait_for_pods({"backend", *map(waited_for, made.sampled)})
    assert made.absent == {"spot": "node spot has no ready agent: it does not exist"}
    assert set(made.agents) == set(NODES)
