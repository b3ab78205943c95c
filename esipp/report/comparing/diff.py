"""The difference of two runs: all changes, the summary sentence, and the exit code."""

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
from esipp.report.comparing.merge import lacks
from esipp.report.comparing.times import Compared, Times, compare_times


@dataclass(frozen=True)
class Diff:
    """The changes from one run to another.

    ``times`` are the distributions that both runs have; ``fail_on`` selects the levels whose regressions make it fail.
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
        """The checks that are worse: they fail now, or are core and no longer shown to hold."""
        return frozenset(each.id for each in self.changes if each.counts_as_regressed)

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The checks that would have regressed if the runs were swapped."""
        return frozenset(each.id for each in self.changes if each.counts_as_fixed)

    @property
    def incomplete(self) -> list[str]:
        """The ledgers that are incomplete or lack verdicts, with the reason."""
        runs = (("OLD", self.old), ("NEW", self.new))
        return [f"{name} is incomplete: {lack}" for name, run in runs for lack in lacks(run)]

    @property
    def exit_code(self) -> ExitCode:
        """Nonconformant if a binding check got worse; else a harness error for an incomplete ledger."""
        if any(each.kind in WORSE and each.binds(self.fail_on) for each in self.changes):
            return ExitCode.NOT_CONFORMANT
        return ExitCode.HARNESS if self.incomplete else ExitCode.CONFORMANT

    @property
    def later(self) -> list[Compared]:
        """The distributions with a proven difference, later ones first."""
        return sorted(
            (each for each in self.times.compared if each.differs), key=lambda each: (each.shift < 0, each.adjusted)
        )

    @property
    def sentence(self) -> str:
        """The changes in one sentence."""
        both = len({check.id for check in self.old.checks} & {check.id for check in self.new.checks})
        if not both:
            return "The runs have no check in common."
        parts = [part for part in (*self._worse(), *self._neither()) if part]
        if not parts and self.incomplete:
            return f"No change is known among the {both:,} checks of both runs."
        if not parts:
            return f"Nothing changed: the {both:,} checks of both runs have the same verdicts and observations."
        said = ("in the recorded parts of the ledgers, " if self.incomplete else "") + ", ".join(parts) + "."
        return said[0].upper() + said[1:]

    def _worse(self) -> Iterable[str]:
        core = self._of(lambda each: each.level is Level.CORE and each.counts_as_regressed)
        lost = sum(1 for each in core if each.kind is Kind.NOT_SHOWN)
        aside = "" if not lost else f" ({lost:,} of them no longer shown to hold)"
        extended = self._of(lambda each: each.level is Level.EXTENDED and each.kind is Kind.REGRESSED)
        more = f" and {_checks(len(extended), 'extended')}" if extended else ""
        yield f"{_checks(len(core), 'core')}{aside}{more} regressed" if self.changes else ""
        surfaced = self._of(lambda each: each.level is not Level.RECORD and each.kind is Kind.FAILS_NOW)
        core = [each for each in surfaced if each.level is Level.CORE]
        one, several = "fails that was undecided before", "fail that were undecided before"
        yield f"{len(surfaced):,} ({len(core):,} core) {form(len(surfaced), one, several)}" if surfaced else ""

    def _neither(self) -> Iterable[str]:
        yield f"{len(self.fixed) or 'none'} fixed" if self.changes else ""
        counted = Counter(each.kind for each in self.changes if each.id not in self.regressed | self.fixed)
        for kind in (Kind.REGRESSED, Kind.FAILS_NOW, Kind.FIXED):
            del counted[kind]
        observed, none = counted.pop(Kind.OBSERVED, 0), counted.pop(Kind.NO_VERDICT, 0)
        new, gone = counted.pop(Kind.NEW, 0), counted.pop(Kind.GONE, 0)
        yield f"{counted.total():,} with another change of verdict" if counted else ""
        failing = sum(1 for each in self.changes if each.kind is Kind.NEW and each.new and each.new.status in FAILING)
        aside = f" ({failing:,} of them {form(failing, 'fails', 'fail')})" if failing else ""
        yield f"{new:,} only in the new run{aside}" if new else ""
        yield f"{gone:,} only in the old run" if gone else ""
        yield f"{none:,} with a verdict in only one run" if none else ""
        yield f"{observed:,} with the same verdict and a different observation" if observed else ""

    def _of(self, which: Callable[[Change], bool]) -> list[Change]:
        return [each for each in self.changes if which(each)]


def compare(old: RecordedRun, new: RecordedRun, fail_on: Binding = Binding.EXTENDED) -> Diff:
    """Compare two runs of any checks, lanes and versions of the suite."""
    settings = [each for each in environment((old, new)) if each.differs]
    return Diff(old, new, compare_checks(old, new), redefined(old, new), settings, compare_times(old, new), fail_on)


def _checks(number: int, of: str) -> str:
    what = f"{of} check"
    return f"no {what}" if not number else f"{number:,} {form(number, what)}"
