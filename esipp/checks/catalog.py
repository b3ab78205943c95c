"""All checks of all suites, without a cluster."""

import importlib
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from esipp.checks.check import Check, Level
from esipp.checks.model import Path as Dialled
from esipp.checks.path import PathCheck
from esipp.checks.versions import dated

HOUSE = Path(__file__).resolve().parents[2]
SUITES = HOUSE / "suites"


ORDER = ("source_ip", "health_checks", "interoperability", "compatibility", "convergence", "continuity")
"""In which suites are run and told: first what stands still, then what is moved, at last what disturbs others."""


def suite_names() -> list[str]:
    """The suites that have checks."""
    found = {path.parent.name for path in SUITES.glob("*/checks.py")}
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))


def all_path_checks() -> list[PathCheck]:
    """Every check that is a path's: whose address a backend must see there."""
    return [check for check in all_checks() if isinstance(check, PathCheck)]


def all_checks() -> list[Check]:
    """Every check, suite by suite, in the order of its file."""
    return [check for name in suite_names() for check in checks_of(name)]


@cache
def checks_of(suite: str) -> tuple[Check, ...]:
    """The checks of a suite, each with the Kubernetes that it needs (versions.py)."""
    return tuple(_with_unjudged(check) if isinstance(check, PathCheck) else check for check in _written(suite))


@cache
def _written(suite: str) -> tuple[Check, ...]:
    if str(HOUSE) not in sys.path:
        sys.path.insert(0, str(HOUSE))
    return tuple(dated(check) for check in importlib.import_module(f"suites.{suite}.checks").CHECKS)


@cache
def _judged_paths() -> frozenset[Dialled]:
    """The paths whose losses some check judges."""
    checks = (check for name in suite_names() for check in _written(name))
    return frozenset(check.path for check in checks if isinstance(check, PathCheck) and check.level is not Level.RECORD)


def _with_unjudged(path_check: PathCheck) -> PathCheck:
    """The check, with its controls marked whose Service no check judges."""
    controls = tuple(
        replace(each, unjudged=each.path.service is not None and each.path not in _judged_paths())
        for each in path_check.controls
    )
    return replace(path_check, controls=controls) if controls != path_check.controls else path_check
