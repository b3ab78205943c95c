"""Measured times, their precision, how they compare with bounds, and which bound a load balancer promises. Pure.

A promise is the user's, the named profile's, or the detected one's. What a load balancer reports of itself, and
captured packets, are none: it would set its own bound. The verdict lists them next to the bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from typing_extensions import TypedDict

from esipp.checks.profile import Grade, LoadBalancer, Target

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


# ----------------------------------------------------------------------------------------- the bounds of load balancers
NOBODY = "neither a profile nor --bound says how fast this load balancer must follow"
BY_USER = "--bound"
AS_STARTED = "the settings that esipp started it with"


class CheckingNumbers(TypedDict):
    """The health checks of a load balancer: seconds between two checks, and failed checks until it acts."""

    period: float | None
    failures: int | None


@dataclass(frozen=True)
class Checking:
    """A load balancer's health-check settings.

    ``period`` in seconds; ``failures`` in a row until it leaves a node; ``timeout`` in seconds, after which a check
    without an answer has failed. Each may be unknown.
    """

    period: float | None = None
    failures: int | None = None
    timeout: float | None = None

    @property
    def bound(self) -> float | None:
        """(N+1) x period: the design's worst case after a node lost its last endpoint."""
        if self.period is None or self.failures is None:
            return None
        return (self.failures + 1) * self.period

    @property
    def silent_bound(self) -> float | None:
        """N x timeout + period: the worst case after a node stopped answering, as checks of it end by their timeout."""
        if self.period is None or self.failures is None or self.timeout is None:
            return None
        return self.failures * max(self.period, self.timeout) + self.period

    @property
    def numbers(self) -> CheckingNumbers:
        """The same as JSON."""
        return {"period": self.period, "failures": self.failures}


PERIOD_OFF = 0.5
"""How much of its length the period of health checks may differ from its profile's: no prober is exact."""


@dataclass(frozen=True)
class Bound:
    """Seconds after which a load balancer must have left a node, and the source of that figure."""

    seconds: float
    source: str


@dataclass(frozen=True)
class Promise:
    """What a load balancer must achieve.

    Args:
        seconds: from a node's 503 until no request through it is lost; None without a promise.
        source: who promises it; without a promise, a sentence that says so.
        spreads: whether it uses all healthy nodes at once; None if unknown.
        by_checks: whether it is known to rely on health checks of the nodes.
        known: whether anything is known about this load balancer.
    """

    seconds: float | None = None
    source: str = NOBODY
    spreads: bool | None = None
    by_checks: bool = False
    known: bool = False

    @property
    def words(self) -> str:
        """The bound and its source."""
        return self.source if self.seconds is None else f"bound {self.seconds:.2f} s from {self.source}"

    @property
    def bound(self) -> Bound | None:
        """Its bound; None without a promise: no profile, or a load balancer that makes no health checks by default."""
        return None if self.seconds is None else Bound(self.seconds, self.source)


@dataclass(frozen=True)
class Threshold:
    """After how many failed health checks in a row a load balancer leaves a node, by its profiles.

    Args:
        counts: the figures; several if several profiles fit, or if one clear failure is enough.
        source: who says so.
        unbound: why nothing is required; empty if the figure is certain and documented.
    """

    counts: tuple[int, ...] = ()
    source: str = ""
    unbound: str = "the run did not record what the profile says"


def promise_of(profiles: Sequence[LoadBalancer], *, sure: bool, bound: float | None = None) -> Promise:
    """The promise of the cluster's own load balancer.

    Args:
        profiles: its possible profiles; if several fit, each must promise a bound, and the longest counts.
        sure: whether the user named the profile; if not, only documented figures count.
        bound: the user's bound, which takes precedence.
    """
    spread = {each.steering.spreads.value if each.steering.spreads else None for each in profiles}
    spreads = spread.pop() if len(spread) == 1 else None
    by_checks = bool(profiles) and all(each.local.on for each in profiles)
    if bound is not None:
        return Promise(bound, BY_USER, spreads, by_checks, True)
    named = " or ".join(each.name for each in profiles)
    bounds = [(each.bound, each) for each in profiles if sure or _documented(each)]
    longest = max(
        ((seconds, each) for seconds, each in bounds if seconds is not None), key=lambda x: x[0], default=None
    )
    if longest is None or any(seconds is None for seconds, _ in bounds) or len(bounds) < len(profiles):
        why = f"profile {named} has no bound, and --bound is not set" if named else NOBODY
        return Promise(None, why, spreads, by_checks, bool(profiles))
    seconds, profile = longest
    how = "--provider" if sure else "detected"
    return Promise(seconds, f"profile {profile.name} ({how}): {_figures(profile)}", spreads, by_checks, True)


