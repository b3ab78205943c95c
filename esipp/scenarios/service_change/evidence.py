"""The evidence of this scenario: what each stream showed, stage by stage, on one clock. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from esipp.checks.model import Family
from esipp.checks.timing import FIELD_LIMIT
from esipp.judging.controls import Vantage
from esipp.judging.interruptions import Interruptions
from esipp.judging.timeline.stages import cut
from esipp.judging.timeline.streams import Sample, Stream
from esipp.scenarios.service_change.subject import At, place

Asked = tuple[At, str, Family]
"""A stream of an event: the entry, the name of its kind, and the family."""


@dataclass(frozen=True)
class Stage:
    """A stage of an event: how it began, when we asked for it and when the API server had accepted it, and its pods.

    ``closed``, ``sticky``, ``brief``, ``stuck``, ``sick`` and ``within`` are as in ``Change``. ``refused`` is what the
    API server said if it did not create the Service although its ports were free. ``agent`` is the pod behind the
    reference listener of another node.
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

    def at(self, asked: Asked) -> "Stage":
        """The stage as a stream must see it: nobody serves where it is closed."""
        where, name, _ = asked
        if where is At.OUT:
            return replace(self, pods=(self.agent,))
        shut = place(where, name.partition("-")[0]) in self.closed
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
