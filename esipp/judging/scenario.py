"""Scenarios: what a kind of experiment registers, and the registry. Nothing here runs an experiment.

``esipp/scenarios/NAME/judge.py`` defines ``SCENARIO``. The registry finds the folders itself; there is no list. Each
room above finds its own module of a folder (``Scenario.part``).
"""

import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from esipp.base.document import Section
from esipp.checks.catalog import suite_names
from esipp.checks.check import Check, Status, Subject, Verdict
from esipp.checks.rights import Right
from esipp.judging.frame import Decision, Known, give_verdict
from esipp.judging.observation import Observation, Witness
from esipp.judging.schedule import PlannedEvent

FOLDER = "esipp.scenarios"

T = TypeVar("T")


class CheckThen(Protocol):
    """A check as a recorded run asked it."""

    @property
    def asked(self) -> str:
        """What was asked, as text; the same text means the same question."""

    @property
    def path(self) -> str:
        """The key of its path; empty if it has none."""

    @property
    def data(self) -> Mapping[str, Any]:
        """Its whole record."""


@dataclass(frozen=True)
class RunThen:
    """What a recorded run has besides the evidence of each scenario.

    ``checks`` are those of then, by id; ``today`` those that are judged now.
    """

    samples: int
    observations: Mapping[str, Sequence[Observation]] = field(default_factory=dict)
    witnesses: Mapping[str, Sequence[Witness]] = field(default_factory=dict)
    checks: Mapping[str, CheckThen] = field(default_factory=dict)
    today: Sequence[Check] = ()

    def asked(self, check: Check) -> bool:
        """Whether the run asked a check in the same form, so that its evidence is complete."""
        then = self.checks.get(check.id)
        return then is not None and then.asked == check.asked


@dataclass(frozen=True)
class Typical:
    """The typical duration of a phase.

    Args:
        phase: its name, as in ``Run.phase``.
        of: what the checks are about that need it; empty for all that the scenario decides.
        base: seconds in any case.
        check: seconds for each of these checks.
        connection: seconds for each connection of these checks. Each check has as many as a path gets.
        move: seconds for each endpoint change that a load balancer has to follow.
        events: its events, if it has several; then only checks of their parts need the phase. ``judging/schedule.py``
            plans which run side by side.
    """

    phase: str
    of: tuple[type[Subject], ...] = ()
    base: float = 0.0
    check: float = 0.0
    connection: float = 0.0
    move: float = 0.0
    events: tuple[PlannedEvent, ...] = ()


def _nothing(_: Any) -> None:
    return None


