"""Rewriting sources on the nodes: the rules, and which rows must notice."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from esipp.model import AddressClass, Backends, Cell, Family, Role, Vantage
from tests.broken.nodes import Nodes, Placed, Rule

CLIENT, NODE = frozenset({AddressClass.CLIENT}), frozenset({AddressClass.NODE})
PROXY = frozenset({AddressClass.LOAD_BALANCER})

NAMES_THE_NODE = r"esipp-worker\S*, between \S+ and \S+: \S+ became"
"""How packets tell where a source was rewritten."""


def into_pod_network(
    *more: str, families: tuple[Family, ...] = tuple(Family)
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """What enters the pod network from outside it is masqueraded, on every node."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        cidrs = {family: cidr for family, cidr in nodes.pod_cidrs.items() if family in families}
        return nodes.rules(
            *(
                Rule(
                    family, "POSTROUTING", ("--destination", cidr, "!", "--source", cidr, *more, "--jump", "MASQUERADE")
                )
                for family, cidr in cidrs.items()
            )
        )

    return apply


def changed_into_pod_network(cell: Cell) -> bool:
    """Rows of clients that are no pods, and whose packets enter the pod network from another node.

    Those that are not masqueraded before then are not seen as themselves any more; and a host process on the endpoint's
    node whose packets come back masqueraded by another node is seen as its own node again.
    """
    path = cell.path
    elsewhere = path.client.vantage is Vantage.OUTSIDE or path.client.role is Role.OTHER_NODE
    backends = path.service.backends if path.service else Backends.POD
    into_pods = backends is not Backends.HOST_NETWORK
    if cell.accept == PROXY:  # whoever dials: the proxy does, from outside
        return into_pods
    comes_back = cell.accept == NODE and path.client.role is Role.ENDPOINT_NODE
    noticed = (cell.accept == CLIENT and elsewhere) or comes_back
    return noticed and path.client.vantage is not Vantage.POD and into_pods
