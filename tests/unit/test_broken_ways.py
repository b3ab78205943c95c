"""Which node sends a connection on, and the commands by which rules come and go."""

import pytest

from esipp.checks.catalog import all_path_checks
from esipp.checks.model import Family, Role
from tests.broken.nodes import Rule, _has_its_vips, script, take_away
from tests.broken.ways import from_the_node, into_pods, rests_on, sent_on_by

CHECKS = {path_check.id: path_check for path_check in all_path_checks()}
PROXIED = "loadbalancer.reference-proxy.local.several-ports.tcp.ipv4.host-on-other-node-to-vip"


@pytest.mark.parametrize(
    ("check", "node"),
    [
        ("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", Role.ENDPOINT_NODE),
        ("nodeport.cluster.tcp.ipv4.pod-on-other-node-to-bare-node", Role.BARE_NODE),
        ("clusterip.tcp.ipv4.pod-on-other-node-to-clusterip", Role.OTHER_NODE),
        ("loadbalancer.local.tcp.ipv4.host-on-other-node-to-vip", Role.OTHER_NODE),
        ("loadbalancer.local.tcp.ipv4.outside-1-to-vip", Role.ENDPOINT_NODE),
        ("loadbalancer.cluster.tcp.ipv4.outside-1-to-vip", None),
        (PROXIED, Role.ENDPOINT_NODE),
        ("pod-ip.tcp.ipv4.pod-on-other-node-to-pod-ip", None),
    ],
)
def test_who_sends_a_connection_on(check: str, node: Role | None) -> None:
    assert sent_on_by(CHECKS[check].subject.path) is node


def test_a_host_process_is_not_a_pod_and_a_backend_on_the_host_network_is_in_no_pod_network() -> None:
    host = CHECKS["clusterip.tcp.ipv4.host-on-other-node-to-clusterip"].subject.path
    assert from_the_node(host, Role.OTHER_NODE)
    assert not from_the_node(host, Role.ENDPOINT_NODE)
    assert not from_the_node(CHECKS["clusterip.tcp.ipv4.pod-on-other-node-to-clusterip"].subject.path, Role.OTHER_NODE)
    assert into_pods(host)
    assert not into_pods(CHECKS["nodeport.local.host-network.tcp.ipv4.outside-1-to-endpoint-node"].subject.path)


@pytest.mark.parametrize(
    ("ingress", "there"),
    [([], False), ([{"ip": "192.0.2.1"}], False), ([{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], True),
     ([{"hostname": "web.lb.esipp.example"}], True)],
)  # fmt: skip
def test_a_service_has_its_vips_by_an_address_a_family_or_by_one_hostname(
    ingress: list[dict[str, str]], there: bool
) -> None:
    spec = {"type": "LoadBalancer", "ipFamilies": ["IPv4", "IPv6"]}
    assert _has_its_vips({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}}) is there


def test_a_check_rests_on_the_paths_of_its_controls_not_on_its_own() -> None:
    own = CHECKS["nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"]
    silent = CHECKS["nodeport.local.tcp.ipv4.outside-1-to-bare-node"]
    rests = rests_on(lambda path: path == own.subject.path)
    assert rests(silent)
    assert not rests(own)


def test_rules_of_a_table_come_and_go_by_one_command() -> None:
    rules = [
        Rule(Family.IPV4, "POSTROUTING", ("--source", "192.0.2.1", "--jump", "MASQUERADE")),
        Rule(Family.IPV4, "PREROUTING", ("!", "--source", "192.0.2.1", "--jump", "ACCEPT")),
        Rule(Family.IPV6, "OUTPUT", ("--jump", "DROP"), table="mangle"),
    ]
    said = script(rules, "--insert", "esipp-broken-1")
    assert said.count("iptables-restore") == 1
    assert said.count("ip6tables-restore") == 1
    assert said.count("--comment esipp-broken-1") == 3
    assert said.index("192.0.2.1 --jump MASQUERADE") < said.index("--source 192.0.2.1 --jump ACCEPT")
    assert script([], "--insert", "esipp-broken-1") == ""


def test_a_last_rule_comes_after_all_others_of_its_chain() -> None:
    rules = [Rule(Family.IPV4, "PREROUTING", ("--jump", "CONNMARK"), last=True)]
    assert "--append PREROUTING" in script(rules, "--insert", "x")
    assert "--delete PREROUTING" in script(rules, "--delete", "x")


def test_what_is_taken_away_is_looked_for_in_every_table_and_family() -> None:
    said = take_away("esipp-broken-1")
    for program in ("iptables", "ip6tables"):
        for table in ("nat", "mangle"):
            assert f"{program} --wait -t {table} -S | grep -- esipp-broken-1" in said
    assert "nft list tables | grep -- esipp-broken-1" in said
