"""The first Kubernetes version of compatibility checks, by their traits."""

from esipp.checks.version_references import AFFINITY_CONFIG
from esipp.checks.versions import FIELD_RULES, Need, Rules

AFFINITY = Need("1.8", AFFINITY_CONFIG)

VERSIONS: Rules = (
    ({"claim": "external-name.health-port"}, FIELD_RULES),
    ({"claim": "health-port.clusterip"}, FIELD_RULES),
    *(({"claim": f"affinity.{claim}"}, AFFINITY) for claim in ("default-seconds", "zero", "more-than-a-day")),
)
