"""The first Kubernetes version of checks of changes, by their traits."""

from esipp.checks.versions import CLASSES, SCTP, TERMINATING, Rules

VERSIONS: Rules = (
    ({"protocol": "SCTP"}, SCTP),
    ({"event": "terminating"}, TERMINATING),
    ({"event": "terminating-local"}, TERMINATING),
    # a class that nobody serves
    ({"event": "retyped"}, CLASSES),
)
