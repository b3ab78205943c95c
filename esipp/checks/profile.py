"""A load balancer's profile as types: what it does with packets, whom it asks how often, how long it takes. No I/O.

Everything that is no name carries where it is from (``Told``). Bounds are computed here and stand in no file: their
grade is ``derived``.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from esipp.checks.model import AddressClass, Family, Protocol

T = TypeVar("T")


class Grade(StrEnum):
    """How sure a figure is: written by whoever makes the thing, told by others, or computed by us."""

    DOCUMENTED = "documented"
    REPORTED = "reported"
    DERIVED = "derived"


@dataclass(frozen=True)
class Source:
    """Where a figure is from: a document, a file of a project, an issue."""

    id: str
    grade: Grade
    text: str
    url: str = ""


@dataclass(frozen=True)
class Told(Generic[T]):
    """A figure and where it is from."""

    value: T
    sources: tuple[Source, ...]

    @property
    def grade(self) -> Grade:
        """Documented where any of its sources is a document."""
        documented = any(source.grade is Grade.DOCUMENTED for source in self.sources)
        return Grade.DOCUMENTED if documented else Grade.REPORTED


class Class(StrEnum):
    """The tutorial's two ways: a packet forwarder, or a proxy that opens a connection of its own."""

    FORWARDER = "forwarder"
    PROXY = "proxy"


class Destination(StrEnum):
    """Whose address a packet has as its destination when it arrives at a node."""

    VIP = "vip"
    NODE = "node"
    POD = "pod"


class Target(StrEnum):
    """What a health check dials."""

    HEALTH_CHECK_NODE_PORT = "health-check-node-port"
    KUBE_PROXY = "kube-proxy"
    NODE_PORT = "node-port"
    POD = "pod"
    NONE = "none"


class Asks(StrEnum):
    """How a health check asks."""

    HTTP = "http"
    TCP = "tcp"
    NONE = "none"


class Steering(StrEnum):
    """What decides which nodes get traffic: checks, a list that is written by an API, or who announces the VIP."""

    HEALTH_CHECKS = "health-checks"
    MEMBERSHIP = "membership"
    ANNOUNCEMENT = "announcement"


class Outcome(StrEnum):
    """What becomes of a check that a limit hits.

    ``unsupported``: it cannot be asked. ``fails``: the product does not keep it. ``differs``: it is a known difference,
    or recorded only. ``undecided``: what it needs does not come to be.
    """

    UNSUPPORTED = "unsupported"
    FAILS = "fails"
    DIFFERS = "differs"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class HealthCheck:
    """How nodes are asked under one policy; seconds, and results in a row.

    ``no_traffic_period`` goes where nobody is served; ``first_failure`` marks that one clear failure is enough,
    whatever the threshold; ``off_by_default`` that there are none unless somebody asks for them.
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
        """Whether nodes are asked at all, if only when somebody wants it."""
        return self.protocol.value is not Asks.NONE

    @property
    def on(self) -> bool:
        """Whether nodes are asked without anybody's asking for it."""
        return self.there and not (self.off_by_default and self.off_by_default.value)

    @property
    def bound(self) -> float | None:
        """(N+1) x period: the design's worst case after a node lost its last endpoint, if nodes are asked at all."""
        if not self.there or self.period is None or self.unhealthy is None:
            return None
        return (self.unhealthy.value + 1) * self.period.value

    @property
    def idle_bound(self) -> float | None:
        """The same of a node that is not served: it may be asked less often."""
        if not self.there or self.no_traffic_period is None or self.unhealthy is None:
            return None
        return (self.unhealthy.value + 1) * self.no_traffic_period.value

    @property
    def silent_bound(self) -> float | None:
        """The same of a node that does not answer at all: each failed check lasts for its time-out."""
        if self.bound is None or self.timeout is None or self.unhealthy is None:
            return None
        return self.bound + self.unhealthy.value * self.timeout.value

    @property
    def rise(self) -> float | None:
        """Healthy x period: until a node counts as healthy, at most, where it answers from some moment on."""
        if not self.there or self.period is None or self.healthy is None:
            return None
        return self.healthy.value * self.period.value


@dataclass(frozen=True)
class Datapath:
    """What it does with packets: its class, whose address the pod must see, which destination the node sees.

    ``out_of_band`` are the headers in which the true client comes, where it comes in one.
    """

    kind: Told[Class]
    local: Told[frozenset[AddressClass]]
    cluster: Told[frozenset[AddressClass]]
    destination: Told[Destination]
    out_of_band: Told[tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Status:
    """How a VIP is announced: ``form`` is ``ip``, ``hostname`` or ``none``; ``ip_mode`` None where none is set."""

    form: Told[str]
    ip_mode: Told[str] | None = None


@dataclass(frozen=True)
class Times:
    """Seconds: ``usual`` from a Service to its first answer, from and to; then what waiting may take at most.

    ``created`` until the VIP is there, ``answering`` from then to the first answer, ``removed`` until it is gone;
    ``idle`` after which a silent connection is forgotten.
    """

    usual: Told[tuple[float, float]] | None = None
    created: Told[float] | None = None
    answering: Told[float] | None = None
    removed: Told[float] | None = None
    idle: Told[float] | None = None


@dataclass(frozen=True)
class Trap:
    """What a test that knows nothing of it would get wrong."""

    kind: str
    text: str
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Annotation:
    """What a Service must carry for some purpose (``internal``, ``proxy-protocol`` …)."""

    purpose: str
    key: str
    value: str
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Limit:
    """What becomes of checks about the cluster's own load balancer; an empty field hits all of them.

    ``policies`` are ``Local``, ``Cluster``, ``unset``; ``clients`` are vantages; ``what`` is that of the convergence
    suite's checks, which no limit with another field hits.
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
    """By what it is found: names of platforms, and patterns (Python's) of what it leaves on a cluster's objects.

    ``default`` is what a Service gets on these platforms where nothing says otherwise. ``annotations`` are keys, or
    ``key=value``; of ``needs`` each must be there too, or one of several with " or " between them. ``objects`` are
    collections of the API (``group/version/plural``) in which something is where it is at work: where they can be read
    and are empty, it is not.
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
    """A profile.

    Args:
        name: by which ``--provider`` asks for it.
        title: what it is, in a line.
        system: whose it is: the design's systems (GCE, AWS, Azure, OpenStack), or others.
        noun: how one is called in a sentence: ``an NLB``.
        like: the profile that it varies, if any.
        spreads: whether it uses all healthy nodes at once, and not one at a time; None where that is not known.
        own_bound: seconds until it has steered away from a node, where that does not follow from N and period.
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
        """Seconds until it has steered away from a node that says 503, at most; None where nothing bounds it."""
        if self.own_bound is not None:
            return self.own_bound.value
        return self.local.bound if self.local.on else None

    @property
    def kind(self) -> Class:
        """Forwarder or proxy."""
        return self.datapath.kind.value

    @property
    def rise(self) -> float | None:
        """Seconds until a node that got a pod gets traffic, at most: by its checks, and by its place in a list."""
        waits = [self.local.rise if self.local.on else None, self.membership.value if self.membership else None]
        known = [each for each in waits if each is not None]
        return sum(known) if known else None


ABOUT = "load-balancer"
"""What the notes in the ledger are about."""
