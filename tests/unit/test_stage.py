"""Where a path leads, and how load balancers are announced: what of the stage needs no cluster."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp import announcing, manifests
from esipp.agents import waited_for
from esipp.cluster import Cluster
from esipp.errors import HarnessError
from esipp.manifests import Numbers
from esipp.model import Family, Path, Protocol
from esipp.props import Props
from esipp.stage import Stage
from tests.unit.world import BACKEND_ADDRESSES, CELLS, NODES, ROLES, VIP, by_id, topology

RUN = "0101-000000-abcd"
NODE_PORT = 30123
NODE_IP = {name: node.internal for name, node in topology().nodes.items()}


def set_stage(*paths: Path) -> Stage:
    """A stage that stands, as far as these paths need it."""
    made = Stage(cast(Cluster, SimpleNamespace(context="x")), RUN, "image", topology().nodes, ROLES)
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
    path = by_id(identity).path
    return set_stage(path).address(path)


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
        path = by_id(f"external-ips.{policy}.tcp.ipv4.outside-1-to-external-ip-of-endpoint-node").path
        assert path.service is not None
        expected = (NODE_IP[NODES[0]][Family.IPV4], Numbers.of(RUN).external(path.service.policy))
        assert set_stage(path).address(path) == expected


def test_every_path_of_every_row_leads_somewhere_or_says_why() -> None:
    paths = sorted({path for cell in CELLS for path in cell.paths}, key=lambda path: path.key)
    made = set_stage(*paths)
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
    path = by_id("loadbalancer.local.tcp.ipv4.outside-1-to-vip").path
    made = set_stage(path)
    made.vips[path.object_name] = {}
    assert made.address(path) == "the service has no IPv4 VIP"
    made.obstacles[path.object_name, Family.IPV4] = "no VIP came"
    assert made.address(path) == "no VIP came"
    listener = by_id("nodeport.local.tcp.ipv4.outside-1-to-bare-node").controls[0].path
    assert made.address(listener) == f"there is no agent on node {NODES[1]}"


def test_source_ranges_are_the_addresses_of_the_clients_they_name() -> None:
    path = by_id("loadbalancer.local.source-ranges.tcp.ipv4.outside-1-to-vip").path
    made = set_stage(path)
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

    def watch(self, collection: str, **_: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        assert collection.endswith("/pods")
        yield from self.events


def waited(*events: tuple[str, dict[str, Any]]) -> Stage:
    """A stage with a backend, after it has waited for that and for its agents."""
    made = set_stage()
    made.cluster, made.pods = Watched(list(events)), {}
    made._wait_for_pods({"backend", *map(waited_for, made.sampled)})
    return made


BACKEND = manifests.echo_pod("backend", RUN, NODES[0], "image", raw=False)
AGENT = set_stage().daemon_set()["spec"]["template"]


def test_agents_are_known_by_their_node_whatever_they_are_called() -> None:
    agents = [("ADDED", there(AGENT, node, f"agent-{number}xyz")) for number, node in enumerate(NODES)]
    made = waited(("ADDED", there(BACKEND, NODES[0], "backend")), *agents)
    assert made.agents == {node: f"agent-{number}xyz" for number, node in enumerate(NODES)}
    assert set(made.pods) == {"backend", *made.agents.values()}
    made._keep_identities([BACKEND], Props())
    assert set(made._identities) == set(made.pods), "an agent that is replaced makes a window worth nothing"


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
    made = Stage(cast(Cluster, SimpleNamespace(context="x")), RUN, "image", topology().nodes, ROLES, hosted=False)
    assert made.sampled == ()


def test_addresses_are_in_the_order_of_the_services_own_families() -> None:
    given = {Family.IPV4: "192.0.2.1", Family.IPV6: "2001:db8::1"}
    service = {"spec": {"ipFamilies": ["IPv6", "IPv4"]}}
    assert list(announcing.in_order(service, given)) == [Family.IPV6, Family.IPV4]
    assert list(announcing.in_order({"spec": {"ipFamilies": ["IPv6"]}}, given)) == [Family.IPV6, Family.IPV4]
    assert announcing.in_order(service, {Family.IPV4: "192.0.2.1"}) == {Family.IPV4: "192.0.2.1"}
