"""Consistency of a ledger: whether its verdicts agree with its checks and its evidence."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from esipp.checks.check import Status
from esipp.checks.observation import Verdict
from esipp.ledger.recorded_checks import RecordedCheck

Disagrees = Callable[[RecordedCheck, Verdict, int], bool]


def contradictions(
    checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict], probed: Mapping[str, int]
) -> Iterator[str]:
    """What cannot be, a sentence for each kind.

    Args:
        checks: all checks.
        verdicts: what was said of them, by their ids.
        probed: how many probes there are of each path.
    """
    for disagrees, what in KINDS:
        found = [
            check.id
            for check in checks
            if check.id in verdicts
            and disagrees(check, verdicts[check.id], probed.get(check.path, 0) if check.path else 0)
        ]
        if found:
            yield f"{len(found)} {what}, among them {found[0]}"


def _other_level(check: RecordedCheck, verdict: Verdict, _probes: int) -> bool:
    return verdict.level is not check.level


def _unseen(check: RecordedCheck, verdict: Verdict, probes: int) -> bool:
    return bool(check.path) and verdict.status is Status.PASS and not probes


def _not_accepted(check: RecordedCheck, verdict: Verdict, probes: int) -> bool:
    return bool(check.path and probes) and verdict.status is Status.PASS and not check.accept.issuperset(verdict.shown)


def _otherwise_counted(check: RecordedCheck, verdict: Verdict, probes: int) -> bool:
    counted = sum(verdict.tally.values())
    return bool(check.path and probes and counted) and counted != probes


KINDS: Sequence[tuple[Disagrees, str]] = (
    (_other_level, "verdicts have another level than their checks"),
    (_unseen, "checks pass without a probe"),
    (_not_accepted, "checks pass with a result that they do not accept"),
    (_otherwise_counted, "verdicts count another number of probes than recorded"),
)
