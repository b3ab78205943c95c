"""Types of load balancer profiles: data path, health checks, timing, limits. No I/O.

They have the form of a profile's file: a field is a key, or names its ``key``. Every value except names has its sources
(``Figure``). Bounds are computed here and are not in files.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated, Generic, Literal, TypeVar

from esipp.checks.model import AddressClass, Family, Protocol

T = TypeVar("T")

# ------------------------------------------------------------------------------------------------------------- values
POD_SOURCES = frozenset(
    {AddressClass.CLIENT, AddressClass.NODE, AddressClass.POD, AddressClass.LOAD_BALANCER, AddressClass.OTHER}
)
"""Owners of the source addresses that a pod can see."""

LONGEST = 86_400.0
"""Upper limit for seconds in a profile."""


def _pod_sources(value: frozenset[AddressClass]) -> frozenset[AddressClass]:
    if not value or not value <= POD_SOURCES:
        raise ValueError(f"expected some of {', '.join(sorted(POD_SOURCES))}")
    return value


def _seconds(value: float) -> float:
    if not 0 < value <= LONGEST:
        raise ValueError(f"expected seconds, more than 0 and at most {LONGEST:.0f}, not {value:g}")
    return value


def _count(value: int) -> int:
    if not 1 <= value <= 1000:
        raise ValueError(f"expected a whole number from 1 to 1000, not {value}")
    return value


def _span(value: tuple[float, float]) -> tuple[float, float]:
    since, until = value
    if since > _seconds(until) or since < 0:
        raise ValueError(f"{since:g} to {until:g} s: the first is negative or larger")
    return value


def _url_path(value: str) -> str:
    if value != "none" and not re.match(r"/[!-~]*\Z", value):
        raise ValueError(f"expected a path like '/healthz', or 'none', not {value!r}")
    return "" if value == "none" else value


def _url(value: str) -> str:
    if not re.match(r"https://[^\s<>\"()]+\Z", value):
        raise ValueError(f"expected an https:// address, not {value!r}")
    return value


def _prober(value: str) -> str:
    if re.match(r"[0-9a-fA-F.:]+(/|\Z)", value):
        ip_network(value)
    return value


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as broken:
        raise ValueError(f"{value!r} is not a valid pattern: {broken}") from None
    return value


PodSources = Annotated[frozenset[AddressClass], _pod_sources]
"""Owners of source addresses, of ``POD_SOURCES``; at least one."""
Seconds = Annotated[float, _seconds]
"""More than 0, at most ``LONGEST``."""
Count = Annotated[int, _count]
"""A number of times, 1 to 1000."""
Span = Annotated[tuple[float, float], _span]
"""Seconds from and to."""
UrlPath = Annotated[str, _url_path]
"""The path of a URL. A file writes ``none`` to remove the path that it takes over; it is empty then."""
Prober = Annotated[str, _prober]
"""A CIDR, or a description where none can be named."""
Pattern = Annotated[str, _pattern]
"""A regular expression."""
Header = Literal["x-forwarded-for", "proxy-v1", "proxy-v2"]
Policy = Literal["Local", "Cluster", "unset"]


# ------------------------------------------------------------------------------------------------------------ figures


class Grade(StrEnum):
    """The grade of a value: documented by its vendor, or reported by others."""

    DOCUMENTED = "documented"
    REPORTED = "reported"


@dataclass(frozen=True)
class Source:
    """The source of a value: a document, a file of a project, an issue."""

    grade: Grade
    text: str
    url: Annotated[str, _url] = ""


CITED = {"key": "source"}
"""The metadata of a field of sources."""


@dataclass(frozen=True)
class Figure(Generic[T]):
    """A value and its sources."""

    value: T
    sources: tuple[Source, ...] = field(metadata=CITED)

    @property
    def grade(self) -> Grade:
        """Return ``documented`` if any source is a document, else ``reported``."""
        documented = any(source.grade is Grade.DOCUMENTED for source in self.sources)
        return Grade.DOCUMENTED if documented else Grade.REPORTED


class Class(StrEnum):
    """The two classes in the Kubernetes tutorial: a packet forwarder, or a proxy with its own connections."""

    FORWARDER = "forwarder"
    PROXY = "proxy"


class Destination(StrEnum):
    """The destination address of packets that arrive at a node."""

    VIP = "vip"
    NODE = "node"
    POD = "pod"


PROXY_PORT = 10256
"""The port of kube-proxy's own health check, by default; a service proxy that replaces kube-proxy may serve it, too."""


