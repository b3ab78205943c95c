"""All checks of the interoperability suite: clients inside the cluster, isolation, scale and DNS. Data only."""

from esipp.checks.check import Check
from suites.interoperability import inside, scenarios

CHECKS: tuple[Check, ...] = (*inside.CHECKS, *scenarios.CHECKS)
