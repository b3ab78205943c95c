"""Checks of changes to Services and pods: each event, seen by each stream at each entry."""

from collections.abc import Iterator
from itertools import pairwise

from esipp.checks.check import LONG, ROUTED, WITHOUT_NODE_PORTS, Level
from esipp.checks.disruption import Disruption
from esipp.checks.known_differences import KnownDifference, Nature
from esipp.checks.model import Family, Protocol, Role
from esipp.checks.reference import Reference
from esipp.checks.stream import Reuse, StreamKind
from esipp.scenarios.service_change.subject import (
    AFFINE,
    LARGE_LOST,
    NAMESAKE_LOST,
    NEVER_LED,
    OWN_NODE_GONE,
    STALE,
    At,
    Claim,
    Event,
    Health,
    ServiceChange,
    ServiceChangeCheck,
    is_closed,
)
from suites.changes.events import (
    COMPARED,
    ENTRIES,
    EVENTS,
    HEALTH_CHECKS,
    IDLE,
    KEEPING,
    MORE_NODES,
    NAMELESS,
    STREAMS,
    TCP_FAST,
    TCP_NEW,
    TCP_ONE_PORT,
    UDP_IDLE,
    why_not,
)
from suites.needs import needs
from suites.references import *
from suites.streams import client_does

SUITE = "changes"
PROXIES = (Disruption.PROXY_STOPPED, Disruption.PROXY_SICK)

EXPECTED = {
    Claim.SERVED: "a pod of the Service answers in every stage",
    Claim.GONE: "no other pod answers",
    Claim.REFUSED: "refused without endpoints",
    Claim.SPREAD: "every pod answers",
    Claim.STICKY: "one pod answers under affinity",
    Claim.OUTLIVED: "several pods answer after the timeout",
    Claim.NO_LOSS: "no request is lost",
    Claim.LIVES: "the same pod answers on the same connection",
    Claim.STATUS: "200",
    Claim.FORGOTTEN: "no answer after the silence",
}

FAILS_IF = {
    Claim.SERVED: "a node does not follow a change of the Service or of its endpoints, or connection tracking still "
    "sends a flow to an address where nothing answers",
    Claim.GONE: "a node keeps the rules of a deleted Service or port, or connection tracking still sends a flow to "
    "what is no longer an endpoint: data reaches whoever has that address now",
    Claim.REFUSED: "a node drops requests to a Service without endpoints, so clients wait for a timeout",
    Claim.SPREAD: "a node leaves out an endpoint that was added, or keeps clients at one pod without affinity",
    Claim.STICKY: "nodes ignore sessionAffinity that is set on an existing Service, or forget clients at once",
    Claim.OUTLIVED: "nodes ignore timeoutSeconds, and keep clients at their pod for the usual three hours",
    Claim.NO_LOSS: "kube-proxy removes rules before it writes others when it starts, or nodes depend on an agent that "
    "is stopped, or a load balancer excludes a node that still serves, or gives up a VIP because its controller, a "
    "speaker elsewhere, the API server or another Node object is away, or a node loses requests while it has another "
    "address",
    Claim.LIVES: "a node forgets connections that are idle, and resets or drops what comes on them afterwards",
    Claim.FORGOTTEN: "a node still sends a flow of a Service that is gone to its pod, although connection tracking has "
    "had the time to forget the flow",
    Claim.STATUS: "a health check says 200 while it must say 503, so load balancers send requests to the node; or a "
    "healthy node does not say 200",
}


TAKEN_FOR_REQUESTS = (
    "a node takes answers that come to the port of a nodePort for requests to its Service, although they belong to a "
    "connection that a pod of the node has made"
)

GUARDED = {
    Claim.SERVED: "the client's address is rewritten before the NetworkPolicy is applied, so that a client that it "
    "admits is shut out",
    Claim.GONE: "a node lets a client in that the NetworkPolicy does not admit, or rewrites its address to one that is "
    "admitted",
}
"""What a check of a NetworkPolicy detects, by its claim."""

OF_OWN_SLICES = {
    Claim.SERVED: "a node does not serve endpoints of a Service without a selector, or does not find by their nodeName "
    "that they are its own",
    Claim.GONE: "a node serves, under Local, an endpoint whose nodeName is not its own name",
}
"""What a check of EndpointSlices that esipp writes detects, by its claim."""

