"""Marks and words of verdicts, the same on the whole page: every colour comes with a sign."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from esipp.base.document import Strong
from esipp.checks.check import Status, Verdict
from esipp.ledger.conclusion import WORST_FIRST
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.matrix import LETTERS
from esipp.report.matrix import MARKS as SIGNS

UNJUDGED = "unjudged"

MARKS = {status.value: sign for status, sign in SIGNS.items()} | {Status.PASS.value: "✓", UNJUDGED: "∅"}
"""The signs of the terminal's matrix, and a tick for a pass."""

WORDS = {
    Status.PASS.value: "as required",
    Status.FAIL.value: "fail",
    Status.FLAKY.value: "flaky",
    Status.KNOWN.value: "known difference",
    Status.UNSUPPORTED.value: "not tested",
    Status.INCONCLUSIVE.value: "inconclusive",
    Status.ERROR.value: "suite error",
    Status.RECORDED.value: "recorded only",
    UNJUDGED: "no verdict",
}

WORST = (UNJUDGED, *(status.value for status in WORST_FIRST))
"""Verdicts from the worst to the best."""


class Count(NamedTuple):
    """How many checks have one verdict."""

    verdict: str
    mark: str
    word: str
    number: int


def said_of(verdict: Verdict | None) -> str:
    """The name of a check's verdict; ``UNJUDGED`` for a check without one."""
    return UNJUDGED if verdict is None else verdict.status.value


def mark(said: str, word: str = "") -> Strong:
    """A verdict with its sign and its colour."""
    return Strong(f"{MARKS[said]} {word or said}", said)


def counts(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Count]:
    """Checks by verdict, passes first; known differences also by nature."""
    given = [verdicts.get(check.id) for check in checks]
    found = Counter((said_of(each), each.nature if each else "") for each in given)
    order = sorted(found, key=lambda key: (key[0] != Status.PASS.value, -WORST.index(key[0]), key[1]))
    return [
        Count(name, MARKS[name], WORDS[name] + (f" ({nature})" if nature else ""), found[name, nature])
        for name, nature in order
    ]


def worst(said: Iterable[str]) -> str:
    """The worst of several verdicts."""
    return min(said, key=WORST.index)


def letters(verdicts: Sequence[Verdict | None]) -> str:
    """The letters of the matrix for what the backends saw: two at most."""
    return "".join(sorted({LETTERS[each] for verdict in verdicts if verdict for each in verdict.shown}))[:2]
