"""``Event``: something that happens while streams of traffic run, as data. No I/O."""

from dataclasses import dataclass, field

from esipp.checks.disruption import Disruption
from esipp.checks.reference import Reference


@dataclass(frozen=True)
class Event:
    """What all events have; the events of a scenario are of a subclass, with what follows from its kind.

    Args:
        name: its name in ids and ledgers.
        meanwhile: when requirements hold, as text: ``While the endpoint node is cordoned``.
        seconds: how long it usually takes, with kube-proxy; known defects, which are waited for once, included.
        references: what describes it.
    """

    name: str
    meanwhile: str
    seconds: float = field(kw_only=True)
    references: tuple[Reference, ...] = field(default=(), kw_only=True)

    @property
    def disruptions(self) -> tuple[Disruption, ...]:
        """Return how it affects other users of the cluster; empty if it does not."""
        raise NotImplementedError

    @property
    def disrupts(self) -> tuple[tuple[str, str], ...]:
        """Return its disruptions with the roles of their nodes, in order, if it can share them with other events."""
        return ()