UNDONE_AT_VIP = "a NetworkPolicy shuts out a client that it admits, although the pod sees the client's own address"

TOO_LARGE = (
    "a node drops large packets, or the ICMP messages by which a pod on another node learns of a smaller MTU on the way"
)

OF_ENTRIES = {
    At.SMALL_MTU: TOO_LARGE,
    At.OUT: TAKEN_FOR_REQUESTS,
    **dict.fromkeys(
        (At.ANOTHER_SERVICE, At.ANOTHER_CLUSTER_IP),
        "a node drops or misdirects flows to an endpoint whose address was the endpoint of another Service: connection "
        "tracking still has flows of that one",
    ),
    **dict.fromkeys(
        (At.CLUSTER_IP_LATER, At.VIP_LATER),
        "a node or a load balancer does not serve a port that a Service gets later, or goes on dropping flows that "
        "dialled it before",
    ),
    At.NEW_ADDRESS: "a node serves nodePorts only at addresses that it had when its service proxy started",
}

BACK = {
    Disruption.CONTROLLER_STOPPED: "its controller has started again",
    Disruption.SPEAKER_STOPPED: "a speaker has started again",
    Disruption.BALANCER_CUT_OFF: "it reaches the API server again",
}
"""The end of outages of a load balancer, after which it must serve the VIP for what the Service has become."""

MIXED_UP = (
    "a node takes flows of two of its pods for one if they have the same source port: it drops or resets one of them, "
    "or sends its answers to the other pod"
)
"""What a stream detects whose source ports another pod of the node has, too."""


OF_BEFORE = "the previous pod, or whoever has that pod's address then"


def _stale(of: str, *references: Reference, before: str = "", reaches: str = OF_BEFORE) -> KnownDifference:
    return KnownDifference(
        when=(("service-proxy", "kube-proxy"),),
        covers=STALE,
        before=before,
        reason=f"kube-proxy keeps the connection tracking entries of {of}: a client that keeps its source port "
        f"still reaches {reaches}",
        references=(*references, CONNTRACK),
        nature=Nature.DEFECT,
        evidence="Only flows from ports that were in use before the change reach the previous pods. Flows from new "
        "ports of the same client do not.",
        hides="A node may keep connection tracking entries of such flows for another reason.",
    )


KNOWN = {
    **{
        (name, Protocol.UDP): _stale(
            "UDP flows to a Service that has lost all its endpoints", STALE_WITHOUT_ENDPOINTS, before="1.37"
        )
        for name in ("scaled-to-zero", "address-added-local")
    },
    **{
        (name, Protocol.UDP): _stale("UDP flows to a deleted Service", STALE_OF_DELETED)
        for name in ("deleted", "proxy-stopped-deleted", "network-agent-stopped")
    },
    ("proxy-sick", Protocol.UDP): _stale(
        "UDP flows to an endpoint that was removed while it could not write its rules", STALE_AFTER_FAILURE
    ),
    **{
        (name, Protocol.UDP): _stale("UDP flows to a nodePort that is freed", STALE_OF_DELETED)
        for name in ("retyped", "retyped-otherwise", "one-node-port")
    },
    ("target-port", Protocol.UDP): _stale(
        "UDP flows to a pod that stays an endpoint, at another port",
        STALE_TARGET_PORT,
        before="1.34",
        reaches="the previous port",
    ),
    **{
        (name, Protocol.UDP): _stale("UDP flows to a port that a Service no longer has", STALE_OF_DELETED)
        for name in ("port-changed", "port-removed")
    },
    ("vip-udp", Protocol.UDP): _stale(
        "UDP flows to a Service that has lost all its endpoints or is deleted",
        STALE_WITHOUT_ENDPOINTS,
        STALE_OF_DELETED,
    ),
    **{(event.name, Protocol.SCTP): _stale("SCTP associations", SCTP_KEPT, SCTP_NOT_FLUSHED) for event in EVENTS},
}
"""Known defects of kube-proxy, by event and protocol."""


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
FLOWS_KEPT = KnownDifference(
    when=(("service-proxy", "cilium"),),
    covers=STALE,
    reason="Cilium keeps a flow at a pod that its Service no longer selects, as long as another Service has the pod: a "
    "client that keeps its source port does not move",
    references=(CILIUM_STALE_BACKEND,),
    nature=Nature.DEFECT,
    evidence="Only flows from ports that were in use before the change reach the previous pods. Flows from new ports "
    "of the same client do not.",
    hides="Cilium may keep such flows for another reason.",
)
CLIENTS_KEPT = KnownDifference(
    when=(("service-proxy", "cilium"),),
    covers=AFFINE,
    reason="a finding: with sessionAffinity, Cilium keeps a client at a pod that its Service no longer selects; new "
    "connections go there, too",
    references=(CILIUM_STALE_BACKEND,),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="All requests of the client reach the one pod that it had by its affinity before the change.",
    hides="Cilium may keep such a client there for another reason.",
)

