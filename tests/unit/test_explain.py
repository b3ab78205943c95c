"""A row in prose and as a picture, both from the row itself."""

import pytest

from esipp.explain import WIDTH, explain
from esipp.model import AddressClass
from esipp.picture import ARROW, BLOCKED, picture
from tests.unit.world import CELLS, by_id

PROXIED = "loadbalancer.reference-proxy-xff.local.several-ports.tcp.ipv4.outside-1-to-vip.port-http"


def test_every_row_fits_the_width_but_for_its_id() -> None:
    for cell in CELLS:
        for line in explain(cell).splitlines()[2:]:
            assert len(line) <= WIDTH or len(line.split()) <= 3, line


def test_every_picture_begins_at_the_client_and_ends_at_a_backend() -> None:
    for cell in CELLS:
        drawn = picture(cell)
        assert "backend" in " ".join(drawn)
        widths = {len(line) for line in drawn[:1] + drawn[-1:] if line.startswith("+")}
        assert len(widths) == 1 or len(drawn) > 4, "boxes are closed"
        assert (BLOCKED.rstrip() + "  |" in drawn[1]) == cell.is_negative
        assert ARROW in drawn[1] or len(drawn[1].split("|")) == 5


WORDS = [
    ("nodeport.local.tcp.ipv4.outside-1-to-bare-node", ["outside the cluster", "on the bare node", "-x", "no answer"]),
    ("nodeport.local.tcp.ipv4.pod-on-other-node-to-other-node", ["on the client's own node"]),
    ("clusterip.tcp.ipv4.backend-to-clusterip", ["and back to itself", "hairpin", "backend's own node"]),
    (PROXIED, ["a proxy", "X-Forwarded-For (its last entry", "HTTP requests", "loadBalancerClass reference-proxy-xff"]),
    (PROXIED + ".claims-x-forwarded-for", ["the client claims another address in X-Forwarded-For"]),
    (
        "nodeport.local.pair.affinity.tcp.ipv4.outside-1-to-endpoint-node",
        ["two backend pods", "one and the same backend", "sessionAffinity ClientIP", "from several backends"],
    ),
    ("nodeport.local.udp.ipv4.outside-1-to-endpoint-node.one-socket", ["all from one source port"]),
    ("clusterip.sctp.ipv4.pod-on-other-node-to-clusterip", ["SCTP INITs from a raw socket"]),
    (
        "loadbalancer.local.source-ranges.tcp.ipv4.outside-2-to-vip",
        ["loadBalancerSourceRanges the addresses of outside-1"],
    ),
    (
        "loadbalancer.local.source-ranges.tcp.ipv4.outside-2-to-endpoint-node",
        ["holds", "always: what is seen is recorded"],
    ),
    ("nodeport.local.several-ports.tcp.ipv4.outside-1-to-endpoint-node.port-named", ["targetPort is a name"]),
    ("nodeport.local.only-ipv6.tcp.ipv4.outside-1-to-endpoint-node", ["ipFamilies IPv6 only"]),
    (
        "nodeport.local.not-ready.publish-not-ready.tcp.ipv4.outside-1-to-endpoint-node",
        ["backend, never Ready", "publishNotReadyAddresses true"],
    ),
    (
        "external-ips.local.tcp.ipv4.pod-on-other-node-to-external-ip-of-bare-node",
        ["externalIP", "taken on the client's"],
    ),
    ("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip", ["proxy-mode is nftables, before Kubernetes 1.34"]),
    (
        "nodeport.local.tcp.ipv4.pod-on-other-node-to-bare-node",
        ["and packets may reach a backend", "go to no backend either"],
    ),
]


@pytest.mark.parametrize(("identity", "words"), WORDS, ids=[identity for identity, _ in WORDS])
def test_a_row_tells_what_makes_it_special(identity: str, words: list[str]) -> None:
    text = " ".join(explain(by_id(identity)).split())
    for each in words:
        assert each in text


def test_every_class_is_either_what_holds_or_what_fails() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    text = " ".join(explain(cell).split())
    holds, _, fails = text.partition("fails if")
    assert "the source is the client's own address" in holds
    assert fails.count("; or ") >= len(AddressClass) - 2
