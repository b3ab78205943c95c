"""What Cilium does otherwise is known where Cilium is, a failure anywhere else, and no licence for what is worse."""

import pytest

from esipp.checks.check import Status
from esipp.checks.model import AddressClass, Claim, Outcome
from esipp.judging.observation import Observation
from tests.unit.world import CLIENT_ADDRESSES, GATEWAYS, NODES, VIP, answer, by_id, group, header, show, verdict

LOOPBACK = "169.254.42.1"
CILIUM = {
    "service-proxy": "cilium",
    "cilium.version": "1.18.6",
    "cilium.load-balancer-mode": "snat",
    "cilium.socket-balancing": "hosts only",
    "cilium.sockets-of-hosts": "balanced",
    "cilium.loopback.ipv4": LOOPBACK,
    "cilium.loopback.ipv6": "fe80::1",
}
CLIENT, NODE, OTHER = AddressClass.CLIENT, AddressClass.NODE, AddressClass.OTHER
DROPPED, REFUSED = AddressClass.DROPPED, AddressClass.REFUSED

KNOWN = [
    ("nodeport.cluster.tcp.ipv4.host-on-endpoint-node-to-bare-node", CLIENT, DROPPED),
    ("nodeport.cluster.tcp.ipv4.pod-on-other-node-to-other-node", CLIENT, DROPPED),
    ("nodeport.local.tcp.ipv4.host-on-other-node-to-bare-node", CLIENT, NODE),
    ("external-ips.cluster.tcp.ipv4.pod-on-endpoint-node-to-external-ip-of-bare-node", CLIENT, DROPPED),
    ("external-ips.cluster.tcp.ipv4.host-on-endpoint-node-to-external-ip-of-bare-node", NODE, DROPPED),
    ("external-ips.local.tcp.ipv4.pod-on-endpoint-node-to-external-ip-of-endpoint-node", REFUSED, NODE),
    ("loadbalancer.local.itp-local.tcp.ipv4.pod-on-other-node-to-vip", REFUSED, NODE),
    ("loadbalancer.cluster.tcp.ipv6.backend-to-vip", DROPPED, CLIENT),
]


@pytest.mark.parametrize(("name", "shown", "worse"), KNOWN, ids=[name for name, _, _ in KNOWN])
def test_what_cilium_does_is_known_of_it_alone(name: str, shown: AddressClass, worse: AddressClass) -> None:
    path_check = by_id(name)
    said = verdict(path_check, show(path_check.subject.path, shown), facts=CILIUM)
    assert said.status is Status.KNOWN
    assert "cilium" in said.references[0].url
    assert verdict(path_check, show(path_check.subject.path, shown)).status is Status.FAIL
    assert verdict(path_check, show(path_check.subject.path, worse), facts=CILIUM).status is Status.FAIL


@pytest.mark.parametrize(("version", "status"), [("1.18.6", Status.KNOWN), ("1.19.0", Status.FAIL)])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_ipv6_services_have_a_loopback_from_1_19_on(version: str, status: Status, protocol: str) -> None:
    path_check = by_id(f"clusterip.{protocol}.ipv6.backend-to-clusterip")
    shown = show(path_check.subject.path, DROPPED)
    if protocol == "udp":  # the backend answers itself, from its own address
        shown = Observation(path_check.subject.path.key, 0, Outcome.MISDIRECTED)
    assert verdict(path_check, shown, facts=CILIUM | {"cilium.version": version}).status is status


def test_a_vip_that_many_nodes_announce_may_show_both() -> None:
    path_check = by_id("loadbalancer.reference-ecmp.cluster.tcp.ipv4.outside-1-to-vip")
    both = (group(show(path_check.subject.path, CLIENT), 80), group(show(path_check.subject.path, NODE), 120))
    assert verdict(path_check, *both, facts=CILIUM).status is Status.KNOWN
    silent = (group(show(path_check.subject.path, CLIENT), 199), group(show(path_check.subject.path, DROPPED), 1))
    assert verdict(path_check, *silent, facts=CILIUM).status is not Status.KNOWN


def test_clients_outside_at_bare_nodes_are_core_under_cilium_as_well() -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.outside-1-to-bare-node")
    for shown in (CLIENT, NODE):
        assert verdict(path_check, show(path_check.subject.path, shown), facts=CILIUM).status is Status.FAIL


