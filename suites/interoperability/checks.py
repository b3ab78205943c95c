"""The checks of inter-operation: what clients inside the cluster reach from nodes without an endpoint, while clients
outside do not; services beside each other; names. Data only.
"""

from esipp.checks.check import Check
from suites.interoperability import inside, trials

CHECKS: tuple[Check, ...] = (*inside.CHECKS, *trials.CHECKS)
