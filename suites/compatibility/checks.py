"""All checks of the compatibility suite: the API, and traffic while policies change. Data only."""

from esipp.checks.check import Check
from suites.compatibility import edits, isolation

CHECKS: tuple[Check, ...] = (*edits.CHECKS, *isolation.CHECKS)
