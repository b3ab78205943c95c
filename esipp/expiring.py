"""Known differences that are no longer seen: what is claimed of a cluster of these facts, and no row shows. Pure.

A difference that names facts is a claim about every cluster that has them: once the data plane has changed, it would
hide the next fault, so it has to go. One that names none is an allowance, and claims nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from esipp.model import Cell
from esipp.observation import Verdict
from esipp.rows import Row, Status, holds

ABOUT = "known differences"

DECIDED = (Status.PASS, Status.KNOWN, Status.FAIL, Status.FLAKY)
"""What is said of a row that was asked, and could be decided."""


@dataclass(frozen=True)
class Expired:
    """A difference that is claimed of this cluster, and that none of the rows showed which accept it.

    Args:
        when: the facts by which it is claimed.
        reason, reference: as the rows have them.
        rows: those that were decided, and differed in nothing or in something else.
    """

    when: tuple[tuple[str, str], ...]
    reason: str
    reference: str
    rows: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is to be told."""
        facts = ", ".join(f"{name} {value}" for name, value in self.when)
        return (
            f"'{self.reason}' ({self.reference}) is claimed where {facts}, and none of {len(self.rows)} rows shows it, "
            f"{self.rows[0]} for one: was it mended?"
        )


def expired(
    rows: Iterable[Row], facts: Mapping[str, str], decided: Collection[str], known: Mapping[str, str]
) -> list[Expired]:
    """The differences that are claimed and not seen.

    Args:
        rows: the rows, as they are today.
        facts: what was found about the cluster.
        decided: the ids of rows that could be decided.
        known: why rows are ``known``, by their ids.
    """
    claims: dict[tuple[tuple[tuple[str, str], ...], str, str], list[str]] = defaultdict(list)
    seen = set(known.values())
    for row in rows:
        differences = row.overrides if isinstance(row, Cell) else getattr(row, "differences", ())
        for each in differences:
            if each.when and row.id in decided and holds(each.when, each.before, facts):
                claims[each.when, each.reason, each.reference].append(row.id)
    return [Expired(*claim, tuple(ids)) for claim, ids in claims.items() if claim[1] not in seen]


def of_verdicts(rows: Iterable[Row], facts: Mapping[str, str], verdicts: Mapping[str, Verdict]) -> list[Expired]:
    """The same of a run, from its verdicts."""
    decided = {each.cell for each in verdicts.values() if each.status in DECIDED}
    known = {each.cell: each.reason for each in verdicts.values() if each.status is Status.KNOWN}
    return expired(rows, facts, decided, known)
