"""Expired known differences: no longer observed on the data planes they apply to, in new and in recorded runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ci.planes import plane_of
from esipp.checks.expiry import Sight, all_claims, sights
from esipp.checks.known_differences import KnownDifference
from esipp.checks.reference import titles
from esipp.ledger.reading import RecordedRun

Record = Mapping[str, Any]
"""A run in records/data-planes.jsonl."""


def facts_of(run: RecordedRun) -> dict[str, str]:
    """The facts that a run detected on the cluster."""
    return {name: fact.value for name, fact in run.facts.items()}


def expired(runs: Iterable[RecordedRun], claims: Mapping[KnownDifference, frozenset[str]] | None = None) -> list[str]:
    """Known differences that apply to the data plane of a run but were not observed there, one line each."""
    lines = []
    for run in runs:
        facts = facts_of(run)
        for each in sights_of(run, all_claims() if claims is None else claims):
            if each.expired:
                lines.append(f"{plane_of(facts).name}: {each.sentence}")
    return lines


def expired_records(records: Sequence[Record], claims: Iterable[KnownDifference] | None = None) -> list[str]:
    """The same for recorded runs: differences that are still known and apply to the recorded facts."""
    known = {_identity(sight_text(Sight(each, 0, 0))): each for each in (all_claims() if claims is None else claims)}
    lines = []
    for record in records:
        for each_claim in record["claims"]:
            claim = known.get(_identity(each_claim))
            if claim and (sight := Sight(claim, each_claim["asked"], each_claim["seen"])).expired:
                lines.append(f"{record['plane']}: {sight.sentence}")
    return lines


def sights_of(run: RecordedRun, claims: Mapping[KnownDifference, frozenset[str]]) -> list[Sight]:
    """The observations of a run for the known differences that apply to its cluster."""
    return sights(claims, facts_of(run), run.verdicts)


def sight_text(each: Sight) -> dict[str, Any]:
    """The observation of a known difference, for a record."""
    claim = each.claim
    return {
        "when": [list(pair) for pair in claim.when],
        "before": claim.before,
        "reason": claim.reason,
        "reference": titles(claim.references),
        "asked": each.asked,
        "seen": each.seen,
    }


def _identity(claim: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(tuple(pair) for pair in claim["when"]), claim["before"], claim["reason"]
