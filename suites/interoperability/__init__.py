"""Interoperability: clients inside the cluster, isolation of Services, many Services, and DNS names."""

from esipp.checks.versions import CLASSES, DOCUMENT, GATES, SLICES, Rules

TITLE = "Interoperability"
ORDER = 30

VERSIONS: Rules = (
    ({"scenario": "neighbours"}, GATES),
    # a class without implementation: otherwise the cluster's own load balancer would serve them
    ({"scenario": "neighbours"}, CLASSES),
    ({"scenario": "many"}, CLASSES),
    ({"claim": "document"}, DOCUMENT),
    ({"scenario": "names"}, SLICES),
)