def test_a_proxy_reports_a_nodes_address_where_pods_are_masqueraded_on_their_way_out() -> None:
    path_check = by_id(
        "loadbalancer.reference-proxy-xff.local.several-ports.tcp.ipv4.pod-on-endpoint-node-to-vip.port-http"
    )
    node = GATEWAYS[NODES[0]][path_check.subject.path.family]
    assert node not in CLIENT_ADDRESSES[path_check.subject.path.client.name].values()
    shown = answer(path_check.subject.path, VIP[path_check.subject.path.family], **header(Claim.FORWARDED_FOR, node))
    assert verdict(path_check, shown, facts=CILIUM).status is Status.FAIL
    assert verdict(path_check, shown, facts=CILIUM | {"pod-to-outside.ipv4": "masqueraded"}).status is Status.PASS
    assert verdict(path_check, shown, facts=CILIUM | {"pod-to-outside.ipv6": "masqueraded"}).status is Status.FAIL


DSR = CILIUM | {"cilium.load-balancer-mode": "dsr"}
IN_DSR = [
    ("nodeport.cluster.tcp.ipv4.pod-on-other-node-to-bare-node", CLIENT),
    ("nodeport.unset.tcp.ipv4.pod-on-other-node-to-bare-node", CLIENT),
    ("nodeport.cluster.annotated-onlylocal.tcp.ipv4.outside-1-to-bare-node", CLIENT),
    ("nodeport.cluster.tcp.ipv4.pod-on-endpoint-node-to-bare-node.answers", DROPPED),
    ("nodeport.cluster.tcp.ipv4.pod-on-endpoint-node-to-bare-node", DROPPED),
    ("external-ips.cluster.tcp.ipv4.host-on-endpoint-node-to-external-ip-of-bare-node.answers", DROPPED),
]


@pytest.mark.parametrize(("name", "shown"), IN_DSR, ids=[name for name, _ in IN_DSR])
def test_what_only_dsr_does_is_known_of_it_alone(name: str, shown: AddressClass) -> None:
    path_check = by_id(name)
    assert verdict(path_check, show(path_check.subject.path, shown), facts=DSR).status is Status.KNOWN
    assert verdict(path_check, show(path_check.subject.path, shown), facts=CILIUM).status is Status.FAIL
    assert verdict(path_check, show(path_check.subject.path, OTHER), facts=DSR).status is Status.FAIL


HYBRID = CILIUM | {"cilium.load-balancer-mode": "hybrid"}


@pytest.mark.parametrize(
    ("name", "shown"), [pair for pair in IN_DSR if "annotated" not in pair[0]], ids=lambda each: str(each)
)
def test_hybrid_mode_is_dsr_for_tcp_alone(name: str, shown: AddressClass) -> None:
    path_check = by_id(name)
    assert verdict(path_check, show(path_check.subject.path, shown), facts=HYBRID).status is Status.KNOWN
    over_udp = by_id(name.replace(".tcp.", ".udp."))
    assert verdict(over_udp, show(over_udp.subject.path, shown), facts=DSR).status is Status.KNOWN
    assert verdict(over_udp, show(over_udp.subject.path, shown), facts=HYBRID).status is Status.FAIL


def test_hybrid_mode_is_snat_for_udp_alone() -> None:
    name = "external-ips.cluster.{}.ipv4.host-on-endpoint-node-to-external-ip-of-bare-node"
    for protocol, status in (("udp", Status.KNOWN), ("tcp", Status.FAIL)):
        path_check = by_id(name.format(protocol))
        assert verdict(path_check, show(path_check.subject.path, NODE), facts=HYBRID).status is status


def test_answers_that_are_not_turned_back_are_a_defect_of_dsr_before_1_19() -> None:
    path_check = by_id("nodeport.cluster.udp.ipv4.pod-on-endpoint-node-to-bare-node.answers")
    misdirected = Observation(path_check.subject.path.key, 0, Outcome.MISDIRECTED)
    assert verdict(path_check, misdirected, facts=DSR).status is Status.KNOWN
    assert verdict(path_check, misdirected, facts=DSR | {"cilium.version": "1.19.0"}).status is Status.FAIL
    assert verdict(path_check, misdirected, facts=CILIUM).status is Status.FAIL


