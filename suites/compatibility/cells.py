"""The rows: data only."""

from esipp.rows import Row

CELLS: tuple[Row, ...] = ()
