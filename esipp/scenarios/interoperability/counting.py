"""Counting of right and wrong results, shared by the judges of all interoperability scenarios. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from esipp.checks.check import Check, Status
from esipp.checks.model import AddressClass
from esipp.judging.controls import Counts, excused
from esipp.judging.frame import Decision, ours_failed, undecided
from esipp.judging.reading import Reading
from esipp.scenarios.paths.judge import say_bound, say_observed

CLIENT_ONLY = frozenset({AddressClass.CLIENT})
NODE_ONLY = frozenset({AddressClass.NODE})
ANSWERED = CLIENT_ONLY | NODE_ONLY
DROPPED = frozenset({AddressClass.DROPPED})


def all_right(check: Check, right: Mapping[str, int], wrong: Mapping[str, int], proof: str = "") -> Decision:
    """Pass if all results are right, flaky if some are, fail if none is; both arguments count results by their text."""
    tally = Counter(right) + Counter(wrong)
    good, total = sum(right.values()), tally.total()
    if not total:
        return undecided(check, "there is no result for it")
    observed = say_observed(tally)
    if good == total:
        return Decision(Status.PASS, check.expected, observed, proof, "", tally, sees=say_bound(total))
    worst = max(wrong, key=lambda words: wrong[words])
    if good:
        return Decision(Status.FLAKY, check.expected, observed, f"{total - good} of {total} differ", worst, tally)
    return Decision(Status.FAIL, check.expected, observed, "", worst, tally)


def beyond_the_way(check: Check, decided: Decision, readings: Iterable[Reading], control: Counts) -> Decision:
    """The same decision; undecided if answers are only missing, and the network itself loses as many."""
    made = list(readings)
    missing = sum(each.count for each in made if each.classes == DROPPED and not each.product_fault)
    wrong = sum(each.count for each in made if each.product_fault)
    if decided.status is not Status.FLAKY or not missing or wrong:
        return decided
    why = excused(Counts(missing, sum(each.count for each in made)), control)
    return undecided(check, why, decided.observed) if why else decided


def held_against(readings: Iterable[Reading], accept: frozenset[AddressClass]) -> tuple[Counter[str], Counter[str]]:
    """Readings counted by their text: the right ones, and the wrong ones."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for each in readings:
        fits = not each.product_fault and each.classes & accept
        (right if fits else wrong)[each.words] += each.count
    return right, wrong


def harness(check: Check, readings: Iterable[Reading]) -> Decision | None:
    """The decision if a prober or our own echo server failed."""
    fault = next((each.harness_fault for each in readings if each.harness_fault), "")
    return ours_failed(check, "nothing usable", fault) if fault else None
