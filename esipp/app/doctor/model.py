"""The doctor's report: checks with a grade, a sentence and a hint. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from esipp.app.plan.plan import Work
from esipp.base.errors import EsippError, ExitCode
from esipp.cluster.client import ApiError, UnreachableError

T = TypeVar("T")


class Grade(StrEnum):
    """The grade of a check: ``no`` makes a cluster unfit; ``warn`` does not prevent a run."""

    OK = "ok"
    WARN = "warn"
    NO = "no"


@dataclass(frozen=True)
class DoctorCheck:
    """The result of one check of the doctor; ``hint`` says what to do, and is empty if all is well."""

    name: str
    grade: Grade
    sentence: str
    hint: str = ""


def ok(name: str, sentence: str) -> DoctorCheck:
    """A check that passed."""
    return DoctorCheck(name, Grade.OK, sentence)


def warn(name: str, sentence: str, hint: str) -> DoctorCheck:
    """A check that found something to look at."""
    return DoctorCheck(name, Grade.WARN, sentence, hint)


def no(name: str, sentence: str, hint: str) -> DoctorCheck:
    """A check that found something that prevents a run."""
    return DoctorCheck(name, Grade.NO, sentence, hint)


@dataclass(frozen=True)
class LeftOver:
    """A leftover of an earlier run: what it is, the run's id, its age in seconds, and the command that removes it.

    ``alive`` means that the run may be active, on this machine or another one.
    """

    what: str
    run: str
    age: float | None
    command: str
    alive: bool = False


@dataclass
class Report:
    """The whole report; ``work`` is None if too little is known about the cluster, and ``why_no_work`` says why.

    ``left_out`` counts the core checks that options, clients or rights leave out: the result is PARTIAL at best.
    ``later`` lists what only a run shows; ``created`` lists what a run creates in addition to ``work.made``.
    """

    command: str
    clean: str
    checks: list[DoctorCheck] = field(default_factory=list)
    work: Work | None = None
    why_no_work: str = ""
    left_out: int = 0
    created: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    left_over: list[LeftOver] = field(default_factory=list)

    @property
    def fit(self) -> bool:
        """Whether a run can begin."""
        return all(check.grade is not Grade.NO for check in self.checks)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of ``esipp doctor``."""
        return ExitCode.CONFORMANT if self.fit else ExitCode.USAGE

    def must(self, name: str, look: Callable[[], T]) -> T | None:
        """Take a step that every run needs. If it raises, add a failed check and return None."""
        try:
            return look()
        except EsippError as misfit:
            self.checks.append(no(name, misfit.sentence, misfit.hint or "fix that, and run esipp doctor again."))
        except UnreachableError as silent:
            self.checks.append(
                no(name, f"The API server stopped answering: {silent}", "check whether it is overloaded.")
            )
        except ApiError as refused:
            self.checks.append(no(name, f"The API server refused: {refused.message}", "check the account's rights."))
        return None

    def passes(self, name: str, look: Callable[[], object]) -> bool:
        """Take such a step and return whether it passed."""
        before = len(self.checks)
        self.must(name, look)
        return len(self.checks) == before

    def may(self, name: str, look: Callable[[], DoctorCheck], hint: str) -> None:
        """Add an optional check. If it raises, add a warning."""
        try:
            self.checks.append(look())
        except (ApiError, UnreachableError, EsippError) as unseen:
            why = unseen.message if isinstance(unseen, ApiError) else str(unseen).splitlines()[0]
            self.checks.append(warn(name, f"cannot be examined: {why}", hint))
