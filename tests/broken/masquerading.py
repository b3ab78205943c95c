"""Source rewriting on nodes: the rules, and the checks that must notice."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from esipp.checks.model import AddressClass, Family, Role, Vantage
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import into_pods

CLIENT, NODE = frozenset({AddressClass.CLIENT}), frozenset({AddressClass.NODE})
PROXY = frozenset({AddressClass.LOAD_BALANCER})

NAMES_THE_NODE = r"esipp-worker\S*, between \S+ and \S+: \S+ became"
"""The diagnosis from packets that names where a source was rewritten."""


def into_pod_network(
    *more: str, families: tuple[Family, ...] = tuple(Family)
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Masquerade all traffic that enters the pod network, on every node."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        cidrs = {family: cidr for family, cidr in nodes.pod_cidrs.items() if family in families}
        return nodes.rules(
            *(
                Rule(family, "POSTROUTING", ("--destination", cidr, "!", "--source", cidr, *more, *MASQUERADE))
                for family, cidr in cidrs.items()
            )
        )

    return apply


def into_own_pods(
    *more: str, families: tuple[Family, ...] = tuple(Family)
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """The same, only for the run's own backends.

    A prober's pod receives only answers. If kube-proxy has just removed the connection from conntrack (it does so for
    UDP after endpoint changes), an answer starts a new connection and would be rewritten.
    """

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def rules(live: Live) -> list[Rule]:
            outside = {family: ("!", "--source", cidr) for family, cidr in nodes.pod_cidrs.items()}
            return [
                Rule(family, "POSTROUTING", ("--destination", address, *outside[family], *more, *MASQUERADE))
                for family, own in grouped(live.backends).items()
                for address in own
                if family in families
            ]

        return nodes.live(rules)

    return apply


def pod_addresses(live: Live, there: tuple[str, ...] = ()) -> dict[Family, list[str]]:
    """Those of the run's pods that are in the pod network; of all, or of those on these nodes."""
    pods = [pod for pod in live.pods if not there or pod["spec"]["nodeName"] in there]
    own = [pod["status"]["podIPs"] for pod in pods if not pod["spec"].get("hostNetwork")]
    return grouped(address["ip"] for addresses in own for address in addresses)


def grouped(addresses: Iterable[str]) -> dict[Family, list[str]]:
    """Addresses by family."""
    found: dict[Family, list[str]] = {}
    for address in sorted(addresses):
        found.setdefault(family_of(address), []).append(address)
    return found


def changed_into_pod_network(path_check: PathCheck) -> bool:
    """Checks of clients that are no pods, and whose packets enter the pod network from another node.

    Those that are not masqueraded before then are not seen as themselves any more; and a host process on the endpoint's
    node whose packets come back masqueraded by another node is seen as its own node again.
    """
    path = path_check.subject.path
    elsewhere = path.client.vantage is Vantage.OUTSIDE or path.client.role is Role.OTHER_NODE
    if path_check.subject.accept == PROXY:  # whoever dials: the proxy does, from outside
        return into_pods(path)
    comes_back = path_check.subject.accept == NODE and path.client.role is Role.ENDPOINT_NODE
    noticed = (path_check.subject.accept == CLIENT and elsewhere) or comes_back
    return noticed and path.client.vantage is not Vantage.POD and into_pods(path)
