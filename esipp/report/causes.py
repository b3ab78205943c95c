"""Failures grouped by cause, and other checks grouped by reason; shared by all reports."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.checks.check import Level, Status
from esipp.checks.observation import Verdict
from esipp.checks.reference import Reference
from esipp.ledger.conclusion import LEVELS
from esipp.ledger.recorded_checks import RecordedCheck

TROUBLE = (Status.FAIL, Status.FLAKY, Status.ERROR, Status.INCONCLUSIVE)
"""The verdicts that need attention, in the order of the reports."""

Group = Sequence[RecordedCheck]
"""Checks of one cause, first the shortest id of the strictest level."""


def causes_of_paths(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Group]:
    """Failed and undecided path checks, grouped by cause.

    Checks have one cause if they differ in the same way and point to the same likely fault.
    """
    groups: dict[tuple[object, ...], list[RecordedCheck]] = {}
    for check in checks:
        verdict = verdicts.get(check.id)
        if verdict is not None and verdict.status in TROUBLE:
            groups.setdefault(_cause(check, verdict), []).append(check)
    ordered = sorted(groups.values(), key=lambda group: TROUBLE.index(verdicts[group[0].id].status))
    return [sorted(group, key=lambda check: (list(Level).index(check.level), len(check.id))) for group in ordered]


def causes_of_others(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Group]:
    """Other failed and undecided checks; checks of one requirement have one cause."""
    groups: dict[tuple[int, str, str], list[RecordedCheck]] = {}
    for check in checks:
        verdict = verdicts.get(check.id)
        if verdict is not None and verdict.status in TROUBLE:
            groups.setdefault((TROUBLE.index(verdict.status), check.suite, check.requirement), []).append(check)
    return [sorted(group, key=lambda check: list(Level).index(check.level)) for _, group in sorted(groups.items())]


def _cause(check: RecordedCheck, verdict: Verdict) -> tuple[object, ...]:
    """The key that checks of one cause share."""
    if verdict.status is Status.INCONCLUSIVE:
        return (verdict.status, verdict.reason.partition(", but ")[0])
    if verdict.status is Status.ERROR:  # numbers and addresses differ from check to check
        kind = verdict.reason.partition(" (on ")[0]  # the path does not matter
        return (verdict.status, "".join(c for c in kind if not c.isdigit())[:40])
    return (verdict.status, verdict.likely, frozenset(each.value for each in verdict.shown) - check.accept)


def one_of(changes: str) -> str:
    """The first of several changes; those of other connections mostly differ only in ports."""
    first, *others = changes.split("; ")
    return first + (f" (and {len(others)} more in the ledger)" if others else "")


@dataclass
class Reason:
    """A reason why checks differ, were not tested or are undecided, with its checks.

    ``of`` are the missing features that the verdicts name; ``nature`` is the nature of a known difference.
    """

    why: str
    references: tuple[Reference, ...] = ()
    of: list[str] = field(default_factory=list)
    checks: list[RecordedCheck] = field(default_factory=list)
    nature: str = ""

    @property
    def levels(self) -> dict[str, int]:
        """The number of checks by level."""
        found = Counter(check.level for check in self.checks)
        return {level.value: found[level] for level in Level if found[level]}

    @property
    def told_levels(self) -> str:
        """The number of checks by level in words: ``8 core, 4 extended``."""
        return ", ".join(f"{count} {LEVELS[Level(level)]}" for level, count in self.levels.items())


def reasons(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict], status: Status) -> list[Reason]:
    """The reasons of checks that are ``known``, ``unsupported`` or ``inconclusive``, each once.

    Inconclusive checks share a reason if its part before ", but " is the same.
    """
    found: dict[tuple[str, tuple[Reference, ...], str], Reason] = {}
    for check in checks:
        verdict = verdicts.get(check.id)
        if verdict and verdict.status is Status.INCONCLUSIVE is status:
            why = verdict.reason.partition(", but ")[0]
            found.setdefault((why, (), ""), Reason(why)).checks.append(check)
        elif verdict and verdict.status is status:
            # several features often lack for one reason; a check that lacks two counts for the first
            first = verdict.reason.removeprefix("needs ").partition("; ")[0]
            what, _, why = first.rpartition(": ") if status is Status.UNSUPPORTED else ("", "", verdict.reason)
            key = (why, verdict.references, verdict.nature)
            reason = found.setdefault(key, Reason(why, verdict.references, nature=verdict.nature))
            reason.checks.append(check)
            if what and what not in reason.of:
                reason.of.append(what)
    return list(found.values())
