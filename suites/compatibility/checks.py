"""The rows: what the API server makes of Services old and new, and what flows while policies flip. Data only."""

from esipp.checks.check import Row
from suites.compatibility import edits
from suites.compatibility import isolation as beside

CELLS: tuple[Row, ...] = (*edits.CELLS, *beside.CELLS)
