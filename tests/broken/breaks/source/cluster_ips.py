"""Connections to ClusterIPs are masqueraded, as kube-proxy's masqueradeAll does."""

from contextlib import AbstractContextManager

from esipp.checks.model import Backends, EntryKind, Path, Role, Vantage
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import CLIENT
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Live, Nodes, Placed, Rule


def masquerading_all(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        own = [each["spec"].get("clusterIPs", ()) for each in live.services]
        addresses = [address for each in own for address in each if address != "None"]
        words = ("--match", "conntrack", "--ctorigdst")
        return [Rule(family_of(each), "POSTROUTING", (*words, each, *MASQUERADE)) for each in addresses]

    return nodes.live(rules)


def stays_on_the_node(path: Path) -> bool:
    """Whether the packets go to a process of the client's own node, past POSTROUTING."""
    host_network = path.service is not None and path.service.backends is Backends.HOST_NETWORK
    return host_network and path.client.role is Role.ENDPOINT_NODE


def notices(path_check: PathCheck) -> bool:
    path = path_check.subject.path
    a_pods = path.client.vantage is Vantage.POD and path.entry.kind is EntryKind.CLUSTER_IP
    return a_pods and path_check.subject.accept == CLIENT and not stays_on_the_node(path)


BREAK = Break(
    "clusterip-masqueraded",
    Group.SOURCE,
    "every node masquerades all connections to the run's ClusterIPs, as kube-proxy with masqueradeAll",
    RunOptions(("source_ip",)),
    masquerading_all,
    path_checks(notices),
    names="masqueradeAll",
    scoped=True,
)
