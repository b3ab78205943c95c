"""The first Kubernetes version of checks of every node, by their traits."""

from esipp.checks.version_references import KEP_2086
from esipp.checks.versions import CLASSES, SCTP, Need, Rules

VERSIONS: Rules = (
    ({"protocol": "SCTP"}, SCTP),
    # a class without implementation: otherwise the cluster's own load balancer would serve the Service
    ({"entrance": "health"}, CLASSES),
    ({"entrance": "clusterip", "policy": "Local"}, Need("1.22", KEP_2086)),
)
