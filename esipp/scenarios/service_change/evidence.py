"""The evidence of this scenario: what each stream showed, stage by stage, and how that is read. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from esipp.checks.model import Family
from esipp.checks.timing import FIELD_LIMIT
from esipp.judging.controls import Vantage
from esipp.judging.frame import Interruptions
from esipp.judging.timeline import ANSWERED, OURS, Fits, Sample, SteadyRun, Stream, cut, last_run
from esipp.scenarios.service_change.subject import At, Health, is_closed

Asked = tuple[At, str, Family]
"""A stream of an event: the entry, the name of its kind, and the family."""


@dataclass(frozen=True)
class Stage:
    """A stage of an event: how it began, when we asked for it and when the API server had accepted it, and its pods.

    ``closed``, ``sticky``, ``brief``, ``stuck``, ``sick``, ``within`` and ``away`` are as in ``Change``. ``refused`` is
    what the API server said if it did not create the Service although its ports and ClusterIPs were free. ``agent`` is
    the pod behind the control listener of another node, ``other`` are the pods of the event's other Service.
    ``unwritten`` is until when the Service's EndpointSlices were seen unchanged, so that no node could follow; None if
    they changed at once, if no change was necessary, or if all streams followed.
    """

    words: str
    cause: float
    accepted: float
    pods: tuple[str, ...] = ()
    is_there: bool = True
    closed: frozenset[str] = frozenset()
    sticky: bool = False
    brief: bool = False
    stuck: frozenset[str] = frozenset()
    sick: frozenset[str] = frozenset()
    within: float = FIELD_LIMIT
    refused: str = ""
    agent: str = ""
    other: tuple[str, ...] = ()
    away: frozenset[str] = frozenset()
    unwritten: float | None = None

    def is_silent(self, at: At) -> bool:
        """Whether nothing at all is required of an entry."""
        return at.value in self.stuck & self.away

    def at(self, asked: Asked) -> "Stage":
        """The stage as a stream must see it: nobody serves where it is closed."""
        where, name, family = asked
        if where is At.OUT:
            return replace(self, pods=(self.agent,))
        if where.is_another:
            return replace(self, pods=self.other)
        shut = is_closed(self.closed, where, name.partition("-")[0], family)
        return replace(self, pods=(), is_there=False) if shut else self


@dataclass
class Stages:
    """The evidence about one event: its stages until ``end``, its streams, and why some could not be started."""

    stages: list[Stage] = field(default_factory=list)
    end: float = 0.0
    streams: dict[Asked, Stream] = field(default_factory=dict)
    obstacles: dict[tuple[At, Family], str] = field(default_factory=dict)

    def of_stages(self, asked: Asked) -> list["InStage"]:
        """A stream, stage by stage."""
        causes = [stage.cause for stage in self.stages]
        cuts = cut(self.streams[asked], causes, self.end, responds=lambda sample: sample.answered or refused(sample))
        return [InStage(stage.at(asked), *each[:2]) for stage, each in zip(self.stages, cuts, strict=True)]


REFUSED = ("refused", "unreachable")


def refused(sample: Sample) -> bool:
    """Whether a request was rejected, and not left without an answer."""
    return sample.outcome in REFUSED


@dataclass(frozen=True)
class InStage:
    """The requests of a stream that began in a stage; those that the next one's rules may have met are left out."""

    stage: Stage
    until: float
    samples: Sequence[Sample]


@dataclass
class ServiceChangeEvidence(Interruptions):
    """The whole evidence. ``controls`` are nodes' control listeners, by client, node and family."""

    events: dict[str, Stages] = field(default_factory=dict)
    controls: Mapping[tuple[str, str, Family], Stream] = field(default_factory=dict)

    def vantage(self, client: str, family: Family) -> Vantage:
        """The controls of a client."""
        own = {node: each for (name, node, of), each in self.controls.items() if (name, of) == (client, family)}
        return Vantage(own)


STAYS, LEAST = 1.0, 3
"""Seconds, and probes, for which right answers or silence must last, up to the next stage, to count."""

WELL, SICK = "200", "503"


def served(stage: Stage) -> Fits:
    """A test whether a pod of the stage answered; it returns None for a request that was lost."""
    return lambda sample: sample.pod in stage.pods if sample.answered else None


def gone(stage: Stage) -> Fits:
    """A test whether no other pod answered."""

    def fits(sample: Sample) -> bool | None:
        if sample.outcome == OURS:
            return None
        return sample.outcome != ANSWERED or sample.pod in stage.pods

    return fits


def rejects(seen: InStage) -> bool:
    """Whether the nodes refuse requests in a stage: several, or one in its second half.

    Nodes limit the rate of their ICMP errors, so few are enough. But kube-proxy writes its tables one after the other:
    for a moment after the change, a node has neither the rule of a nodePort nor one that drops, and its kernel refuses.
    """
    times = [sample.ended for sample in seen.samples if refused(sample)]
    return len(times) > 1 or any(2 * time >= seen.stage.accepted + seen.until for time in times)


STICKS, MOST = 3.0, 10
"""Seconds, and probes, for which one pod of several must answer alone: by chance it is that in one of millions."""


def stuck(seen: InStage) -> SteadyRun | None:
    """How long one pod alone has answered until the end of a stage; None if not for long enough to be no chance."""
    last = next((sample.pod for sample in reversed(seen.samples) if sample.answered), "")
    found = last_run(
        seen.samples, seen.until, lambda sample: sample.pod == last if sample.answered else None, pauses=False
    )
    return found if found is not None and found.lasts(STICKS, MOST) else None


def reached(seen: InStage) -> set[str]:
    """The pods of a stage that have answered in it."""
    return {sample.pod for sample in seen.samples if sample.answered}.intersection(seen.stage.pods)


def shows(seen: InStage, *, is_new: bool) -> bool:
    """Whether a stream shows all that it must in a stage; ``is_new`` if each request may reach another pod."""
    if is_new and seen.stage.brief:
        return len(reached(seen)) > 1
    if is_new and seen.stage.sticky and len(seen.stage.pods) > 1:
        return stuck(seen) is not None
    return not is_new or reached(seen) == {*seen.stage.pods}


def says(stage: Stage, health: str) -> Fits:
    """A test whether a health check said what it must; it returns None for a request without an answer."""
    right = SICK if health in stage.sick else WELL
    return lambda sample: sample.outcome == right if sample.outcome in (SICK, WELL) else None


def wanted(stage: Stage, stream: str) -> Fits:
    """What a stream of this kind waits for in a stage."""
    if stream in tuple(Health):
        return says(stage, stream)
    return served(stage) if stage.pods else gone(stage)


def steady(seen: InStage, fits: Fits) -> SteadyRun | None:
    """What is right until the end of a stage; None if it does not end so, or not for long enough."""
    found = last_run(seen.samples, seen.until, fits, pauses=False)
    return found if found is not None and found.lasts(STAYS, LEAST) else None
