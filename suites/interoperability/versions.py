"""The first Kubernetes version of interoperability checks, by their traits."""

from esipp.checks.versions import CLASSES, DOCUMENT, GATES, SLICES, Rules

VERSIONS: Rules = (
    ({"scenario": "neighbours"}, GATES),
    # a class without implementation: otherwise the cluster's own load balancer would serve them
    ({"scenario": "neighbours"}, CLASSES),
    ({"scenario": "many"}, CLASSES),
    ({"claim": "document"}, DOCUMENT),
    ({"scenario": "names"}, SLICES),
)
