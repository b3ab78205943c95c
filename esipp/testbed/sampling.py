"""Which nodes carry an agent: all of a small cluster's, a sample of a large one's. Pure.

An agent is a pod on the node's own network: it tells the node's addresses, captures its packets, is its reference
listener, and asks other nodes' health checks. Each takes a process of kubectl on this machine, so there is a bound.
Nodes that play a part are always among them; the others are drawn at random, by the run's seed, and told.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from esipp.checks.model import Role
from esipp.judging.topology import MARKS, Node, marked
from esipp.ledger.run import DEFAULT_NODES

MOST_NODES = 100
"""Each agent has a kubectl of its own here, of some 40 MB, and two more while packets are captured."""


@dataclass(frozen=True)
class Sample:
    """The nodes that carry an agent.

    Args:
        nodes: their names: those that play a part, or have a mark that checks are about, then the others by name.
        fit: how many nodes could carry one.
        playing: how many of the sample were not drawn.
        seed: by which the others were drawn.
    """

    nodes: tuple[str, ...]
    fit: int
    playing: int
    seed: int

    @property
    def partial(self) -> bool:
        """Whether there are nodes that carry none, though they could."""
        return len(self.nodes) < self.fit

    @property
    def words(self) -> str:
        """How many of how many, and which."""
        return f"{len(self.nodes)} of {self.fit}: {', '.join(self.nodes)}"

    @property
    def decided(self) -> str:
        """How they were chosen."""
        if not self.partial:
            return "every node that may carry pods of ours has an agent"
        drawn = len(self.nodes) - self.playing
        how = f"those that play a part, and {drawn} of the {self.fit - self.playing} others at random by --seed"
        return f"--sample-nodes {len(self.nodes)}: {how} {self.seed}"

    @property
    def remark(self) -> str:
        """What a reader has to know; empty where no node is left out."""
        if not self.partial:
            return ""
        return (
            f"{len(self.nodes)} of {self.fit} nodes carry an agent ({self.decided}): what checks say of every node's "
            f"addresses and packets was asked there: {', '.join(self.nodes)}"
        )


NO_SAMPLE = Sample((), 0, 0, 0)


def sample(nodes: Iterable[Node], roles: Mapping[Role, str], most: int = DEFAULT_NODES, seed: int = 0) -> Sample:
    """Choose them.

    Args:
        nodes: the cluster's.
        roles: who plays which part, the control plane's included; those are in the sample however small it is.
        most: so many nodes, if there are more.
        seed: of the draw.
    """
    nodes = list(nodes)
    fit = sorted(node.name for node in nodes if node.usable and node.chosen)
    parts = [roles.get(role) for role in Role] + [marked(nodes, roles, mark) for mark in MARKS]
    playing = [name for name in dict.fromkeys(parts) if name in set(fit)]
    others = [name for name in fit if name not in set(playing)]
    if len(fit) > most:
        others = sorted(random.Random(f"{seed} nodes").sample(others, max(0, most - len(playing))))
    return Sample((*playing, *others), len(fit), len(playing), seed)
