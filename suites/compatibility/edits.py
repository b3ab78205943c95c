"""Rows of this suite: data only."""

from esipp.rows import Row

CELLS: tuple[Row, ...] = ()
