"""What the doctor says: a check, a grade, a sentence, a hint; and all of it together. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from esipp.app.plan.plan import Work
from esipp.base.errors import EsippError, ExitCode
from esipp.cluster.client import ApiError, UnreachableError

T = TypeVar("T")


class Grade(StrEnum):
    """``no`` makes a cluster unfit; ``warn`` is to be looked at, and holds no run up."""

    OK = "ok"
    WARN = "warn"
    NO = "no"


@dataclass(frozen=True)
class DoctorCheck:
    """What was looked at, and what is the matter with it; ``hint`` says what to do, and is there unless all is well."""

    name: str
    grade: Grade
    sentence: str
    hint: str = ""


def ok(name: str, sentence: str) -> DoctorCheck:
    """All is well."""
    return DoctorCheck(name, Grade.OK, sentence)


def warn(name: str, sentence: str, hint: str) -> DoctorCheck:
    """To be looked at."""
    return DoctorCheck(name, Grade.WARN, sentence, hint)


def no(name: str, sentence: str, hint: str) -> DoctorCheck:
    """Nothing can be run like this."""
    return DoctorCheck(name, Grade.NO, sentence, hint)


@dataclass(frozen=True)
class LeftOver:
    """What an earlier run left: what it is, whose, how old in seconds (None: unknown), and what removes it.

    ``alive`` says that the run may be at work, here or on another machine.
    """

    what: str
    run: str
    age: float | None
    command: str
    alive: bool = False


@dataclass
class Report:
    """Everything; ``work`` is None where too little is known of the cluster, and ``why_no_work`` says why.

    ``left_out`` is the number of core checks that are left out by our own doing, which make the result PARTIAL at best.
    ``later`` is what is only known once a run has begun; ``created`` is what is created besides ``work.made``.
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
        """Whether a run could begin."""
        return all(check.grade is not Grade.NO for check in self.checks)

    @property
    def exit_code(self) -> ExitCode:
        """Of the command."""
        return ExitCode.CONFORMANT if self.fit else ExitCode.USAGE

    def must(self, name: str, look: Callable[[], T]) -> T | None:
        """Take a step without which nothing can be run; what it raises becomes a check, and None is returned."""
        try:
            return look()
        except EsippError as misfit:
            self.checks.append(no(name, misfit.sentence, misfit.hint or "mend that, and ask again."))
        except UnreachableError as silent:
            self.checks.append(no(name, f"The API server stopped answering: {silent}", "is it overloaded?"))
        except ApiError as refused:
            self.checks.append(no(name, f"The API server refused: {refused.message}", "see the account's rights."))
        return None

    def passes(self, name: str, look: Callable[[], object]) -> bool:
        """Take such a step that finds nothing but whether all is well."""
        before = len(self.checks)
        self.must(name, look)
        return len(self.checks) == before

    def may(self, name: str, look: Callable[[], DoctorCheck], hint: str) -> None:
        """Look at something that a run can do without knowing."""
        try:
            self.checks.append(look())
        except (ApiError, UnreachableError, EsippError) as unseen:
            why = unseen.message if isinstance(unseen, ApiError) else str(unseen).splitlines()[0]
            self.checks.append(warn(name, f"cannot be looked at: {why}", hint))
