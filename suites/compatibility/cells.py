"""The rows: what the API server makes of Services old and new, and what flows while policies flip. Data only."""

from esipp.rows import Row
from suites.compatibility import beside, edits

CELLS: tuple[Row, ...] = (*edits.CELLS, *beside.CELLS)
