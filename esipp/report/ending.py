"""The end of a run's output: the causes, the known defects, the figures that matter, the sentence, and where the
reports are.

It has at most ``MOST_LINES`` lines; summary.txt (``terminal.py``) has all tables.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from esipp.base.document import WIDTH, Block, Code, Item, Items, Pairs, Section, Text
from esipp.base.plural import counted
from esipp.checks.check import Level, Status
from esipp.ledger.reading import RecordedRun
from esipp.report.causes import Cause, Reason, causes, known_defects
from esipp.report.escaping import one_line
from esipp.report.rendering.terminal import apart
from esipp.report.sections import figures
from esipp.report.terminal import appendix, last_word, summary

MOST_LINES = 40
"""The most lines of the end, those on the reports among them."""

ABOUT_REPORTS = 3
"""How many of these are for the reports, and for what went wrong while they were written."""

MOST_CAUSES, MOST_FAULTS, MOST_DEFECTS = 6, 2, 2
"""How many causes, faults of the ledger and known defects the end shows at most; summary.txt has all."""


ONE_LINE = WIDTH - len("  observed  ")
"""The longest text on one line behind its label."""


class Detail(StrEnum):
    """How much a run prints at its end."""

    SENTENCE = "sentence"
    SHORT = "short"
    FULL = "full"

    @classmethod
    def of(cls, verbosity: int) -> "Detail":
        """The detail for a verbosity as pytest counts it: ``-v`` is full, ``-qq`` the sentence."""
        return cls.FULL if verbosity > 0 else cls.SENTENCE if verbosity < -1 else cls.SHORT


def ending(run: RecordedRun, detail: Detail = Detail.SHORT) -> list[str]:
    """The lines that say what a run came to, without those on its reports."""
    if detail is Detail.SENTENCE:
        return [run.conclusion.headline]
    if detail is Detail.FULL:
        return summary(run)
    found = _causes(run)
    for shown in range(min(MOST_CAUSES, len(found)), -1, -1):
        lines = [*apart(_blocks(run, found, shown)), "", *last_word(run)]
        if len(lines) <= MOST_LINES - ABOUT_REPORTS:
            break
    return lines


def whereabouts(run: RecordedRun, detail: Detail = Detail.SHORT) -> list[str]:
    """The lines that say where the files of a run are, and how to read more."""
    if detail is Detail.SENTENCE:
        return []
    if detail is Detail.FULL:
        return appendix(run)
    return [f"all tables: esipp summary --full {run.folder}"]


Found = tuple[Cause, str]
"""A cause, and what its title begins with."""


def _causes(run: RecordedRun) -> list[Found]:
    """All causes; those whose checks decide the result come first, those of our own load balancer last."""
    own = sorted(causes(run.qualified, run.verdicts), key=lambda cause: not run.scale.spoils(cause.verdict))
    beside = causes(run.instruments, run.verdicts)
    return [*((each, "") for each in own), *((each, "reference load balancer: ") for each in beside)]


def _blocks(run: RecordedRun, found: Sequence[Found], shown: int) -> Iterator[Block]:
    yield Items(tuple(_item(run, *each) for each in found[:shown]))
    if rest := found[shown:]:
        checks = counted(sum(len(cause.checks) for cause, _ in rest), "check")
        more = counted(len(rest), "more cause" if shown else "cause")
        yield Text(f"{'and ' if shown else ''}{more} ({checks}): see the tables")
    yield _first("faults of the ledger", run.trouble, MOST_FAULTS)
    defects = [_defect(each) for each in known_defects(run.qualified, run.verdicts)]
    yield _first("known defects", defects, MOST_DEFECTS)
    yield Section("figures", (Pairs.of([("as required", _as_required(run)), *figures(run)]),))


def _first(title: str, lines: Sequence[str], most: int) -> Section:
    """The first of some lines, and how many more there are; empty without any."""
    left = len(lines) - most
    shown = [*lines[:most], *([f"and {left} more"] if left > 0 else [])]
    return Section(title, tuple(Text(one_line(each, WIDTH - len("  "))) for each in shown))


def _defect(reason: Reason) -> str:
    """A known defect: how many checks differ by it, the reference, and why."""
    cited = "".join(f"{each.title}: " for each in reason.references[:1])
    return f"{counted(len(reason.checks), 'check')} ({reason.say_levels}): {cited}{reason.why}"


def _item(run: RecordedRun, cause: Cause, of: str) -> Item:
    """A cause: what was observed or why nothing was decided, where to look, and the command that repeats it."""
    first, details = cause.first, cause.details
    also = f" and {counted(len(cause.others), 'more check')}" if cause.others else ""
    undecided = cause.verdict.status in (Status.INCONCLUSIVE, Status.ERROR)
    shown = "reason" if "observed" not in details or (undecided and "reason" in details) else "observed"
    texts = [(label, one_line(details[label], ONE_LINE)) for label in (shown, "likely") if label in details]
    title = f"{of}{cause.verdict.status.value.upper()} ({first.level.words}) {first.id}{also}"
    return Item(title, (*texts, ("repeat", Code(f"{run.header['command']} {first.id}"))))


def _as_required(run: RecordedRun) -> str:
    levels = run.conclusion.levels
    shares = (
        f"{found.required:,} of {found.judged:,} {level.words} checks"
        for level in (Level.CORE, Level.EXTENDED)
        if (found := levels.get(level)) is not None and found.judged
    )
    return ", ".join(shares) or "no check was judged"
