"""Older ledgers: facts, notes and fields that had other names are read by those of today."""

from dataclasses import replace
from typing import Any

import pytest

from esipp.ledger.codec import judged, read_judged
from esipp.ledger.older import FIELDS, Older, fact
from esipp.scenarios.endpoint_change.evidence import Answers, Bystanders, Moved
from tests.unit.rejudging_world import seen


@pytest.mark.parametrize(
    ("old", "today"),
    [
        ("load-balancer.class.told", "load-balancer.class.named"),
        ("surroundings.network-policies", "environment.network-policies"),
        ("kubernetes", "kubernetes"),
    ],
)
def test_a_fact_has_its_name_of_today(old: str, today: str) -> None:
    record = {"record": "fact", "at": 1.0, "name": old, "value": "a", "decided": "b"}
    assert fact(old) == today
    assert Older().today(record) == record | {"name": today}


def test_a_note_about_the_environment_is_found() -> None:
    record = {"record": "note", "at": 1.0, "about": "surroundings", "note": "a"}
    assert Older().today(record)["about"] == "environment"


def back(data: Any, where: tuple[str, ...], old: str, new: str) -> int:
    """Give a field its old name back, wherever it stands; how often."""
    if not where:
        data[old] = data.pop(new)
        return 1
    first, *rest = where
    return sum(back(each, tuple(rest), old, new) for name, each in data.items() if each and first in ("*", name))


@pytest.mark.parametrize("suite", sorted(FIELDS))
def test_the_fields_of_evidence_have_their_names_of_today(suite: str) -> None:
    evidence = seen()[suite]
    if isinstance(evidence, Moved):
        evidence = replace(evidence, bystanders=Bystanders("s", 1, 0.5, {"a": [Answers("503", 0.0, 9.0, 10)]}, 1))
    record = {"record": "judged"} | judged(suite, evidence)
    for where, old, new in FIELDS[suite]:
        assert back(record["seen"], where, old, new), f"nothing is at {where}"
    today = Older().today(record)["seen"]
    assert judged(suite, read_judged(suite, today)) == judged(suite, evidence)
