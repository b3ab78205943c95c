"""Convergence: load balancers and nodes follow endpoint changes."""

from esipp.checks.versions import SLICES, TERMINATING, Rules

TITLE = "Convergence"
ORDER = 50

VERSIONS: Rules = (({}, SLICES), ({"what": "no-loss-on-graceful-deletion"}, TERMINATING))
