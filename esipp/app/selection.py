"""Which checks a command is about: patterns, suites, profiles of a run, and what narrows them down further."""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esipp.base.errors import PreflightError, which_check
from esipp.checks.catalog import all_checks, suite_names
from esipp.checks.check import Check, Level, Subject
from esipp.checks.health import HealthScenario
from esipp.ledger.reading import read_run
from esipp.ledger.run import DEFAULT_MOVES, DEFAULT_SAMPLES
from esipp.report.causes import TROUBLE


@dataclass(frozen=True)
class RunProfile:
    """A choice of checks, and of their depth.

    Args:
        name: its name.
        what: what it is, in a few words.
        samples: connections per path.
        moves: endpoint changes of each kind.
        suites: the suites; none for all.
        levels: the levels of its checks.
        without: subjects that take long and are left out.
        disruptive: whether it does what others on the cluster notice.
    """

    name: str
    what: str
    samples: int = DEFAULT_SAMPLES
    moves: int = DEFAULT_MOVES
    suites: frozenset[str] = frozenset()
    levels: tuple[Level, ...] = tuple(Level)
    without: tuple[type[Subject], ...] = ()
    disruptive: bool = False

    def admits(self, check: Check) -> bool:
        """Whether it has a check."""
        if self.suites and check.suite not in self.suites:
            return False
        return check.level in self.levels and not isinstance(check.subject, self.without)


QUICK = RunProfile(
    "quick",
    "core checks of source addresses at every node, health checks and three endpoint changes, 20 connections per path",
    samples=20,
    moves=3,
    suites=frozenset({"source_ip", "nodes", "vantages", "health_checks", "convergence"}),
    levels=(Level.CORE,),
    without=(HealthScenario,),
)
STANDARD = RunProfile("standard", "all that others on the cluster do not notice")
FULL = RunProfile("full", "also what they do notice, as with --allow-disruptive", disruptive=True)

PROFILES: Mapping[str, RunProfile] = {each.name: each for each in (QUICK, STANDARD, FULL)}
"""All profiles, the quickest first."""


LEVELS = {"core": (Level.CORE,), "extended": (Level.CORE, Level.EXTENDED)}
"""What ``--level`` admits: a level and those above it."""


def add_checks(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name checks and suites."""
    add = parser.add_argument
    add("checks", nargs="*", metavar="CHECK", help="id of a check, or a part of one (default: all checks)")
    add("--suite", action="append", default=[], choices=suite_names(), help="use only this suite; repeatable")


def add_narrowing(add: Any) -> None:
    """Add the options that leave checks out, to an argparse parser or a pytest option group."""
    add(
        "--profile",
        choices=list(PROFILES),
        default="standard",
        help="; ".join(f"{each.name}: {each.what}" for each in PROFILES.values()) + " (default: standard)",
    )
    add("--level", choices=list(LEVELS), default=None, help="only checks of this level, and of those above it")
    add("--focus", action="append", default=[], metavar="REGEX", help="only checks whose id matches; repeatable")
    add("--skip", action="append", default=[], metavar="REGEX", help="no checks whose id matches; repeatable")
    add(
        "--rerun-failed",
        type=Path,
        default=None,
        metavar="RUN",
        help="only the checks that failed, were flaky or could not be decided in a recorded run",
    )


def select(patterns: Sequence[str]) -> list[Check]:
    """The checks that match the patterns; all checks if there is no pattern.

    A pattern matches the check with exactly that id. If there is none, it matches every check whose id contains it.

    Raises:
        PreflightError: a pattern matches no check.
    """
    checks = all_checks()
    by_id = {check.id: check for check in checks}
    chosen: dict[str, Check] = {}
    for pattern in patterns:
        fitting = [by_id[pattern]] if pattern in by_id else [check for check in checks if pattern in check.id]
        if not fitting:
            hint = which_check(pattern, (check.id for check in checks))
            raise PreflightError(f"No check matches '{pattern}'.", hint)
        chosen |= {check.id: check for check in fitting}
    return [check for check in checks if not patterns or check.id in chosen]


def chosen(options: Any, profile: RunProfile | None = None) -> list[Check]:
    """The checks that options name and leave; maybe none. ``profile`` replaces the one of the options.

    Raises:
        PreflightError: a pattern matches no check, an expression is invalid, or there is no such run.
    """
    checks = [check for check in select(options.checks) if not options.suite or check.suite in options.suite]
    return narrowed(checks, options, profile)


def narrowed(checks: Sequence[Check], options: Any, profile: RunProfile | None = None) -> list[Check]:
    """The checks that the options of ``add_narrowing`` leave.

    Raises:
        PreflightError: an expression is invalid, or there is no such run.
    """
    profile = profile or PROFILES[options.profile]
    levels = LEVELS[options.level] if options.level else tuple(Level)
    focus, skip = (_expressions(name, getattr(options, name)) for name in ("focus", "skip"))
    failed = _failed(options.rerun_failed) if options.rerun_failed else None
    return [
        check
        for check in checks
        if profile.admits(check)
        and check.level in levels
        and (not focus or any(each.search(check.id) for each in focus))
        and not any(each.search(check.id) for each in skip)
        and (failed is None or check.id in failed)
    ]


def words(options: Any) -> tuple[str, ...]:
    """What of a selection stands on the command line that repeats the run."""
    profile = () if options.profile == "standard" else (f"--profile={options.profile}",)
    once = {"level": options.level, "rerun-failed": options.rerun_failed}
    single = (f"--{name}={given}" for name, given in once.items() if given)
    several = (f"--{name}={given}" for name in ("focus", "skip", "suite") for given in getattr(options, name, ()))
    return (*profile, *single, *several, *getattr(options, "checks", ()))


def _expressions(name: str, given: Sequence[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(each) for each in given]
    except re.error as broken:
        raise PreflightError(
            f"--{name} '{broken.pattern!s}' is not a regular expression: {broken.msg}.", "quote it for the shell."
        ) from None


def _failed(run: Path) -> set[str]:
    """The checks of a recorded run that were not as required, or were not judged."""
    recorded = read_run(run)
    verdicts = recorded.verdicts
    return {check.id for check in recorded.checks if check.id not in verdicts or verdicts[check.id].status in TROUBLE}