class Target(StrEnum):
    """The target of a health check."""

    HEALTH_CHECK_NODE_PORT = "health-check-node-port"
    KUBE_PROXY = "kube-proxy"
    NODE_PORT = "node-port"
    POD = "pod"
    NONE = "none"

    @property
    def words(self) -> str:
        """Return what is asked, as text."""
        return {
            Target.HEALTH_CHECK_NODE_PORT: "the health-check node port",
            Target.KUBE_PROXY: f"kube-proxy ({PROXY_PORT})",
            Target.NODE_PORT: "the nodePort",
            Target.POD: "the pod",
            Target.NONE: "nothing",
        }[self]


class Asks(StrEnum):
    """The protocol of a health check."""

    HTTP = "http"
    TCP = "tcp"
    NONE = "none"


class Steering(StrEnum):
    """What selects the nodes for traffic: health checks, a membership list, or the node that announces the VIP."""

    HEALTH_CHECKS = "health-checks"
    MEMBERSHIP = "membership"
    ANNOUNCEMENT = "announcement"


class Outcome(StrEnum):
    """The effect of a limit on a check.

    ``unsupported``: the check cannot run. ``fails``: the product does not meet it. ``differs``: a known difference, or
    recorded only. ``undecided``: its precondition does not occur.
    """

    UNSUPPORTED = "unsupported"
    FAILS = "fails"
    DIFFERS = "differs"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class HealthCheck:
    """The health checks of nodes under one policy: seconds, and numbers of consecutive results.

    ``no_traffic_period`` applies to nodes without traffic. ``first_failure``: one clear failure is enough, whatever the
    threshold. ``off_by_default``: there are no health checks unless a user requests them.
    """

    protocol: Figure[Asks]
    target: Figure[Target]
    path: Figure[UrlPath] | None = None
    period: Figure[Seconds] | None = None
    timeout: Figure[Seconds] | None = None
    healthy: Figure[Count] | None = None
    unhealthy: Figure[Count] | None = None
    no_traffic_period: Figure[Seconds] | None = None
    first_failure: Figure[bool] | None = None
    off_by_default: Figure[bool] | None = None

    def __post_init__(self) -> None:
        if self.there == (self.target.value is Target.NONE):
            raise ValueError("protocol and target must both be 'none', or neither")
        if self.there and (self.period is None or self.unhealthy is None):
            raise ValueError("a health check needs a period and an unhealthy threshold")

    @property
    def there(self) -> bool:
        """Return whether there are health checks, at least on request."""
        return self.protocol.value is not Asks.NONE

    @property
    def on(self) -> bool:
        """Return whether there are health checks by default."""
        return self.there and not (self.off_by_default and self.off_by_default.value)

    @property
    def bound(self) -> float | None:
        """Return (N+1) x period: the design's worst case after a node lost its last endpoint; None without checks."""
        if not self.there or self.period is None or self.unhealthy is None:
            return None
        return (self.unhealthy.value + 1) * self.period.value

    @property
    def idle_bound(self) -> float | None:
        """Return the same bound for a node without traffic, which may be probed less often."""
        if not self.there or self.no_traffic_period is None or self.unhealthy is None:
            return None
        return (self.unhealthy.value + 1) * self.no_traffic_period.value

    @property
    def silent_bound(self) -> float | None:
        """Return the same bound for a node that does not answer: each failed check takes its timeout."""
        if self.bound is None or self.timeout is None or self.unhealthy is None:
            return None
        return self.bound + self.unhealthy.value * self.timeout.value

    @property
    def rise(self) -> float | None:
        """Return healthy x period: the longest time until an answering node counts as healthy."""
        if not self.there or self.period is None or self.healthy is None:
            return None
        return self.healthy.value * self.period.value


