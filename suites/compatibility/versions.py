"""The first Kubernetes version of compatibility checks, by their traits."""

from esipp.checks.versions import AFFINITY_TIMEOUT, FIELD_RULES, Rules

VERSIONS: Rules = (
    ({"claim": "external-name.health-port"}, FIELD_RULES),
    ({"claim": "health-port.clusterip"}, FIELD_RULES),
    *(({"claim": f"affinity.{claim}"}, AFFINITY_TIMEOUT) for claim in ("default-seconds", "zero", "more-than-a-day")),
)