FORGOTTEN_NODE = KnownDifference(
    when=(("service-proxy", "cilium"),),
    covers=OWN_NODE_GONE,
    reason="when a Node object is deleted, Cilium's agents forget the way to the pods of that node; the API promises "
    "such pods nothing, and Kubernetes deletes them in the end",
    references=(NODES_PAGE, CILIUM_NODE_CLEANUP),
    evidence="The client's own node is the one whose object was deleted, and requests are lost only until 5 s after "
    "the object was back. Clients elsewhere lose none.",
    hides="The client's node may lose requests for another reason during that time.",
)
TAKEN_FOR_ONE = KnownDifference(
    when=(("service-proxy", "cilium"),),
    covers=NAMESAKE_LOST,
    reason="when a Service loses an endpoint, Cilium takes it away from all Services of the namespace whose names "
    "begin with that Service's name",
    references=(CILIUM_NAMESAKES, CILIUM_NAMESAKES_FIX),
    before="cilium.version 1.19",
    nature=Nature.DEFECT,
    evidence="The endpoint answered before the EndpointSlices of the other Service lost it. After that nobody "
    "answered, although the EndpointSlices of this Service still had it.",
    hides="Cilium may lose the endpoint at that time for another reason.",
)
LARGE_DROPPED = KnownDifference(
    when=(("service-proxy", "cilium"),),
    covers=LARGE_LOST,
    reason="Cilium does not pass on to a pod behind a Service the ICMP message that its answer is too large for the "
    "way: the pod never learns of the smaller MTU, and its large answers are lost",
    references=(CILIUM_SMALL_MTU, CILIUM_SMALL_MTU_FIX),
    nature=Nature.DEFECT,
    evidence="No large answer arrives in the whole event. The same client gets small answers from the same address.",
    hides="Large answers may be lost for another reason on the way to this client.",
)


def claims(event: Event, at: At, stream: StreamKind, family: Family) -> Iterator[Claim]:
    """Yield what is required of a stream."""
    changes = event.changes
    shut = [is_closed(change.closed, at, stream.protocol.value.lower(), family) for change in changes]
    if stream in HEALTH_CHECKS or stream in IDLE:
        yield Claim.LIVES if stream in IDLE else Claim.STATUS
        return
    if stream is UDP_IDLE:
        yield Claim.FORGOTTEN
        return
    if at is At.NEW_ADDRESS or at.is_another:
        yield Claim.SERVED
        return
    away = at.role in event.left
    may_lose = away or any(at in change.away for change in changes)
    if stream is TCP_NEW and not may_lose and any(change.disruption and change.names for change in changes):
        yield Claim.NO_LOSS
    if stream is TCP_ONE_PORT:
        yield Claim.SERVED
        yield Claim.NO_LOSS
        return
    if stream is TCP_FAST and event.name == "scaled-to-zero":
        yield Claim.REFUSED
        return
    if at not in MORE_NODES or away:
        yield Claim.SERVED
    if at in (At.SMALL_MTU, At.OUT):
        return
    if not shut[0] and (any(shut) or any({*before.names} - {*after.names} for before, after in pairwise(changes))):
        yield Claim.GONE
    if at in MORE_NODES or not stream.is_fresh:
        return
    if any(change.brief for change in changes):
        yield Claim.OUTLIVED
        return
    several = [change for change in changes if len(change.names) > 1]
    if any(not change.sticky for change in several):
        yield Claim.SPREAD
    if any(change.sticky for change in several):
        yield Claim.STICKY