def fail_over_of(profiles: Sequence[LoadBalancer], *, sure: bool) -> Bound | None:
    """How soon another node must take over the VIP of a node that is gone, and who says so; None without a promise.

    Args:
        profiles: the possible profiles; if several fit, each must promise it, and the longest time counts.
        sure: whether the user named the profile; if not, only documented figures count.
    """
    figures = [(each.steering.fail_over, each) for each in profiles]
    known = [
        (figure.value, each)
        for figure, each in figures
        if figure is not None and (sure or figure.grade is Grade.DOCUMENTED)
    ]
    if not known or len(known) < len(figures):
        return None
    seconds, profile = max(known, key=lambda pair: pair[0])
    return Bound(seconds, f"profile {profile.name} ({'--provider' if sure else 'detected'}): fail-over")


def promise_of_reference(settings: Mapping[str, Any]) -> Promise:
    """The promise of the reference load balancer: the settings that esipp gave it."""
    if not {"period", "unhealthy"} <= settings.keys():
        return Promise(None, "the reference load balancer does not report its settings", True, True, True)
    checking = Checking(float(settings["period"]), int(settings["unhealthy"]))
    words = f"{AS_STARTED}: N={checking.failures}, period {checking.period:g} s"
    return Promise(checking.bound, words, True, True, True)


def threshold_of(profiles: Sequence[LoadBalancer], *, certain: bool) -> Threshold:
    """The threshold of the cluster's own load balancer at health-check node ports.

    Args:
        profiles: its possible profiles.
        certain: whether the user named the profile, or the load balancer itself did.
    """
    checks = [(each.local.unhealthy, each) for each in profiles]
    figures = [
        (figure, each)
        for figure, each in checks
        if figure and each.local.on and each.local.target.value is Target.HEALTH_CHECK_NODE_PORT
    ]
    if not figures or len(figures) < len(profiles):
        others = " or ".join(each.name for each in profiles if each not in [known for _, known in figures])
        return Threshold(unbound=f"{others} does not probe the health-check node port" if others else "no profile fits")
    at_once = {1 for _, each in figures if each.local.first_failure and each.local.first_failure.value}
    counts = tuple(sorted({figure.value for figure, _ in figures} | at_once))
    names = " or ".join(each.name for _, each in figures)
    documented = all(figure.grade is Grade.DOCUMENTED for figure, _ in figures)
    return Threshold(counts, names, unbound(names, certain=certain, documented=documented))


def probe_timeout_of(profiles: Sequence[LoadBalancer], target: Target, *, certain: bool) -> Bound:
    """When the cluster's own load balancer gives up a health check without an answer; ``GIVES_UP`` if unknown.

    Args:
        profiles: its possible profiles; if several fit, each must say it, and the longest time counts.
        target: what the health check asks.
        certain: whether the user named the profile, or the load balancer itself did; if not, only documented figures
            count.
    """
    longest = Bound(0.0, "")
    for each in profiles:
        figures = [
            check.timeout.value
            for check in (each.local, each.cluster)
            if check.on and check.target.value is target and check.timeout
            if certain or check.timeout.grade is Grade.DOCUMENTED
        ]
        if not figures:
            return Bound(GIVES_UP, f"the default, as profile {each.name} does not say it")
        said = Bound(max(figures), f"profile {each.name}")
        longest = max(longest, said, key=lambda bound: bound.seconds)
    return longest if longest.source else Bound(GIVES_UP, "the default, as no profile says it")


def threshold_of_reference(settings: Mapping[str, Any]) -> Threshold:
    """The threshold of the reference load balancer: the setting that esipp gave it."""
    if "unhealthy" not in settings:
        return Threshold(unbound="the reference load balancer does not report its settings")
    return Threshold((int(settings["unhealthy"]),), AS_STARTED, "")


def unbound(names: str, *, certain: bool, documented: bool) -> str:
    """Why a figure of profiles requires nothing; empty if it does."""
    if not certain:
        return f"{names} was only detected (--provider names it)"
    return "" if documented else f"the figure of {names} is reported by others, not documented"


def _documented(profile: LoadBalancer) -> bool:
    """Whether the figures of its bound come from the vendor's documentation."""
    figures = [profile.steering.bound] if profile.steering.bound else [profile.local.period, profile.local.unhealthy]
    return all(each is not None and each.grade is Grade.DOCUMENTED for each in figures)


def _figures(profile: LoadBalancer) -> str:
    check = profile.local
    if profile.steering.bound or check.unhealthy is None or check.period is None:
        return "its own bound"
    return f"(N+1) x period, N={check.unhealthy.value}, period {check.period.value:g} s"
