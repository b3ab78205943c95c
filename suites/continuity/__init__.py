"""Continuity: steady traffic while pods, policies, nodes and components change."""

from esipp.checks.versions import SCTP, SLICES, TERMINATING, Rules
from suites.streams import SCTP_NEW, SCTP_PORT

TITLE = "Continuity"
ORDER = 60

VERSIONS: Rules = (
    ({}, SLICES),
    ({"what": "terminating-serves"}, TERMINATING),
    *(({"what": stream.name}, SCTP) for stream in (SCTP_NEW, SCTP_PORT)),
    *(({"phase": phase}, TERMINATING) for phase in ("rolling-update", "deleted", "drain")),
)
