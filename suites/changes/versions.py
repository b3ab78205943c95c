"""The first Kubernetes version of checks of changes, by their traits."""

from esipp.checks.versions import AFFINITY_TIMEOUT, CLASSES, SCTP, TERMINATING, Need, Rules
from suites.references import KEP_3836, SICK_PROXY

VERSIONS: Rules = (
    ({"protocol": "SCTP"}, SCTP),
    ({"event": "terminating"}, TERMINATING),
    ({"event": "terminating-local"}, TERMINATING),
    ({"event": "affinity-outlived"}, AFFINITY_TIMEOUT),
    ({"event": "proxy-sick", "claim": "status"}, Need("1.27", SICK_PROXY)),
    ({"event": "unwanted-node", "claim": "status"}, Need("1.28", KEP_3836)),
    # a class that nobody serves
    *(({"event": event}, CLASSES) for event in ("retyped", "proxy-sick")),
)
