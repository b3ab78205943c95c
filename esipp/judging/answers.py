"""Answers counted by their text: all right, some, or none; and what the network itself may have lost. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from esipp.checks.check import Check, Status
from esipp.checks.power import missed, most_unseen, say_share
from esipp.judging.controls import Counts, excused
from esipp.judging.frame import Decision, few, undecided

NO_RESULT = "there is no result for it"


def say_observed(tally: Mapping[str, int]) -> str:
    """The counted observations as text, most frequent first."""
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{words} x{count}" for words, count in ordered) or "nothing"


def say_bound(count: int) -> str:
    """What ``count`` equal answers can and cannot say about others of the same client, entry, payload and time.

    The bound is the exact form of the rule of three, at 95 % confidence. The power is the chance of meeting a defect
    that affects one connection in a hundred, each with equal probability.
    """
    return (
        f"0 of {count} differ: with 95 % confidence, at most {say_share(most_unseen(count))} of such connections do; "
        f"a defect of 1 % of them goes unnoticed with a probability of {say_share(missed(count))}"
    )


def all_right(
    check: Check, right: Mapping[str, int], wrong: Mapping[str, int], proof: str = "", empty: str = NO_RESULT
) -> Decision:
    """Pass if all answers are right, flaky if some are, fail if none is.

    Args:
        check: the check.
        right, wrong: the number of answers by their text.
        proof: what a pass rests on.
        empty: why the check is undecided if there is no answer.
    """
    tally = Counter(right) + Counter(wrong)
    good, total = sum(right.values()), tally.total()
    if not total:
        return undecided(check, empty)
    observed = say_observed(tally)
    if good == total:
        return Decision(Status.PASS, check.expected, observed, proof, "", tally, sees=say_bound(total))
    worst = max(wrong, key=lambda words: wrong[words])
    if good:
        return Decision(
            Status.FLAKY, check.expected, observed, f"{total - good} of {total} answers differ", worst, tally
        )
    alone = worst if len(tally) == 1 else ""  # a known difference does not explain additional ones
    return Decision(Status.FAIL, check.expected, observed, "", alone, tally)


def all_are(check: Check, wanted: str, found: Mapping[str, int], proof: str = "", empty: str = NO_RESULT) -> Decision:
    """The same where one text alone is right."""
    right = {words: count for words, count in found.items() if words == wanted}
    wrong = {words: count for words, count in found.items() if words != wanted}
    return all_right(check, right, wrong, proof, empty)


def beyond_the_network(check: Check, decided: Decision, right: int, missing: int, control: Counts) -> Decision:
    """The same decision; undecided if answers are only missing, and the network itself loses as many.

    Args:
        check: the check.
        decided: the decision, with the tally of all answers.
        right: how many are right.
        missing: how many there are not. Any other wrong one is no loss, and leaves the decision.
        control: the losses without a Service.
    """
    total = sum(decided.tally.values())
    if decided.status is not Status.FLAKY or not missing or right + missing < total:
        return decided
    why = excused(Counts(missing, total), control)
    return undecided(check, why, decided.observed) if why else decided


@dataclass(frozen=True)
class Unchanged:
    """The answers of one health check of a Service that stays as it is, while other Services change.

    Args:
        answers: counted by their text; ``wanted`` is the right one, ``silent`` are those that are none.
        doubt: why it is unproven that others changed, or that the client reaches the node; empty if both are proven.
        silence: why silence alone proves nothing; empty if it does.
        least: the fewest answers that prove it.
        control: the losses of the network itself.
        proof: what a pass rests on.
    """

    answers: Mapping[str, int]
    wanted: str
    doubt: str = ""
    silence: str = ""
    silent: Collection[str] = ()
    least: int = 1
    control: Counts = field(default_factory=Counts)
    proof: str = ""

    def decide(self, check: Check) -> Decision:
        """The decision: every answer is as wanted, if others really changed."""
        observed, total = say_observed(self.answers), sum(self.answers.values())
        silent = sum(count for words, count in self.answers.items() if words in self.silent)
        if self.doubt:
            return undecided(check, self.doubt, observed)
        if self.silence and silent == total:
            return undecided(check, self.silence, observed)
        if total < self.least:
            return undecided(check, f"only {total} answers came while other Services changed", observed)
        right = self.answers.get(self.wanted, 0)
        decided = replace(
            all_are(check, self.wanted, self.answers, self.proof), late=right + silent == total and few(silent, total)
        )
        return beyond_the_network(check, decided, right, silent, self.control)