def test_a_service_without_a_policy_that_keeps_the_source_is_known_of_dsr_alone() -> None:
    path_check = by_id("nodeport.unset.tcp.ipv4.outside-1-to-bare-node")
    assert verdict(path_check, show(path_check.subject.path, CLIENT), facts=DSR).status is Status.KNOWN
    assert verdict(path_check, show(path_check.subject.path, CLIENT)).status is Status.FAIL
    assert verdict(path_check, show(path_check.subject.path, DROPPED), facts=DSR).status is Status.FAIL


def test_a_pod_that_reaches_itself_sees_the_very_loopback_address_of_cilium_s_configuration() -> None:
    path_check = by_id("loadbalancer.cluster.tcp.ipv4.backend-to-vip")
    assert verdict(path_check, answer(path_check.subject.path, LOOPBACK), facts=CILIUM).status is Status.KNOWN
    assert verdict(path_check, show(path_check.subject.path, OTHER), facts=CILIUM).status is Status.FAIL, (
        "an unknown address"
    )
    assert verdict(path_check, answer(path_check.subject.path, LOOPBACK)).status is Status.FAIL, "no Cilium"
    found = CILIUM | {"cilium.loopback.ipv4": "169.254.7.7"}
    assert verdict(path_check, answer(path_check.subject.path, LOOPBACK), facts=found).status is Status.FAIL, (
        "not the one it is configured with"
    )
    newer = by_id("loadbalancer.cluster.tcp.ipv6.backend-to-vip")
    assert (
        verdict(newer, answer(newer.subject.path, "fe80::1"), facts=CILIUM | {"cilium.version": "1.19.0"}).status
        is Status.KNOWN
    )


BESIDE = {
    "service-proxy": "kube-proxy",
    "network-add-on": "cilium",
    "cilium.version": "1.18.6",
    "cilium.kube-proxy-replacement": "false",
    "cilium.loopback.ipv4": LOOPBACK,
}


def test_beside_kube_proxy_a_pod_that_reaches_itself_at_a_clusterip_sees_ciliums_loopback() -> None:
    cluster_ip, vip = (
        by_id("clusterip.tcp.ipv4.backend-to-clusterip"),
        by_id("loadbalancer.cluster.tcp.ipv4.backend-to-vip"),
    )
    assert verdict(cluster_ip, answer(cluster_ip.subject.path, LOOPBACK), facts=BESIDE).status is Status.KNOWN
    assert verdict(vip, answer(vip.subject.path, LOOPBACK), facts=BESIDE).status is Status.FAIL, "kube-proxy's"
    elsewhere = BESIDE | {"network-add-on": "kindnet"}
    assert verdict(cluster_ip, answer(cluster_ip.subject.path, LOOPBACK), facts=elsewhere).status is Status.FAIL


@pytest.mark.parametrize(("version", "status"), [("1.18.6", Status.FAIL), ("1.19.1", Status.KNOWN)])
def test_beside_kube_proxy_pods_without_a_local_endpoint_do_not_reach_local_vips_from_1_19_on(
    version: str, status: Status
) -> None:
    check = by_id("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip")
    facts = BESIDE | {"cilium.version": version}
    assert verdict(check, show(check.subject.path, REFUSED), facts=facts).status is status
    host = by_id("loadbalancer.local.tcp.ipv4.host-on-other-node-to-vip")
    assert verdict(host, show(host.subject.path, REFUSED), facts=facts).status is Status.FAIL


@pytest.mark.parametrize(
    "name",
    [
        "nodeport.cluster.tcp.ipv4.pod-on-other-node-to-bare-node",
        "nodeport.local.tcp.ipv4.pod-on-other-node-to-bare-node",
    ],
)
def test_pods_are_known_only_where_their_sockets_are_balanced(name: str) -> None:
    path_check = by_id(name)
    seen = show(path_check.subject.path, CLIENT)
    assert verdict(path_check, seen, facts=CILIUM).status is Status.FAIL
    assert (
        verdict(path_check, seen, facts=CILIUM | {"cilium.socket-balancing": "hosts and pods"}).status is Status.KNOWN
    )


def test_host_processes_are_known_only_where_their_sockets_are_balanced() -> None:
    path_check = by_id("nodeport.cluster.tcp.ipv4.host-on-endpoint-node-to-bare-node")
    facts = CILIUM | {"cilium.sockets-of-hosts": "not balanced"}
    assert verdict(path_check, show(path_check.subject.path, CLIENT), facts=facts).status is Status.FAIL
