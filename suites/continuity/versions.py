"""The first Kubernetes version of continuity checks, by their traits."""

from esipp.checks.versions import SLICES, TERMINATING, Rules

VERSIONS: Rules = (
    ({}, SLICES),
    ({"what": "terminating-serves"}, TERMINATING),
    *(({"phase": phase}, TERMINATING) for phase in ("rolling-update", "deleted", "drain")),
)
