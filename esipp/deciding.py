"""The judge's frame for rows that are no paths: pure, the same for every suite.

A suite only decides what was seen (``Decision``); whether the row could be asked at all, and whether what was seen is
a known difference, is the same for all of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from esipp.observation import Verdict
from esipp.rows import Difference, Feature, Level, Row, Status, holds, missing_features, say_missing, unproven_at_vips


@dataclass(frozen=True)
class Decision:
    """What a suite says of one row from what was seen.

    ``expected`` and ``observed`` are words for people, ``seen`` the one word by which a known difference is told.
    ``tally`` counts what was seen.
    """

    status: Status
    expected: str
    observed: str
    reason: str = ""
    seen: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)


def undecided(row: Row, why: str, observed: str = "nothing") -> Decision:
    """The row cannot be decided, through no fault of the product that was shown."""
    return Decision(Status.INCONCLUSIVE, row.expected, observed, why)


def ours_failed(row: Row, observed: str, why: str) -> Decision:
    """The row cannot be decided because something of ours failed."""
    return Decision(Status.ERROR, row.expected, observed, why)


def give_verdict(
    row: Row,
    features: Mapping[str, Feature],
    facts: Mapping[str, str],
    look: Callable[[], Decision],
    differences: Iterable[Difference] = (),
) -> Verdict:
    """The verdict on a row: unsupported, or what ``look`` decides; a recorded row passes whatever it shows."""
    missing = missing_features(row, features)
    if missing:
        reason = say_missing(row, missing)
        ours = any(feature.ours for feature in missing.values())
        return Verdict(
            row.id, row.level, Status.UNSUPPORTED, row.expected, "nothing", reason, left_out=ours, timed=row.timed
        )
    decided = look()
    status, reason, reference = decided.status, decided.reason, ""
    if row.level is Level.RECORD and status in (Status.FAIL, Status.FLAKY):
        status, reason = Status.PASS, f"recorded: {reason}" if reason else "recorded"
    if status is Status.FAIL:
        for known in differences:
            if known.seen == decided.seen and holds(known.when, known.before, facts):
                status, reason, reference = Status.KNOWN, known.reason, known.reference
    if status in (Status.FAIL, Status.FLAKY) and (unproven := unproven_at_vips(row, facts)):
        status, reason = Status.INCONCLUSIVE, unproven
    return Verdict(
        row.id,
        row.level,
        status,
        decided.expected,
        decided.observed,
        reason,
        dict(decided.tally),
        reference,
        timed=row.timed,
    )
