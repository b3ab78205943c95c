"""Comparison of measured times with bounds, including the precision of the measurement. Pure."""

from dataclasses import dataclass
from enum import StrEnum

FIELD_LIMIT = 30.0
"""Seconds in which a service proxy must follow a change. Kubernetes' own tests wait that long for endpoints
(KubeProxyEndpointLagTimeout). Core checks use no shorter limit."""

PROMPT = 5.0
"""Seconds in which a service proxy without backlog follows a change. kube-proxy waits one second between two syncs
(minSyncPeriod), and a sync of a small cluster takes a fraction of a second: the kind lanes show 0.1 to 1.2 s. The rest
is for the API server, for the EndpointSlice controller and for larger clusters."""

AT_ONCE = 0.7
"""Seconds for which answers may be so late that a SYN was sent again. A network loses single SYNs. In runs beside up to
140 other tasks, no way that must lose nothing had late answers for longer than 0.5 s, and pauses between two requests
of ours took up to 0.56 s."""

LAG = 4.0
"""Seconds for which a pod still serves after (N+1) x period, until the service proxy knows its end and says 503."""

FINE = 1 / 15
"""The largest uncertainty of a measurement, as a share of the bound. For 3 s, it is two probe intervals."""

WAITS = 10
"""How often the steps after a change wait for a processor: watch, sync, commands, timers of a load balancer. If a
control with one step is late by a second, the machine may cause ten seconds."""


class Held(StrEnum):
    """The result of a comparison of a time with its bound."""

    WITHIN = "within"
    OVER = "over"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Blur:
    """The uncertainty of a measured time.

    Args:
        gap: the longest interval between two probes around it, in seconds.
        slow: the delay of the same client's controls at that time, in seconds more than usual.
    """

    gap: float = 0.0
    slow: float = 0.0

    @property
    def seconds(self) -> float:
        """Return by how much the time may exceed its measurement."""
        return self.gap + self.slow

    @property
    def words(self) -> str:
        """Return the uncertainty in words."""
        said = f"our longest time between two probes was {self.gap:.2f} s"
        return f"{said}, controls with no service in the way took {self.slow:.2f} s longer than usual"


def needed(bound: float) -> float:
    """Return the required resolution, in seconds, for a comparison with a bound."""
    return bound * FINE


def hold(seconds: float, bound: float, blur: Blur) -> Held:
    """Compare a time with its bound. The uncertainty of the measurement never extends the bound.

    A time near its bound decides only if the measurement was precise enough. A time far from it always decides: below
    the bound even with all uncertainty added, or above it even with all uncertainty subtracted.
    """
    if seconds + blur.seconds <= bound:
        return Held.WITHIN
    if seconds - blur.gap - WAITS * blur.slow > bound:
        return Held.OVER
    if blur.seconds > needed(bound):
        return Held.UNKNOWN
    return Held.OVER if seconds > bound else Held.WITHIN


def say_unknown(bound: float, blur: Blur) -> str:
    """Return why a time was not compared with its bound: the reached and the required resolution."""
    return f"not measured well enough: {blur.words}; {needed(bound):.2f} s are needed to judge {bound:.2f} s"
