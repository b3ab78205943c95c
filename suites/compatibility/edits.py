"""All checks of Service edits: API rules, changes, clients, and old annotations with their traffic. Data only."""

from esipp.checks.check import Check
from suites.compatibility import changes, clients, old_forms, old_paths, rules

CHECKS: tuple[Check, ...] = (*rules.CHECKS, *changes.CHECKS, *clients.CHECKS, *old_forms.CHECKS, *old_paths.CHECKS)
