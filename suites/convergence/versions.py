"""The first Kubernetes version of convergence checks, by their traits."""

from esipp.checks.versions import SLICES, TERMINATING, Rules

VERSIONS: Rules = (({}, SLICES), ({"what": "no-loss-on-graceful-deletion"}, TERMINATING))
