"""Addresses are addresses, and every one has an owner or none."""

from dataclasses import replace

import pytest

from esipp.clients import tell_apart
from esipp.errors import HarnessError
from esipp.model import AddressClass, Family, Role
from esipp.topology import cast_roles, family_of, parse_address, read_node, without_shared
from tests.unit.world import NODES, by_id, topology

PATH = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").path


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
        ("172.18.255.1", AddressClass.LOAD_BALANCER, "load balancer of loadbalancer-local"),
        ("203.0.113.1", AddressClass.OTHER, "nobody we know"),
    ],
)
def test_who_owns_an_address(seen: str, wanted: AddressClass, owner: str) -> None:
    origin = topology().origin(PATH, seen, "172.18.0.101")
    assert wanted in origin.classes
    assert owner in origin.owner


def node(name: str, **spec: object) -> dict[str, object]:
    ready = [{"type": "Ready", "status": "True"}]
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}]
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": ready, "addresses": addresses}}


def test_tainted_cordoned_and_unready_nodes_take_no_role() -> None:
    nodes = [read_node(node(name)) for name in NODES]
    nodes.append(read_node(node("a-tainted", taints=[{"key": "x", "effect": "NoSchedule"}])))
    nodes.append(read_node(node("a-cordoned", unschedulable=True)))
    unready = node("a-unready")
    unready["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    nodes.append(read_node(unready))
    assert cast_roles(nodes) == dict(zip(Role, NODES, strict=True))


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
