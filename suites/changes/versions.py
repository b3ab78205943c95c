"""The first Kubernetes version of checks of changes, by their traits."""

from esipp.checks.versions import AFFINITY_TIMEOUT, CLASSES, SCTP, TERMINATING, Rules

VERSIONS: Rules = (
    ({"protocol": "SCTP"}, SCTP),
    ({"event": "terminating"}, TERMINATING),
    ({"event": "terminating-local"}, TERMINATING),
    ({"event": "affinity-outlived"}, AFFINITY_TIMEOUT),
    # a class that nobody serves
    ({"event": "retyped"}, CLASSES),
)
