"""The plan of a run's events: which run side by side, and which alone. Pure.

Events that touch only their own Services run side by side, those that touch a node or the whole cluster alone, or with
those that share all disruptions. What loads the machine does not run beside what measures it would disturb.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.disruption import CLUSTER_WIDE, Disruption
from esipp.checks.event import Event


class Touches(StrEnum):
    """What an event changes."""

    OWN_SERVICES = "own Services"
    NODE = "a node"
    CLUSTER = "the whole cluster"


def touched_by(disruptions: Collection[Disruption]) -> Touches:
    """What an event with these disruptions changes; one without any changes its own Services."""
    if CLUSTER_WIDE.intersection(disruptions):
        return Touches.CLUSTER
    return Touches.NODE if disruptions else Touches.OWN_SERVICES


@dataclass(frozen=True)
class PlannedEvent:
    """A part of a scenario's run that changes something.

    Args:
        name: its name in plans and reports.
        seconds: how long it usually takes.
        touches: what it changes.
        services: a name for the Services that it changes; empty if no other event of the scenario changes them.
        measures: whether it measures times below a second, or counts single losses.
        loads: whether it keeps the machine or the API server busy, as with the creation of many Services.
        disrupts: its disruptions, in order, if it can share them with other events.
        of: the parts of checks that need it; empty if there is one, with its name.
    """

    name: str
    seconds: float = 0.0
    touches: Touches = Touches.OWN_SERVICES
    services: str = ""
    measures: bool = False
    loads: bool = False
    disrupts: tuple[tuple[str, str], ...] = ()
    of: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of checks that need it."""
        return self.of or (self.name,)

    def may_run_beside(self, other: "PlannedEvent") -> bool:
        """Whether both may run at the same time."""
        if {self.touches, other.touches} != {Touches.OWN_SERVICES} and not self.shares_with(other):
            return False
        if self.services and self.services == other.services:
            return False
        return not (self.loads and other.measures) and not (self.measures and other.loads)

    def shares_with(self, other: "PlannedEvent") -> bool:
        """Whether one disruption is enough for both, each time: one may have more of them, after those of the other."""
        alike = [own == others for own, others in zip(self.disrupts, other.disrupts, strict=False)]
        return bool(alike) and all(alike)


def planned(event: Event, services: str = "", measures: bool = False) -> PlannedEvent:
    """Plan an event by what it says of itself."""
    touches = touched_by(event.disruptions)
    return PlannedEvent(str(event.name), event.seconds, touches, services, measures, disrupts=event.disrupts)


def only_own_services(events: Iterable[PlannedEvent]) -> bool:
    """Whether a scenario with these events changes nothing but its own Services."""
    return all(event.touches is Touches.OWN_SERVICES for event in events)


def may_run_aside(events: Collection[PlannedEvent]) -> bool:
    """Whether a scenario with these events may run beside another: all are of its own Services, and none loads."""
    return only_own_services(events) and not any(event.loads for event in events)


Step = tuple[PlannedEvent, ...]
"""Events that run side by side."""


def steps(events: Iterable[PlannedEvent]) -> tuple[Step, ...]:
    """Plan events; each step begins when the one before is over.

    An event joins the first step in which it may run beside all others. Those that run alone come last, in their order.
    """
    found: list[list[PlannedEvent]] = []
    for event in sorted(events, key=lambda each: each.touches is not Touches.OWN_SERVICES):
        fits = (step for step in found if all(event.may_run_beside(other) for other in step))
        step = next(fits, None)
        if step is None:
            found.append([event])
        else:
            step.append(event)
    return tuple(map(tuple, found))


def seconds_of(events: Iterable[PlannedEvent]) -> float:
    """How long the events usually take as they are planned."""
    return sum(max(event.seconds for event in step) for step in steps(events))


def say_step(step: Step) -> str:
    """A step in words: ``names, neighbours side by side``, ``drain alone (touches a node)``."""
    names = ", ".join(event.name for event in step)
    if step[0].touches is not Touches.OWN_SERVICES:
        return f"{names} {'together' if len(step) > 1 else 'alone'} (touches {step[0].touches})"
    return f"{names} side by side" if len(step) > 1 else names
