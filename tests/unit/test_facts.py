"""Facts are read as kube-proxy reads its own configuration, and say how they were decided."""

from dataclasses import replace
from typing import Any

import pytest

from esipp.checks.model import AddressClass, EntryKind, Family, Vantage
from esipp.preflight.facts import PROXY_CONFIG, listener_facts, read_proxy_config
from tests.unit.world import CHECKS, show, topology


def values(config: dict[str, Any]) -> dict[str, str]:
    return {name: fact.value for name, fact in read_proxy_config(config).items()}


def test_what_is_left_out_has_kube_proxys_default() -> None:
    facts = read_proxy_config({})
    assert {name: fact.value for name, fact in facts.items()} == {
        "proxy-mode": "iptables",
        "detect-local": "none",
        "node-port-addresses": "all",
        "localhost-node-ports": "true",
        "masquerade-all": "false",
    }
    assert facts["proxy-mode"].decided == f"{PROXY_CONFIG}, not set: the default"


@pytest.mark.parametrize("empty", [{"mode": "", "nodePortAddresses": None}, {"mode": None, "nodePortAddresses": []}])
def test_an_empty_setting_is_left_out(empty: dict[str, Any]) -> None:
    assert values(empty) == values({})


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"mode": "nftables"}, {"proxy-mode": "nftables", "node-port-addresses": "primary"}),
        ({"mode": "nftables", "nodePortAddresses": ["10.0.0.0/8"]}, {"node-port-addresses": "10.0.0.0/8"}),
        ({"mode": "nftables"}, {"localhost-node-ports": "false"}),
        ({"iptables": {"localhostNodePorts": False}}, {"localhost-node-ports": "false"}),
        ({"nodePortAddresses": ["primary"]}, {"node-port-addresses": "primary"}),
        ({"clusterCIDR": "10.244.0.0/16"}, {"detect-local": "ClusterCIDR"}),
        ({"detectLocalMode": "ClusterCIDR", "clusterCIDR": ""}, {"detect-local": "none"}),
        ({"detectLocalMode": "NodeCIDR"}, {"detect-local": "NodeCIDR"}),
        ({"iptables": {"masqueradeAll": True}}, {"masquerade-all": "true"}),
        ({"mode": "nftables", "nftables": {"masqueradeAll": True}}, {"masquerade-all": "true"}),
        ({"mode": "nftables", "iptables": {"masqueradeAll": True}}, {"masquerade-all": "false"}),
        ({"mode": "ipvs", "ipvs": None}, {"proxy-mode": "ipvs", "masquerade-all": "false"}),
    ],
)
def test_settings_that_change_the_source(config: dict[str, Any], wanted: dict[str, str]) -> None:
    found = values(config)
    assert {name: found[name] for name in wanted} == wanted


def test_how_it_was_decided_names_the_pod_cidr() -> None:
    assert "10.244.0.0/16" in read_proxy_config({"clusterCIDR": "10.244.0.0/16"})["detect-local"].decided


LISTENERS = {
    path.family: path
    for path_check in CHECKS
    for path in path_check.subject.paths
    if path.entry.kind is EntryKind.NODE_LISTENER
    and path.client.vantage is Vantage.POD
    and path.client.role is not path.entry.role
}


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ([AddressClass.CLIENT], "unchanged"),
        ([AddressClass.NODE], "masqueraded"),
        ([AddressClass.CLIENT, AddressClass.NODE], "mixed"),
    ],
)
def test_reference_listeners_tell_what_happens_between_pods_and_nodes(shown: list[AddressClass], value: str) -> None:
    paths = LISTENERS.values()
    seen = {path.key: [show(path, what) for what in shown] for path in paths}
    facts = listener_facts(seen, paths, topology())
    assert {name: fact.value for name, fact in facts.items()} == {
        f"pod-to-node.{family.value.lower()}": value for family in LISTENERS
    }


def test_what_stays_on_a_node_tells_nothing_of_the_way_to_others() -> None:
    away = LISTENERS[Family.IPV4]
    client = replace(away.client, name="pod-on-endpoint-node", role=away.entry.role)
    at_home = replace(away, client=client)
    seen = {away.key: [show(away, AddressClass.NODE)], at_home.key: [show(at_home, AddressClass.CLIENT)]}
    assert listener_facts(seen, (away, at_home), topology())["pod-to-node.ipv4"].value == "masqueraded"


def test_silent_listeners_tell_nothing() -> None:
    seen = {path.key: [show(path, AddressClass.DROPPED)] for path in LISTENERS.values()}
    assert listener_facts(seen, LISTENERS.values(), topology()) == {}
