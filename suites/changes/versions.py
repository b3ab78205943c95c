"""The first Kubernetes version of checks of changes, by their traits."""

from esipp.checks.versions import SCTP, Rules

VERSIONS: Rules = (({"protocol": "SCTP"}, SCTP),)
