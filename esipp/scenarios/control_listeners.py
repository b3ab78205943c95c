"""Control listeners as targets: nodes with no Service in the way, which show what a client itself loses."""

from collections.abc import Iterable, Mapping

from esipp.base.errors import HarnessError
from esipp.checks.model import Family, Protocol
from esipp.probing.traffic import Target
from esipp.testbed.testbed import Testbed


def control_targets(
    testbed: Testbed, nodes: Iterable[str], *, required: bool = False
) -> Mapping[tuple[str, Family], Target]:
    """The control listeners of nodes, by node and family.

    Args:
        testbed: has the agents with the listeners.
        nodes: the names of the nodes.
        required: whether every node must have one.

    Raises:
        HarnessError: a node has no agent.
    """
    found: dict[tuple[str, Family], Target] = {}
    for name in dict.fromkeys(nodes):
        port = testbed.listeners.get(name, {}).get(Protocol.TCP)
        if port:
            found |= {(name, family): Target(host, port) for family, host in testbed.nodes[name].internal.items()}
        elif required:
            raise HarnessError(f"Node {name} has no agent.", "run again.")
    return found