@dataclass(frozen=True)
class HealthChecks:
    """The health checks of nodes under each policy."""

    local: HealthCheck
    cluster: HealthCheck


@dataclass(frozen=True)
class NodeSelection:
    """How nodes are selected for traffic.

    ``membership``: seconds until a list of members is updated. ``spreads``: whether it uses all healthy nodes at once,
    and not one at a time; None if unknown. ``bound``: seconds until it stops sending traffic to a node, if N and period
    do not say. ``fail_over``: seconds until another node has the VIP of a node that is gone. ``fail_open``: whether it
    sends traffic to all nodes while none is healthy; None if unknown. ``follows``: whether the node that announces the
    VIP of a Local Service has an endpoint; None if unknown. ``lease``: the name of
    the Lease in kube-system whose holder announces a Service, with NAMESPACE and SERVICE.
    """

    by: Figure[tuple[Steering, ...]]
    membership: Figure[Seconds] | None = None
    spreads: Figure[bool] | None = None
    bound: Figure[Seconds] | None = None
    fail_over: Figure[Seconds] | None = None
    fail_open: Figure[bool] | None = None
    follows: Figure[bool] | None = None
    lease: Figure[str] | None = None


@dataclass(frozen=True)
class Probes:
    """The addresses that health checks come from."""

    addresses: Figure[tuple[Prober, ...]] | None = field(default=None, metadata={"key": "from"})


@dataclass(frozen=True)
class Carried:
    """What is carried."""

    families: Figure[tuple[Family, ...]]
    protocols: Figure[tuple[Protocol, ...]]


@dataclass(frozen=True)
class Datapath:
    """The data path: class, address that the pod must see under each policy, and destination that the node sees.

    ``out_of_band`` are the headers with the client's address, if there are any.
    """

    kind: Figure[Class] = field(metadata={"key": "class"})
    local: Figure[PodSources]
    cluster: Figure[PodSources]
    destination: Figure[Destination]
    out_of_band: Figure[tuple[Header, ...]] | None = None


@dataclass(frozen=True)
class Status:
    """The load balancer status: ``form`` is ``ip``, ``hostname`` or ``none``; ``ip_mode`` is None if unset.

    ``shared``: whether several Services have the same addresses, so that they must differ in their ports.
    """

    form: Figure[Literal["ip", "hostname", "none"]]
    ip_mode: Figure[Literal["VIP", "Proxy"]] | None = None
    shared: Figure[bool] | None = None


@dataclass(frozen=True)
class Times:
    """Times in seconds. ``usual`` is the range from the creation of a Service to its first answer.

    The others are upper limits: ``created`` until the VIP exists, ``answering`` from then to the first answer,
    ``removed`` until the VIP is gone, ``idle`` until the load balancer forgets an idle connection.
    """

    usual: Figure[Span] | None = None
    created: Figure[Seconds] | None = None
    answering: Figure[Seconds] | None = None
    removed: Figure[Seconds] | None = None
    idle: Figure[Seconds] | None = None


@dataclass(frozen=True)
class Trap:
    """A property that leads to wrong results in tests that do not know it."""

    kind: str
    text: str
    sources: tuple[Source, ...] = field(metadata=CITED)


@dataclass(frozen=True)
class Annotation:
    """An annotation that a Service needs for a purpose (``internal``, ``tags``, ``proxy-v2`` …)."""

    purpose: str
    key: str
    value: str
    sources: tuple[Source, ...] = field(metadata=CITED)


