"""All rows of all suites, without a cluster."""

import importlib
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from esipp.checks.check import Level, Row
from esipp.checks.model import Path as Dialled
from esipp.checks.path import Cell
from esipp.checks.versions import dated

HOUSE = Path(__file__).resolve().parents[2]
SUITES = HOUSE / "suites"


ORDER = ("source_ip", "health_checks", "interoperability", "compatibility", "convergence", "continuity")
"""In which suites are run and told: first what stands still, then what is moved, at last what disturbs others."""


def suite_names() -> list[str]:
    """The suites that have rows."""
    found = {path.parent.name for path in SUITES.glob("*/checks.py")}
    return [name for name in ORDER if name in found] + sorted(found - set(ORDER))


def all_cells() -> list[Cell]:
    """Every row that is a path's: whose address a backend must see there."""
    return [row for row in all_rows() if isinstance(row, Cell)]


def all_rows() -> list[Row]:
    """Every row, suite by suite, in the order of its file."""
    return [row for name in suite_names() for row in rows_of(name)]


@cache
def rows_of(suite: str) -> tuple[Row, ...]:
    """The rows of a suite, each with the Kubernetes that it needs (versions.py)."""
    return tuple(_with_unjudged(row) if isinstance(row, Cell) else row for row in _written(suite))


@cache
def _written(suite: str) -> tuple[Row, ...]:
    if str(HOUSE) not in sys.path:
        sys.path.insert(0, str(HOUSE))
    return tuple(dated(row) for row in importlib.import_module(f"suites.{suite}.checks").CELLS)


@cache
def _judged_paths() -> frozenset[Dialled]:
    """The paths whose losses some row judges."""
    rows = (row for name in suite_names() for row in _written(name))
    return frozenset(row.path for row in rows if isinstance(row, Cell) and row.level is not Level.RECORD)


def _with_unjudged(cell: Cell) -> Cell:
    """The row, with its controls marked whose Service no row judges."""
    controls = tuple(
        replace(each, unjudged=each.path.service is not None and each.path not in _judged_paths())
        for each in cell.controls
    )
    return replace(cell, controls=controls) if controls != cell.controls else cell
