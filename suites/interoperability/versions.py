"""The first Kubernetes version of interoperability checks, by their traits."""

from esipp.checks.versions import CLASSES, DOCUMENT, GATES, SLICES, Rules

VERSIONS: Rules = (
    ({"trial": "neighbours"}, GATES),
    # a class without implementation: otherwise the cluster's own load balancer would serve them
    ({"trial": "neighbours"}, CLASSES),
    ({"trial": "many"}, CLASSES),
    ({"claim": "document"}, DOCUMENT),
    ({"trial": "names"}, SLICES),
)