@dataclass(frozen=True)
class Limit:
    """A limit of the cluster's own load balancer, and its effect on checks; an empty field matches all checks.

    ``policies`` are ``Local``, ``Cluster``, ``unset``; ``clients`` are vantages; ``what`` is a claim of the convergence
    suite, which limits with other fields do not match.
    """

    outcome: Outcome
    why: str
    sources: tuple[Source, ...] = field(metadata=CITED)
    protocols: frozenset[Protocol] = frozenset()
    families: frozenset[Family] = frozenset()
    policies: frozenset[Policy] = frozenset()
    clients: frozenset[Literal["outside", "pod", "node"]] = frozenset()
    what: frozenset[str] = frozenset()

    @property
    def hides_clients(self) -> bool:
        """Return whether it is that of a proxy: pods do not see the client's address under Local."""
        return self.policies == {"Local"} and self.outcome in (Outcome.FAILS, Outcome.DIFFERS)

    def fits(self, family: Family | None) -> bool:
        """Return whether it is one of all families, or of this one."""
        return not self.families or (family is not None and family.value in self.families)


@dataclass(frozen=True)
class Marks:
    """Marks for detection: platforms, and patterns (Python's) of traces on a cluster's objects.

    ``default``: Services on these platforms get this load balancer by default. ``annotations`` are keys, or
    ``key=value``. Every mark in ``needs`` must be present too, or one of several with " or " between them. ``objects``
    are API collections (``group/version/plural``): readable and empty collections exclude this load balancer.
    ``add_ons`` are network add-ons of which it may be a part: objects are looked for where they run, and alone count.
    """

    platforms: frozenset[str] = frozenset()
    default: bool = False
    workloads: tuple[Pattern, ...] = ()
    classes: frozenset[str] = frozenset()
    finalizers: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    hostnames: tuple[Pattern, ...] = ()
    ip_modes: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    add_ons: tuple[Pattern, ...] = ()


@dataclass(frozen=True)
class LoadBalancer:
    """The profile of a load balancer.

    Args:
        name: its name for ``--provider``.
        title: a description in one line.
        system: the system: one of the design (GCE, AWS, Azure, OpenStack), or another.
        noun: the noun in sentences: ``an NLB``.
        like: the profile that it is based on, if any.
        without: lists of that profile that it does not take over.
        sources: all of its sources, by id.
    """

    name: str
    title: str
    system: str
    noun: str
    sources: Mapping[str, Source]
    datapath: Datapath
    check: HealthChecks
    steering: NodeSelection
    carries: Carried
    status: Status
    probes: Probes = Probes()
    times: Times = Times()
    traps: tuple[Trap, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    limits: tuple[Limit, ...] = ()
    found: Marks = Marks()
    like: str = ""
    without: tuple[Literal["traps", "annotations", "limits"], ...] = ()

    @property
    def local(self) -> HealthCheck:
        """Return the health checks under Local."""
        return self.check.local

    @property
    def cluster(self) -> HealthCheck:
        """Return the health checks under Cluster."""
        return self.check.cluster

    @property
    def bound(self) -> float | None:
        """Return the longest time in seconds until a node that answers 503 gets no traffic; None without a bound."""
        if self.steering.bound is not None:
            return self.steering.bound.value
        return self.local.bound if self.local.on else None

    @property
    def kind(self) -> Class:
        """Return forwarder or proxy."""
        return self.datapath.kind.value

    @property
    def rise(self) -> float | None:
        """Return the longest time in seconds until a node with a new pod gets traffic, by checks and membership."""
        membership = self.steering.membership
        waits = [self.local.rise if self.local.on else None, membership.value if membership else None]
        known = [each for each in waits if each is not None]
        return sum(known) if known else None


ABOUT = "load-balancer"
"""The subject of notes about load balancers in the ledger."""