def _no_figures(_: Any) -> tuple[tuple[str, str], ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Sections:
    """What reports show of a recorded run (``ledger.reading.RecordedRun``): ``SECTIONS`` of ``sections.py``.

    Args:
        section: in report.html.
        summary: in the summary of a run.
        brief: in report.md.
        key_figures: the few figures at the end of a run's output, each a label and words. Scenarios with the same label
            share a line.
    """

    section: Callable[[Any], Section | None] = _nothing
    summary: Callable[[Any], Section | None] = _nothing
    brief: Callable[[Any], Section | None] = _nothing
    key_figures: Callable[[Any], Iterable[tuple[str, str]]] = _no_figures


@dataclass(frozen=True)
class Numbers:
    """A scenario's part of report.json: ``NUMBERS`` of ``numbers.py``.

    Args:
        name: its key there.
        of: its type; report.schema.json is generated from it.
        make: makes it from a recorded run (``ledger.reading.RecordedRun``).
    """

    name: str
    of: Any
    make: Callable[[Any], Any]


@dataclass(frozen=True)
class Durations:
    """Durations that ``esipp diff`` compares between two runs: ``DURATIONS`` of ``numbers.py``.

    Args:
        name: what they measure.
        sample: what one of them is.
        make: from a recorded run, what was measured and some durations of it, in seconds.
    """

    name: str
    sample: str
    make: Callable[[Any], Iterable[tuple[str, Sequence[float]]]]


def by_subject(hooks: Mapping[type[Subject], Callable[..., T]]) -> Callable[..., T]:
    """The hook of a scenario with several subjects: the one that is given for the subject of the check."""
    return lambda check, *more: hooks[type(check.subject)](check, *more)


def _same(evidence: Any) -> Any:
    return evidence


def _unless_asked(check: Check, _: Any, then: RunThen) -> str:
    return "" if then.asked(check) else "the run did not ask this, or in another form"


def _alone(analysed: Any, _: Known) -> Any:
    return analysed


def name_fault(check: Check, _: Verdict) -> str:
    """What makes the check fail: where to look, unless a scenario knows better."""
    return check.fails_if


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A kind of experiment.

    Args:
        name: its folder in ``esipp/scenarios``.
        suite: the suite with its checks.
        order: its place among the scenarios of one suite.
        record: the name of its evidence in ledgers, which stays whatever the folder is called.
        subjects: what the checks are about that it decides.
        evidence: what its run observed, as a ledger has it; without arguments: nothing.
        analyse: what is computed of the evidence once, before the first check is judged.
        with_known: the same, with what is known of the cluster, for a decision that needs that too.
        decide: the decision on a check.
        diagnose: where to look first after a failure; if not given, what makes the check fail.
        lacks: why recorded evidence cannot decide a check, empty if it can; by default if the run did not ask it.
        pack: what of the evidence is recorded under ``record``, if other records have the rest.
        unpack: the evidence again, from what was packed and the run's other records.
        phases: the parts of its run and how long each usually takes, in order.
        beside: whether its run may be beside that of others which say so: it loads little, and holds what it measures
            against a control of its own. ``judging/schedule.py`` says what events may do for that.
        rights: what its run does with the API server besides what every run does.
    """

    name: str
    suite: str
    order: int = 0
    record: str
    subjects: tuple[type[Subject], ...]
    evidence: type
    decide: Callable[[Any, Any], Decision]
    diagnose: Callable[[Any, Verdict], str] = name_fault
    lacks: Callable[[Any, Any, RunThen], str] = _unless_asked
    analyse: Callable[[Any], Any] = _same
    with_known: Callable[[Any, Known], Any] = _alone
    pack: Callable[[Any], Any] = _same
    unpack: Callable[[Any, RunThen], Any] | None = None
    phases: tuple[Typical, ...] = ()
    beside: bool = False
    rights: tuple[Right, ...] = ()

    def part(self, module: str, name: str) -> Any:
        """What a module of its folder defines under a name; None if there is none."""
        where = f"{FOLDER}.{self.name}.{module}"
        return getattr(import_module(where), name, None) if find_spec(where) else None

    def own(self, checks: Iterable[Check]) -> list[Check]:
        """Those of the checks that it decides."""
        return [check for check in checks if isinstance(check.subject, self.subjects)]

    def judge(self, check: Check, analysed: Any, known: Known) -> Verdict:
        """The verdict on a check, from what ``analyse`` made of the evidence, and what is known of the cluster."""
        return give_verdict(check, known, lambda: self.decide(check, self.with_known(analysed, known)), self.name)

    def read(self, packed: Any, then: RunThen) -> Any:
        """The evidence of a recorded run; ``packed`` is None if it has none."""
        if self.unpack is not None:
            return self.unpack(packed, then)
        return self.evidence() if packed is None else packed


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Every scenario: each folder of ``esipp/scenarios``, in the order of a run."""
    folders = (each.name for each in pkgutil.iter_modules(import_module(FOLDER).__path__) if each.ispkg)
    found: list[Scenario] = [import_module(f"{FOLDER}.{name}.judge").SCENARIO for name in folders]
    return tuple(sorted(found, key=lambda each: (suite_names().index(each.suite), each.order, each.name)))


def scenario_of(check: Check) -> Scenario:
    """The scenario that decides a check."""
    kind: Any = type(check.subject)  # mypy takes a class of its own __hash__ for one that has none
    return _deciding(kind)


@cache
def _deciding(subject: type[Any]) -> Scenario:
    return next(each for each in scenarios() if issubclass(subject, each.subjects))


def where_to_look(check: Check, verdict: Verdict) -> str:
    """Where to look first after a failure; empty if all is well."""
    return scenario_of(check).diagnose(check, verdict) if verdict.status in (Status.FAIL, Status.FLAKY) else ""


@cache
def recorded_as(record: str) -> Scenario:
    """The scenario whose evidence has this name in ledgers.

    Raises:
        KeyError: there is none.
    """
    return {each.record: each for each in scenarios()}[record]
