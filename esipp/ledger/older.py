"""Older ledgers: their records as a ledger of today has them. Pure.

Ledgers of schema 5 wrote evidence twice: as ``evidence`` for reports, and as ``judged`` for re-judging. What only
``evidence`` had is put into ``judged`` here; the rest of it is not read.
"""

from typing import Any

Record = dict[str, Any]


class Older:
    """Reads the records of one ledger, in their order."""

    def __init__(self) -> None:
        self._proofs: list[Record] = []

    def today(self, record: Record) -> Record:
        """A record as a ledger of today has it."""
        if record["record"] == "evidence" and record["kind"] == "disrupted":
            self._proofs.append(record["data"])
        if record["record"] == "judged" and record["suite"] == "health_checks" and self._proofs:
            return record | {"seen": {"proofs": self._proofs} | record["seen"]}
        return record
