"""The marks and words of verdicts, the same all over the page: a sign stands beside every colour."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from esipp.observation import Verdict
from esipp.report.conclusion import WORST_FIRST
from esipp.report.matrix import LETTERS
from esipp.report.told_rows import ToldRow
from esipp.rows import Level, Status

RECORDED = "recorded"
UNJUDGED = "unjudged"

MARKS = {
    Status.PASS.value: "✓",
    Status.FAIL.value: "!",
    Status.FLAKY.value: "~",
    Status.KNOWN.value: "k",
    Status.UNSUPPORTED.value: "u",
    Status.INCONCLUSIVE.value: "?",
    Status.ERROR.value: "E",
    RECORDED: "r",
    UNJUDGED: "∅",
}
"""As in the terminal's matrix, and a tick."""

WORDS = {
    Status.PASS.value: "as required",
    Status.FAIL.value: "fail",
    Status.FLAKY.value: "flaky",
    Status.KNOWN.value: "known difference",
    Status.UNSUPPORTED.value: "not tested",
    Status.INCONCLUSIVE.value: "inconclusive",
    Status.ERROR.value: "an error of ours",
    RECORDED: "recorded only",
    UNJUDGED: "no verdict",
}

WORST = (UNJUDGED, *(status.value for status in WORST_FIRST[:-1]), Status.PASS.value, RECORDED)
"""Said first of several."""


class Count(NamedTuple):
    """So many rows of one verdict."""

    verdict: str
    mark: str
    word: str
    number: int


def said_of(row: ToldRow, verdict: Verdict | None) -> str:
    """A row's verdict in the page's words: that of a row that is only recorded is told apart."""
    if verdict is None:
        return UNJUDGED
    recorded = row.level is Level.RECORD and verdict.status is Status.PASS
    return RECORDED if recorded else verdict.status.value


def counts(rows: Iterable[ToldRow], verdicts: Mapping[str, Verdict]) -> list[Count]:
    """How many rows have which verdict, the good ones first."""
    found = Counter(said_of(row, verdicts.get(row.id)) for row in rows)
    order = ("pass", RECORDED, *(each for each in reversed(WORST) if each not in ("pass", RECORDED)))
    return [Count(each, MARKS[each], WORDS[each], found[each]) for each in order if found[each]]


def worst(said: Iterable[str]) -> str:
    """The worst of several verdicts."""
    return min(said, key=WORST.index)


def letters(verdicts: Sequence[Verdict | None]) -> str:
    """What was seen, as the matrix has it: two letters at most."""
    return "".join(sorted({LETTERS[each] for verdict in verdicts if verdict for each in verdict.shown}))[:2]
