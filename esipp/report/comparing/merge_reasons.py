"""Why cells of a matrix are not green, over all columns: verdicts but ``pass`` and ``recorded``, by their reasons."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from esipp.base.plural import form
from esipp.checks.check import Status
from esipp.checks.observation import Verdict
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference, titles
from esipp.ledger.conclusion import WORST_FIRST
from esipp.report.comparing.document import Item, Section
from esipp.report.comparing.merge import Column
from esipp.report.comparing.words import Words, gist

TITLE = "What is not green, and why"


@dataclass
class Reason:
    """One reason, and the checks of each column that have it.

    Args:
        status: the verdict, anything but `pass` and `recorded`.
        why: the reason in words that hold for all clusters; of what failed, what was seen.
        references: where it is known from.
        nature: of a known difference.
        checks: ids by column.
    """

    status: Status
    why: str
    references: tuple[Reference, ...]
    nature: str = ""
    checks: dict[str, list[str]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """How many cells it explains."""
        return sum(map(len, self.checks.values()))


def reasons(columns: Sequence[Column]) -> list[Reason]:
    """All reasons, the worst verdict first, then those of most cells."""
    found: dict[tuple[Status, str, tuple[Reference, ...], str], Reason] = {}
    for column in columns:
        words = Words(column.runs[0])
        for name, verdict in column.verdicts.items():
            if verdict.status not in (Status.PASS, Status.RECORDED):
                key = (verdict.status, _why(verdict, words), verdict.references, verdict.nature)
                found.setdefault(key, Reason(*key)).checks.setdefault(column.name, []).append(name)
    return sorted(found.values(), key=lambda each: (WORST_FIRST.index(each.status), -each.number, each.why))


def _why(verdict: Verdict, words: Words) -> str:
    if why := words.why(verdict):
        return why
    seen = "; ".join(part for part in (verdict.likely, words.unmeasured(verdict.reason)) if part)
    return gist(words.shape(verdict)) + (f" ({seen})" if seen else "")


def section(columns: Sequence[Column]) -> Section:
    """As people are told it; without items where all is green."""
    found = reasons(columns)
    total = Counter(each.status for each in found for _ in range(each.number))
    items = tuple(_item(each, columns) for each in found)
    counts = ", ".join(f"{total[status]:,} {status.value}" for status in WORST_FIRST if total[status])
    about = (
        f"{total.total():,} {form(total.total(), 'cell')}: {counts}." if items else "Every check of every run passed."
    )
    return Section(TITLE, about, items)


def _item(each: Reason, columns: Sequence[Column]) -> Item:
    where = ", ".join(
        f"{len(each.checks[column.name]):,} in {column.name}" for column in columns if column.name in each.checks
    )
    details = (("rows", where), *((("see", titles(each.references)),) if each.references else ()))
    ids = dict.fromkeys(name for names in each.checks.values() for name in names)
    what = f"{each.status.value} ({each.nature})" if each.nature else each.status.value
    return Item(f"{what}: {each.why}", details, tuple(patterns(list(ids))))
