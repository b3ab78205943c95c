"""The evidence of policy changes, as their judge reads it. No I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from esipp.base.clock import Clock
from esipp.checks.model import Family, Outcome, Path, Role, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService
from esipp.checks.timing import FIELD_LIMIT
from esipp.judging.controls import Vantage
from esipp.judging.frame import Interruptions
from esipp.judging.ingress import held
from esipp.judging.observation import Witness
from esipp.judging.timeline import Fits, Sample, SteadyRun, Stream, cut, first_run, last_run
from esipp.judging.topology import IPAddress, Topology, parse_address
from esipp.scenarios.paths.evidence import Evidence

# ------------------------------------------------------------------------------------------------------------ timelines
BUDGET = FIELD_LIMIT
"""Seconds within which a policy change must be followed, for core checks. Upstream's own tests give a Service update
two minutes (KubeProxyLagTimeout). Separate checks require ``PROMPT`` seconds."""

STAYS = 1.0
"""Seconds for which right answers must last, up to the next policy change, to count."""

STEADY = 0.5
"""Seconds after which right answers count as settled, for the claim that nothing falls back to the old policy."""

LEAST = 5
"""The fewest probes in a run of right answers that count."""


class Shown(StrEnum):
    """The policy that one new connection shows."""

    KEPT = "the client's own address"
    REWRITTEN = "rewritten by the node that took it"
    NONE = "no answer"
    DELIVERED = "no answer, but packets reached a backend"
    OTHERWISE = "something else"
    OURS = "trouble of our own"


UNANSWERED = frozenset({Shown.NONE, Shown.DELIVERED})
"""The results without an answer."""

SILENT = (Outcome.TIMEOUT, Outcome.REFUSED, Outcome.UNREACHABLE, Outcome.RESET)
"""The outcomes of connections without an answer."""

DELIVERED = "delivered"
"""The outcome of a connection that got no answer, although packets of it reached a backend."""


@dataclass(frozen=True)
class PolicyAction:
    """One policy change: the time of our request and of the API server's answer, and the answer's content.

    Number 0 is the creation of the Service. ``policy`` and ``health_port`` are those of the answer's spec.
    """

    number: int
    to: TrafficPolicy
    cause: float
    answered: float
    policy: str
    health_port: int = 0


@dataclass(frozen=True)
class Ground:
    """The context for judging probes: the topology, the client, and the Service's only pod, on the endpoint node."""

    topology: Topology
    client: str
    pod: str

    def shown(self, at: At, sample: Sample) -> tuple[Shown, str]:
        """The policy that a probe shows, and a text if it fits neither policy."""
        if sample.outcome == DELIVERED:
            return Shown.DELIVERED, ""
        if sample.outcome in SILENT:
            return Shown.NONE, ""
        if sample.outcome == Outcome.ERROR:
            return Shown.OURS, "the prober failed"
        if not sample.answered or not sample.source:
            return (Shown.NONE, "") if sample.outcome == "pending" else (Shown.OTHERWISE, "not the echo server")
        if sample.pod != self.pod:
            return Shown.OTHERWISE, f"answered by pod {sample.pod or '?'}, not a backend of the Service"
        source = parse_address(sample.source)
        if source in self._client:
            return Shown.KEPT, ""
        dialled = self.topology.roles[at.role] if at.role else None
        owner = self._node_of(source)
        if owner is not None and dialled in (None, owner):
            return Shown.REWRITTEN, ""
        whose = f"node {owner}" if owner else self._whose(source)
        return Shown.OTHERWISE, f"the source was {source} = {whose}"

    def whose(self, sample: Sample) -> Shown:
        """The result of a probe without a Service: the client's own address, or another one."""
        if not sample.answered:
            return Shown.NONE
        return Shown.KEPT if sample.source and parse_address(sample.source) in self._client else Shown.OTHERWISE

    @cached_property
    def held(self) -> frozenset[IPAddress]:
        """Every known address of a node, a pod or a client."""
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
        return "unknown address"


@dataclass(frozen=True)
class Due:
    """The required results under a policy at an entry, and those that may occur sometimes."""

    right: frozenset[Shown]
    missing: frozenset[Shown] = frozenset()


