"""A node masquerades traffic of a load balancer with a hostname: the source is not the proxy's address."""

from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.check import Level
from esipp.checks.model import Balancer, EntryKind, Protocol, Role, TrafficPolicy
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.balancing import HOSTNAME_PROXY, WITH_PROXY, balancer_addresses
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import grouped
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import into_pods

FORWARDERS = (Balancer.FORWARD, Balancer.ECMP)


@contextmanager
def masquerading_the_proxy(nodes: Nodes) -> Iterator[Placed]:
    """Every node, of what the load balancer's own address sends to the run's pods."""

    def rules(live: Live) -> list[Rule]:
        pods = grouped(live.backends)
        return [
            Rule(
                family_of(own),
                "POSTROUTING",
                ("--destination", pod, "--match", "conntrack", "--ctorigsrc", own, *MASQUERADE),
            )
            for own in balancer_addresses()
            for pod in pods[family_of(own)]
        ]

    with nodes.live(rules) as placed:
        yield placed


def masqueraded(path_check: PathCheck) -> bool:
    """Paths through a proxy to a pod of a Local Service: a node must not rewrite the proxy's address.

    The rules name pods. A backend on the host network is none of them, and sees the proxy as before.
    """
    path = path_check.subject.path
    if path.service is None or path.entry.kind is not EntryKind.VIP or path.service.balancer in FORWARDERS:
        return False
    local = path.service.policy is TrafficPolicy.LOCAL and path_check.level is not Level.RECORD
    return local and path.protocol is Protocol.TCP and into_pods(path)


def as_its_own_node(path_check: PathCheck) -> bool:
    """Clients on the endpoint node: the node that masquerades is their own.

    A host process is then seen as it must be. A pod is seen as where the network add-on masquerades what pods send to
    addresses outside the cluster, and that is allowed. Only clients elsewhere can tell.
    """
    named = path_check.subject.path.service is not None and path_check.subject.path.service.balancer is Balancer.DEFAULT
    return named and masqueraded(path_check) and path_check.subject.path.client.role is Role.ENDPOINT_NODE


def notices(path_check: PathCheck) -> bool:
    """All such paths, but those of clients on the node that masquerades."""
    return masqueraded(path_check) and not as_its_own_node(path_check)


BREAK = Break(
    "hostname-vip-masqueraded-by-a-node",
    Group.SOURCE,
    "the load balancer announces a hostname, and nodes masquerade its traffic to pods of Local Services",
    RunOptions(("source_ip",), own=HOSTNAME_PROXY, options=WITH_PROXY),
    masquerading_the_proxy,
    path_checks(notices),
    names="that node masquerades|address of a node|a node's",
    may=path_checks(as_its_own_node),
)
