"""All checks of the compatibility suite: edits of Services, and traffic while policies change. Data only."""

from esipp.checks.check import Check
from suites.compatibility import changes, clients, isolation, old_forms, old_paths, rules

EDITS: tuple[Check, ...] = (
    *rules.CHECKS, *changes.CHECKS, *clients.CHECKS, *old_forms.CHECKS, *old_paths.CHECKS,
)  # fmt: skip
CHECKS: tuple[Check, ...] = (*EDITS, *isolation.CHECKS)
