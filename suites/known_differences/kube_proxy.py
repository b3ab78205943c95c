"""Known differences of kube-proxy. Data only."""

from esipp.checks.continuity import SERVED_UNREADY, STALE, STARTING, UNTRANSLATED, UNTRANSLATED_PORT
from esipp.checks.endpoint_change import FORWARDED
from esipp.checks.known_differences import KnownDifference, Nature
from esipp.checks.model import Family
from esipp.checks.reference import Reference
from esipp.scenarios.service_change.subject import NEVER_LED
from esipp.scenarios.service_change.subject import STALE as FROM_BEFORE
from suites.references import *

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
ENTERED_UNTRANSLATED = KnownDifference(
    when=(("service-proxy", "kube-proxy"),),
    covers=UNTRANSLATED_PORT,
    reason="a finding: kube-proxy removes the NAT chains of its earlier mode before it writes those of the new one. "
    "Where nothing else on the node has NAT chains of this family, the kernel translates no packet meanwhile. It keeps "
    "the untranslated entry of an SCTP port for ten seconds, and kube-proxy cleans those of UDP alone, so a client "
    "that keeps its port is silent until then",
    references=(MODE_CLEANUP, CONNTRACK, SCTP_TIMEOUTS),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="Each silence began while the same node answered no datagram of an established UDP flow of this family, "
    "and ended within 11 s after that. Meanwhile INITs from other ports and new TCP connections were answered on the "
    "same way. At a VIP whose node has no such flow of the run, its health check did not answer 200, and in the same "
    "phase the flows at both other nodes were silent, too.",
    hides="A node may lose packets from this one port for another reason, for these eleven seconds, as its kube-proxy "
    "is replaced.",
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
    evidence="All requests were lost after the load balancer had begun to use a node that it had not used before, and "
    "before a nodePort of the node that joined answered for the first time. That node's health check had said 200.",
    hides="Requests lost at another node in these seconds. A node that joins and loses requests after its first answer "
    "at the nodePort fails, and so does one that does not serve within 30 s.",
)


def forwarded_masqueraded(family: Family) -> KnownDifference:
    """A node that gets its first endpoint, on a cluster whose network add-on masquerades."""
    return KnownDifference(
        when=(
            ("service-proxy", "kube-proxy"),
            ("proxy-mode", "iptables"),
            (f"pod-to-node.{family.value.lower()}", "masqueraded"),
        ),
        covers=FORWARDED,
        reason="a finding: kube-proxy commits its filter table before its NAT table. A node that gets its first "
        "endpoint no longer drops packets to the VIP, and does not translate them yet: it forwards them to the node "
        "that has the VIP, and the network add-on masquerades them on the way. Pods there see a node's address under "
        "Local",
        references=(FILTER_BEFORE_NAT, MASQUERADE_AGENT, KINDNET),
        by_chance=True,
        nature=Nature.FINDING,
        evidence="Each such answer came from a pod on another node within 0.1 s of a moment at which a node refused a "
        "connection to its nodePort: it neither dropped nor translated it. That node was to get an endpoint, and had "
        "not answered there since. The source is an address of a node.",
        hides="A node that masquerades what it forwards, for another reason, in that moment.",
    )


def _kept(
    of: str,
    *references: Reference,
    before: str = "",
    reaches: str = "the previous pod, or whoever has that pod's address then",
) -> KnownDifference:
    return KnownDifference(
        when=(("service-proxy", "kube-proxy"),),
        covers=FROM_BEFORE,
        before=before,
        reason=f"kube-proxy keeps the connection tracking entries of {of}: a client that keeps its source port "
        f"still reaches {reaches}",
        references=(*references, CONNTRACK),
        nature=Nature.DEFECT,
        evidence="Only flows from ports that were in use before the change reach the previous pods. Flows from new "
        "ports of the same client do not.",
        hides="A node may keep connection tracking entries of such flows for another reason.",
    )


KEPT_OF_SCTP = _kept("SCTP associations", SCTP_KEPT, SCTP_NOT_FLUSHED)
KEPT_WITHOUT_ENDPOINTS = _kept(
    "UDP flows to a Service that has lost all its endpoints", STALE_WITHOUT_ENDPOINTS, before="kube-proxy-version 1.37"
)
KEPT_OF_DELETED = _kept("UDP flows to a deleted Service", STALE_OF_DELETED)
NOT_CLEANED_AGAIN = KnownDifference(
    when=(("service-proxy", "kube-proxy"),),
    covers=FROM_BEFORE,
    reason="a finding: kube-proxy cleans connection tracking when endpoints of a UDP Service change, and not when the "
    "Service does. Where a Service is deleted and created again, a client that keeps its source port may reach the "
    "previous pod until endpoints of any UDP Service change",
    references=(CLEANED_WITH_ENDPOINTS, STALE_OF_DELETED),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="Only flows from ports that were in use before the Service was deleted reach the previous pod, and no "
    "other. Flows from new ports of the same client reach the pod that it has now. Seen in one run of many, at all "
    "entries of the Service (kind-iptables, 2026-11-29: 8 of 8 flows, for 33.8 s).",
    hides="A node may keep connection tracking entries of such flows for another reason.",
)
KEPT_AFTER_FAILURE = _kept(
    "UDP flows to an endpoint that was removed while it could not write its rules", STALE_AFTER_FAILURE
)
KEPT_OF_NODE_PORT = _kept("UDP flows to a nodePort that is freed", STALE_OF_DELETED)
KEPT_AT_TARGET_PORT = _kept(
    "UDP flows to a pod that stays an endpoint, at another port",
    STALE_TARGET_PORT,
    before="kube-proxy-version 1.34",
    reaches="the previous port",
)
KEPT_OF_PORT = _kept("UDP flows to a port that a Service no longer has", STALE_OF_DELETED)
KEPT_AT_VIP = _kept(
    "UDP flows to a Service that has lost all its endpoints or is deleted", STALE_WITHOUT_ENDPOINTS, STALE_OF_DELETED
)
FLOWS_NEVER_LED = KnownDifference(
    when=(("service-proxy", "kube-proxy"),),
    covers=NEVER_LED,
    reason="a finding: kube-proxy cleans connection tracking when endpoints of a UDP Service change, and not when the "
    "Service does. A client that keeps its source port, and dialled a nodePort before a UDP port got it, reaches "
    "nothing until endpoints of any UDP Service change",
    references=(CLEANED_WITH_ENDPOINTS, STALE_OF_DELETED),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="No request from a port that was in use before the change was ever answered until then. Flows from new "
    "ports of the same client are answered at the same nodePort.",
    hides="A node may lose such flows for another reason.",
)
