"""Nodes masquerade traffic of private clients to a public VIP, unlike NAT before the cluster."""

from contextlib import AbstractContextManager

from esipp.checks.model import EntryKind, Family, TrafficPolicy, Vantage
from esipp.checks.path import PathCheck
from tests.broken.balancing import ONLY_POOL, PROFILE, PUBLIC
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import CLIENT
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import by_a_proxy, into_pods


def masquerading_by_vip(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Every node, of what was sent to a public VIP from outside of the pod network."""

    def rules(live: Live) -> list[Rule]:
        cidr, came = nodes.pod_cidrs[Family.IPV4], ("--match", "conntrack", "--ctorigdst", PUBLIC)
        words = ("--destination", cidr, "!", "--source", cidr, *came, *MASQUERADE)
        return [Rule(Family.IPV4, "POSTROUTING", words)] if live.services else []

    return nodes.live(rules)


def at_vips(path_check: PathCheck) -> bool:
    """Paths from outside by an IPv4 VIP whose balancer forwards, into the pod network."""
    path = path_check.subject.path
    at_vip = path.entry.kind is EntryKind.VIP and not by_a_proxy(path) and path.family is Family.IPV4
    return at_vip and path.client.vantage is Vantage.OUTSIDE and into_pods(path)


def notices(path_check: PathCheck) -> bool:
    kept = path_check.subject.path.service is not None and path_check.subject.path.service.policy is TrafficPolicy.LOCAL
    return at_vips(path_check) and kept and path_check.subject.accept == CLIENT


def inside(path_check: PathCheck) -> bool:
    """Processes of nodes that dial the VIP are masqueraded as well, if by an address of their own node's."""
    return (
        path_check.subject.path.entry.kind is EntryKind.VIP and path_check.subject.path.client.vantage is Vantage.NODE
    )


BREAK = Break(
    "private-client-masqueraded-at-a-public-vip",
    Group.SOURCE,
    "nodes masquerade traffic from clients with private addresses through public VIPs",
    RunOptions(("source_ip",), own=("--default", "reference-ecmp", ONLY_POOL, PUBLIC), options=PROFILE),
    masquerading_by_vip,
    path_checks(notices),
    names="that node masquerades|a node's",
    may=path_checks(lambda path_check: at_vips(path_check) or inside(path_check)),
)
