"""The evidence of policy changes, as their judge reads it. No I/O."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from esipp.base.clock import Clock
from esipp.checks.model import Family, Path, Role
from esipp.checks.observation import Witness
from esipp.checks.policy_change import At, ChangingService
from esipp.judging.controls import Vantage
from esipp.judging.frame import Interruptions
from esipp.judging.timeline import Stream
from esipp.scenarios.paths.evidence import Evidence
from esipp.scenarios.policy_change.timeline import (
    DELIVERED,
    GONE,
    SAMPLED,
    SILENT,
    Course,
    Ground,
    PolicyAction,
    Shown,
)

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
