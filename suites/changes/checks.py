"""Checks of changes to Services and pods: each event, seen by each stream at each entry."""

from collections.abc import Iterator
from itertools import pairwise

from esipp.checks.check import ROUTED, Level
from esipp.checks.disruption import Disruption
from esipp.checks.known_differences import KnownDifference
from esipp.checks.model import Family, Protocol
from esipp.checks.reference import Reference
from esipp.checks.stream import Reuse, StreamKind
from esipp.checks.versions import CLASSES, Need
from esipp.scenarios.service_change.subject import (
    At,
    Claim,
    Do,
    Event,
    Health,
    ServiceChange,
    ServiceChangeCheck,
    is_closed,
)
from suites.changes.events import EVENTS, why_not
from suites.changes.streams import (
    COMPARED,
    ENTRIES,
    HEALTH_CHECKS,
    IDLE,
    KEEPING,
    MORE_NODES,
    STREAMS,
    TCP_FAST,
    TCP_NEW,
    TCP_ONE_PORT,
    UDP_IDLE,
)
from suites.known_differences.cilium import (
    CLIENTS_KEPT,
    FLOWS_KEPT,
    FORGOTTEN_NODE,
    LARGE_DROPPED,
)
from suites.known_differences.kube_proxy import FLOWS_NEVER_LED, KEPT_OF_SCTP, NOT_CLEANED_AGAIN
from suites.needs import needs
from suites.references import *
from suites.streams import client_does

SUITE = "changes"
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
    if at.is_new or at.is_another:
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
    if stream is TCP_FAST and any(change.is_there and not change.names for change in changes):
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


def level(event: Event, at: At, stream: StreamKind, claim: Claim) -> Level:
    """Return the level.

    What becomes of flows that are under way is documented for kube-proxy alone. Core checks of disruptions, and of what
    only ``--long`` asks, would make every usual run PARTIAL. Under affinity, a proxy in front of the nodes is a client
    with an address of its own, or several.
    """
    if claim in event.recorded:
        return Level.RECORD
    usual = not event.disruptions and not event.long and not (claim is Claim.STICKY and at.is_vip)
    by_contract = claim in (Claim.SERVED, Claim.GONE, Claim.STICKY)
    plain = stream.is_fresh and not stream.size and stream.protocol is not Protocol.SCTP
    return event.level if by_contract and plain and at is not At.OUT and usual else Level.EXTENDED


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
    return (*event.references, *general)


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
    keeps = stream in KEEPING and stream.protocol is Protocol.UDP
    differences: tuple[KnownDifference, ...] = ()
    if stream in KEEPING and stream.protocol is Protocol.SCTP:
        differences = (KEPT_OF_SCTP,)
    if keeps and event.stale and claim in event.stale_in:
        differences = (event.stale,)
    if keeps and claim is Claim.SERVED and any(change.do is Do.CREATE_AGAIN for change in event.changes):
        differences += (NOT_CLEANED_AGAIN,)
    kept = keeps and not at.is_another
    if claim in (Claim.SERVED, Claim.GONE) and (kept or any(change.sticky for change in event.changes)):
        differences += (FLOWS_KEPT if keeps else CLIENTS_KEPT,)
    if at is At.SHARED_PORT and keeps and claim is Claim.SERVED:
        differences += (FLOWS_NEVER_LED,)
    if claim is Claim.NO_LOSS and any(
        change.disruption is Disruption.NODE_DELETED and change.node is at.client.role for change in event.changes
    ):
        differences += (FORGOTTEN_NODE,)
    return (*differences, *event.known, *((LARGE_DROPPED,) if at is At.SMALL_MTU else ()))


def since(event: Event, claim: Claim) -> Need | None:
    """Return the Kubernetes version that a check needs for its event; None if that needs no certain one."""
    own = (event.status_since if claim is Claim.STATUS else None) or event.since
    needed = (need for need in (own, CLASSES if event.has_class else None) if need)
    return max(needed, key=lambda need: need.number, default=None)


def check(event: Event, at: At, stream: StreamKind, family: Family, claim: Claim) -> ServiceChangeCheck:
    own = (ROUTED,) if at is At.SMALL_MTU else ()
    own += ("sctp",) if stream.protocol is Protocol.SCTP else ()
    own += ("service-proxy.kube-proxy",) if stream.name == Health.PROXY else ()
    own += ("node-ports.all-addresses",) if at.is_new else ()
    need = since(event, claim)
    return ServiceChangeCheck(
        id=f"{SUITE}.{event.name}.{at}.{stream.name}.{family.value.lower()}.{claim}",
        requirement=requirement(event, at, stream, claim),
        level=level(event, at, stream, claim),
        suite=SUITE,
        references=references(event, at, stream, claim),
        features=needs(
            *("vantage.outside", *own, *event.needs),
            family=family,
            node=at.role,
            balancer=event.balancer if event.announced else None,
        ).union(*(needs(disruption=each) for each in event.disruptions)),
        subject=ServiceChange(event, at, stream, family, claim, COMPARED.get(stream)),
        expected=_expected(event, stream, claim),
        fails_if=event.fails_if.get(claim) or _once_back(event, at, claim) or OF_ENTRIES.get(at, FAILS_IF[claim]),
        asked=f"{stream.sent}, from before the first change until after the last one",
        differences=known(event, at, stream, claim),
        since=need.since if need else "",
        since_why=need.because if need else None,
    )


def _once_back(event: Event, at: At, claim: Claim) -> str:
    back = next(filter(None, map(BACK.get, event.disruptions)), "")
    if not back or at is not At.VIP or claim is not Claim.SERVED:
        return ""
    return f"a load balancer gives up a VIP, or does not follow a change of the Service, once {back}"


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