DOCUMENTED = (
    "source-ranges", "affinity-outlived", "affinity-held", "finalizer", "vip-retyped", "network-policy",
    "network-policy-vip", "vip-without-node-ports", "distribution", "distribution-local", "families", "endpoint-slices",
    NAMELESS, "address-reused", "vip-port-changed", "external-ip",
)  # fmt: skip
"""Events whose effect the API names, but leaves to what implements it: who filters, what follows a timeout, and how
soon a load balancer follows."""


def level(event: Event, at: At, stream: StreamKind, claim: Claim) -> Level:
    """Return the level.

    What becomes of flows that are under way is documented for kube-proxy alone. Core checks of disruptions, and of what
    only ``--long`` asks, would make every usual run PARTIAL. Under affinity, a proxy in front of the nodes is a client
    with an address of its own, or several.
    """
    if event.name == NAMELESS and claim is Claim.GONE:
        return Level.RECORD  # the API does not say where an endpoint without nodeName is local; kube-proxy: nowhere
    usual = not event.disruptions and not event.long and not (claim is Claim.STICKY and at.is_vip)
    by_contract = claim in (Claim.SERVED, Claim.GONE, Claim.STICKY) and event.name not in DOCUMENTED
    plain = stream.is_fresh and not stream.size and stream.protocol is not Protocol.SCTP
    return Level.CORE if by_contract and plain and at is not At.OUT and usual else Level.EXTENDED


ABOUT = {
    "terminating": (KEP_1669,),
    "terminating-local": (KEP_1669,),
    **dict.fromkeys(("affinity", "affinity-local"), (API_AFFINITY,)),
    "moved-local": (API_ETP,),
    "one-source-port": (CILIUM_ONE_PORT_OF_TWO_PODS,),
    "endpoint-slices": (OWN_SLICES, API_SLICE_NODE, API_ETP, API_ITP),
    "address-reused": (OWN_SLICES,),
    NAMELESS: (OWN_SLICES, API_SLICE_NODE, LOCAL_ENDPOINTS),
    "internal-policy": (API_ITP, KEP_2086),
    "families": (API_FAMILIES, DUAL_STACK),
    "affinity-outlived": (API_AFFINITY_TIMEOUT,),
    "affinity-held": (API_AFFINITY_TIMEOUT,),
    "finalizer": (API_FINALIZERS, PORT_NOT_RELEASED),
    "vip-retyped": (API_TYPE,),
    "vip-without-node-ports": (API_ALLOCATE, KEP_1864),
    **dict.fromkeys(("distribution", "distribution-local"), (API_DISTRIBUTION, KEP_4444)),
    **dict.fromkeys(("retyped", "retyped-otherwise"), (API_NODE_PORT,)),
    "one-node-port": (API_NODE_PORT,),
    **dict.fromkeys(("port-changed", "port-removed", "vip-port-changed"), (API_PORTS,)),
    "target-port": (API_TARGET_PORT,),
    "external-ip": (API_EXTERNAL_IPS,),
    "source-ranges": (API_RANGES,),
    **dict.fromkeys(("network-policy", "network-policy-vip"), (NETWORK_POLICIES, API_ETP)),
    "proxy-stopped": (E2E_RESTARTS, STALE_AFTER_RESTART),
    "proxy-stopped-deleted": (E2E_RESTARTS,),
    "proxy-sick": (KEP_3836, PROXY_HEALTHY),
    "unwanted-node": (NODES_PAGE, KEP_3458, KEP_3836),
    "cordoned": (NODES_PAGE, KEP_3458),
    "proxy-slow": (SYNC_PERIOD, E2E_LAG),
    "network-agent-stopped": (E2E_RESTARTS,),
    **dict.fromkeys(("controller-stopped", "balancer-cut-off"), (CLOUD_CONTROLLERS, LEFT_AFTER_RETYPING)),
    **dict.fromkeys(("announcer-stopped", "speaker-stopped"), (METALLB_LAYER_2, API_ETP)),
    "node-deleted": (NODES_PAGE,),
    "node-deleted-vip": (NODES_PAGE, KEP_3458),
    "node-left": (NODES_PAGE, E2E_RESTARTS),
    "api-slow": (PROGRAMMING_LATENCY,),
    "address-added": (NODEPORT_ADDRESSES, KEP_3866),
    "address-added-local": (API_HEALTH_PORT, HEALTH_SERVERS_LEAK),
}
"""References of single events."""


