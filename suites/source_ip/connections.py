"""Checks of what the connections of many paths show together: the first ones, late and doubled answers, source ports.

Each is about all paths of one type of Service, one protocol and one IP family. It judges connections that the checks of
these paths make, and those that other runs throw away.
"""

from collections.abc import Iterable, Iterator

from esipp.checks.check import Check, Level, Profile
from esipp.checks.connections import Aspect, ConnectionsCheck, OnConnections
from esipp.checks.model import AddressClass, Balancer, EntryKind, Family, Protocol, Vantage
from esipp.checks.path import PathCheck
from suites.needs import needs
from suites.references import *
from suites.requirement import Requirement

REQUIREMENTS = {
    Aspect.FIRST: Requirement(
        "The first connections over {way}, made as soon as the Services exist, show the same source as all later ones.",
        "the source that the check of each path requires",
        "the first connections of a client take another way than later ones, and their source is rewritten",
        (API_ETP, TUTORIAL),
    ),
    Aspect.LATE: Requirement(
        "Over {way}, as few answers are late as without a Service: the data plane neither drops nor delays packets.",
        "as few late answers as without a Service",
        "SYNs are dropped and sent again, or packets wait, so that an answer takes a second or more",
        (VIRTUAL_IPS, RETRANSMISSION),
        Level.EXTENDED,
    ),
    Aspect.LATE_AFTER_ACCEPT: Requirement(
        "Over {way}, as few accepted connections wait for their answer as without a Service: the data plane neither "
        "drops nor delays their data.",
        "as few late answers after the accept as without a Service",
        "connections are accepted at once and their first data is lost, so that an answer takes a second or more",
        (VIRTUAL_IPS,),
        Level.EXTENDED,
    ),
    Aspect.COPIES: Requirement(
        "Over {way}, no answer comes more than once: the data plane sends each packet to one endpoint.",
        "one answer to each request",
        "requests or answers are duplicated on the way",
        (VIRTUAL_IPS,),
        Level.EXTENDED,
    ),
    Aspect.PORTS: Requirement(
        "Over {way}, a client that keeps its address also keeps its source port: nothing translates it.",
        "the client's own source port, wherever its address is preserved",
        "NAT rewrites the source port of connections whose address it keeps",
        (TUTORIAL, PROXIER),
        Level.EXTENDED,
    ),
    Aspect.SILENCE: Requirement(
        "Over {way}, nodes that must not answer send no answer for ten seconds, not only for two.",
        "no answer (dropped or refused)",
        "a node without local endpoints answers after some seconds",
        (API_ETP, API_ITP),
    ),
}
"""What a check of each aspect requires; ``{way}`` stands for protocol and type of Service."""

ASKED = {
    Aspect.FIRST: "every answer that a path gave while the run waited for the data plane; at VIPs and external IPs, "
    "only clients outside count: until a node has their rules, its own packets to them go through another node",
    Aspect.LATE: "the connections of the judged window; the kernel's count of SYNs, and the time to each answer",
    Aspect.LATE_AFTER_ACCEPT: "the connections of the judged window; the time from the accept to each answer",
    Aspect.COPIES: "the datagrams of the judged window; each socket listens for another 0.1 s after its answer",
    Aspect.PORTS: "the connections of the judged window; source ports come from the whole range from 1,024 up",
    Aspect.SILENCE: "two more connections on each path, with ten seconds each, beside the judged window",
}
"""How the run finds out."""

CLIENT_IP = frozenset({AddressClass.CLIENT})
SHOWN_BY = {
    Aspect.LATE_AFTER_ACCEPT: frozenset({Protocol.TCP}),
    Aspect.COPIES: frozenset({Protocol.UDP, Protocol.SCTP}),
}
"""The protocols that show an aspect, if not all do."""


def _is_member(aspect: Aspect, check: PathCheck) -> bool:
    """Return whether a check is about a path of the cluster's own Services whose connections show the aspect."""
    subject = check.subject
    service = subject.path.service
    if service is None or service.balancer is not Balancer.DEFAULT or check.level is Level.RECORD:
        return False
    required = check.level is Level.CORE or subject.path.protocol is Protocol.SCTP
    if aspect is Aspect.SILENCE:
        return subject.is_negative and required
    if subject.is_negative:
        return False
    if aspect is Aspect.FIRST:
        # Until a node has their rules, its own packets to a VIP or an external IP leave it: to the node that announces
        # the VIP, or has the external IP.
        leaves = subject.path.entry.kind in (EntryKind.VIP, EntryKind.EXTERNAL_IP)
        return required and (not leaves or subject.path.client.vantage is Vantage.OUTSIDE)
    if aspect is Aspect.PORTS:
        return (
            subject.accept == CLIENT_IP and subject.path.client.vantage is not Vantage.NODE
        )  # its node may masquerade
    return True


def connections_checks(
    path_checks: Iterable[PathCheck], aspects: Iterable[Aspect] = tuple(Aspect)
) -> Iterator[ConnectionsCheck]:
    """Yield the checks of these aspects, for each type of Service, protocol and family that has members."""
    path_checks = tuple(path_checks)
    for protocol in Protocol:
        for family in Family:
            for kind in Profile:
                ways = [
                    check
                    for check in path_checks
                    if check.subject.profile is kind
                    and (check.subject.path.protocol, check.subject.path.family) == (protocol, family)
                ]
                for aspect in aspects:
                    members = tuple(check for check in ways if _is_member(aspect, check))
                    if members and protocol in SHOWN_BY.get(aspect, Protocol):
                        yield _check(aspect, kind, protocol, family, members)


def _check(
    aspect: Aspect, kind: Profile, protocol: Protocol, family: Family, members: tuple[PathCheck, ...]
) -> ConnectionsCheck:
    needed = REQUIREMENTS[aspect]
    balancer = Balancer.DEFAULT if kind is Profile.LOAD_BALANCER else None
    others = ("sctp",) if protocol is Protocol.SCTP else ()
    way = f"{protocol.value} to {kind.value} Services"
    return Check(
        id=f"connections.{kind.value.lower()}.{protocol.value.lower()}.{family.value.lower()}.{aspect.value}",
        requirement=needed.sentence.format(way=way),
        level=Level.EXTENDED if protocol is Protocol.SCTP else needed.level,
        suite="source_ip",
        references=needed.references,
        features=needs(*others, family=family, balancer=balancer).union(
            frozenset.intersection(*(check.features for check in members))  # without them, none of its paths is asked
        ),
        subject=OnConnections(aspect, kind, protocol, family, members),
        expected=needed.expected,
        fails_if=needed.fails_if,
        asked=ASKED[aspect],
    )
