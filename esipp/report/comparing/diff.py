"""Two runs compared: everything that changed from the old to the new one, the first sentence, and the exit code."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from esipp.base.errors import ExitCode
from esipp.base.plural import form
from esipp.checks.check import Binding, Level
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.checks import FAILING, WORSE, Change, Kind, Redefined, compare_checks, redefined
from esipp.report.comparing.environment import Setting, environment
from esipp.report.comparing.statistics import Compared
from esipp.report.comparing.times import Times, compare_times


@dataclass(frozen=True)
class Diff:
    """What changed from one run to another.

    ``times`` are all distributions that both have; ``fail_on`` says whose changes for the worse make it fail.
    """

    old: RecordedRun
    new: RecordedRun
    changes: list[Change]
    redefined: list[Redefined]
    environment: list[Setting]
    times: Times
    fail_on: Binding = Binding.EXTENDED

    @cached_property
    def regressed(self) -> frozenset[str]:
        """The checks that are worse: they fail and did not, or are core and what held is not shown any more."""
        return frozenset(each.id for each in self.changes if each.counts_as_regressed)

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The mirror image: what would have regressed had the runs changed places."""
        return frozenset(each.id for each in self.changes if each.counts_as_fixed)

    @property
    def incomplete(self) -> list[str]:
        """Which of the ledgers is not whole or does not judge all its checks, and why."""
        found = []
        for name, run in (("OLD", self.old), ("NEW", self.new)):
            missing = sum(1 for check in run.checks if check.id not in run.verdicts)
            if not run.whole:
                fault = run.trouble[0] if run.trouble else "the run has no closing record: it was killed"
                found.append(f"{name} is not whole: {fault}")
            elif missing:
                lack = f"{missing:,} of its checks {form(missing, 'has', 'have')} no verdict"
                found.append(f"{name} is not whole: {lack} ({run.conclusion.why})")
        return found

    @property
    def exit_code(self) -> ExitCode:
        """Failed if a binding check got worse; else undecided if a ledger is not whole; times never count."""
        if any(each.kind in WORSE and each.binds(self.fail_on) for each in self.changes):
            return ExitCode.NOT_CONFORMANT
        return ExitCode.HARNESS if self.incomplete else ExitCode.CONFORMANT

    @property
    def later(self) -> list[Compared]:
        """The distributions that were shown to differ, those that got worse first."""
        return sorted(
            (each for each in self.times.compared if each.differs), key=lambda each: (each.shift < 0, each.adjusted)
        )

    @property
    def sentence(self) -> str:
        """What changed, in one sentence."""
        both = len({check.id for check in self.old.checks} & {check.id for check in self.new.checks})
        if not both:
            return "The runs have no check in common."
        told = [part for part in (*self._worse(), *self._neither()) if part]
        if not told and self.incomplete:
            return f"Nothing is known to have changed of the {both:,} checks that both runs name."
        if not told:
            return f"Nothing changed: the {both:,} checks that both runs have got the same verdicts, and show the same."
        said = ("as far as the ledgers go, " if self.incomplete else "") + ", ".join(told) + "."
        return said[0].upper() + said[1:]

    def _worse(self) -> Iterable[str]:
        core = self._of(lambda each: each.level is Level.CORE and each.counts_as_regressed)
        lost = sum(1 for each in core if each.kind is Kind.NOT_SHOWN)
        aside = "" if not lost else f" ({lost:,} of them: what held is not shown any more)"
        yield f"{_checks(len(core), 'core')} regressed{aside}" if self.changes else ""
        extended = self._of(lambda each: each.level is Level.EXTENDED and each.kind is Kind.REGRESSED)
        yield f"{len(extended):,} extended" if extended else ""
        surfaced = self._of(lambda each: each.level is not Level.RECORD and each.kind is Kind.FAILS_NOW)
        core = [each for each in surfaced if each.level is Level.CORE]
        yield f"{len(surfaced):,} ({len(core):,} core) failing that could not be told before" if surfaced else ""

    def _neither(self) -> Iterable[str]:
        yield f"{len(self.fixed) or 'none'} fixed" if self.changes else ""
        counted = Counter(each.kind for each in self.changes if each.id not in self.regressed | self.fixed)
        for kind in (Kind.REGRESSED, Kind.FAILS_NOW, Kind.FIXED):
            del counted[kind]
        observed, none = counted.pop(Kind.OBSERVED, 0), counted.pop(Kind.NO_VERDICT, 0)
        new, gone = counted.pop(Kind.NEW, 0), counted.pop(Kind.GONE, 0)
        yield f"{counted.total():,} changed otherwise" if counted else ""
        failing = sum(1 for each in self.changes if each.kind is Kind.NEW and each.new and each.new.status in FAILING)
        aside = f" ({failing:,} of which fail)" if failing else ""
        yield f"{new:,} new{aside}" if new else ""
        yield f"{gone:,} gone" if gone else ""
        yield f"{none:,} with a verdict in one run only" if none else ""
        yield f"{observed:,} with the same verdict that show something else" if observed else ""

    def _of(self, which: Callable[[Change], bool]) -> list[Change]:
        return [each for each in self.changes if which(each)]


def compare(old: RecordedRun, new: RecordedRun, fail_on: Binding = Binding.EXTENDED) -> Diff:
    """Compare two runs, whatever checks, lanes and versions of the suite they are of."""
    settings = [each for each in environment((old, new)) if each.differs]
    return Diff(old, new, compare_checks(old, new), redefined(old, new), settings, compare_times(old, new), fail_on)


def _checks(number: int, of: str = "") -> str:
    what = f"{of} check" if of else "check"
    return f"no {what}" if not number else f"{number:,} {form(number, what)}"
