"""The rows about what the API server makes of Services, and about what old annotations do to traffic. Data only."""

from esipp.checks.check import Row
from suites.compatibility import changes, clients, old_forms, old_paths, rules

CELLS: tuple[Row, ...] = (*rules.CELLS, *changes.CELLS, *clients.CELLS, *old_forms.CELLS, *old_paths.CELLS)
