"""From streams of probes to what became of each flip: one clock, one phase from flip to flip. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from esipp.checks.model import Family, TrafficPolicy
from esipp.checks.observation import Outcome
from esipp.checks.policy_change import At
from esipp.checks.timing import FIELD_LIMIT
from esipp.judging.endpoint_change.samples import Sample, Stream
from esipp.judging.ingress import held
from esipp.judging.topology import IPAddress, Topology, parse_address

BUDGET = FIELD_LIMIT
"""Seconds within which a flip must have been followed, for core checks. Upstream's own tests give a service update two
minutes (KubeProxyLagTimeout). Checks of their own ask for ``PROMPT`` seconds."""

STAYS = 1.0
"""Seconds that what is right must last, up to the next flip, to be believed."""

STEADY = 0.5
"""Seconds after which right answers count as settled for the claim that nothing falls back to the old policy."""

SILENCE = 0.9
"""Seconds without an answer that do not end what is steadily right: single connections that got lost are counted as
losses, and not as another source."""

LEAST = 5
"""Probes in what must last; with fewer nothing is said."""


class Shown(StrEnum):
    """What one new connection shows of the policy."""

    KEPT = "the client's own address"
    REWRITTEN = "rewritten by the node that took it"
    NONE = "no answer"
    OTHERWISE = "something else"
    OURS = "trouble of our own"


@dataclass(frozen=True)
class Flip:
    """One change of the policy: when we asked for it and when the API server had answered, what it then said.

    Number 0 is how the Service was created. ``policy`` and ``health_port`` are what the answer's spec has.
    """

    number: int
    to: TrafficPolicy
    cause: float
    answered: float
    policy: str
    health_port: int = 0


@dataclass(frozen=True)
class Ground:
    """What probes are held against: who is who, and the one pod behind the Service, on the endpoint node."""

    topology: Topology
    client: str
    pod: str

    def shown(self, at: At, sample: Sample) -> tuple[Shown, str]:
        """What a probe shows, and in words where it is neither policy's."""
        if sample.outcome in (Outcome.TIMEOUT, Outcome.REFUSED, Outcome.UNREACHABLE, Outcome.RESET):
            return Shown.NONE, ""
        if sample.outcome == Outcome.ERROR:
            return Shown.OURS, "the prober failed"
        if not sample.answered or not sample.source:
            return (Shown.NONE, "") if sample.outcome == "pending" else (Shown.OTHERWISE, "it was not our echo server")
        if sample.pod != self.pod:
            return Shown.OTHERWISE, f"answered by pod {sample.pod or '?'}, which is not behind the service"
        source = parse_address(sample.source)
        if source in self._client:
            return Shown.KEPT, ""
        dialled = self.topology.roles[at.role] if at.role else None
        owner = self._node_of(source)
        if owner is not None and dialled in (None, owner):
            return Shown.REWRITTEN, ""
        whose = f"node {owner}" if owner else self._whose(source)
        return Shown.OTHERWISE, f"the source was {source}, of {whose}"

    def whose(self, sample: Sample) -> Shown:
        """Whose address a probe shows that no Service was between; it is the client's own, or not."""
        if not sample.answered:
            return Shown.NONE
        return Shown.KEPT if sample.source and parse_address(sample.source) in self._client else Shown.OTHERWISE

    @cached_property
    def held(self) -> frozenset[IPAddress]:
        """Every address that is known to be a node's, a pod's or a client's."""
        return held(self.topology)

    @property
    def _client(self) -> frozenset[IPAddress]:
        return self.topology.stands[self.client].addresses

    def _node_of(self, address: IPAddress) -> str | None:
        return next((name for name, node in self.topology.nodes.items() if address in node.addresses), None)

    def _whose(self, address: IPAddress) -> str:
        for name, own in self.topology.balancers.items():
            if address in own:
                return f"load balancer {name}"
        return "nobody we know"


@dataclass(frozen=True)
class Due:
    """What must be seen under a policy at an entry, and what may be missing now and then."""

    right: frozenset[Shown]
    missing: frozenset[Shown] = frozenset()


def due(at: At, policy: TrafficPolicy, *, strictly: bool) -> Due:
    """What a policy says of new connections from outside.

    Args:
        at: where they are made.
        policy: the policy.
        strictly: as kube-proxy does it; the API says of Cluster only that every node answers.
    """
    if policy is TrafficPolicy.LOCAL:
        return Due(frozenset({Shown.NONE})) if at is At.BARE_NODE else Due(_KEPT, _NONE)
    return Due(_REWRITTEN if strictly else _REWRITTEN | _KEPT, _NONE)


_KEPT, _REWRITTEN, _NONE = frozenset({Shown.KEPT}), frozenset({Shown.REWRITTEN}), frozenset({Shown.NONE})


