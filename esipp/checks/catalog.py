"""All checks of all suites, without a cluster."""

import importlib
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from esipp.checks.check import Check, Level
from esipp.checks.model import Path as DialledPath
from esipp.checks.path import PathCheck
from esipp.checks.versions import dated

HOUSE = Path(__file__).resolve().parents[2]
SUITES = HOUSE / "suites"


ORDER = ("source_ip", "health_checks", "interoperability", "compatibility", "convergence", "continuity")
"""The order of suites in runs and reports: first unchanged Services, then changes, at last disruptions."""


def suite_names() -> list[str]:
    """Return the names of all suites, in order."""
    found = {path.parent.name for path in SUITES.glob("*/checks.py")}
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))


def all_path_checks() -> list[PathCheck]:
    """Return all path checks."""
    return [check for check in all_checks() if isinstance(check, PathCheck)]


def all_checks() -> list[Check]:
    """Return all checks, suite by suite, in the order of their files."""
    return [check for name in suite_names() for check in checks_of(name)]


@cache
def checks_of(suite: str) -> tuple[Check, ...]:
    """Return the checks of a suite, each with the Kubernetes version that it needs (versions.py)."""
    return tuple(_with_unjudged(check) if isinstance(check, PathCheck) else check for check in _declared(suite))


@cache
def _declared(suite: str) -> tuple[Check, ...]:
    if str(HOUSE) not in sys.path:
        sys.path.insert(0, str(HOUSE))
    return tuple(dated(check) for check in importlib.import_module(f"suites.{suite}.checks").CHECKS)


@cache
def _judged_paths() -> frozenset[DialledPath]:
    """Return the paths with losses that some check judges."""
    checks = (check for name in suite_names() for check in _declared(name))
    return frozenset(check.path for check in checks if isinstance(check, PathCheck) and check.level is not Level.RECORD)


def _with_unjudged(path_check: PathCheck) -> PathCheck:
    """Return the check with those controls marked that use a Service of no judged path."""
    controls = tuple(
        replace(each, unjudged=each.path.service is not None and each.path not in _judged_paths())
        for each in path_check.controls
    )
    return replace(path_check, controls=controls) if controls != path_check.controls else path_check
