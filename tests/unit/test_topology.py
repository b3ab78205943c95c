"""Addresses are addresses, and every one has an owner or none."""

from dataclasses import replace
from itertools import permutations

import pytest

from esipp.base.errors import HarnessError
from esipp.checks.model import BACKENDS, AddressClass, Backends, Family, Role, backends_of
from esipp.judging.observation import origin_of
from esipp.judging.topology import (
    EXCLUDED,
    Node,
    cast_roles,
    family_of,
    marked,
    parse_address,
    read_node,
    with_control_plane,
    without_shared,
)
from esipp.testbed.clients import second_addresses, tell_apart
from tests.unit.world import BACKEND_ADDRESSES, CHECKS, NODES, by_id, topology

PATH = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").subject.path


@pytest.mark.parametrize(
    ("one", "other"),
    [("::ffff:10.0.0.1", "10.0.0.1"), ("fd00:0:0::1", "fd00::1"), ("fe80::1%eth0", "fe80::1"), ("FD00::A", "fd00::a")],
)
def test_the_same_address_in_two_forms(one: str, other: str) -> None:
    assert parse_address(one) == parse_address(other)


def test_a_mapped_address_is_ipv4() -> None:
    assert family_of("::ffff:10.0.0.1") is Family.IPV4


@pytest.mark.parametrize("text", ["", "10.0.0", "10.0.0.1:80", "name"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear"):
        parse_address(text)


@pytest.mark.parametrize(
    ("seen", "wanted", "owner"),
    [
        ("172.18.0.101", AddressClass.CLIENT, "client outside-1"),
        ("172.18.0.102", AddressClass.OTHER, "client outside-2"),
        ("172.18.0.2", AddressClass.NODE, "node worker-a (the node dialled)"),
        ("10.244.3.1", AddressClass.NODE, "node worker-b"),
        ("10.244.4.6", AddressClass.POD, "client pod-on-other-node"),
        ("10.244.2.5", AddressClass.POD, "pod backend"),
        ("172.18.255.1", AddressClass.LOAD_BALANCER, "load balancer of loadbalancer-local-tcp"),
        ("203.0.113.1", AddressClass.OTHER, "unknown address"),
    ],
)
def test_who_owns_an_address(seen: str, wanted: AddressClass, owner: str) -> None:
    origin = origin_of(topology(), PATH, seen, "172.18.0.101")
    assert wanted in origin.classes
    assert owner in origin.owner


HAIRPIN = by_id("clusterip.tcp.ipv4.backend-to-clusterip").subject.path
HOST = by_id("nodeport.local.tcp.ipv4.host-on-endpoint-node-to-endpoint-node").subject.path


@pytest.mark.parametrize(
    ("seen", "classes"),
    [
        ("10.244.2.1", {AddressClass.HAIRPIN}),
        ("172.18.0.2", {AddressClass.HAIRPIN}),
        ("10.244.3.1", {AddressClass.NODE}),
        ("10.244.2.5", {AddressClass.CLIENT}),
        ("10.244.2.7", {AddressClass.POD}),
    ],
)
def test_a_backend_that_reaches_itself(seen: str, classes: set[AddressClass]) -> None:
    assert origin_of(topology(), HAIRPIN, seen, "10.244.2.5").classes == classes


def test_a_host_network_backend_is_its_node_and_no_pod() -> None:
    own = BACKEND_ADDRESSES["backend-host"][Family.IPV4]
    assert origin_of(topology(), PATH, own, "172.18.0.101").classes == {AddressClass.NODE}
    assert origin_of(topology(), HOST, own, own).classes == {AddressClass.CLIENT}


@pytest.mark.parametrize(
    ("seen", "classes"),
    [
        ("172.18.0.2", {AddressClass.CLIENT}),
        ("10.244.2.1", {AddressClass.CLIENT}),
        ("172.18.0.3", {AddressClass.NODE}),
        ("10.244.4.1", {AddressClass.NODE}),
        ("10.244.2.5", {AddressClass.POD}),
    ],
)
def test_a_host_process_is_any_address_of_its_own_node_and_of_no_other(seen: str, classes: set[AddressClass]) -> None:
    assert origin_of(topology(), HOST, seen, "172.18.0.2").classes == classes


def test_a_pod_is_not_its_node() -> None:
    path = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-other-node").subject.path
    assert origin_of(topology(), path, "10.244.4.1", "10.244.4.6").classes == {AddressClass.NODE}


def test_the_backend_as_a_client_is_named_once() -> None:
    assert origin_of(topology(), PATH, "10.244.2.5", "172.18.0.101").owner == "pod backend"
    assert origin_of(topology(), HAIRPIN, "10.244.2.5", "10.244.2.5").owner == "client backend"


def test_each_kind_of_backend_has_pods_of_its_own() -> None:
    assert set(BACKENDS) == set(Backends)
    assert backends_of(None) == BACKENDS[Backends.POD]
    named = {name for path_check in CHECKS for name in backends_of(path_check.subject.path.service)}
    assert named == set(topology().backends)


# ------------------------------------------------------------------------------------------ a second address of a node
def a_node(internal: str, *others: str) -> Node:
    addresses = frozenset(parse_address(each) for each in (internal, *others))
    return Node("n", {family_of(internal): internal}, addresses)


@pytest.mark.parametrize(
    ("internal", "others", "second"),
    [
        ("172.18.0.2", ["172.18.9.2", "10.244.0.1"], "172.18.9.2"),
        ("172.18.0.2", ["172.18.0.3", "172.18.9.2"], "172.18.0.3"),
        ("172.18.0.2", ["10.244.0.1", "127.0.0.2", "169.254.1.1"], None),
        ("172.18.0.2", [], None),
        ("172.18.0.2", ["fc00::1"], None),
        ("fc00:f853::2", ["fe80::1", "fc00:f853::9:2", "fd00:10:244::1"], "fc00:f853::9:2"),
        ("fc00:f853::2", ["2001:db8::1"], None),
    ],
)
def test_a_second_address_is_of_the_same_network(internal: str, others: list[str], second: str | None) -> None:
    assert second_addresses(a_node(internal, *others)).get(family_of(internal)) == second


def test_an_external_ip_is_no_second_address() -> None:
    there = replace(a_node("172.18.0.2", "172.18.64.2", "172.18.128.2"), external={Family.IPV4: "172.18.64.2"})
    assert second_addresses(there) == {Family.IPV4: "172.18.128.2"}


def node(name: str, **spec: object) -> dict[str, object]:
    ready = [{"type": "Ready", "status": "True"}]
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}]
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": ready, "addresses": addresses}}


