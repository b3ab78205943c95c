"""A check in prose and as a picture, both from the check itself."""

import pytest

from esipp.base.document import WIDTH
from esipp.checks.check import Level
from esipp.checks.explain import ARROW, BLOCKED, explain, meaning_for, picture
from esipp.checks.model import POD_BACKEND, AddressClass
from tests.unit.world import CHECKS, by_id

HAIRPIN = AddressClass.HAIRPIN
PROXIED = "loadbalancer.reference-proxy-xff.local.several-ports.tcp.ipv4.outside-1-to-vip.port-http"


def test_every_check_fits_the_width_but_for_its_id() -> None:
    for path_check in CHECKS:
        for line in explain(path_check).splitlines()[2:]:
            assert len(line) <= WIDTH or len(line.split()) <= 3, line


def test_every_picture_begins_at_the_client_and_ends_at_a_backend() -> None:
    for path_check in CHECKS:
        drawn = picture(path_check)
        assert "backend" in " ".join(drawn)
        widths = {len(line) for line in drawn[:1] + drawn[-1:] if line.startswith("+")}
        assert len(widths) == 1 or len(drawn) > 4, "boxes are closed"
        assert (BLOCKED.rstrip() + "  |" in drawn[1]) == path_check.subject.is_negative
        assert ARROW in drawn[1] or len(drawn[1].split("|")) == 5


WORDS = [
    (
        "nodeport.local.tcp.ipv4.outside-1-to-bare-node",
        ["outside the cluster", "node without endpoints", "-x", "no answer"],
    ),
    ("nodeport.local.tcp.ipv4.pod-on-other-node-to-other-node", ["on the client's own node"]),
    ("clusterip.tcp.ipv4.backend-to-clusterip", ["and back to itself", "hairpin", "an address of its own node"]),
    (PROXIED, ["a proxy", "X-Forwarded-For (its last entry", "HTTP requests", "loadBalancerClass reference-proxy-xff"]),
    (PROXIED + ".claims-x-forwarded-for", ["the client claims another address in X-Forwarded-For"]),
    (
        "nodeport.local.pair.affinity.tcp.ipv4.outside-1-to-endpoint-node",
        [
            "two backend pods",
            "the same backend answers every connection",
            "sessionAffinity ClientIP",
            "from several backends",
        ],
    ),
    ("nodeport.local.udp.ipv4.outside-1-to-endpoint-node.one-socket", ["all from one source port"]),
    ("clusterip.sctp.ipv4.pod-on-other-node-to-clusterip", ["SCTP INITs from a raw socket"]),
    (
        "loadbalancer.local.source-ranges.tcp.ipv4.outside-2-to-vip",
        ["loadBalancerSourceRanges the addresses of outside-1"],
    ),
    (
        "loadbalancer.local.source-ranges.tcp.ipv4.outside-2-to-endpoint-node",
        ["holds", "always: the outcome is recorded"],
    ),
    ("nodeport.local.several-ports.tcp.ipv4.outside-1-to-endpoint-node.port-named", ["a named targetPort"]),
    ("nodeport.local.only-ipv6.tcp.ipv4.outside-1-to-endpoint-node", ["ipFamilies IPv6 only"]),
    (
        "nodeport.local.first-ipv6.tcp.ipv4.outside-1-to-endpoint-node",
        ["ipFamilies IPv6 and IPv4, in this order", "families.dual"],
    ),
    (
        "nodeport.local.not-ready.publish-not-ready.tcp.ipv4.outside-1-to-endpoint-node",
        ["backend that is not ready", "publishNotReadyAddresses true"],
    ),
    (
        "external-ips.local.tcp.ipv4.pod-on-other-node-to-external-ip-of-bare-node",
        ["externalIP", "routed on the client's"],
    ),
    (
        "loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip",
        ["proxy-mode is nftables, kube-proxy-version before 1.33.6"],
    ),
    (
        "nodeport.local.tcp.ipv4.pod-on-other-node-to-bare-node",
        ["and packets may reach a backend", "captured packets reach no backend"],
    ),
]


@pytest.mark.parametrize(("identity", "words"), WORDS, ids=[identity for identity, _ in WORDS])
def test_a_check_tells_what_makes_it_special(identity: str, words: list[str]) -> None:
    text = " ".join(explain(by_id(identity)).split())
    for each in words:
        assert each in text


def test_every_class_is_either_what_holds_or_what_fails() -> None:
    for path_check in CHECKS:
        if path_check.level is Level.RECORD:
            continue
        text = " ".join(explain(path_check).split())
        holds = text[text.index("holds if") : text.index("flaky if")]
        fails = text[text.index("fails if") : text.index("recorded")]
        meaning = meaning_for(path_check.subject.path.client)
        possible = (
            set(AddressClass) if path_check.subject.path.client.name == POD_BACKEND else set(AddressClass) - {HAIRPIN}
        )
        assert set(meaning) == possible
        for each, words in meaning.items():
            assert (words in holds, words in fails) == (
                each in path_check.subject.accept,
                each not in path_check.subject.accept,
            ), (
                path_check.id,
                each,
            )


OWN, ANOTHER = "an address of the client's own node", "an address of another node"


@pytest.mark.parametrize(
    ("identity", "holds", "fails"),
    [
        ("nodeport.cluster.tcp.ipv4.host-on-other-node-to-endpoint-node", ANOTHER, OWN),
        ("nodeport.cluster.tcp.ipv4.host-on-other-node-to-other-node", OWN, ANOTHER),
        ("pod-ip.tcp.ipv4.host-on-other-node-to-pod-ip", OWN, ANOTHER),
        ("clusterip.tcp.ipv4.host-on-other-node-to-clusterip", OWN, ANOTHER),
    ],
)
def test_a_host_process_is_known_by_its_nodes_addresses(identity: str, holds: str, fails: str) -> None:
    good, _, bad = " ".join(explain(by_id(identity)).split()).partition("fails if")
    assert holds in good
    assert fails not in good
    assert fails in bad
    assert holds not in bad
