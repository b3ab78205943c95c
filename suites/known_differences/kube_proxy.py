"""Known differences of kube-proxy. Data only."""

from esipp.checks.continuity import SERVED_UNREADY, STALE, STARTING, UNTRANSLATED
from esipp.checks.known_differences import KnownDifference, Nature
from suites.references import (
    CONNTRACK,
    HEALTH_BEFORE_SYNC,
    HEALTHY_AT_START,
    KEP_3836,
    KEP_3866,
    MODE_CLEANUP,
    SCTP_KEPT,
    SCTP_UNREADY,
)

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
CHAINS_GONE = KnownDifference(
    when=(("service-proxy", "kube-proxy"),),
    covers=UNTRANSLATED,
    reason="a finding: kube-proxy removes the NAT chains of its earlier mode before it writes those of the new one. "
    "Where nothing else on the node has NAT chains of this family, the kernel translates no packet meanwhile, and the "
    "node resets connections to its own addresses, and loses what is sent to a VIP. No document says whether they live "
    "on",
    references=(KEP_3866, MODE_CLEANUP),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="All broken connections were reset, or timed out at a VIP, which is no address of the node. As each of "
    "them broke, no datagram of an established UDP flow of this family was answered at the same node. No flow of the "
    "run crosses the node with the other pod: as connections through it broke, its health check did not answer 200, "
    "and in the same phase the flows at both other nodes were silent, too.",
    hides="A node that breaks UDP flows and TCP connections at the same moment for another reason. A node that no flow "
    "of the run crosses, and that resets connections as its kube-proxy is replaced.",
)
HEALTHY_TOO_EARLY = KnownDifference(
    when=(("service-proxy", "kube-proxy"),),
    covers=STARTING,
    reason="a finding: kube-proxy says 200 at its health check from its start on, and not only once it has written its "
    "first rules of each family. A load balancer sends requests to a node that joins, and that node refuses or loses "
    "them",
    references=(HEALTHY_AT_START, HEALTH_BEFORE_SYNC, KEP_3836),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="All requests were lost between the load balancer's change to more nodes and the first answer of a "
    "nodePort at the node that joined. Probes of that node's health check had shown 200 before.",
    hides="Requests lost at another node in these seconds. A node that joins and loses requests after its first answer "
    "at the nodePort fails, and so does one that does not serve within 30 s.",
)
