"""Selection of the nodes that run an agent: all nodes of a small cluster, a sample of a large one. Pure.

An agent is a host-network pod: it lists the node's addresses, captures its packets, is its control listener, and
requests other nodes' health checks. Each agent needs a kubectl process on this machine, so the number is limited. Nodes
with a role always have an agent. The others are selected at random by the run's seed, and the report names them.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from esipp.checks.model import Role
from esipp.judging.topology import MARKS, Node, marked
from esipp.ledger.run import DEFAULT_NODES

MOST_NODES = 100
"""The maximum number of agents. Each needs its own kubectl here, of some 40 MB, and two more during packet capture."""


@dataclass(frozen=True)
class Sample:
    """The nodes that run an agent.

    Args:
        nodes: names of the nodes: first those with a role or a label that checks need, then the others by name.
        fit: number of nodes that could run an agent.
        playing: number of nodes that were not selected at random.
        seed: seed of the random selection.
    """

    nodes: tuple[str, ...]
    fit: int
    playing: int
    seed: int

    @property
    def partial(self) -> bool:
        """Whether some nodes run no agent although they could."""
        return len(self.nodes) < self.fit

    @property
    def words(self) -> str:
        """A description: the number of nodes, and their names."""
        return f"{len(self.nodes)} of {self.fit}: {', '.join(self.nodes)}"

    @property
    def decided(self) -> str:
        """How the nodes were selected."""
        if not self.partial:
            return "every node that can run our pods has an agent"
        drawn = len(self.nodes) - self.playing
        how = f"nodes with a role, and {drawn} of the {self.fit - self.playing} others at random by --seed"
        return f"--sample-nodes {len(self.nodes)}: {how} {self.seed}"

    @property
    def remark(self) -> str:
        """A remark for reports; empty if no node is left out."""
        if not self.partial:
            return ""
        return (
            f"{len(self.nodes)} of {self.fit} nodes run an agent ({self.decided}); checks of every node's addresses "
            f"and packets cover only these: {', '.join(self.nodes)}"
        )


NO_SAMPLE = Sample((), 0, 0, 0)


def sample(nodes: Iterable[Node], roles: Mapping[Role, str], most: int = DEFAULT_NODES, seed: int = 0) -> Sample:
    """Select the nodes that run an agent.

    Args:
        nodes: the nodes of the cluster.
        roles: the nodes of the roles, including the control plane; they are always in the sample.
        most: maximum size of the sample.
        seed: seed of the random selection.
    """
    nodes = list(nodes)
    fit = sorted(node.name for node in nodes if node.usable and node.chosen)
    parts = [roles.get(role) for role in Role] + [marked(nodes, roles, mark) for mark in MARKS]
    playing = [name for name in dict.fromkeys(parts) if name in set(fit)]
    others = [name for name in fit if name not in set(playing)]
    if len(fit) > most:
        others = sorted(random.Random(f"{seed} nodes").sample(others, max(0, most - len(playing))))
    return Sample((*playing, *others), len(fit), len(playing), seed)
