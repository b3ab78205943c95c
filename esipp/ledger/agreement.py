"""Whether a ledger's verdicts agree with its rows and with what was seen: a digest shows only that nothing was lost."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from esipp.checks.check import Status
from esipp.checks.observation import Verdict
from esipp.ledger.recorded_checks import ToldRow

Disagrees = Callable[[ToldRow, Verdict, int], bool]


def contradictions(
    rows: Sequence[ToldRow], verdicts: Mapping[str, Verdict], probed: Mapping[str, int]
) -> Iterator[str]:
    """What cannot be, a sentence for each kind.

    Args:
        rows: all rows.
        verdicts: what was said of them, by their ids.
        probed: how many probes there are of each path.
    """
    for disagrees, what in KINDS:
        found = [
            row.id
            for row in rows
            if row.id in verdicts and disagrees(row, verdicts[row.id], probed.get(row.path, 0) if row.path else 0)
        ]
        if found:
            yield f"{len(found)} {what}, among them {found[0]}"


def _other_level(row: ToldRow, verdict: Verdict, _probes: int) -> bool:
    return verdict.level is not row.level


def _unseen(row: ToldRow, verdict: Verdict, probes: int) -> bool:
    return bool(row.path) and verdict.status is Status.PASS and not probes


def _not_accepted(row: ToldRow, verdict: Verdict, probes: int) -> bool:
    return bool(row.path and probes) and verdict.status is Status.PASS and not row.accept.issuperset(verdict.shown)


def _otherwise_counted(row: ToldRow, verdict: Verdict, probes: int) -> bool:
    counted = sum(verdict.tally.values())
    return bool(row.path and probes and counted) and counted != probes


KINDS: Sequence[tuple[Disagrees, str]] = (
    (_other_level, "verdicts are of another level than their rows"),
    (_unseen, "rows pass without a probe"),
    (_not_accepted, "rows pass that show what they do not accept"),
    (_otherwise_counted, "verdicts count other probes than there are"),
)
