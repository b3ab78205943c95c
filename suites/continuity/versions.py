"""The first Kubernetes version of continuity checks, by their traits."""

from esipp.checks.versions import SCTP, SLICES, TERMINATING, Rules
from suites.streams import SCTP_NEW, SCTP_PORT

VERSIONS: Rules = (
    ({}, SLICES),
    ({"what": "terminating-serves"}, TERMINATING),
    *(({"what": stream.name}, SCTP) for stream in (SCTP_NEW, SCTP_PORT)),
    *(({"phase": phase}, TERMINATING) for phase in ("rolling-update", "deleted", "drain")),
)
