"""Typical duration of each phase of a run, and the estimate of the remaining time.

The numbers come from whole runs on four kind nodes with four cores. Other clusters are faster or slower as a whole, so
finished phases correct the estimate. No verdict depends on these numbers.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from esipp.checks.check import Check
from esipp.judging.scenario import Typical, scenarios

BEFORE = (
    Typical("preflight", base=0.7),
    Typical("arrange", base=5, check=0.0065),
    Typical("clients", base=1.5, check=0.0006),
)
AFTER = (Typical("strike", base=6, check=0.01),)
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
    every = [(typical, checks) for typical in BEFORE]
    every += [(typical, [check for check in checks if isinstance(check.subject, typical.of or scenario.subjects)])
              for scenario in scenarios() for typical in scenario.phases]  # fmt: skip
    for typical, own in [*every, *((typical, checks) for typical in AFTER)]:
        asked = {check.subject.part for check in own} & typical.parts.keys()
        if not own or (typical.parts and not asked):
            continue
        spent = typical.base + len(own) * (typical.check + samples * typical.connection) + moves * typical.move
        parts = [typical.parts[part] for part in asked]
        seconds[typical.phase] = spent + (max(parts) if parts and typical.together else sum(parts))
    return seconds


def pace(typical: Mapping[str, float], done: Mapping[str, float]) -> float:
    """Return how many times slower this run is than the table, by its finished phases; 1.0 at first.

    The result is bounded, because one unusual phase says little about the others.
    """
    known = [name for name in done if name in typical]
    wanted, taken = sum(typical[name] for name in known), sum(done[name] for name in known)
    return min(4.0, max(0.4, (taken + TRUST) / (wanted + TRUST)))