@dataclass(frozen=True)
class Lasting:
    """The last uninterrupted run of right answers in a phase: since when, until when, how many probes."""

    since: float
    until: float
    probes: int

    @property
    def stays(self) -> bool:
        """Whether it lasted long enough to be believed."""
        return self.until - self.since >= STAYS and self.probes >= LEAST


@dataclass(frozen=True)
class Phase:
    """From one flip to the next, at one place: the probes that started in it.

    One that was under way when the policy flipped, and answered then, may be answered as either policy says.
    """

    flip: Flip
    until: float
    samples: Sequence[Sample]
    under_way: Sequence[Sample] = ()

    def last_run(self, good: Callable[[Sample], bool | None]) -> Lasting | None:
        """The last uninterrupted run of probes that are good; None if the phase does not end with one.

        ``good`` says None of a probe that neither begins nor breaks it, if that is not for long.
        """
        since, probes, last = 0.0, 0, self.until
        for sample in reversed(self.samples):
            said = good(sample)
            if said is False or last - sample.started > SILENCE:
                break
            if said:
                since = last = sample.started
                probes += 1
        return Lasting(since, self.until, probes) if probes else None

    def first_steady(self, good: Callable[[Sample], bool | None]) -> float | None:
        """When the first run of good probes began that lasted ``STEADY`` seconds."""
        since: float | None = None
        probes = 0
        for sample in self.samples:
            said = good(sample)
            if said is False:
                since, probes = None, 0
            elif said:
                since = sample.started if since is None else since
                probes += 1
                if sample.started - since >= STEADY and probes >= LEAST:
                    return since
        return None


def phases(flips: Sequence[Flip], end: float, stream: Stream) -> list[Phase]:
    """A stream, cut at the flips; ``end`` is when it was stopped."""
    made = []
    for flip, until in zip(flips, [*(flip.cause for flip in flips[1:]), end], strict=True):
        here = stream.view(flip.cause, until)
        made.append(
            Phase(
                flip,
                until,
                [sample for sample in here if not sample.answered or sample.ended <= until],
                [sample for sample in here if sample.answered and sample.ended > until],
            )
        )
    return made


def reads(ground: Ground, at: At, policy: TrafficPolicy, *, strictly: bool) -> Callable[[Sample], bool | None]:
    """Whether a probe is as a policy says; None of one that got lost."""
    wanted = due(at, policy, strictly=strictly)

    def good(sample: Sample) -> bool | None:
        shown, _ = ground.shown(at, sample)
        return True if shown in wanted.right else None if shown in wanted.missing else False

    return good


GONE = ("refused", "timeout", "unreachable", "foreign", "pending")
"""What a health-check port that is closed shows: no answer, or that of another Service that has the port now."""

LOST = ("timeout", "unreachable", "pending")


def says(status: str) -> Callable[[Sample], bool | None]:
    """Whether a health check says so; None of a question that got lost."""
    return lambda sample: True if sample.outcome == status else None if sample.outcome in LOST else False


def closed(sample: Sample) -> bool | None:
    """Whether nobody answers for the Service at its old health-check port."""
    return sample.outcome in GONE


HealthKey = tuple[int, str, Family]
"""The flip that gave the port, the node, the family."""


REOPENED = "reopened"
"""The outcome of an exchange for which a new connection had to be made: the one that was watched is gone."""


@dataclass
class Kept:
    """Connections that were to stay open: where they were made, after which flip, and each one's exchanges."""

    at: At
    family: Family
    number: int
    streams: Sequence[Stream]


@dataclass
class Course:
    """What was seen of one Service whose policy flipped.

    ``data`` are new connections by entry and family, ``health`` questions to its health-check ports, ``obstacles``
    say why an entry could not be dialled. ``planned`` is the number of flips that were to be made.
    """

    flips: list[Flip] = field(default_factory=list)
    end: float = 0.0
    planned: int = 0
    data: dict[tuple[At, Family], Stream] = field(default_factory=dict)
    health: dict[HealthKey, Stream] = field(default_factory=dict)
    obstacles: dict[tuple[At, Family], str] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)

    def phases(self, at: At, family: Family) -> list[Phase]:
        """What new connections at one entry showed, from flip to flip."""
        return phases(self.flips, self.end, self.data[at, family])

    def health_phases(self, number: int, node: str, family: Family) -> dict[int, Phase]:
        """What one node said at the health-check port of a flip to Local: then, and once it was left again."""
        stream = self.health.get((number, node, family))
        if stream is None:
            return {}
        known = [flip for flip in self.flips if flip.number >= number][:3]
        made = phases(known, self.end, stream)
        return {phase.flip.number: phase for phase in made[:2]}

    def flips_made(self) -> Iterable[Flip]:
        """All but how it was created."""
        return self.flips[1:]
