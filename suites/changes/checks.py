"""Checks of changes to Services and pods: each event, seen by each stream at each entry."""

from collections.abc import Iterator

from esipp.checks.check import Level
from esipp.checks.known_differences import KnownDifference, Nature
from esipp.checks.model import Family
from esipp.checks.reference import Reference
from esipp.checks.timing import FIELD_LIMIT
from esipp.scenarios.service_change.subject import (
    STALE,
    At,
    Claim,
    Do,
    Event,
    Pods,
    Sent,
    ServiceChange,
    ServiceChangeCheck,
)
from suites.changes.events import ENTRIES, EVENTS, EVERY_NODE, STREAMS
from suites.needs import needs
from suites.references import *

SUITE = "changes"
WITHIN = f"from {FIELD_LIMIT:.0f} s after each change on"

EXPECTED = {
    Claim.SERVED: "a pod of the Service answers in every stage",
    Claim.GONE: "no other pod answers",
    Claim.REFUSED: "refused without endpoints",
}

FAILS_IF = {
    Claim.SERVED: "a node does not follow a change of the Service or of its endpoints, or connection tracking goes on "
    "sending a flow to where nobody answers",
    Claim.GONE: "a node keeps the rules of a Service that is gone, or connection tracking goes on sending a flow to a "
    "pod that is no longer an endpoint: data reaches whoever has that address now",
    Claim.REFUSED: "a node drops requests to a Service without endpoints, so clients wait for a timeout",
}


def _stale(of: str, reference: Reference, before: str = "") -> KnownDifference:
    return KnownDifference(
        when=(("service-proxy", "kube-proxy"),),
        covers=STALE,
        before=before,
        reason=f"kube-proxy leaves the connection tracking entries of UDP flows to {of}: a socket that goes on sending "
        "reaches the pod of before, whoever has its address then",
        references=(reference, CONNTRACK),
        nature=Nature.DEFECT,
        evidence="Only the socket that sent before the change is answered, and only by pods that were endpoints "
        "before. New sockets of the same client at the same address are not.",
        hides="Another cause by which a node keeps connection tracking entries of such flows.",
    )


KNOWN = {
    "scaled-to-zero": _stale("a Service that has lost all its endpoints", STALE_WITHOUT_ENDPOINTS, before="1.37"),
    "deleted": _stale("a deleted Service", STALE_OF_DELETED),
}
"""Known defects of kube-proxy, by event."""


def claims(event: Event, at: At, sent: Sent) -> Iterator[Claim]:
    """Yield what is required of a stream."""
    if at not in EVERY_NODE:
        yield Claim.SERVED
    yield Claim.GONE
    empty = any(change.is_there and change.pods is Pods.NONE for change in event.changes)
    if empty and sent is Sent.TCP and at not in EVERY_NODE:
        yield Claim.REFUSED


def level(sent: Sent, claim: Claim) -> Level:
    """Return the level. What becomes of flows that are under way is documented for kube-proxy alone."""
    return Level.CORE if sent.is_new and claim is not Claim.REFUSED else Level.EXTENDED


def references(sent: Sent, claim: Claim) -> tuple[Reference, ...]:
    if claim is Claim.REFUSED:
        return (E2E_SERVICES,)
    return (VIRTUAL_IPS, API_SELECTOR) if sent.is_new else (VIRTUAL_IPS, E2E_CONNTRACK)


def requirement(event: Event, where: str, sent: Sent, claim: Claim) -> str:
    """Return the requirement of a check."""
    what = STREAMS[sent]
    if claim is Claim.SERVED:
        return f"{event.meanwhile}, a client that sends {what} to {where} is answered by its pods, {WITHIN}."
    if claim is Claim.GONE:
        return f"{event.meanwhile}, no other pod answers a client that sends {what} to {where}, {WITHIN}."
    return f"{event.meanwhile}, a client that sends {what} to {where} is refused while there is no endpoint."


def check(event: Event, at: At, where: str, sent: Sent, family: Family, claim: Claim) -> ServiceChangeCheck:
    known = KNOWN.get(event.name) if claim is Claim.GONE and not sent.is_new else None
    return ServiceChangeCheck(
        id=f"{SUITE}.{event.name}.{at}.{sent}.{family.value.lower()}.{claim}",
        requirement=requirement(event, where, sent, claim),
        level=level(sent, claim),
        suite=SUITE,
        references=references(sent, claim),
        features=needs("vantage.outside", family=family, node=at.role),
        subject=ServiceChange(event, at, sent, family, claim),
        expected=EXPECTED[claim],
        fails_if=FAILS_IF[claim],
        asked=f"{STREAMS[sent]}, from before the first change until after the last one",
        differences=(known,) if known else (),
    )


def entries(event: Event) -> dict[At, str]:
    """Return what is dialled; where a Service is deleted, every node."""
    freed = {Do.DELETE, Do.TAKE_OVER}.intersection(change.do for change in event.changes)
    return {**ENTRIES, **(EVERY_NODE if freed else {})}


CHECKS = [
    check(event, at, where, sent, family, claim)
    for event in EVENTS
    for at, where in entries(event).items()
    for sent in STREAMS
    for family in Family
    for claim in claims(event, at, sent)
]
"""Each event is crossed with each entry and each stream; ``claims`` says what is required there."""
