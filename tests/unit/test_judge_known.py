"""What cannot be asked on a cluster, and what differs there for a known reason."""

import pytest

from esipp.checks.check import Feature, Status
from esipp.checks.model import AddressClass, EntryKind, Family
from tests.unit.world import (
    CHECKS,
    FEATURES,
    NODE_ADDRESSES,
    NODES,
    answer,
    by_id,
    show,
    verdict,
)

OUTSIDE_LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
OUTSIDE_BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"


def test_a_missing_feature_is_unsupported_by_name() -> None:
    said = verdict(by_id(OUTSIDE_LOCAL), features={**FEATURES, "family.ipv4": Feature(False, "single-stack IPv6")})
    assert said.status is Status.UNSUPPORTED
    assert "single-stack IPv6" in said.reason
    assert not said.left_out


def test_a_feature_that_we_lack_makes_a_check_left_out() -> None:
    ours = {**FEATURES, "vantage.outside": Feature(False, "no client outside", ours=True)}
    said = verdict(by_id(OUTSIDE_LOCAL), features=ours)
    assert said.status is Status.UNSUPPORTED
    assert said.left_out


def test_a_feature_nobody_looked_for_is_missing() -> None:
    assert verdict(by_id(OUTSIDE_LOCAL), features={}).status is Status.UNSUPPORTED


def test_an_obstacle_makes_a_check_and_those_it_controls_inconclusive() -> None:
    path_check = by_id("loadbalancer.local.source-ranges.tcp.ipv4.outside-1-to-vip")
    said = verdict(path_check, obstacles={path_check.subject.path.key: "no VIP within 45 s"})
    assert (said.status, said.reason) == (Status.INCONCLUSIVE, "no VIP within 45 s")
    leaning = [
        each for each in CHECKS if path_check.subject.path in {control.path for control in each.subject.controls}
    ]
    assert leaning
    for each in leaning:
        assert verdict(each, obstacles={path_check.subject.path.key: "no VIP"}).status is Status.INCONCLUSIVE


def test_an_override_makes_a_difference_known_only_where_its_fact_holds() -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-endpoint-node")
    listener = path_check.subject.controls[-1].path
    masqueraded = {"pod-to-node.ipv4": "masqueraded"}
    other, also = show(path_check.subject.path, AddressClass.NODE), [show(listener, AddressClass.NODE)]
    own = answer(path_check.subject.path, NODE_ADDRESSES[NODES[2]][Family.IPV4])
    assert verdict(path_check, own, also=also).status is Status.FAIL
    said = verdict(path_check, own, also=also, facts=masqueraded)
    assert said.status is Status.KNOWN
    assert said.reason
    assert said.references
    assert verdict(path_check, other, also=also, facts=masqueraded).status is Status.FAIL, "another node's address"


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("v1.32.13", Status.KNOWN),
        ("v1.33.5", Status.KNOWN),
        ("v1.33.6", Status.FAIL),
        ("v1.33.13", Status.FAIL),
        ("v1.9.0", Status.KNOWN),
        ("v1.34.0", Status.FAIL),
        ("v1.36.3", Status.FAIL),
        ("v2.0.0", Status.FAIL),
        ("v1.33.1-gke.100+x", Status.KNOWN),
        ("", Status.FAIL),
        ("unknown", Status.FAIL),
    ],
)
def test_an_override_ends_with_the_version_that_mended_it(version: str, status: Status) -> None:
    path_check = by_id("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip")
    facts = {"proxy-mode": "nftables", "kubernetes": "v1.20.0", "kube-proxy-version": version}
    assert verdict(path_check, show(path_check.subject.path, AddressClass.DROPPED), facts=facts).status is status


def test_a_known_difference_is_no_licence_for_anything_else() -> None:
    path_check = by_id("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip")
    facts = {"proxy-mode": "nftables", "kube-proxy-version": "v1.33.0"}
    assert verdict(path_check, show(path_check.subject.path, AddressClass.OTHER), facts=facts).status is Status.FAIL


# -------------------------------------------------------------------------------------------- differences, one by one
def test_ipvs_falls_back_at_cluster_ips_and_nowhere_else() -> None:
    facts = {"proxy-mode": "ipvs"}
    for client in ("pod-on-other-node", "host-on-other-node"):
        path_check = by_id(f"clusterip.itp-local.tcp.ipv4.{client}-to-clusterip")
        assert verdict(path_check, show(path_check.subject.path, AddressClass.CLIENT)).status is Status.FAIL
        assert (
            verdict(path_check, show(path_check.subject.path, AddressClass.CLIENT), facts=facts).status is Status.KNOWN
        )
    path_check = by_id("nodeport.local.itp-local.tcp.ipv4.outside-1-to-bare-node")
    for shown in (AddressClass.CLIENT, AddressClass.NODE):
        assert verdict(path_check, show(path_check.subject.path, shown), facts=facts).status is Status.FAIL


def test_no_silent_check_at_a_node_port_may_answer_in_ipvs_mode() -> None:
    node_ports = [
        path_check
        for path_check in CHECKS
        if path_check.subject.is_negative and path_check.subject.path.entry.kind is EntryKind.NODE_PORT
    ]
    assert node_ports
    for path_check in node_ports:
        shown = show(path_check.subject.path, AddressClass.CLIENT)
        assert verdict(path_check, shown, facts={"proxy-mode": "ipvs"}).status is Status.FAIL, path_check.id


def test_without_a_way_to_detect_local_traffic_pods_have_no_short_circuit() -> None:
    facts = {"detect-local": "none"}
    pod, host = (by_id(f"loadbalancer.local.tcp.ipv4.{who}-on-other-node-to-vip") for who in ("pod", "host"))
    assert verdict(pod, show(pod.subject.path, AddressClass.DROPPED), facts=facts).status is Status.KNOWN
    assert verdict(pod, show(pod.subject.path, AddressClass.NODE), facts=facts).status is Status.FAIL
    assert verdict(host, show(host.subject.path, AddressClass.DROPPED), facts=facts).status is Status.FAIL
    near = by_id("loadbalancer.local.tcp.ipv4.pod-on-endpoint-node-to-vip")
    assert verdict(near, show(near.subject.path, AddressClass.DROPPED), facts=facts).status is Status.FAIL


@pytest.mark.parametrize("policy", ["cluster", "unset"])
def test_a_source_that_is_kept_under_cluster_is_known_also_where_cluster_is_the_default(policy: str) -> None:
    kept = by_id(f"nodeport.{policy}.tcp.ipv4.outside-1-to-endpoint-node")
    assert verdict(kept, show(kept.subject.path, AddressClass.CLIENT)).status is Status.KNOWN
    by_pod = by_id(f"nodeport.{policy}.tcp.ipv4.pod-on-other-node-to-endpoint-node")
    assert verdict(by_pod, show(by_pod.subject.path, AddressClass.CLIENT)).status is Status.FAIL