def references(event: Event, at: At, stream: StreamKind, claim: Claim) -> tuple[Reference, ...]:
    """Return the references of a check."""
    if claim is Claim.REFUSED:
        return (E2E_REJECTED,)
    if at is At.OUT:
        return (API_NODE_PORT, ANSWERS_INTERCEPTED)
    if stream.size:
        return (VIRTUAL_IPS, RFC_1191, RFC_8201)
    if claim is Claim.LIVES:
        return (CONNTRACK, RFC_9293)
    if claim is Claim.FORGOTTEN:
        return (VIRTUAL_IPS, CONNTRACK_SYSCTL)
    general = (VIRTUAL_IPS, API_SELECTOR) if stream.is_fresh else (VIRTUAL_IPS, E2E_CONNTRACK)
    return (*ABOUT.get(event.name, ()), *general)


def requirement(event: Event, at: At, stream: StreamKind, claim: Claim) -> str:
    """Return the requirement of a check."""
    if claim is Claim.STATUS:
        return f"{event.meanwhile}, a client sends {stream.sent}. {_status(event, stream)}"
    what, _, how = client_does(stream).partition(", ")
    if at is At.OUT:
        port = "" if stream.is_fresh else " Their source port is the Service's nodePort."
        pod = f"{event.meanwhile}, a pod {what} to another node, {how}.{port}"
        return f"{pod} {_followed(event, at)}, the pod gets answers."
    client = f"{event.meanwhile}, a client {what} to {ENTRIES[at]}" + (f", {how}." if how else ".")
    if event.guarded:
        answers = "answers if" if claim is Claim.SERVED else "does not answer unless"
        return f"{client} {_followed(event, at)}, the pod {answers} a NetworkPolicy admits the client."
    return f"{client} {_claimed(stream, claim, _followed(event, at))}"


def _followed(event: Event, at: At) -> str:
    """Return the time from which answers are judged: the longest that any change of this entry may take."""
    return f"From {max(change.within for change in event.changes if at not in change.stuck):.0f} s after each change"


def _claimed(stream: StreamKind, claim: Claim, followed: str) -> str:
    """Return what is required of the answers to a stream."""
    counted = stream.reuse is Reuse.ONE_WAY
    served = "current endpoints receive the datagrams" if counted else "current endpoints answer"
    gone = f"no pod except the current endpoints of this address {'receives them' if counted else 'answers'}"
    return {
        Claim.SERVED: f"{followed}, {served}.",
        Claim.GONE: f"{followed}, {gone}.",
        Claim.REFUSED: "Nodes refuse the connections while the Service has no endpoint.",
        Claim.SPREAD: "Every pod answers while the Service has no sessionAffinity.",
        Claim.NO_LOSS: "No request is lost as long as the Service has endpoints.",
        Claim.STICKY: f"{followed}, only one of several pods answers under sessionAffinity ClientIP.",
        Claim.LIVES: "The same pod answers both.",
        Claim.FORGOTTEN: "No pod answers the second one.",
        Claim.OUTLIVED: "Several pods answer: each affinity times out.",
    }[claim]


MADE_SICK = {
    Disruption.TAINT: "the node has the autoscaler's taint",
    Disruption.PROXY_SICK: "kube-proxy cannot write its rules",
    Disruption.ADDRESS_ADDED: "the Service has no endpoint",
}
"""The disruptions in which a health check must say 503, and why."""


def _expected(event: Event, stream: StreamKind, claim: Claim) -> str:
    """Return what must be observed."""
    sick = (change.disruption for change in event.changes if stream.name in change.sick and change.disruption)
    why = next(map(MADE_SICK.__getitem__, sick), "") if claim is Claim.STATUS else ""
    return f"503 while {why}, else 200" if why else EXPECTED[claim]


def _status(event: Event, stream: StreamKind) -> str:
    """Return what is required of a health check."""
    said = "It gets 200."
    for change in event.changes:
        if stream.name in change.sick:
            assert change.disruption is not None
            said = f"It gets 503 within {change.within:.0f} s while {MADE_SICK[change.disruption]}, "
            said += "and 200 before and after."
    return said


