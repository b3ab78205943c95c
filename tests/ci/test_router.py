"""The router that MetalLB announces to: its sessions, how it is run, and how MetalLB is configured for it."""

import ipaddress
from itertools import pairwise
from pathlib import Path

import pytest

from ci import metallb, router
from ci.step import SetupError
from tests.ci.test_load_balancer import options_of, there

STATUS = """BIRD 2.0.12 ready.
Name       Proto      Table      State  Since         Info
device1    Device     ---        up     14:17:35.224
kernel1    Kernel     master4    up     14:17:35.224
node_esipp_worker BGP        ---        up     14:17:36.139  Established
node_esipp_worker2 BGP        ---        start  14:17:36.163  Passive
"""  # as bird2 2.0.12 of Debian says it


def test_every_node_has_a_session_by_its_ipv4_address() -> None:
    text = router.config({"esipp-worker": ["fd00::3", "172.18.0.3"], "esipp-worker2": ["172.18.0.4"]})
    assert "protocol bgp node_esipp_worker from node { neighbor 172.18.0.3 as 64512; }" in text
    assert "protocol bgp node_esipp_worker2 from node { neighbor 172.18.0.4 as 64512; }" in text
    assert text.count("{") == text.count("}")


def test_a_node_without_ipv4_is_refused() -> None:
    with pytest.raises(SetupError, match="no IPv4 address"):
        router.config({"esipp-worker": ["fd00::3"]})


def test_sessions_that_are_up_are_distinguished_from_those_that_are_not() -> None:
    assert router.established(STATUS) == {"node_esipp_worker"}


def test_the_pool_is_what_is_routed_and_nothing_else() -> None:
    first, last = (ipaddress.ip_address(each) for each in router.POOL.split("-"))
    routed = ipaddress.ip_network(router.ROUTED)
    assert first in routed
    assert last in routed
    assert f"{router.ROUTED}{{32,32}}" in router.config({})


def test_it_forwards_without_telling_clients_to_by_pass_it() -> None:
    command = router.container(there(), "router:1", Path("/here"))
    assert options_of(command, "--cap-drop") == ["ALL"]
    sysctls = dict(each.split("=") for each in options_of(command, "--sysctl"))
    assert sysctls["net.ipv4.fib_multipath_hash_policy"] == "3"
    assert sysctls["net.ipv4.fib_multipath_hash_fields"] == str(0x37)
    assert sysctls["net.ipv4.conf.all.send_redirects"] == sysctls["net.ipv4.conf.eth0.send_redirects"] == "0"
    assert ("--volume", "/here:/router:ro") in list(pairwise(command))


def test_metallb_peers_with_the_router_or_answers_itself() -> None:
    by_bgp = {str(each["kind"]): each for each in metallb.objects([router.POOL], "172.18.0.9")}
    assert list(by_bgp) == ["IPAddressPool", "BGPPeer", "BGPAdvertisement"]
    assert by_bgp["BGPPeer"]["spec"] == {
        "myASN": 64512, "peerASN": 64512, "peerAddress": "172.18.0.9", "holdTime": "9s"
    }  # fmt: skip
    assert [each["kind"] for each in metallb.objects(["172.18.255.1-172.18.255.9"])] == [
        "IPAddressPool",
        "L2Advertisement",
    ]
