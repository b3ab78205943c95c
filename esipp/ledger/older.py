"""Older ledgers: their records as a ledger of today has them. Pure.

Ledgers of schema 5 wrote evidence twice: as ``evidence`` for reports, and as ``judged`` for re-judging. What only
``evidence`` had is put into ``judged`` here; the rest of it is not read. Their verdicts cite one text, ``reference``.
"""

from typing import Any

Record = dict[str, Any]


class Older:
    """Reads the records of one ledger, in their order."""

    def __init__(self) -> None:
        self._more: dict[str, Record] = {}

    def today(self, record: Record) -> Record:
        """A record as a ledger of today has it."""
        if record["record"] == "evidence":
            self._remember(record["suite"], record["kind"], record["data"])
        if record["record"] == "verdict" and "references" not in record:
            return record | {"references": list(filter(None, [record["reference"]]))}
        if record["record"] == "judged" and record["suite"] in self._more:
            return record | {"seen": self._more[record["suite"]] | record["seen"]}
        return record

    def _remember(self, suite: str, kind: str, data: Record) -> None:
        more = self._more.setdefault(suite, {})
        if (suite, kind) == ("health_checks", "disrupted"):
            more.setdefault("proofs", []).append(data)
        if kind == "settings" and suite in ("continuity", "convergence"):
            more |= {"spacing": data["spacing"], "timeout": data["timeout"]}
        if (suite, kind) == ("continuity", "settings"):
            more["uncertainty"] = data["clock_uncertainty"]
        if (suite, kind) == ("convergence", "settings") and data["packets"] != "captured on every node":
            more["packets"] = data["packets"]
