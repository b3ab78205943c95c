"""Checks of the continuity suite: for each change during steady traffic, and each way into the cluster."""

from collections.abc import Iterator

from esipp.checks.check import ONE_NODE, Check, Level, on_link
from esipp.checks.continuity import MOVED, Continuity
from esipp.checks.known_differences import PROXIED, KnownDifference
from esipp.checks.model import Balancer, Family, Protocol, Role, TrafficPolicy
from esipp.checks.stream import StreamKind
from suites.clients import OUTSIDE_1
from suites.continuity.events import EVENTS, STREAMS, why_empty
from suites.continuity.requirements import *
from suites.known_differences.balancers import ROUTES_CHANGED, STATELESS, VIP_CLAIMED_TWICE, by_proxy
from suites.known_differences.cilium import (
    DURING_CHANGES,
    HEALTHY_BEFORE_IT_SERVES,
    LARGE_IN_DSR,
    ONE_PORT_FOR_TWO,
)
from suites.known_differences.kube_proxy import (
    CHAINS_GONE,
    ENTERED_UNTRANSLATED,
    HEALTHY_TOO_EARLY,
    SCTP_ENTRY_KEPT,
    SCTP_GOES_ON,
)
from suites.needs import needs
from suites.references import *
from suites.streams import client_does

LOCAL, CLUSTER = TrafficPolicy.LOCAL, TrafficPolicy.CLUSTER
DEFAULT, ECMP, PROXY = (each.value for each in (Balancer.DEFAULT, Balancer.ECMP, Balancer.PROXY))

WAYS = (
    Way(DEFAULT, LOCAL),
    Way(ECMP, LOCAL),
    Way(PROXY, LOCAL),
    Way(NODEPORT, LOCAL),
    Way(DEFAULT, CLUSTER),
    Way(ECMP, CLUSTER),
    Way(NODEPORT, CLUSTER),
)


def may_move(event: Event, way: Way) -> bool:
    """Return whether the cluster's own load balancer may change its nodes.

    Losses are then compared with its bound, or recorded if there is none. MetalLB, for example, has no health checks.
    A Local Service has nothing at a node without endpoints.
    """
    if way.local and event.node is Role.BARE_NODE:
        return False
    local = event.last_pod_goes or event.changes_policy
    return event.disturbs_balancer or (way.local and local)


def about_losses(event: Event, way: Way) -> What:
    """Return which claim about losses holds."""
    without_node = way.local and way.by != NODEPORT and event.closes_checks
    if event.restarts_data_plane and without_node:
        return What.LOSSES
    if event.may_lose_new:
        return What.GAP
    if event.forgets or (event.refuses and not way.local):
        gap = way.by in CHECKED and not event.takes_endpoints
        return What.GAP if gap else What.LOSSES
    if way.by == DEFAULT:
        return What.LOSSES if may_move(event, way) or without_node else What.NO_LOSS
    if way == Way(NODEPORT, LOCAL):
        return What.LOSSES if event.last_pod_goes else What.NO_LOSS
    return What.GAP if without_node or (way.local and event.by_health_checks) else What.NO_LOSS


def claims(event: Event, way: Way) -> Iterator[What]:
    losses = about_losses(event, way)
    yield losses
    if losses is What.NO_LOSS:
        yield What.NO_DELAY
    if event.cuts and way.by == DEFAULT and may_move(event, way):
        yield What.FAIL_OVER
    if way.by == DEFAULT and (event.disturbs_balancer or event.one_owner):
        yield What.ONE_NODE
    yield What.SOURCE
    if event.changes_policy and way.local:
        yield What.PROMPT
    yield What.PLACE
    yield What.LASTING
    if way == Way(NODEPORT, LOCAL) and event.graceful:
        yield What.TERMINATING
    if way.by == NODEPORT and event.joins:
        yield What.JOINED_NODE


def level(event: Event, way: Way, what: What) -> Level:
    """Return the level. Checks of disruptions are extended, because core ones would make every usual run PARTIAL."""
    if what is What.LOSSES:
        return Level.EXTENDED if by_bound(event, way) else Level.RECORD
    if what is What.LASTING and event.forgets:
        return Level.RECORD
    if event.disruption or what in (What.NO_LOSS, What.NO_DELAY, What.GAP, What.LASTING, What.PROMPT, What.ONE_NODE):
        return Level.EXTENDED
    by_contract = what in (What.PLACE, What.TERMINATING) or (way.local and way.by not in PROXIES)
    return Level.CORE if by_contract else Level.EXTENDED


MOVED_VIP = KnownDifference(
    when=(),
    covers=MOVED,
    reason="the cluster's own load balancer moved the VIP to another node because of the change; that node does not "
    "know established connections",
    references=(METALLB_LAYER_2, METALLB_JOINS),
    by_chance=True,
    evidence="The client's neighbour table shows the move. Where it has no node for the VIP, another node accepted new "
    "connections right after the break. Something changed on one of the two nodes, and the break came within the load "
    "balancer's bound after that, or within 10 s; after a node's return, within 60 s if no bound is known and that "
    "table shows the move, as MetalLB's speakers look for each other that often. Or an earlier phase had moved the "
    "VIP, by that table, and the connection was answered through its first node even after that.",
    hides="A VIP that changes its node for another reason within that time. A node that breaks a connection whose VIP "
    "it lost in an earlier phase.",
)


