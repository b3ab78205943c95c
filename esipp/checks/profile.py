"""Types of load balancer profiles: data path, health checks, timing, limits. No I/O.

Every value except names has its sources (``Told``). Bounds are computed here and are not in files; their grade is
``derived``.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from esipp.checks.model import AddressClass, Family, Protocol

T = TypeVar("T")


class Grade(StrEnum):
    """The grade of a value: documented by its vendor, reported by others, or derived by this suite."""

    DOCUMENTED = "documented"
    REPORTED = "reported"
    DERIVED = "derived"


@dataclass(frozen=True)
class Source:
    """The source of a value: a document, a file of a project, an issue."""

    id: str
    grade: Grade
    text: str
    url: str = ""


@dataclass(frozen=True)
class Told(Generic[T]):
    """A value and its sources."""

    value: T
    sources: tuple[Source, ...]

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


class Target(StrEnum):
    """The target of a health check."""

    HEALTH_CHECK_NODE_PORT = "health-check-node-port"
    KUBE_PROXY = "kube-proxy"
    NODE_PORT = "node-port"
    POD = "pod"
    NONE = "none"


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

    protocol: Told[Asks]
    target: Told[Target]
    path: Told[str] | None = None
    period: Told[float] | None = None
    timeout: Told[float] | None = None
    healthy: Told[int] | None = None
    unhealthy: Told[int] | None = None
    no_traffic_period: Told[float] | None = None
    first_failure: Told[bool] | None = None
    off_by_default: Told[bool] | None = None

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
class Datapath:
    """The data path: class, address that the pod must see under each policy, and destination that the node sees.

    ``out_of_band`` are the headers with the client's address, if there are any.
    """

    kind: Told[Class]
    local: Told[frozenset[AddressClass]]
    cluster: Told[frozenset[AddressClass]]
    destination: Told[Destination]
    out_of_band: Told[tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Status:
    """The load balancer status: ``form`` is ``ip``, ``hostname`` or ``none``; ``ip_mode`` is None if unset."""

    form: Told[str]
    ip_mode: Told[str] | None = None


@dataclass(frozen=True)
class Times:
    """Times in seconds. ``usual`` is the range from the creation of a Service to its first answer.

    The others are upper limits: ``created`` until the VIP exists, ``answering`` from then to the first answer,
    ``removed`` until the VIP is gone, ``idle`` until the load balancer forgets an idle connection.
    """

    usual: Told[tuple[float, float]] | None = None
    created: Told[float] | None = None
    answering: Told[float] | None = None
    removed: Told[float] | None = None
    idle: Told[float] | None = None


@dataclass(frozen=True)
class Trap:
    """A property that leads to wrong results in tests that do not know it."""

    kind: str
    text: str
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Annotation:
    """An annotation that a Service needs for a purpose (``internal``, ``proxy-protocol`` …)."""

    purpose: str
    key: str
    value: str
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Limit:
    """A limit of the cluster's own load balancer, and its effect on checks; an empty field matches all checks.

    ``policies`` are ``Local``, ``Cluster``, ``unset``; ``clients`` are vantages; ``what`` is a claim of the convergence
    suite, which limits with other fields do not match.
    """

    outcome: Outcome
    why: str
    sources: tuple[Source, ...]
    protocols: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    what: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Marks:
    """Marks for detection: platforms, and patterns (Python's) of traces on a cluster's objects.

    ``default``: Services on these platforms get this load balancer by default. ``annotations`` are keys, or
    ``key=value``. Every mark in ``needs`` must be present too, or one of several with " or " between them. ``objects``
    are API collections (``group/version/plural``): readable and empty collections exclude this load balancer.
    """

    platforms: frozenset[str] = frozenset()
    default: bool = False
    workloads: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()
    finalizers: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    hostnames: tuple[str, ...] = ()
    ip_modes: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadBalancer:
    """The profile of a load balancer.

    Args:
        name: its name for ``--provider``.
        title: a description in one line.
        system: the system: one of the design (GCE, AWS, Azure, OpenStack), or another.
        noun: the noun in sentences: ``an NLB``.
        like: the profile that it is based on, if any.
        spreads: whether it uses all healthy nodes at once, and not one at a time; None if unknown.
        own_bound: seconds until it stops sending traffic to a node, if that does not follow from N and period.
    """

    name: str
    title: str
    system: str
    noun: str
    datapath: Datapath
    local: HealthCheck
    cluster: HealthCheck
    steering: Told[tuple[Steering, ...]]
    membership: Told[float] | None
    probes: Told[tuple[str, ...]] | None
    families: Told[tuple[Family, ...]]
    protocols: Told[tuple[Protocol, ...]]
    status: Status
    times: Times
    traps: tuple[Trap, ...]
    annotations: tuple[Annotation, ...]
    limits: tuple[Limit, ...]
    found: Marks
    like: str = ""
    spreads: Told[bool] | None = None
    own_bound: Told[float] | None = None

    @property
    def bound(self) -> float | None:
        """Return the longest time in seconds until a node that answers 503 gets no traffic; None without a bound."""
        if self.own_bound is not None:
            return self.own_bound.value
        return self.local.bound if self.local.on else None

    @property
    def kind(self) -> Class:
        """Return forwarder or proxy."""
        return self.datapath.kind.value

    @property
    def rise(self) -> float | None:
        """Return the longest time in seconds until a node with a new pod gets traffic, by checks and membership."""
        waits = [self.local.rise if self.local.on else None, self.membership.value if self.membership else None]
        known = [each for each in waits if each is not None]
        return sum(known) if known else None


ABOUT = "load-balancer"
"""The subject of notes about load balancers in the ledger."""
