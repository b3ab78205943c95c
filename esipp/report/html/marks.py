"""The marks and words of verdicts, the same all over the page: a sign stands beside every colour."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from esipp.checks.check import Status
from esipp.checks.observation import Verdict
from esipp.ledger.conclusion import WORST_FIRST
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.matrix import LETTERS

UNJUDGED = "unjudged"

MARKS = {
    Status.PASS.value: "✓",
    Status.FAIL.value: "!",
    Status.FLAKY.value: "~",
    Status.KNOWN.value: "k",
    Status.UNSUPPORTED.value: "u",
    Status.INCONCLUSIVE.value: "?",
    Status.ERROR.value: "E",
    Status.RECORDED.value: "r",
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
    Status.RECORDED.value: "recorded only",
    UNJUDGED: "no verdict",
}

WORST = (UNJUDGED, *(status.value for status in WORST_FIRST))
"""Said first of several."""


class Count(NamedTuple):
    """So many checks of one verdict."""

    verdict: str
    mark: str
    word: str
    number: int


def said_of(verdict: Verdict | None) -> str:
    """A check's verdict, by its name; one without a verdict has a name, too."""
    return UNJUDGED if verdict is None else verdict.status.value


def counts(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Count]:
    """How many checks have which verdict, the good ones first; known differences by their nature."""
    given = [verdicts.get(check.id) for check in checks]
    found = Counter((said_of(each), each.nature if each else "") for each in given)
    order = sorted(found, key=lambda key: (key[0] != Status.PASS.value, -WORST.index(key[0]), key[1]))
    return [Count(name, MARKS[name], _word(name, nature), found[name, nature]) for name, nature in order]


def _word(name: str, nature: str) -> str:
    """A verdict in words; a known difference with what it is."""
    return f"{WORDS[name]} ({nature})" if nature else WORDS[name]


def worst(said: Iterable[str]) -> str:
    """The worst of several verdicts."""
    return min(said, key=WORST.index)


def letters(verdicts: Sequence[Verdict | None]) -> str:
    """What was seen, as the matrix has it: two letters at most."""
    return "".join(sorted({LETTERS[each] for verdict in verdicts if verdict for each in verdict.shown}))[:2]