def differences(event: Event, way: Way, what: What) -> Iterator[KnownDifference]:
    """Yield the known differences of a check."""
    if way.by == ECMP and what in (What.NO_LOSS, What.LASTING):
        yield STATELESS
    if way.by == DEFAULT and what is What.LASTING and (may_move(event, way) or event.refuses or event.joins):
        yield MOVED_VIP
    if way.by == DEFAULT and what is What.LASTING:
        yield ROUTES_CHANGED
    if way.by == DEFAULT and what is What.NO_LOSS and event.frees_for:
        yield VIP_CLAIMED_TWICE
    if way.by in CHECKED and not way.local and what is What.NO_LOSS and event.joins:
        yield HEALTHY_TOO_EARLY
    if way.by in CHECKED and what is What.NO_LOSS:
        yield HEALTHY_BEFORE_IT_SERVES
    if event.rewrites and what is What.LASTING and way.by in (NODEPORT, DEFAULT, *PROXIES):
        yield CHAINS_GONE
    if what in (What.SOURCE, What.PROMPT) and way.by == DEFAULT:
        yield from by_proxy(PROXIED)
    if what is What.SOURCE and not way.local:
        yield DURING_CHANGES


def check(event: Event, way: Way, family: Family, what: What) -> Check[Continuity]:
    return Check(
        id=f"{SUITE}.{event.phase.value}.{way.slug}.{family.value.lower()}.{what.value}",
        requirement=requirement(event, way, what),
        level=level(event, way, what),
        suite=SUITE,
        references=references(event, way, what),
        features=needs(
            "nodes.three",
            *((ONE_NODE, on_link(family.value)) if what is What.ONE_NODE else ()),
            client=OUTSIDE_1,
            family=family,
            balancer=way.balancer,
            disruption=event.disruption,
        ),
        subject=Continuity(event, way, family, what),
        expected=expected(event, way, what),
        fails_if=fails_if(event, way, what),
        asked=ASKED_LINK if what is What.ONE_NODE else ASKED,
        differences=tuple(differences(event, way, what)),
    )


def stream_level(family: Family, stream: StreamKind) -> Level:
    """Return the level: nothing requires that an IPv6 NAT follows fragments, which IPv6 leaves to hosts."""
    fragments = stream.protocol is Protocol.UDP and stream.size > 1500
    return Level.RECORD if fragments and family is Family.IPV6 else Level.EXTENDED


def stream_check(event: Event, way: Way, family: Family, stream: StreamKind) -> Check[Continuity]:
    return Check(
        id=f"{SUITE}.{event.phase.value}.{way.slug}.{family.value.lower()}.{stream.name}",
        requirement=stream_requirement(event, way, stream),
        level=stream_level(family, stream),
        suite=SUITE,
        references=stream_references(event, way, stream),
        features=needs(
            "nodes.three",
            *(("sctp",) if stream.protocol is Protocol.SCTP else ()),
            client=OUTSIDE_1,
            family=family,
            balancer=way.balancer,
            disruption=event.disruption,
        ),
        subject=Continuity(event, way, family, What.STREAM, stream),
        expected=stream_expected(event, stream),
        fails_if=stream_fails_if(stream),
        asked=f"one client outside {client_does(stream)}; control: a new TCP connection on the same way every 100 ms",
        differences=tuple(stream_differences(event, way, stream)),
    )


def stream_differences(event: Event, way: Way, stream: StreamKind) -> Iterator[KnownDifference]:
    """Yield the known differences of a check of a stream."""
    if stream.protocol is Protocol.SCTP and stream.keeps_port:
        yield SCTP_ENTRY_KEPT
        yield SCTP_GOES_ON
        if event.rewrites:
            yield ENTERED_UNTRANSLATED
    if stream.ports == 1:
        yield ONE_PORT_FOR_TWO
    if stream.size and stream.protocol is Protocol.UDP and not way.local:
        yield LARGE_IN_DSR
    if not way.local:
        yield DURING_CHANGES


CHECKS = [
    *(
        check(event, way, family, what)
        for event in EVENTS
        for way in WAYS
        for family in Family
        for what in claims(event, way)
    ),
    *(
        stream_check(event, way, family, stream)
        for event in EVENTS
        for stream in STREAMS
        for way in WAYS
        if not why_empty(event, way, stream)
        for family in Family
    ),
]
"""Each event is crossed with each way, family and stream. ``claims`` says what is required of new and lasting TCP
connections, ``stream_requirement`` of all other streams; ``why_empty`` why a field of the table has no check."""