def known(event: Event, at: At, stream: StreamKind, claim: Claim) -> tuple[KnownDifference, ...]:
    """Return the known differences of a check."""
    found = KNOWN.get((event.name, stream.protocol)) if stream in KEEPING else None
    concerned = claim is Claim.GONE or stream.protocol is Protocol.SCTP or event.name in ("proxy-sick", "target-port")
    differences = (found,) if found and concerned else ()
    keeps = stream in KEEPING and stream.protocol is Protocol.UDP
    kept = keeps and not at.is_another
    if claim in (Claim.SERVED, Claim.GONE) and (kept or any(change.sticky for change in event.changes)):
        differences += (FLOWS_KEPT if keeps else CLIENTS_KEPT,)
    if at is At.SHARED_PORT and keeps and claim is Claim.SERVED:
        differences += (FLOWS_NEVER_LED,)
    if claim is Claim.NO_LOSS and any(
        change.disruption is Disruption.NODE_DELETED and change.node is at.client.role for change in event.changes
    ):
        differences += (FORGOTTEN_NODE,)
    if event.name == "namesake":
        differences += (TAKEN_FOR_ONE,)
    return (*differences, *((LARGE_DROPPED,) if at is At.SMALL_MTU else ()))


def check(event: Event, at: At, stream: StreamKind, family: Family, claim: Claim) -> ServiceChangeCheck:
    of_kube_proxy = stream.name == Health.PROXY or {*event.disruptions} & {*PROXIES}
    kube_proxy = ("service-proxy.kube-proxy",) if of_kube_proxy else ()
    routed = (ROUTED,) if at is At.SMALL_MTU else ()
    long = (LONG,) if event.long else ()
    sctp = ("sctp",) if stream.protocol is Protocol.SCTP else ()
    others = ("node-ports.all-addresses",) if at is At.NEW_ADDRESS else ()
    others += ("nodes.three",) if any(change.node is Role.OTHER_NODE for change in event.changes) else ()
    others += ("network-policies",) if event.guarded else ()
    others += ("rights.endpoint-slices",) if event.own_slices else ()
    others += ("external-ips",) if event.external_ip else ()
    others += () if event.node_ports else (WITHOUT_NODE_PORTS,)
    others += ("families.dual",) if event.first else ()
    return ServiceChangeCheck(
        id=f"{SUITE}.{event.name}.{at}.{stream.name}.{family.value.lower()}.{claim}",
        requirement=requirement(event, at, stream, claim),
        level=level(event, at, stream, claim),
        suite=SUITE,
        references=references(event, at, stream, claim),
        features=needs(
            *("vantage.outside", *routed, *long, *sctp, *kube_proxy, *others),
            family=family,
            node=at.role,
            balancer=event.balancer if event.announced else None,
        ).union(*(needs(disruption=each) for each in event.disruptions)),
        subject=ServiceChange(event, at, stream, family, claim, COMPARED.get(stream)),
        expected=_expected(event, stream, claim),
        fails_if=_fails_if(event, at, claim),
        asked=f"{stream.sent}, from before the first change until after the last one",
        differences=known(event, at, stream, claim),
    )


def _fails_if(event: Event, at: At, claim: Claim) -> str:
    if event.guarded:
        return UNDONE_AT_VIP if at.is_vip and claim is Claim.SERVED else GUARDED[claim]
    if event.name == "one-source-port":
        return MIXED_UP
    if event.own_slices and event.name != "address-reused":
        return OF_OWN_SLICES[claim]
    if event.name == "internal-policy" and claim is Claim.GONE:
        return "a node still sends clients to endpoints of other nodes after internalTrafficPolicy became Local"
    if at is At.VIP and claim is Claim.SERVED and (back := next(filter(None, map(BACK.get, event.disruptions)), "")):
        return f"a load balancer gives up a VIP, or does not follow a change of the Service, once {back}"
    return OF_ENTRIES.get(at, FAILS_IF[claim])


CHECKS = [
    check(event, at, stream, family, claim)
    for event in EVENTS
    for at in ENTRIES
    for stream in STREAMS
    if not why_not(event, at, stream)
    for family in Family
    for claim in claims(event, at, stream, family)
]
"""Each event is crossed with each entry and each stream, unless ``why_not`` has a reason; ``claims`` says what is
required there."""
