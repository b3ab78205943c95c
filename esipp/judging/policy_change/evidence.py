"""What was seen while policies flipped, as the judge gets it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from esipp.base.clock import Clock
from esipp.checks.model import Family, Path, Role
from esipp.checks.policy_change import At, Flipping
from esipp.judging.controls import Vantage
from esipp.judging.course import Course as Trials
from esipp.judging.endpoint_change.samples import Stream
from esipp.judging.paths import Evidence
from esipp.judging.policy_change.timeline import GONE, Course, Flip, Ground, Shown

LEAST_FLIPS = 8
"""Flips of the neighbours that must have been made for the claim that they disturb nobody."""


@dataclass
class Neighbour:
    """One neighbour: its flips, what its nodePort showed at the bare node, and its health-check ports.

    ``policy`` is what its spec said at the end. ``bare`` is None where no client stands outside, ``health`` is by the
    flip that gave the port, at the endpoint node.
    """

    flips: list[Flip] = field(default_factory=list)
    policy: str = ""
    bare: Stream | None = None
    health: dict[int, Stream] = field(default_factory=dict)

    def doubt(self, name: str) -> str:
        """Why it cannot be said that the neighbour really flipped; or nothing."""
        refused = [flip for flip in self.flips if flip.policy != flip.to.value]
        if refused:
            return f"flip {refused[0].number} of {name} to {refused[0].to} was not taken"
        if self.flips and self.policy != self.flips[-1].to.value:
            return f"{name} was read back with {self.policy or 'no policy'} after its last flip"
        if self.bare is not None:
            answered = [sample.answered for sample in self.bare.samples]
            if all(answered) or not any(answered):
                way = "always" if any(answered) else "never"
                return f"the data plane did not follow {name}: the bare node {way} answered at its nodePort"
        if self.health:
            told = [sample.outcome for stream in self.health.values() for sample in stream.samples]
            if not any(each == "200" for each in told) or not any(each in GONE for each in told):
                return f"the health-check port of {name} did not come and go"
        return ""


@dataclass
class Window:
    """The steady services' answers while neighbours flipped.

    ``evidence`` is of ``paths``, ``clocks`` of the clients they were dialled from; ``health`` are answers by node and
    family, with how many said so.
    """

    evidence: Evidence
    paths: Sequence[Path] = ()
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    neighbours: dict[str, Neighbour] = field(default_factory=dict)
    health: dict[tuple[Role, Family], dict[str, int]] = field(default_factory=dict)

    @property
    def flips(self) -> list[tuple[str, Flip]]:
        """All flips of neighbours, in their order."""
        made = [(name, flip) for name, each in self.neighbours.items() for flip in each.flips]
        return sorted(made, key=lambda pair: pair[1].cause)

    @cached_property
    def until(self) -> float:
        """When the last connection was made."""
        seen = [(self.clocks[path.client.name], self.evidence.observations[path.key]) for path in self.paths]
        return max((clock.ours(each.started) for clock, made in seen for each in made), default=0.0)

    def doubt(self) -> str:
        """Why it cannot be said that neighbours flipped all the while; or nothing."""
        made = sum(flip.cause < self.until for _, flip in self.flips)
        if made < LEAST_FLIPS:
            return f"only {made} flips of neighbours were made meanwhile, {LEAST_FLIPS} are needed"
        return next((why for name, each in self.neighbours.items() if (why := each.doubt(name))), "")

    def after(self, at: float) -> str:
        """Which flip of a neighbour was the last before a time, in words."""
        before = [(name, flip) for name, flip in self.flips if flip.cause <= at]
        if not before:
            return "before any neighbour's flip"
        name, flip = before[-1]
        return f"{at - flip.cause:.2f} s after {name} flipped to {flip.to}"


@dataclass
class Seen(Trials):
    """Everything: the window of the steady services, and the course of each Service whose own policy flipped.

    ``controls`` are the reference listeners of both nodes, asked all the time by the same client.
    """

    window: Window | None = None
    ground: Ground | None = None
    courses: dict[Flipping, Course] = field(default_factory=dict)
    controls: Mapping[tuple[At, Family], Stream] = field(default_factory=dict)

    def doubt(self, family: Family) -> str:
        """Why the client outside cannot be believed; or nothing: on the direct way both nodes see its own address."""
        ground = self.ground
        assert ground is not None
        if not any(of is family for _, of in self.controls):
            return f"no reference listener was asked over {family}"
        for (at, of), stream in self.controls.items():
            if of is not family:
                continue
            shown = [ground.whose(sample) for sample in stream.samples]
            strange = next((s for s, said in zip(stream.samples, shown, strict=True) if said is Shown.OTHERWISE), None)
            if strange is not None:
                return f"the client must reach the {at} as itself, but its reference listener saw {strange.source}"
            if 2 * shown.count(Shown.KEPT) <= len(shown):
                return f"the reference listener of the {at} answered {shown.count(Shown.KEPT)} of {len(shown)} times"
        return ""

    def vantage(self, family: Family) -> Vantage:
        """What the client's own way to the nodes was worth: their reference listeners."""
        return Vantage({at.value: stream for (at, of), stream in self.controls.items() if of is family})