def due(at: At, policy: TrafficPolicy, *, strictly: bool) -> Due:
    """The results that a policy requires of new connections from outside.

    Args:
        at: their entry.
        policy: the policy.
        strictly: require kube-proxy's behaviour; for Cluster, the API only requires that every node answers.
    """
    if policy is TrafficPolicy.LOCAL:
        return Due(frozenset({Shown.NONE})) if at is At.BARE_NODE else Due(_KEPT, UNANSWERED)
    return Due(_REWRITTEN if strictly else _REWRITTEN | _KEPT, UNANSWERED)


_KEPT, _REWRITTEN = frozenset({Shown.KEPT}), frozenset({Shown.REWRITTEN})


def stays(run: SteadyRun) -> bool:
    """Whether right answers lasted long enough to count."""
    return run.lasts(STAYS, LEAST)


@dataclass(frozen=True)
class Phase:
    """The time from one policy change to the next at one entry: the probes that started in it.

    A probe in flight during the next policy change may be answered according to either policy (``under_way``).
    """

    change: PolicyAction
    until: float
    samples: Sequence[Sample]
    under_way: Sequence[Sample] = ()

    def last_run(self, fits: Fits) -> SteadyRun | None:
        """The last uninterrupted run of right answers; None if the phase does not end with one."""
        return last_run(self.samples, self.until, fits)

    def first_steady(self, fits: Fits) -> float | None:
        """When the first run of right answers began that lasted ``STEADY`` seconds."""
        return first_run(self.samples, fits, STEADY, LEAST)


def phases(changes: Sequence[PolicyAction], end: float, stream: Stream) -> list[Phase]:
    """A stream, cut at the policy changes; ``end`` is when it was stopped."""
    stages = cut(stream, [change.cause for change in changes], end)
    return [Phase(change, *stage) for change, stage in zip(changes, stages, strict=True)]


def reads(ground: Ground, at: At, policy: TrafficPolicy, *, strictly: bool) -> Fits:
    """A test whether a probe fits a policy; it returns None for a lost one."""
    wanted = due(at, policy, strictly=strictly)

    def good(sample: Sample) -> bool | None:
        shown, _ = ground.shown(at, sample)
        return True if shown in wanted.right else None if shown in wanted.missing else False

    return good


GONE = ("refused", "timeout", "unreachable", "foreign", "pending")
"""The results at a closed health-check node port: no answer, or that of another Service that has the port now."""

LOST = ("timeout", "unreachable", "pending")

ACCEPTED = "accepted"
"""The result of a health check whose connection was accepted, and then got no data."""


def says(status: str) -> Fits:
    """A test whether a health check gives this status; it returns None for a question without an answer in time.

    With 24 tasks for each core, kube-proxy took 0.9 s for two answers, which is too long (docs/soak.md, run 91).
    """
    return lambda sample: True if sample.outcome == status else None if sample.outcome in (*LOST, ACCEPTED) else False


def closed(sample: Sample) -> bool | None:
    """Whether nothing answers for the Service at its old health-check node port."""
    return sample.outcome in GONE


HealthKey = tuple[int, str, Family]
"""The policy change that allocated the port, the node, and the family."""


REOPENED = "reopened"
"""The outcome of an exchange that needed a new connection, as the established one was gone."""


@dataclass
class Established:
    """Established connections: their entry, the policy change before them, and the exchanges of each."""

    at: At
    family: Family
    number: int
    streams: Sequence[Stream]


SAMPLED = 4
"""The number of connections that packets follow: the first and the last ones of each phase, and of those that the next
change overtook. The last ones of a phase show its policy, the others how the data plane came to it."""


