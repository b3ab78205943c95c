"""Services that change, simulated: nodes that follow after a while, and what of them may lie."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from esipp.checks.model import Family, Role
from esipp.judging.timeline import Sample, Stream
from esipp.scenarios.service_change.evidence import Asked, ServiceChangeEvidence, Stage, Stages
from esipp.scenarios.service_change.subject import BESIDE, INSIDE, ON_NODE, ROUTED, SECOND_INSIDE, At, Event, Health
from suites.changes.checks import CHECKS
from suites.changes.events import EVENTS
from tests.unit.world import CLIENT_ADDRESSES, ROLES

EVERY = 33.0
"""Seconds from change to change."""

MOST = max(len(event.changes) for event in EVENTS)
SPACING, TIMEOUT = 0.5, 1.0
HEALTH = frozenset(each.value for each in Health)
HOME = ROLES[Role.ENDPOINT_NODE]

ASKED: Mapping[str, Mapping[Asked, float]] = {
    event.name: {
        (check.subject.at, kind.name, check.subject.family): max(SPACING, kind.every)
        for check in CHECKS
        if check.subject.event is event
        for kind in check.subject.streams
    }
    for event in EVENTS
}
"""The streams of each event, and their spacing."""


def event_of(name: str) -> Event:
    return next(each for each in EVENTS if each.name == name)


@dataclass
class World:
    """All events; each field below is a lie.

    Args:
        lag: seconds until nodes follow a change.
        keeps: what still reaches the pods of before, from the second stage on.
        silent: what gets no answer from the second stage on.
        lossy: what gets no answer in the last 2 s of each stage.
        drops: whether nodes drop what they should refuse.
        never_served: what is never answered.
        busy: seconds before the end of each stage in which nobody gets an answer, the control listeners included.
        every: seconds from change to change.
        errors: the first requests of each stream that are errors of our own.
        most: how many pods of a Service are reached.
        says: what health checks say, whatever they should; empty if they are right.
        lost_at: what loses a single request at this second: a stream everywhere, or at one entry (``vip tcp-new``).
        forgetful: whether nodes ignore affinity.
        never_over: whether an affinity has no end.
        families: those of the streams.
        obstacles: entries that cannot be dialled.
    """

    lag: float = 0.3
    keeps: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    lossy: frozenset[str] = frozenset()
    drops: bool = False
    never_served: frozenset[str] = frozenset()
    busy: float = 0.0
    every: float = EVERY
    errors: int = 0
    most: int = 5
    says: str = ""
    lost_at: dict[str, float] = field(default_factory=dict)
    forgetful: bool = False
    never_over: bool = False
    families: tuple[Family, ...] = (Family.IPV4,)
    obstacles: dict[tuple[At, Family], str] = field(default_factory=dict)

    def stages(self, event: Event) -> list[Stage]:
        return [
            Stage(
                change.words,
                self.every * at,
                self.every * at + 0.05,
                change.names,
                change.is_there,
                change.closed,
                change.sticky,
                change.brief,
                frozenset(each.value for each in change.stuck),
                frozenset(each.value for each in change.sick),
                change.within,
                agent="agent",
                other=change.other.names,
            )
            for at, change in enumerate(event.changes)
        ]

    def _sample(self, stages: list[Stage], asked: Asked, seq: int, spacing: float) -> Sample:
        """A sample of a stream; ``stages`` are those that it must see."""
        when = 0.03 + seq * spacing
        _, name, family = asked
        _, lost_at, keeps, silent, lossy, never_served = self._treatment(asked, spacing)
        now = int(when // self.every)
        followed = now if when - now * self.every >= self.lag or not now else now - 1
        stage = stages[followed]
        lost = Sample(seq, when, when + TIMEOUT, "timeout")
        if seq < self.errors:
            return Sample(seq, when, when, "error")
        if name in HEALTH and not self._is_busy(when):
            return Sample(seq, when, when + 0.002, self.says or ("503" if name in stage.sick else "200"))
        if 0 <= when - lost_at < spacing:
            return lost
        if never_served or (silent and now) or self._is_busy(when):
            return lost
        if lossy and when % self.every > self.every - 2.0:
            return lost
        pods = stages[0].pods if keeps else stage.pods
        if not pods:
            is_refused = stage.is_there and not self.drops
            return Sample(seq, when, when + 0.002, "refused") if is_refused else lost
        source = CLIENT_ADDRESSES["outside-1"][family]
        pods = pods[: self.most]
        kept = (stage.brief and self.never_over) or (stage.sticky and not self.forgetful)
        pod = pods[0 if kept else seq % len(pods)]
        return Sample(seq, when, when + 0.002, "answered", pod, HOME, source)

    def _is_busy(self, when: float) -> bool:
        return bool(self.busy) and when % self.every > self.every - self.busy

    def event(self, event: Event) -> Stages:
        stages = self.stages(event)
        end = self.every * len(stages)
        made = Stages(stages, end, obstacles=dict(self.obstacles))
        alike: dict[tuple[object, ...], list[Sample]] = {}
        for asked, spacing in ASKED[event.name].items():
            at, _, family = asked
            if family in self.families and (at, family) not in self.obstacles:
                these = [stage.at(asked) for stage in stages]
                key = (*these, spacing, family, *self._treatment(asked, spacing))
                if key not in alike:
                    alike[key] = [self._sample(these, asked, seq, spacing) for seq in range(int(end / spacing))]
                made.streams[asked] = frozen(Stream(" ".join(asked), spacing, [*alike[key]]))
        return made

    def _treatment(self, asked: Asked, spacing: float) -> tuple[object, ...]:
        """All that a stream's name and entry decide of its samples."""
        at, name, _ = asked
        lies = (name in lie for lie in (self.keeps, self.silent, self.lossy, self.never_served))
        lost_at = self.lost_at.get(f"{at} {name}", self.lost_at.get(name, -spacing))
        return name if name in HEALTH else "", lost_at, *lies

    def seen(self, *names: str) -> ServiceChangeEvidence:
        """The evidence about these events; about all, if none is named."""
        events = [event for event in EVENTS if event.name in names or not names]
        seen = ServiceChangeEvidence(events={event.name: self.event(event) for event in events})
        times = [0.1 + 0.5 * number for number in range(int(2 * self.every * MOST))]
        listener = frozen(Stream("listener", 0.5, [self._control(seq, when) for seq, when in enumerate(times)]))
        for client in ("outside-1", *(each.name for each in (INSIDE, SECOND_INSIDE, BESIDE, ON_NODE, ROUTED))):
            for family in self.families:
                for node in (HOME, ROLES[Role.BARE_NODE]):
                    seen.controls = {**seen.controls, (client, node, family): listener}
        return seen

    def _control(self, seq: int, when: float) -> Sample:
        if self._is_busy(when):
            return Sample(seq, when, when + 2.5, "timeout")
        return Sample(seq, when, when + 0.002, "answered", "agent", HOME, "192.0.2.1")


def frozen(stream: Stream) -> Stream:
    stream.freeze()
    return stream
