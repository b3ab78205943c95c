"""Harmless: a network add-on that masquerades pod traffic leaving the pod network, as kindnet does."""

from contextlib import AbstractContextManager

from esipp.checks.model import Backends, Role, Vantage
from esipp.checks.path import PathCheck
from tests.broken.breakage import KNOWN, Break, Group, RunOptions, path_checks
from tests.broken.forwarding import refused_at_bare_node
from tests.broken.masquerading import CLIENT, pod_addresses
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import NODE_PORTS


def masquerading_on_the_way_out(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        return [
            Rule(
                family,
                "POSTROUTING",
                ("--source", address, "!", "--destination", nodes.pod_cidrs[family], *MASQUERADE),
            )
            for family, own in pod_addresses(live).items()
            for address in own
        ]

    return nodes.live(rules)


def knows(path_check: PathCheck) -> bool:
    """Pods whose packets go to another node's own address, dialled or a backend's, with their source to be kept."""
    path = path_check.subject.path
    to_a_node = path.entry.kind in NODE_PORTS and path.entry.role is Role.ENDPOINT_NODE
    to_a_host = path.service is not None and path.service.backends is Backends.HOST_NETWORK
    a_pods = path.client.vantage is Vantage.POD and path.client.role is Role.OTHER_NODE
    return a_pods and path_check.subject.accept == CLIENT and (to_a_node or to_a_host)


def no_pods_there_any_more(path_check: PathCheck) -> bool:
    """Pods that dial a bare node: else known to be handed on as pods (kubernetes/kubernetes#74383)."""
    return refused_at_bare_node(path_check) and path_check.subject.path.client.vantage is Vantage.POD


BREAK = Break(
    "network-add-on-masquerades-pods",
    Group.HARMLESS,
    "the network add-on masquerades pod traffic that leaves the pod network, as kindnet does",
    RunOptions(("source_ip",)),
    masquerading_on_the_way_out,
    path_checks(knows),
    names="network add-on masquerades pod traffic",
    says=KNOWN,
    may=path_checks(no_pods_there_any_more),
    scoped=True,
)
