"""Reasons of all verdicts but ``pass`` and ``recorded``, over all columns of a merge."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from esipp.base.document import Item, Items, Section, Text
from esipp.base.plural import form
from esipp.checks.check import Status
from esipp.checks.observation import Verdict
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference, titles
from esipp.ledger.conclusion import WORST_FIRST
from esipp.report.comparing.checks import FAILING
from esipp.report.comparing.merge import Column
from esipp.report.comparing.words import Words, gist, ranges

TITLE = "Verdicts other than pass, by reason"


@dataclass
class Reason:
    """A reason with its checks in each column.

    Args:
        status: the verdict; never `pass` or `recorded`.
        why: the reason in words that hold for all clusters; for failures, the observation.
        references: the references of a known difference.
        nature: the nature of a known difference.
        checks: ids by column.
        observed, stated: for failures, the observations and the reasons with their numbers.
        likely: for failures, where to look.
    """

    status: Status
    why: str
    references: tuple[Reference, ...]
    nature: str = ""
    checks: dict[str, list[str]] = field(default_factory=dict)
    observed: list[str] = field(default_factory=list)
    stated: list[str] = field(default_factory=list)
    likely: str = ""

    @property
    def text(self) -> str:
        """The reason for people; for failures the observation, with ranges of its numbers over all checks."""
        return ranges(self.observed) if self.observed else self.why

    @property
    def number(self) -> int:
        """How many verdicts have this reason."""
        return sum(map(len, self.checks.values()))


def reasons(columns: Sequence[Column]) -> list[Reason]:
    """All reasons, the worst verdict first, then the most frequent."""
    found: dict[tuple[Status, str, tuple[Reference, ...], str], Reason] = {}
    for column in columns:
        words = Words(column.runs[0])
        for name, verdict in column.verdicts.items():
            if verdict.status not in (Status.PASS, Status.RECORDED):
                key = (verdict.status, _why(verdict, words), verdict.references, verdict.nature)
                reason = found.setdefault(key, Reason(*key))
                reason.checks.setdefault(column.name, []).append(name)
                if verdict.status in FAILING:
                    reason.observed.append(words.measured(verdict) or gist(words.shape(verdict)))
                    reason.stated += [words.plain(verdict.reason)] if verdict.reason else []
                    reason.likely = verdict.likely
    return sorted(found.values(), key=lambda each: (WORST_FIRST.index(each.status), -each.number, each.why))


def _why(verdict: Verdict, words: Words) -> str:
    """The reason without measurements, so that equal reasons of several runs meet."""
    if why := words.why(verdict):
        return why
    causes = "; ".join(part for part in (verdict.likely, words.unmeasured(verdict.reason)) if part)
    return gist(words.shape(verdict)) + (f" ({causes})" if causes else "")


def section(columns: Sequence[Column]) -> Section:
    """The section; without items if every check passed."""
    found = reasons(columns)
    total = Counter(each.status for each in found for _ in range(each.number))
    items = tuple(_item(each, columns) for each in found)
    counts = ", ".join(f"{total[status]:,} {status.value}" for status in WORST_FIRST if total[status])
    about = (
        f"{total.total():,} {form(total.total(), 'verdict')}: {counts}."
        if items
        else "Every check of every run passed."
    )
    return Section(TITLE, (Text(about), Items(items)))


def _item(each: Reason, columns: Sequence[Column]) -> Item:
    where = ", ".join(
        f"{len(each.checks[column.name]):,} in {column.name}" for column in columns if column.name in each.checks
    )
    texts = {
        "checks": where,
        "reason": ranges(each.stated) if each.stated else "",
        "likely": each.likely,
        "see": titles(each.references),
    }
    details = tuple((label, text) for label, text in texts.items() if text)
    ids = dict.fromkeys(name for names in each.checks.values() for name in names)
    what = f"{each.status.value} ({each.nature})" if each.nature else each.status.value
    return Item(f"{what}: {each.text}", details, tuple(patterns(list(ids))))