@dataclass
class Course:
    """The evidence about one Service that changed its policy.

    ``data`` are new connections by entry and family, ``health`` requests to its health-check node ports, ``obstacles``
    say why an entry could not be dialled. ``planned`` is the number of planned policy changes.
    """

    changes: list[PolicyAction] = field(default_factory=list)
    end: float = 0.0
    planned: int = 0
    data: dict[tuple[At, Family], Stream] = field(default_factory=dict)
    health: dict[HealthKey, Stream] = field(default_factory=dict)
    obstacles: dict[tuple[At, Family], str] = field(default_factory=dict)
    kept: list[Established] = field(default_factory=list)

    def phases(self, at: At, family: Family) -> list[Phase]:
        """The new connections at one entry, from policy change to policy change."""
        return phases(self.changes, self.end, self.data[at, family])

    def sampled(self) -> Iterator[tuple[str, int]]:
        """The connections to follow through packets, by stream and number; of established ones the ends."""
        for (at, family), stream in self.data.items():
            for phase in self.phases(at, family):
                over = [sample for sample in phase.samples if sample.ended < phase.until][-SAMPLED:]
                chosen = (*phase.samples[:SAMPLED], *over, *phase.under_way[-SAMPLED:])
                yield from ((stream.name, seq) for seq in dict.fromkeys(sample.seq for sample in chosen))
        for stream in (stream for each in self.kept for stream in each.streams):
            yield from ((stream.name, sample.seq) for sample in (*stream.samples[:1], *stream.samples[1:][-1:]))

    def health_phases(self, number: int, node: str, family: Family) -> dict[int, Phase]:
        """The answers of one node at the health-check node port of a change to Local: open, and after its release."""
        stream = self.health.get((number, node, family))
        if stream is None:
            return {}
        known = [change for change in self.changes if change.number >= number][:3]
        made = phases(known, self.end, stream)
        return {phase.change.number: phase for phase in made[:2]}

    def changes_made(self) -> Iterable[PolicyAction]:
        """All policy changes without the creation."""
        return self.changes[1:]


# ------------------------------------------------------------------------------------------------------------ all of it
LEAST_CHANGES = 8
"""The fewest policy changes of other Services that prove that they disturb no other Service."""


@dataclass
class Neighbour:
    """A Service that changes its policy: its changes, its nodePort at the node without local endpoints, its ports.

    ``policy`` is that of its spec at the end. ``bare`` is None without a client outside. ``health`` are the
    health-check node ports at the endpoint node, by the policy change that allocated each.
    """

    changes: list[PolicyAction] = field(default_factory=list)
    policy: str = ""
    bare: Stream | None = None
    health: dict[int, Stream] = field(default_factory=dict)

    def doubt(self, name: str) -> str:
        """Why it is unproven that the policy really changed; or an empty string."""
        refused = [change for change in self.changes if change.policy != change.to.value]
        if refused:
            return f"the API server did not accept policy change {refused[0].number} of {name} to {refused[0].to}"
        if self.changes and self.policy != self.changes[-1].to.value:
            return f"{name} has {self.policy or 'no policy'} after its last policy change"
        if self.bare is not None:
            answered = [sample.answered for sample in self.bare.samples]
            if all(answered) or not any(answered):
                way = "always" if any(answered) else "never"
                return (
                    f"the data plane did not follow {name}: the node without local endpoints {way} answered at its "
                    "nodePort"
                )
        if self.health:
            outcomes = [sample.outcome for stream in self.health.values() for sample in stream.samples]
            if not any(each == "200" for each in outcomes) or not any(each in GONE for each in outcomes):
                return f"the health-check node port of {name} did not open and close"
        return ""


@dataclass
class Window:
    """The answers of unchanged Services while others changed their policy.

    ``evidence`` is that of ``paths``, ``clocks`` are those of the clients that dialled them; ``health`` counts the
    answers by node and family.
    """

    evidence: Evidence
    paths: Sequence[Path] = ()
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    neighbours: dict[str, Neighbour] = field(default_factory=dict)
    health: dict[tuple[Role, Family], dict[str, int]] = field(default_factory=dict)

    @property
    def changes(self) -> list[tuple[str, PolicyAction]]:
        """All policy changes of the other Services, in their order."""
        made = [(name, change) for name, each in self.neighbours.items() for change in each.changes]
        return sorted(made, key=lambda pair: pair[1].cause)

    @cached_property
    def until(self) -> float:
        """When the last connection was made."""
        seen = [(self.clocks[path.client.name], self.evidence.observations[path.key]) for path in self.paths]
        return max((clock.ours(each.started) for clock, made in seen for each in made), default=0.0)

    def doubt(self) -> str:
        """Why it is unproven that policies changed all the time; or an empty string."""
        made = sum(change.cause < self.until for _, change in self.changes)
        if made < LEAST_CHANGES:
            return f"other Services made only {made} policy changes meanwhile, {LEAST_CHANGES} are needed"
        return next((why for name, each in self.neighbours.items() if (why := each.doubt(name))), "")

    def after(self, at: float) -> str:
        """The last policy change of another Service before a time, as text."""
        before = [(name, change) for name, change in self.changes if change.cause <= at]
        if not before:
            return "before any policy change"
        name, change = before[-1]
        return f"{at - change.cause:.2f} s after {name} changed to {change.to}"


