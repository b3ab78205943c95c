"""Whether a time keeps a bound, and whether it was measured well enough to say so. Pure."""

from dataclasses import dataclass
from enum import StrEnum

FIELD_LIMIT = 30.0
"""Seconds that the field gives a service proxy to follow a change: upstream's own tests wait so long for endpoints
(KubeProxyEndpointLagTimeout). Core checks use no shorter limit."""

PROMPT = 5.0
"""Seconds in which a service proxy that keeps up has followed a change. kube-proxy waits one second between two syncs
(minSyncPeriod), and a sync of a small cluster takes a fraction of a second: on the kind lanes 0.1 to 1.2 s were seen.
The rest is for the API server, for the controller of EndpointSlices and for larger clusters."""

FINE = 1 / 15
"""The share of a bound that a measurement may be unsure of. Of 3 s these are two of our probes."""

WAITS = 10
"""How often what follows a change waits for a processor: watch, sync, commands, timers of a load balancer. Where a
control of a single step is late by a second, ten seconds may be the machine's."""


class Held(StrEnum):
    """Whether a time keeps its bound."""

    WITHIN = "within"
    OVER = "over"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Blur:
    """How well a time is known.

    Args:
        gap: our longest time between two probes around it, in seconds.
        slow: how much longer than usual the controls of the same client took meanwhile, in seconds.
    """

    gap: float = 0.0
    slow: float = 0.0

    @property
    def seconds(self) -> float:
        """By how much a time may be longer than it was seen to be."""
        return self.gap + self.slow

    @property
    def words(self) -> str:
        """The resolution that was reached."""
        said = f"our longest time between two probes was {self.gap:.2f} s"
        return f"{said}, controls with no service in the way took {self.slow:.2f} s longer than usual"


def needed(bound: float) -> float:
    """The resolution in seconds that is needed to hold a time against a bound."""
    return bound * FINE


def hold(seconds: float, bound: float, blur: Blur) -> Held:
    """Hold a time against a bound; nothing of ours is ever added to the bound.

    A time near its bound decides only if it was measured well enough. One far below or far above it always does: below
    with all our doubt added, above with all our doubt taken away.
    """
    if seconds + blur.seconds <= bound:
        return Held.WITHIN
    if seconds - blur.gap - WAITS * blur.slow > bound:
        return Held.OVER
    if blur.seconds > needed(bound):
        return Held.UNKNOWN
    return Held.OVER if seconds > bound else Held.WITHIN


def say_unknown(bound: float, blur: Blur) -> str:
    """Why a time was not held against its bound: the resolution reached, and the one needed."""
    return f"not measured well enough: {blur.words}; {needed(bound):.2f} s are needed to judge {bound:.2f} s"
