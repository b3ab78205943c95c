"""Typical duration of each phase of a run, and the estimate of the remaining time.

The numbers come from whole runs on four kind nodes with four cores. Other clusters are faster or slower as a whole, so
finished phases correct the estimate. No verdict depends on these numbers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from esipp.checks.check import Check
from esipp.judging.scenario import Typical, scenarios
from esipp.judging.schedule import PlannedEvent, Step, seconds_of, steps

BEFORE = (
    Typical("preflight", base=0.7),
    Typical("set-up", base=5, check=0.0065),
    Typical("clients", base=1.5, check=0.0006),
)
AFTER = (Typical("teardown", base=6, check=0.01),)
"""Phases of every run, before and after those of its scenarios."""


@cache
def phases() -> tuple[Typical, ...]:
    """Return all phases, in the order of a run."""
    return (*BEFORE, *(typical for scenario in scenarios() for typical in scenario.phases), *AFTER)


TRUST = 20.0
"""Seconds of finished typical phases that count as much as the table."""


def expected(checks: Iterable[Check], samples: int, moves: int) -> dict[str, float]:
    """Return the typical seconds of each phase that these checks need, in order."""
    checks = list(checks)
    seconds: dict[str, float] = {}
    every = [(typical, checks, list[PlannedEvent]()) for typical in BEFORE]
    every += _needed(checks)
    for typical, own, events in [*every, *((typical, checks, list[PlannedEvent]()) for typical in AFTER)]:
        spent = typical.base + len(own) * (typical.check + samples * typical.connection) + moves * typical.move
        seconds[typical.phase] = spent + seconds_of(events)
    return seconds


def schedule(checks: Iterable[Check]) -> list[tuple[Typical, tuple[Step, ...]]]:
    """Return the events that these checks need, as they are planned, phase by phase."""
    return [(typical, steps(events)) for typical, _, events in _needed(list(checks)) if events]


def planned_events(phase: str) -> dict[str, PlannedEvent]:
    """Return the events of a phase, by their names."""
    return {event.name: event for typical in phases() if typical.phase == phase for event in typical.events}


def _needed(checks: Sequence[Check]) -> Iterator[tuple[Typical, list[Check], list[PlannedEvent]]]:
    """The phases of scenarios that these checks need, with their own checks and the events for those."""
    for scenario in scenarios():
        for typical in scenario.phases:
            own = [check for check in checks if isinstance(check.subject, typical.of or scenario.subjects)]
            asked = {check.subject.part for check in own}
            events = [event for event in typical.events if asked.intersection(event.parts)]
            if own and (events or not typical.events):
                yield typical, own, events


def shares(
    checks: Sequence[Check], seconds: Mapping[str, float], events: Mapping[tuple[str, str], float]
) -> dict[str, float]:
    """Return how many seconds of a run each check accounts for; together they are those of the phases.

    Checks are observed side by side. So a phase is shared out among the checks that need it, and the phases before and
    after all scenarios among all.

    Args:
        checks: those that were asked.
        seconds: how long each phase took.
        events: how long each event took, by its phase and name. A phase of several events is shared out by them.
    """
    found = dict.fromkeys((check.id for check in checks), 0.0)
    of_all = sum(seconds.get(typical.phase, 0.0) for typical in (*BEFORE, *AFTER))
    needed = [(of_all, list(checks), list[tuple[float, tuple[str, ...]]]())]
    for typical, own, planned in _needed(checks):
        lasted = [(events.get((typical.phase, event.name), 0.0), event.parts) for event in planned]
        needed.append((seconds.get(typical.phase, 0.0), own, lasted))
    for spent, own, lasted in needed:
        parts = Counter(check.subject.part for check in own)
        weights = {
            check.id: sum(
                took / sum(parts[each] for each in set(of)) for took, of in lasted if check.subject.part in of
            )
            for check in own
        }
        whole = sum(weights.values())
        for check in own:
            found[check.id] += spent * (weights[check.id] / whole if whole else 1 / len(own))
    return found


def pace(typical: Mapping[str, float], done: Mapping[str, float]) -> float:
    """Return how many times slower this run is than the table, by its finished phases; 1.0 at first.

    The result is bounded, because one unusual phase says little about the others.
    """
    known = [name for name in done if name in typical]
    wanted, taken = sum(typical[name] for name in known), sum(done[name] for name in known)
    return min(4.0, max(0.4, (taken + TRUST) / (wanted + TRUST)))
