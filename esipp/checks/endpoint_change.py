"""``EndpointChange``: a load balancer, a family, and a claim about what follows its endpoints. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import Check, Subject
from esipp.checks.model import ANYTHING, Balancer, Family
from esipp.checks.profile import Limit
from esipp.checks.timing import PROMPT


class Kind(StrEnum):
    """The names of endpoint changes, in ledgers and reports."""

    OPENED = "opened"
    CLOSED = "closed"
    DELETED = "deleted"
    KILLED = "killed"
    ELSEWHERE = "elsewhere"

    @property
    def event(self) -> "Event":
        """Return what it is."""
        return EVENTS[self]


@dataclass(frozen=True, kw_only=True)
class Event:
    """A kind of endpoint change, as data; scenarios/endpoint_change/run.py makes it, each one after the other.

    Args:
        words: what requirements call the endpoint; ``happens``: a sentence.
        adds: a node without a ready pod gets one; ``removes``: a node loses its only one. With both, a pod goes to
            another node: two changes at once.
        deletes: the pod is deleted, and made again; otherwise its readiness changes.
        serves: the pod keeps serving for a while.
        weight: how often it is drawn, in relation to the others.
        least: how often it comes at least, if there are enough changes: checks need it, and chance would omit it.
        rests: the number of changes for which the node is left alone afterwards, if there is another one: its pod must
            end and start again.
    """

    words: str
    happens: str
    adds: bool = False
    removes: bool = False
    deletes: bool = False
    serves: bool = False
    weight: int = 1
    least: int = 0
    rests: int = 0


EVENTS: Mapping[Kind, Event] = {
    Kind.OPENED: Event(
        words="ready",
        happens="The pod on a node without ready pods becomes ready.",
        adds=True,
        weight=3,  # as likely as all removals together
    ),
    Kind.CLOSED: Event(
        words="unready", happens="The only ready pod of a node becomes unready, and runs on.", removes=True, least=1
    ),
    Kind.DELETED: Event(
        words="deleted",
        happens="The only ready pod of a node is deleted, and serves for a while.",
        removes=True,
        deletes=True,
        serves=True,
        least=2,  # a load balancer may not use the node at that time
        rests=3,
    ),
    Kind.KILLED: Event(
        words="killed",
        happens="The only ready pod of a node is deleted without grace.",
        removes=True,
        deletes=True,
        least=1,
        rests=2,
    ),
    Kind.ELSEWHERE: Event(
        words="moved",
        happens="The pod on a node without ready pods becomes ready, and that of another node unready, at once.",
        adds=True,
        removes=True,
        weight=2,  # takes no longer than either of its halves
    ),
}
"""All kinds. They are drawn one after the other, behind each load balancer; ``judges`` says which a claim is about."""


class What(StrEnum):
    """A claim about the Service of one load balancer while its endpoints change."""

    STEERS = "steers"
    PLACE = "only-allowed-pods"
    SOURCE = "source"
    BLACK_HOLE = "black-hole"
    NO_LOSS = "no-loss-on-graceful-deletion"
    BALANCE = "balance"
    TIMES_UP = "response-up"
    TIMES_DOWN = "response-down"
    HEALTH = "health-follows"
    OTHERS = "health-of-other-nodes"
    PATH = "path-follows"
    HEALTH_PROMPT = "health-follows-promptly"
    PATH_PROMPT = "path-follows-promptly"
    THRESHOLD = "threshold"
    VIEW_LOCAL = "health-view-local"
    VIEW_CLUSTER = "health-view-cluster"
    FREED = "vip-freed"


def judges(what: What, event: Event) -> bool:
    """Return whether a claim is judged over changes of this kind."""
    if what is What.NO_LOSS:
        return event.removes and event.serves
    if what is What.BLACK_HOLE:
        return event.removes and not event.serves
    if what in (What.PATH, What.PATH_PROMPT):
        return not event.serves
    if what in (What.TIMES_UP, What.TIMES_DOWN):
        return event.adds if what is What.TIMES_UP else event.removes
    return what is not What.BALANCE


SPREADS = frozenset({Balancer.ECMP, Balancer.PROXY})
"""Reference load balancers that use all healthy nodes at once. For the cluster's own, its profile or a run tells."""

PROXIES = frozenset({Balancer.PROXY})
"""Load balancers that show pods their own address."""

EXPECTED = {
    What.STEERS: "follows every change",
    What.PLACE: "no answer from a pod that must not serve",
    What.SOURCE: "the correct source in every answer",
    What.BLACK_HOLE: "losses end within the bound after the node's 503",
    What.NO_LOSS: "no request is lost",
    What.BALANCE: "equal for each node",
    What.TIMES_UP: "recorded",
    What.TIMES_DOWN: "recorded",
    What.HEALTH: "200 and 503 follow every change",
    What.OTHERS: "503 from every node that never has a pod",
    What.PATH: "the nodePort follows every change",
    What.HEALTH_PROMPT: f"200 and 503 within {PROMPT:.0f} s of the EndpointSlice",
    What.PATH_PROMPT: f"the nodePort within {PROMPT:.0f} s of the EndpointSlice",
    What.THRESHOLD: "as many failed health checks as the profile says, one more or less",
    What.VIEW_LOCAL: "only endpoint nodes are healthy",
    What.VIEW_CLUSTER: "all nodes are healthy, except those with the exclusion label",
    What.FREED: "no VIP for a deleted Service",
}

AFTER_503 = "shortly after the 503"
"""Evidence: a pod answers for a moment after its node's 503, because the node stopped serving only the other family."""

FORWARDED = "forwarded before it was translated"
"""Evidence: a node that gets its first endpoint forwards requests, masqueraded, to the node that has the VIP."""

WEIGHED = "weighed"
"""Evidence: the distribution fits the weights that the nodes' health checks report."""


def service_name(balancer: Balancer) -> str:
    """Return the name of the Service with changing endpoints."""
    return f"moves-{balancer.value}"


@dataclass(frozen=True)
class EndpointChange(Subject):
    """A claim about one load balancer. ``family`` is that of the VIP, or None for a check of nodes."""

    balancer: Balancer
    what: What
    family: Family | None = None

    @property
    def part(self) -> str:
        """Return the load balancer."""
        return self.balancer.value

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the claim."""
        return {"what": self.what.value}

    @property
    def balanced(self) -> frozenset[str]:
        """Return the claim, and the family of the VIP if there is one."""
        if self.balancer is not Balancer.DEFAULT:
            return frozenset()
        return frozenset({ANYTHING, self.what.value, *([self.family.value.lower()] if self.family else [])})

    @property
    def own_service(self) -> str:
        """Return the Service with the dialled VIP, if it belongs to the cluster's own load balancer."""
        return service_name(self.balancer) if self.balancer is Balancer.DEFAULT and self.family else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the family of the VIP, for the check of the source."""
        own = self.balanced and self.what is What.SOURCE
        return frozenset({self.family.value.lower()}) if own and self.family else frozenset()

    def limited_by(self, limit: Limit) -> bool:
        """Return whether the limit is one of its claim or family; that of a proxy affects the source at VIPs."""
        if self.balancer is not Balancer.DEFAULT or not limit.fits(self.family):
            return False
        if limit.what:
            return self.what.value in limit.what
        if limit.hides_clients:
            return self.what is What.SOURCE and self.family is not None
        return not limit.protocols and not limit.policies and not limit.clients


EndpointChangeCheck = Check[EndpointChange]
"""A check that traffic and health checks follow endpoints."""
