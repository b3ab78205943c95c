"""Nodes: what the other suites ask of nodes with a role, asked of every sampled node and of every endpoint."""

from esipp.checks.reference import KEP_2086
from esipp.checks.versions import CLASSES, SCTP, Need, Rules

TITLE = "Every node"
ORDER = 15

VERSIONS: Rules = (
    ({"protocol": "SCTP"}, SCTP),
    # a class without implementation: otherwise the cluster's own load balancer would serve the Service
    ({"entrance": "health"}, CLASSES),
    ({"entrance": "clusterip", "policy": "Local"}, Need("1.22", KEP_2086)),
)
