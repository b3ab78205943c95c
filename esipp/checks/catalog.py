"""All checks of all suites, without a cluster."""

import importlib
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

from esipp.base.errors import PreflightError
from esipp.checks.check import Check, Level, checks_about, is_about
from esipp.checks.covering import Design
from esipp.checks.crossing import Crossing
from esipp.checks.event import Event
from esipp.checks.model import Path as DialledPath
from esipp.checks.path import OnPath, PathCheck
from esipp.checks.versions import Rules, dated

PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = PACKAGE / "house"
HOUSE = _INSTALLED if _INSTALLED.is_dir() else PACKAGE.parent
"""The folder with suites/, fixtures/ and images/: in a wheel esipp/house (hatch_build.py), else the checkout."""

SUITES = HOUSE / "suites"


def page(name: str) -> str:
    """Return how a message names a page: as in the checkout, or where the installed one is."""
    return str(HOUSE / name) if HOUSE == _INSTALLED else name


@cache
def suite_names() -> tuple[str, ...]:
    """Return the names of all suites, in the order of runs and reports.

    Each suite says in its ``ORDER`` where it stands: first unchanged Services, then changes, at last disruptions.

    Raises:
        PreflightError: esipp was installed without its suites.
    """
    found = [path.parent.name for path in SUITES.glob("*/checks.py")]
    if not found:
        raise PreflightError(
            f"esipp was installed without its suites: there are none in {SUITES}.",
            "install the wheel of a release, or one that 'pip wheel .' builds in a checkout.",
        )
    return tuple(sorted(found, key=lambda name: (_suite(name, "").ORDER, name)))


def title_of(suite: str) -> str:
    """Return the title of a suite in reports, also of one that is no more."""
    return str(_suite(suite, "").TITLE) if suite in suite_names() else suite.replace("_", " ")


def all_path_checks() -> list[PathCheck]:
    """Return all path checks."""
    return checks_about(OnPath, all_checks())


def all_checks() -> list[Check]:
    """Return all checks, suite by suite, in the order of their files."""
    return [check for name in suite_names() for check in checks_of(name)]


@cache
def checks_of(suite: str) -> tuple[Check, ...]:
    """Return the checks of a suite, each with the Kubernetes version that it needs (versions.py)."""
    return tuple(_with_unjudged(check) if is_about(check, OnPath) else check for check in _declared(suite))


@cache
def _declared(suite: str) -> tuple[Check, ...]:
    rules = versions_of(suite)
    return tuple(dated(check, rules) for check in _suite(suite, ".checks").CHECKS)


def designs() -> dict[str, Design]:
    """Return the covering designs by which suites choose their checks, by suite."""
    modules = {name: _suite(name, ".checks") for name in suite_names()}
    return {name: module.DESIGN for name, module in modules.items() if hasattr(module, "DESIGN")}


def versions_of(suite: str) -> Rules:
    """Return the Kubernetes versions that checks of a suite need, by their traits (``VERSIONS`` of its package)."""
    rules: Rules = getattr(_suite(suite, ""), "VERSIONS", ())
    return rules


def crossings() -> list[Crossing]:
    """Return the tables of events and streams of those suites that have one (their module ``crossing``)."""
    known = (name for name in suite_names() if (SUITES / name / "crossing.py").exists())
    return [_suite(name, ".crossing").CROSSING for name in known]


def events_of(suite: str) -> dict[str, Event]:
    """Return the events of a suite, by their names (its module ``events``)."""
    return {event.name: event for event in _suite(suite, ".events").EVENTS}


def make_importable() -> None:
    """Let Python find ``suites`` and ``fixtures``."""
    if str(HOUSE) not in sys.path:
        sys.path.insert(0, str(HOUSE))


def _suite(name: str, module: str) -> ModuleType:
    """Return the package of a suite, or a module in it."""
    make_importable()
    return importlib.import_module(f"suites.{name}{module}")


@cache
def _judged_paths() -> frozenset[DialledPath]:
    """Return the paths with losses that some check judges."""
    checks = (check for name in suite_names() for check in _declared(name))
    return frozenset(path for check in checks if check.level is not Level.RECORD for path in check.subject.judged)


def _with_unjudged(path_check: PathCheck) -> PathCheck:
    """Return the check with those controls marked that use a Service of no judged path."""
    controls = path_check.subject.controls
    unjudged = [each.path.service is not None and each.path not in _judged_paths() for each in controls]
    if not any(unjudged):
        return path_check
    marked = tuple(replace(each, unjudged=mark) for each, mark in zip(controls, unjudged, strict=True))
    return replace(path_check, subject=replace(path_check.subject, controls=marked))