def test_tainted_cordoned_and_unready_nodes_take_no_role() -> None:
    nodes = [read_node(node(name)) for name in NODES[:3]]
    nodes.append(read_node(node("a-tainted", taints=[{"key": "x", "effect": "NoSchedule"}])))
    nodes.append(read_node(node("a-cordoned", unschedulable=True)))
    unready = node("a-unready")
    unready["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    nodes.append(read_node(unready))
    assert cast_roles(nodes) == dict(zip(Role, NODES[:3], strict=False))


def test_each_node_has_each_role_beside_each_other_node_by_some_seed() -> None:
    nodes = [read_node(node(name)) for name in NODES[:3]]
    casts = [tuple(cast_roles(nodes, seed).values()) for seed in range(6)]
    assert set(casts) == set(permutations(NODES[:3]))
    assert [endpoint for endpoint, *_ in casts[:3]] == list(NODES[:3]), "seeds that follow each other take turns"
    assert cast_roles(nodes, 620165) == cast_roles(reversed(nodes), 620165)


def test_a_node_without_a_family_takes_a_role_only_if_others_are_too_few() -> None:
    nodes = [read_node(node(name)) for name in NODES[:4]]
    nodes[1:] = [replace(each, internal=each.internal | {Family.IPV6: "2001:db8::1"}) for each in nodes[1:]]
    assert {name for seed in range(24) for name in cast_roles(nodes, seed).values()} == set(NODES[1:4])
    assert {cast_roles(nodes[:3], seed)[Role.OTHER_NODE] for seed in range(24)} == {NODES[0]}


def test_a_node_excluded_from_load_balancers_has_no_endpoint_role_while_another_can() -> None:
    nodes = [read_node(node(name)) for name in NODES[:3]]
    nodes[0] = replace(nodes[0], marks=frozenset({EXCLUDED}))
    assert {cast_roles(nodes, seed)[Role.OTHER_NODE] for seed in range(24)} == {NODES[0]}
    assert {cast_roles(nodes[:2], seed)[Role.ENDPOINT_NODE] for seed in range(24)} == {NODES[1]}


def test_the_control_plane_is_another_node_by_another_seed_and_then_stays() -> None:
    names = [*NODES[:3], "cp-1", "cp-2", "cp-3"]
    nodes = [read_node(node(name)) for name in names]
    nodes[3:] = [replace(each, marks=frozenset({"control-plane"}), schedulable=False) for each in nodes[3:]]
    roles = cast_roles(nodes)
    cast = [with_control_plane(nodes, roles, seed) for seed in range(4)]
    assert [each[Role.CONTROL_PLANE] for each in cast] == ["cp-1", "cp-2", "cp-3", "cp-1"]
    assert marked(nodes, cast[1], "control-plane") == "cp-2", "whoever asks later, without the seed, gets the same node"
    assert with_control_plane(nodes[:3], roles, 1) == roles


def test_two_nodes_are_enough_and_one_is_not() -> None:
    nodes = [read_node(node(name)) for name in NODES[:2]]
    assert set(cast_roles(nodes).values()) == set(NODES[:2])
    with pytest.raises(ValueError, match="fewer than two"):
        cast_roles(nodes[:1])


def test_two_outside_clients_with_one_address_are_not_believed() -> None:
    stands = topology().stands
    tell_apart(stands.values())
    same = replace(stands["outside-2"], addresses=stands["outside-1"].addresses)
    with pytest.raises(HarnessError, match=r"outside-1 and outside-2 share the address 172\.18\.0\.101"):
        tell_apart([stands["outside-1"], same])


def test_an_address_that_several_nodes_hold_names_none() -> None:
    bridge = parse_address("172.17.0.1")
    nodes = {name: replace(n, addresses=n.addresses | {bridge}) for name, n in topology().nodes.items()}
    assert without_shared(nodes) == topology().nodes
