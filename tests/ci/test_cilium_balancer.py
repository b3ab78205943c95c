"""Cilium's own load balancer: its pool, and how it is announced."""

from typing import Any

import pytest

from ci import cilium_balancer, router

RANGES = [
    "172.18.255.155-172.18.255.254",
    "fc00:f853:ccd:e793:ffff:ffff:ffff:ff9b-fc00:f853:ccd:e793:ffff:ffff:ffff:fffe",
]


def made(version: str = "v1.18.6", peer: str = "") -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in cilium_balancer.objects(version, [router.POOL] if peer else RANGES, peer)}


def test_it_answers_for_its_addresses_itself_on_nodes_that_load_balancers_may_use() -> None:
    found = made()
    assert list(found) == ["CiliumLoadBalancerIPPool", "CiliumL2AnnouncementPolicy"]
    first, second = found["CiliumLoadBalancerIPPool"]["spec"]["blocks"]
    assert first == {"start": "172.18.255.155", "stop": "172.18.255.254"}
    assert second["start"].startswith("fc00:")
    policy = found["CiliumL2AnnouncementPolicy"]["spec"]
    assert policy["loadBalancerIPs"] is True
    assert "externalIPs" not in policy, "nodes answer for these: they are addresses of nodes"
    (unlabelled,) = policy["nodeSelector"]["matchExpressions"]
    assert unlabelled == {"key": cilium_balancer.SPEAKERS.removeprefix("!"), "operator": "DoesNotExist"}


def test_it_peers_with_the_router_and_announces_all_services() -> None:
    found = made(peer="172.18.0.9")
    assert list(found) == [
        "CiliumLoadBalancerIPPool",
        "CiliumBGPClusterConfig",
        "CiliumBGPPeerConfig",
        "CiliumBGPAdvertisement",
    ]
    (instance,) = found["CiliumBGPClusterConfig"]["spec"]["bgpInstances"]
    (peer,) = instance["peers"]
    assert (instance["localASN"], peer["peerASN"], peer["peerAddress"]) == (router.AS, router.AS, "172.18.0.9")
    assert peer["peerConfigRef"] == {"name": found["CiliumBGPPeerConfig"]["metadata"]["name"]}
    timers = found["CiliumBGPPeerConfig"]["spec"]["timers"]
    assert (timers["holdTimeSeconds"], timers["keepAliveTimeSeconds"]) == (router.HOLD_SECONDS, 3)
    (family,) = found["CiliumBGPPeerConfig"]["spec"]["families"]
    labels = found["CiliumBGPAdvertisement"]["metadata"]["labels"]
    assert family["advertisements"]["matchLabels"].items() <= labels.items()
    (service,) = found["CiliumBGPAdvertisement"]["spec"]["advertisements"]
    assert service["service"] == {"addresses": ["LoadBalancerIP"]}
    assert service["selector"], "without a selector, Cilium announces no Service"


@pytest.mark.parametrize(("version", "api"), [("v1.15.19", "v2alpha1"), ("v1.18.6", "v2"), ("v1.20.2", "v2")])
def test_objects_are_of_the_api_that_the_version_serves(version: str, api: str) -> None:
    assert made(version)["CiliumLoadBalancerIPPool"]["apiVersion"] == f"cilium.io/{api}"
    assert made(version)["CiliumL2AnnouncementPolicy"]["apiVersion"] == "cilium.io/v2alpha1"
