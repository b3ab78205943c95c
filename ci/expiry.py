"""Which known differences are not seen any more where they are claimed: in runs at hand and in those kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from esipp.checks.known_differences import Claim, Sight, all_claims, sights
from esipp.checks.reference import titles
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.data_planes import plane_of

Record = Mapping[str, Any]
"""What records/data-planes.jsonl keeps of a run."""


def facts_of(run: RecordedRun) -> dict[str, str]:
    """What was found on the cluster."""
    return {name: fact.value for name, fact in run.facts.items()}


def expired(runs: Iterable[RecordedRun], claims: Mapping[Claim, frozenset[str]] | None = None) -> list[str]:
    """Known differences that are claimed for the data plane of a run and were not seen there, a line each."""
    told = []
    for run in runs:
        facts = facts_of(run)
        for each in sights_of(run, all_claims() if claims is None else claims):
            if each.expired:
                told.append(f"{plane_of(facts).name}: {each.sentence}")
    return told


def expired_kept(records: Sequence[Record], claims: Iterable[Claim] | None = None) -> list[str]:
    """The same of what is kept: of claims that are still made, and hold on the facts that were found then."""
    known = {_identity(told_sight(Sight(each, 0, 0))): each for each in (all_claims() if claims is None else claims)}
    told = []
    for record in records:
        for kept in record["claims"]:
            claim = known.get(_identity(kept))
            if claim and (sight := Sight(claim, kept["asked"], kept["seen"])).expired:
                told.append(f"{record['plane']}: {sight.sentence}")
    return told


def sights_of(run: RecordedRun, claims: Mapping[Claim, frozenset[str]]) -> list[Sight]:
    """What a run says of the known differences that are claimed for its cluster."""
    packets = run.features.get("packets")
    return sights(claims, facts_of(run), run.verdicts, packets=packets is not None and packets.present)


def told_sight(each: Sight) -> dict[str, Any]:
    """What a run said of a known difference, as it is kept."""
    claim = each.claim
    return {
        "when": [list(pair) for pair in claim.when],
        "before": claim.before,
        "reason": claim.reason,
        "reference": titles(claim.references),
        "asked": each.asked,
        "seen": each.seen,
    }


def _identity(told: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(tuple(pair) for pair in told["when"]), told["before"], told["reason"]
