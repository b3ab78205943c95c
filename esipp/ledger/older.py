"""Older ledgers: their records as a ledger of today has them. Pure.

Ledgers of schema 5 wrote evidence twice: as ``evidence`` for reports, and as ``judged`` for re-judging. What only
``evidence`` had is put into ``judged`` here; the rest of it is not read. Their verdicts cite one text, ``reference``.

Until version 0.2.0 some facts and fields had other names.
"""

from typing import Any

Record = dict[str, Any]

FACTS = {"load-balancer.class.told": "load-balancer.class.named"}
"""Facts that have another name today."""

ENVIRONMENT, SURROUNDINGS = "environment", "surroundings"
"""Facts and notes about the environment: their prefix today, and before."""

FIELDS = {
    "interoperability": ((("names",), "told", "resolved"),),
    "convergence": ((("results", "*"), "told", "reported"), (("bystanders",), "told", "answers")),
    "flips": ((("courses", "*"), "flips", "changes"), (("window", "neighbours", "*"), "flips", "changes")),
}
"""Fields of evidence that have another name today, by judge: where they stand (``*``: in every value), old, new."""


class Older:
    """Reads the records of one ledger, in their order."""

    def __init__(self) -> None:
        self._more: dict[str, Record] = {}

    def today(self, record: Record) -> Record:
        """A record as a ledger of today has it."""
        if record["record"] == "evidence":
            self._remember(record["suite"], record["kind"], record["data"])
        if record["record"] == "fact":
            return record | {"name": fact(record["name"])}
        if record["record"] == "note" and record["about"] == SURROUNDINGS:
            return record | {"about": ENVIRONMENT}
        if record["record"] == "verdict" and "references" not in record:
            return record | {"references": list(filter(None, [record["reference"]]))}
        if record["record"] == "judged":
            seen = record["seen"]
            for where, old, new in FIELDS.get(record["suite"], ()):
                seen = _renamed(seen, where, old, new)
            return record | {"seen": self._more.get(record["suite"], {}) | seen}
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


def fact(name: str) -> str:
    """The name that a fact has today."""
    if name.startswith(f"{SURROUNDINGS}."):
        return ENVIRONMENT + name.removeprefix(SURROUNDINGS)
    return FACTS.get(name, name)


def _renamed(data: Any, where: tuple[str, ...], old: str, new: str) -> Any:
    """The same data, in which a field has its new name."""
    if not isinstance(data, dict):
        return data
    if not where:
        return {new if name == old else name: value for name, value in data.items()}
    first, *rest = where
    return {
        name: _renamed(value, tuple(rest), old, new) if first in ("*", name) else value for name, value in data.items()
    }
