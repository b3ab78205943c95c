"""Rollback of disruptions, as data, for the run itself, the watchdog and ``esipp clean``."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from esipp.base.errors import EsippError
from esipp.base.waiting import Budget, Convergence, Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import Cluster
from esipp.disruption import daemon_sets, kube_proxy, marks, shell
from esipp.disruption.marks import Mark
from esipp.probing import new_node, node_machines

CONTAINER = "container"
"""What is undone if a container is removed, whose name is then the node's."""

UNDONE = Budget("rollback of disruptions", 60.0, need=1, spacing=0.5)


@dataclass(frozen=True)
class Undo:
    """The rollback of a change, if the change has a mark of this owner.

    Args:
        what: the value of a ``Mark`` for a change to a Node object, or of a ``Disruption`` on the node itself or of
            the agents of all nodes; ``container`` for that of a node that joined.
        node: name of the node; ``all`` for agents.
        owner: ``host/pid`` of the run.
        way: the command that runs commands on the node; empty for a rollback through the API.
    """

    what: str
    node: str
    owner: str
    way: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Undo":
        """The reverse of ``as_json``."""
        return cls(str(data["what"]), str(data["node"]), str(data["owner"]), tuple(map(str, data["way"])))

    def as_json(self) -> dict[str, Any]:
        """The rollback as a JSON object."""
        return asdict(self)

    @property
    def done(self) -> str:
        """The message about the performed rollback."""
        if self.of_agents:
            return daemon_sets.ROLLOUTS[Disruption(self.what)].undone
        if self.what == CONTAINER:
            return f"removed container {self.node}"
        commands = shell.SERVICES[Disruption(self.what)].done if self.way else marks.UNDOING[Mark(self.what)]
        return commands.format(self.node)

    @property
    def where(self) -> str:
        """Where it is, as text."""
        return "all nodes" if self.of_agents else f"node {self.node}"

    @property
    def of_agents(self) -> bool:
        """Whether it is about the agents of all nodes, which their DaemonSet replaces."""
        return self.what in set(daemon_sets.ROLLOUTS)

    def perform(self, cluster: Cluster) -> bool:
        """Perform the rollback, and return whether there was anything to undo.

        Raises:
            HarnessError, PreflightError, ApiError, UnreachableError: the rollback failed.
        """
        if self.way:
            return shell.go_on(self.way, Disruption(self.what), self.owner)
        if self.of_agents:
            agents = daemon_sets.ROLLOUTS[Disruption(self.what)].agents
            if agents is daemon_sets.KUBE_PROXY:
                return kube_proxy.undo(cluster, self.owner)
            return daemon_sets.undo(cluster, agents, self.owner)
        if self.what == CONTAINER:
            return new_node.remove(self.node, self.owner)
        if self.what == Mark.OFF:
            if not marks.is_owned(cluster, self.node, Mark.OFF, self.owner):
                return False
            node_machines.start(self.node)  # before its mark goes, so that an interrupted rollback can be retried
        return marks.undo(cluster, self.node, Mark(self.what), self.owner)


def in_order(undos: Iterable[Undo]) -> list[Undo]:
    """Sort rollbacks on nodes themselves first, because the others need the API server."""
    return sorted(undos, key=lambda undo: not undo.way)


def undo_all(
    undos: Iterable[Undo], cluster: Cluster, budget: Budget = UNDONE, did: Callable[[Undo], None] | None = None
) -> tuple[list[Undo], Convergence]:
    """Perform all rollbacks repeatedly, until all succeed (``budget.need`` times) or the time is over.

    Returns the failed ones, and how the wait ended; its last state contains the reasons. ``did`` is called for each
    change that was undone.
    """
    ordered = in_order(undos)
    left: list[Undo] = []

    def attempt() -> Reading:
        troubles = []
        left.clear()
        for undo in ordered:
            try:
                if undo.perform(cluster) and did is not None:
                    did(undo)
            except Exception as broken:  # perform the others, and retry this one
                left.append(undo)
                why = broken.sentence if isinstance(broken, EsippError) else str(broken) or type(broken).__name__
                troubles.append(f"{undo.node}, {undo.what}: {why}")
        return Reading(not left, "; ".join(troubles) or "all undone")

    waited = converge(attempt, budget)
    return left, waited
