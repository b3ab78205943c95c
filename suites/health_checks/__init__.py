"""Health checks: the answers of nodes on the health-check node port, and the life cycle of that port."""

from esipp.checks.reference import CARRIED_OVER, HEALTH_WEIGHT, KEP_555, PROXY_HEALTHY
from esipp.checks.versions import DOCUMENT, FIELD_RULES, GATES, TERMINATING, Need, Rules

TITLE = "Health checks"
ORDER = 20

NAMED_BY_NODES = ("prompt", "chosen", "kept", "claimable", "freed-by-policy", "freed-by-type", "freed-by-deletion")
"""Steps in the life cycle of a port for which nodes must name the Service, which needs the document."""

VERSIONS: Rules = (
    ({"about": "document"}, DOCUMENT),
    ({"about": "count"}, DOCUMENT),
    ({"claim": "count"}, DOCUMENT),
    *(({"scenario": "lifecycle", "claim": claim}, DOCUMENT) for claim in NAMED_BY_NODES),
    ({"about": "proxy"}, Need("1.27", PROXY_HEALTHY)),
    ({"about": "weight"}, Need("1.28", HEALTH_WEIGHT)),
    ({"situation": "unready-pod"}, GATES),
    ({"situation": "published-unready-pod"}, GATES),
    ({"scenario": "placement"}, GATES),
    ({"scenario": "stable"}, GATES),
    ({"scenario": "terminating", "claim": "serves"}, TERMINATING),
    ({"scenario": "terminating", "claim": "source"}, TERMINATING),
    ({"claim": "refused-with-cluster"}, FIELD_RULES),
    ({"claim": "refused-for-nodeport"}, FIELD_RULES),
    # also in late releases of 1.20 to 1.22
    ({"claim": "kept-on-update"}, Need("1.23", CARRIED_OVER)),
    ({"claim": "kept-on-apply"}, Need("1.16", KEP_555)),
)
