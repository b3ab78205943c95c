"""The evidence of each scenario in the ledger: one ``judged`` record for each."""

from typing import Any

from esipp.judging.scenario import recorded_as
from esipp.ledger.codec import decode, encode


def judged(record: str, evidence: object) -> dict[str, Any]:
    """The fields of the record.

    Args:
        record: the name that the scenario's evidence has in ledgers.
        evidence: what it observed.
    """
    scenario = recorded_as(record)
    packed = scenario.pack(evidence)
    assert isinstance(packed, scenario.evidence), f"the evidence of {record} is {scenario.evidence.__name__}"
    return {"suite": record, "seen": encode(packed)}


def read_judged(record: str, seen: Any) -> Any:
    """The evidence in a record, as it was packed.

    Raises:
        EvidenceError: it cannot be read.
        KeyError: no scenario has this name in ledgers.
    """
    return decode(seen, recorded_as(record).evidence)
