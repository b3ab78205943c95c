"""The checks about what the API server makes of Services, and about what old annotations do to traffic. Data only."""

from esipp.checks.check import Check
from suites.compatibility import changes, clients, old_forms, old_paths, rules

CHECKS: tuple[Check, ...] = (*rules.CHECKS, *changes.CHECKS, *clients.CHECKS, *old_forms.CHECKS, *old_paths.CHECKS)
