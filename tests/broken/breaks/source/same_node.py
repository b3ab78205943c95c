"""Only what a node sends on to an endpoint of its own is masqueraded."""

from contextlib import AbstractContextManager

from esipp.model import Cell, Role
from tests.broken.breakage import Asked, Break, Group, cells
from tests.broken.masquerading import ACROSS_THE_MATRIX, CLIENT, NAMES_THE_NODE, PROXY, pod_addresses
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import from_the_node, into_pods, sent_on_by

SENT_ON = ("--match", "conntrack", "--ctstate", "DNAT")


def masquerading_on_the_same_node(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        return [
            Rule(family, "POSTROUTING", ("--destination", ",".join(own), *SENT_ON, *MASQUERADE), here)
            for family, own in pod_addresses(live, here).items()
        ]

    return nodes.live(rules)


def notices(cell: Cell) -> bool:
    """A client that stands on the endpoint's node, or enters there; its node's own processes keep its address."""
    here = sent_on_by(cell.path) is Role.ENDPOINT_NODE and into_pods(cell.path)
    return here and cell.accept in (CLIENT, PROXY) and not from_the_node(cell.path, Role.ENDPOINT_NODE)


BREAK = Break(
    "source-rewritten-same-node",
    Group.SOURCE,
    "a node masquerades what it sends on to an endpoint of its own, and nothing that goes to another node",
    Asked(("source_ip",), ACROSS_THE_MATRIX),
    masquerading_on_the_same_node,
    cells(notices),
    names=NAMES_THE_NODE,
    scoped=True,
)
