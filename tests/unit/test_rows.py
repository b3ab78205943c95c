"""The rows themselves: stable, complete, and each able to fail."""

import json
from collections import Counter

import pytest

from esipp.catalog import all_cells, suite_names
from esipp.explain import explain
from esipp.model import AddressClass, Cell, EntryKind, Level, TrafficPolicy, Vantage

CELLS = all_cells()
each_row = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)


def test_ids_are_unique() -> None:
    assert [name for name, count in Counter(cell.id for cell in CELLS).items() if count > 1] == []


def test_requirements_are_unique() -> None:
    assert [text for text, count in Counter(cell.requirement for cell in CELLS).items() if count > 1] == []


@each_row
def test_a_row_is_complete(cell: Cell) -> None:
    assert cell.requirement[0].isupper()
    assert cell.requirement.endswith(".")
    assert cell.references
    assert cell.suite in suite_names()
    assert cell.id.startswith(cell.path.key)
    assert f"family.{cell.path.family.value.lower()}" in cell.features
    assert cell.accept < frozenset(AddressClass), "a row that accepts everything cannot fail"


@each_row
def test_a_negative_row_has_two_positive_controls(cell: Cell) -> None:
    if cell.is_negative:
        positive = [control.path for control in cell.controls if control.path.service is not None]
        assert any(path.entry == cell.path.entry and path.service != cell.path.service for path in positive)
        assert any(path.service == cell.path.service and path.entry != cell.path.entry for path in positive)
        assert all(path.client == cell.path.client for path in positive)


@each_row
def test_an_outside_client_proves_that_it_is_not_masqueraded(cell: Cell) -> None:
    if cell.path.client.vantage is Vantage.OUTSIDE:
        proofs = [c for c in cell.controls if c.path.entry.kind is EntryKind.NODE_LISTENER]
        assert [proof.accept for proof in proofs] == [frozenset({AddressClass.CLIENT})]


@each_row
def test_a_row_explains_itself(cell: Cell) -> None:
    text = explain(cell)
    assert cell.id in text
    assert " ".join(cell.requirement.split()) in " ".join(text.split())


@each_row
def test_a_row_is_json(cell: Cell) -> None:
    fields = json.loads(json.dumps(cell.as_json()))
    wanted = "id requirement level suite service policy protocol family client entry expect features references"
    assert sorted(fields) == sorted(wanted.split())


def test_local_from_outside_is_core() -> None:
    local = [c for c in CELLS if c.path.service and c.path.service.policy is TrafficPolicy.LOCAL]
    assert {c.level for c in local if c.path.client.vantage is Vantage.OUTSIDE} == {Level.CORE}
