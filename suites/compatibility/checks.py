"""The checks: what the API server makes of Services old and new, and what flows while policies flip. Data only."""

from esipp.checks.check import Check
from suites.compatibility import edits
from suites.compatibility import isolation as beside

CHECKS: tuple[Check, ...] = (*edits.CHECKS, *beside.CHECKS)
