"""Sections on what is not as required: failures by cause, known differences and untested checks by reason."""

from collections.abc import Iterable, Sequence

from esipp.base.document import Block, Command, Fold, Inline, Item, Items, Link, Section, Strong, Table, Text, Words
from esipp.base.plural import counted
from esipp.checks.check import Level, Status
from esipp.checks.reference import Reference
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.causes import Cause, Reason, causes, is_believed, known_defects, reasons
from esipp.report.escaping import one_line
from esipp.report.html.head import features_of, repeat
from esipp.report.html.marks import counts, mark

MOST_DEFECTS = 2
"""How many known defects the head names; the section on known differences has all."""

INSTRUMENT = (
    "use the load balancer that this suite brings along as an instrument. They show whether the instrument works. They "
    "say nothing about the cluster, and no verdict or profile counts them."
)


# ----------------------------------------------------------------------------------------------------------- failures
def troubles_of(run: RecordedRun, checks: list[RecordedCheck]) -> list[Cause]:
    """Every cause among these checks: the worst first, then the strictest level."""
    order, levels = (Status.FAIL, Status.FLAKY, Status.ERROR, Status.INCONCLUSIVE), list(Level)
    found = causes(checks, run.verdicts)
    return sorted(found, key=lambda cause: (order.index(cause.verdict.status), levels.index(cause.first.level)))


def failures_of(run: RecordedRun, troubles: Sequence[Cause]) -> Section:
    """The failures of the cluster's checks by cause; each has the place ``#cause-N``."""
    calm = "No check failed, was flaky, inconclusive or in error."
    if run.instruments:
        calm = "No check of the cluster failed, was flaky, inconclusive or in error."
    if not run.whole:
        calm = "The recorded part of the ledger has no failure. The ledger is incomplete, so this proves nothing."
    cards = Items(tuple(_card(run, each, f"cause-{at}") for at, each in enumerate(troubles, 1)))
    return Section("Failures by cause", (cards if troubles else Text(calm),), "failures")


def instrument_of(run: RecordedRun) -> list[Section]:
    """The checks of the reference load balancer, which nothing else on the page counts; none without any."""
    checks = run.instruments
    if not checks:
        return []
    found = [Strong(f"{each.mark} {each.number} {each.word}", each.verdict) for each in counts(checks, run.verdicts)]
    cards = (_card(run, each, f"cause-i{at}") for at, each in enumerate(troubles_of(run, checks), 1))
    blocks = (Text(f"{len(checks)} checks {INSTRUMENT}"), Text(tuple(_apart(found, " "))), Items(tuple(cards)))
    return [Section("Reference load balancer", blocks, "instrument")]


def _card(run: RecordedRun, cause: Cause, place: str) -> Item:
    """A cause: its first check with all details, and a list of all its checks."""
    first, said = cause.first, cause.verdict.status.value
    details: list[tuple[str, Words]] = [
        (label.capitalize(), text) for label, text in cause.details.items() if label != "likely"
    ]
    details += [("Where to look", Strong(cause.verdict.likely, "likely"))] if cause.verdict.likely else []
    details += [("See", _cited(first.references))] if first.references else []
    blocks: list[Block] = [Command(repeat(run, first.id))]
    if cause.others:
        rows = (
            (_link(check), check.level.value, verdict.observed if is_believed(check, verdict) else "")
            for check, verdict in ((check, run.verdicts[check.id]) for check in cause.checks)
        )
        every = Table(("Check", "Level", "Observed"), tuple(rows))
        blocks.append(Fold(f"All {len(cause.checks)} checks with this cause", (every,)))
    head = (mark(said), " ", Strong(first.level.value, "level"), " ", _link(first))
    return Item(head, tuple(details), (), tuple(blocks), said, place)


def short(cause: Cause) -> str:
    """A cause in one line: the observation, the requirement and the packets; else the reason."""
    verdict = cause.verdict
    if verdict.status in (Status.INCONCLUSIVE, Status.ERROR):
        return verdict.reason
    seen = f"observed {verdict.observed}; expected {verdict.expected}"
    return f"{seen}; {cause.details['packets']}" if "packets" in cause.details else seen


# ------------------------------------------------------------------------------------------------------------ reasons
def untested_of(run: RecordedRun) -> Section:
    """The untested checks by reason, what was not selected, and the features of the cluster."""
    calm = "All selected checks were tested."
    if not run.whole:
        calm = "The ledger is incomplete: checks without a verdict may not have been tested."
    blocks: list[Block] = [_reasons(run, Status.UNSUPPORTED, calm)]
    if left_out := run.header.get("left_out_core_rows"):
        words = " were not selected for this run. No count on this page includes them."
        blocks.append(Text((Strong(counted(left_out, "core check")), words)))
    if without := run.header.get("without"):
        blocks.append(Text(f"Excluded with --without: {', '.join(without)}."))
    return Section("Not tested, and why", (*blocks, features_of(run)), "untested")


def known_of(run: RecordedRun) -> Section:
    """The known differences by reason."""
    return Section("Known differences", (_reasons(run, Status.KNOWN, "No check shows a known difference."),), "known")


def defects_of(run: RecordedRun) -> list[tuple[Inline, ...]]:
    """The known defects for the head, a line each: the reference, the checks, and why; then how many more there are."""
    found = known_defects(run.qualified, run.verdicts)
    lines = [_defect(each) for each in found[:MOST_DEFECTS]]
    left = len(found) - MOST_DEFECTS
    return lines + ([(Link(f"and {counted(left, 'more known defect')}", "#known"),)] if left > 0 else [])


def _defect(reason: Reason) -> tuple[Inline, ...]:
    cited = [(Link(one_line(each.title, 100), each.link), ": ") for each in reason.references[:1]]
    checks = Link(counted(len(reason.checks), "check"), "#known")
    rest = f" ({reason.say_levels}): {one_line(reason.why, 160)}"
    return (mark(Status.KNOWN.value, reason.nature), " ", *(part for pair in cited for part in pair), checks, rest)


def _reasons(run: RecordedRun, status: Status, calm: str) -> Block:
    items = []
    for each in reasons(run.qualified, run.verdicts, status):
        needs = ("needs " if status is Status.UNSUPPORTED else "") + ", ".join(each.of)
        nature = f"{each.nature.capitalize()}: " if each.nature else ""
        head = f"{nature}{counted(len(each.checks), 'check')} ({each.say_levels})" + (f": {needs}" if each.of else "")
        rows = tuple((_link(check), check.level.value) for check in each.checks)
        details: list[tuple[str, Words]] = [("Why", each.why)]
        details += [("See", _cited(each.references))] if each.references else []
        fold = Fold("The checks", (Table(("Check", "Level"), rows),))
        items.append(Item(head, tuple(details), (), (fold,), status.value))
    return Items(tuple(items)) if items else Text(calm)


def _link(check: RecordedCheck) -> Link:
    return Link(check.id, f"#row={check.id}")


def _cited(references: Iterable[Reference]) -> Words:
    return tuple(_apart([Link(each.title, each.link) for each in references], "; "))


def _apart(parts: Iterable[Inline], sign: str) -> list[Inline]:
    """The parts with a sign between them."""
    return [each for part in parts for each in (sign, part)][1:]
