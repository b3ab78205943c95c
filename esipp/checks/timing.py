"""Measured times, their precision, and how they compare with bounds. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

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

GIVES_UP = 5.0
"""Seconds after which a load balancer gives up a health check, where no profile says it: the timeout of a Classic ELB,
and the shortest interval of Azure's. GCE's, HAProxy, cloud-provider-kind and Octavia give up after 1 to 3 s. Only AWS'
NLBs wait longer, and their profiles say so."""

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


def hold(seconds: float, bound: float, blur: Blur, waits: int = WAITS) -> Held:
    """Compare a time with its bound. The uncertainty of the measurement never extends the bound.

    A time near its bound decides only if the measurement was precise enough. A time far from it always decides: below
    the bound even with all uncertainty added, or above it even with all uncertainty subtracted.

    Args:
        seconds: the time.
        bound: its bound.
        blur: the uncertainty.
        waits: how often what was measured waits for a processor while a control waits once.
    """
    if seconds + blur.seconds <= bound:
        return Held.WITHIN
    if seconds - blur.gap - waits * blur.slow > bound:
        return Held.OVER
    if blur.seconds > needed(bound):
        return Held.UNKNOWN
    return Held.OVER if seconds > bound else Held.WITHIN


def say_unknown(bound: float, blur: Blur) -> str:
    """Return why a time was not compared with its bound: the reached and the required resolution."""
    return f"not measured well enough: {blur.words}; {needed(bound):.2f} s are needed to judge {bound:.2f} s"


T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """A time in seconds, and its uncertainty. ``doubt`` is why it does not count even where it is above a bound."""

    seconds: float
    blur: Blur
    doubt: str = ""

    @property
    def resolution(self) -> float:
        """By how much the time may be wrong."""
        return self.blur.seconds

    def against(self, bound: float) -> Held:
        """Whether it keeps a bound, if it is known well enough. The bound itself gets no allowance."""
        held = hold(self.seconds, bound, self.blur)
        return Held.UNKNOWN if held is Held.OVER and self.doubt else held

    def too_coarse(self, bound: float) -> str:
        """Why it decides nothing, as text."""
        return self.doubt or (
            f"not measured well enough: the resolution at {self.seconds:.2f} s is {self.resolution:.2f} s, but a "
            f"bound of {bound:.2f} s needs {needed(bound):.2f} s or better"
        )


@dataclass
class Compared(Generic[T]):
    """Measured times by how they compare with a bound, each with what it is about."""

    over: list[tuple[T, Measured]] = field(default_factory=list)
    within: list[tuple[T, Measured]] = field(default_factory=list)
    unknown: list[tuple[T, Measured]] = field(default_factory=list)

    @property
    def kept(self) -> dict[str, int]:
        """How many are surely within the bound, and how many surely above it."""
        return {"kept": len(self.within), "broken": len(self.over)}

    def vague(self, bound: float, least: float) -> Measured | None:
        """The measured time that leaves the comparison undecided; None if enough of them are known well enough.

        Args:
            bound: the bound. A time that is apparently above it must be known.
            least: the share that must be within it surely.
        """
        apparent = [each for _, each in self.unknown if each.seconds > bound]
        if not apparent and len(self.within) >= least * (len(self.within) + len(self.unknown)):
            return None
        return max(apparent or [each for _, each in self.unknown], key=lambda each: each.seconds)


def compare(found: Iterable[tuple[T, Measured]], bound: float) -> Compared[T]:
    """Measured times by how they compare with a bound."""
    compared = Compared[T]()
    for about, measured in found:
        held = measured.against(bound)
        into = {Held.OVER: compared.over, Held.WITHIN: compared.within, Held.UNKNOWN: compared.unknown}[held]
        into.append((about, measured))
    return compared


def coarsest(found: Iterable[tuple[T, Measured]]) -> float:
    """The worst resolution of these times."""
    return max(each.resolution for _, each in found)
