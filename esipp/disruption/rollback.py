"""What undoes a disruption, as data: the same in the run itself, in the watchdog and in ``esipp clean``."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from esipp.base.errors import EsippError
from esipp.base.waiting import Budget, Convergence, Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import Cluster
from esipp.disruption import marks, shell
from esipp.disruption.marks import Mark

UNDONE = Budget("everything being undone", 60.0, need=1, spacing=0.5)


@dataclass(frozen=True)
class Undo:
    """One thing to undo, if its mark is there and of this owner.

    Args:
        what: a ``Mark``'s value for what was done to the Node object; the ``Disruption``'s for what was done on the
            node itself.
        node: the Node's name.
        owner: ``host/pid`` of the run.
        way: how a command is run on the node itself; empty for what is undone through the API.
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
        """It as one JSON object."""
        return asdict(self)

    @property
    def done(self) -> str:
        """What is said when it was undone."""
        words = shell.SERVICES[Disruption(self.what)].done if self.way else marks.UNDOING[Mark(self.what)]
        return words.format(self.node)

    def perform(self, cluster: Cluster) -> bool:
        """Undo it; whether there was anything to undo.

        Raises:
            HarnessError, PreflightError, ApiError, UnreachableError: it could not be undone.
        """
        if self.way:
            return shell.go_on(self.way, Disruption(self.what), self.owner)
        return marks.undo(cluster, self.node, Mark(self.what), self.owner)


def in_order(undos: Iterable[Undo]) -> list[Undo]:
    """The nodes' own first: without an API server nothing can be undone through it."""
    return sorted(undos, key=lambda undo: not undo.way)


def undo_all(
    undos: Iterable[Undo], cluster: Cluster, budget: Budget = UNDONE, did: Callable[[Undo], None] | None = None
) -> tuple[list[Undo], Convergence]:
    """Undo all, again and again until all were looked after (``budget.need`` times) or the budget is used up.

    Returns what is left, and how the wait ended: its last state says why. ``did`` is told what was really undone.
    """
    asked = in_order(undos)
    left: list[Undo] = []

    def attempt() -> Reading:
        troubles = []
        left.clear()
        for undo in asked:
            try:
                if undo.perform(cluster) and did is not None:
                    did(undo)
            except Exception as broken:  # whatever it is, the others are to be undone, and this is tried again
                left.append(undo)
                why = broken.sentence if isinstance(broken, EsippError) else str(broken) or type(broken).__name__
                troubles.append(f"{undo.node}, {undo.what}: {why}")
        return Reading(not left, "; ".join(troubles) or "all undone")

    waited = converge(attempt, budget)
    return left, waited
