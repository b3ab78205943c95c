"""Known differences of kube-proxy. Data only."""

from esipp.checks.continuity import SERVED_UNREADY, STALE
from esipp.checks.known_differences import KnownDifference, Nature
from suites.references import CONNTRACK, SCTP_KEPT, SCTP_UNREADY

SCTP_ENTRY_KEPT = KnownDifference(
    when=(("service-proxy", "kube-proxy"),),
    covers=STALE,
    reason="kube-proxy cleans the entries of connection tracking for UDP alone: packets of a client that keeps its "
    "SCTP port go to a pod that is gone, for as long as the client goes on",
    references=(SCTP_KEPT, CONNTRACK),
    by_chance=True,
    nature=Nature.DEFECT,
    evidence="The pod of the last answer was removed before or during the silence. Meanwhile the same way answered "
    "INITs from other ports, and new TCP connections.",
    hides="A node may drop packets from this one port for another reason after the pod has gone.",
)
SCTP_GOES_ON = KnownDifference(
    when=(("service-proxy", "kube-proxy"),),
    covers=SERVED_UNREADY,
    reason="kube-proxy cleans the entries of connection tracking for UDP alone: packets of a client that keeps its "
    "SCTP port go on to a pod that is no longer ready",
    references=(SCTP_UNREADY, CONNTRACK),
    by_chance=True,
    nature=Nature.DEFECT,
    evidence="A pod answered INITs from this port more than 5 s after it had become unready in all EndpointSlices.",
    hides="A node may send INITs to unready pods for another reason; streams from new ports would show that.",
)