@dataclass
class PolicyChangeEvidence(Interruptions):
    """The whole evidence: the window of unchanged Services, and the course of each Service that changed its policy.

    ``controls`` are the control listeners of both nodes, probed all the time by the same client. ``witnesses`` are the
    evidence of packets for the sampled connections of courses and controls, by stream; ``blind`` says why there are no
    packets. Both are empty of a run that captured none while policies changed.
    """

    window: Window | None = None
    ground: Ground | None = None
    courses: dict[ChangingService, Course] = field(default_factory=dict)
    controls: Mapping[tuple[At, Family], Stream] = field(default_factory=dict)
    witnesses: dict[str, list[Witness]] = field(default_factory=dict)
    blind: str = ""

    def sampled(self) -> Iterator[tuple[str, int]]:
        """The connections to follow through packets, by stream and number; of controls the first and the last."""
        for course in self.courses.values():
            yield from course.sampled()
        for stream in self.controls.values():
            chosen = dict.fromkeys(s.seq for s in (*stream.samples[:SAMPLED], *stream.samples[-SAMPLED:]))
            yield from ((stream.name, seq) for seq in chosen)

    @property
    def witnessed(self) -> dict[ChangingService, Course]:
        """The courses as both witnesses have them (``_witnessed``)."""
        return {
            service: replace(
                course,
                data={place: self._witnessed(stream, course.changes) for place, stream in course.data.items()},
                kept=[replace(each, streams=self._agreed(each.streams)) for each in course.kept],
            )
            for service, course in self.courses.items()
        }

    def witnesses_of(self, streams: Iterable[Stream]) -> list[Witness]:
        """The witnesses of packets of some streams."""
        return [witness for stream in streams for witness in self.witnesses.get(stream.name, ())]

    def _witnessed(self, stream: Stream, changes: Sequence[PolicyAction] = ()) -> Stream:
        """A stream without the connections on which both witnesses contradict each other.

        Where packets reached a backend although no answer came back, the outcome says so; not where the policy changed
        before the client gave up, as the client's kernel sends a SYN again, which the next policy may let through.
        """
        witnesses = self.witnesses.get(stream.name, ())
        lies = {each.seq for each in witnesses if each.contradiction}
        delivered = {each.seq for each in witnesses if each.delivered}
        if not lies and not delivered:
            return stream
        made = [
            sample._replace(outcome=DELIVERED)
            if sample.seq in delivered
            and sample.outcome in SILENT
            and not any(sample.started <= change.cause <= sample.ended for change in changes)
            else sample
            for sample in stream.samples
            if sample.seq not in lies
        ]
        found = Stream(stream.name, stream.spacing, made)
        found.freeze()
        return found

    def _agreed(self, streams: Sequence[Stream]) -> list[Stream]:
        """The established connections on which no witness contradicts the other."""
        return [stream for stream in streams if not any(each.contradiction for each in self.witnesses_of([stream]))]

    def doubt(self, family: Family) -> str:
        """Why the client outside proves nothing; empty if both nodes see its own address without a Service."""
        ground = self.ground
        assert ground is not None
        if not any(of is family for _, of in self.controls):
            return f"no control listener was probed over {family}"
        for (at, of), stream in self.controls.items():
            if of is not family:
                continue
            samples = self._witnessed(stream).samples
            shown = [ground.whose(sample) for sample in samples]
            strange = next((s for s, said in zip(samples, shown, strict=True) if said is Shown.OTHERWISE), None)
            if strange is not None:
                return (
                    f"the client must reach the {at} with its own address, but its control listener saw "
                    f"{strange.source}"
                )
            if 2 * shown.count(Shown.KEPT) <= len(shown):
                answered = f"{shown.count(Shown.KEPT)} of {len(shown)}"
                return f"the control listener of the {at} answered only {answered} requests"
        return ""

    def vantage(self, family: Family) -> Vantage:
        """The controls of the client: the nodes' control listeners."""
        return Vantage({at.value: stream for (at, of), stream in self.controls.items() if of is family})
