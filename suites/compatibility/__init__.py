"""Backward compatibility: API rules for old and new Services, and traffic while policies change."""

from esipp.checks.versions import AFFINITY_TIMEOUT, FIELD_RULES, Rules

TITLE = "Backward compatibility"
ORDER = 40

VERSIONS: Rules = (
    ({"claim": "external-name.health-port"}, FIELD_RULES),
    ({"claim": "health-port.clusterip"}, FIELD_RULES),
    *(({"claim": f"affinity.{claim}"}, AFFINITY_TIMEOUT) for claim in ("default-seconds", "zero", "more-than-a-day")),
)
