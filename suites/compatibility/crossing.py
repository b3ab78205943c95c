"""The table of policy changes and streams, from the checks: the claims about each stream, and why one is not made."""

from collections.abc import Iterator

from esipp.checks.check import Check, Level, checks_about
from esipp.checks.crossing import Crossing, Field
from esipp.checks.model import TrafficPolicy
from esipp.checks.policy_change import (
    At,
    Isolated,
    IsolatedConnections,
    IsolatedHealth,
    PolicyChange,
    PolicyClaim,
    judges,
)
from suites.compatibility.isolation import CHECKS, ENTRY_CLAIMS
from suites.compatibility.requirements import SUITE

UNCHANGED, UNCHANGED_HEALTH, HEALTH, OPEN = "unchanged-services", "unchanged-health-checks", "health-check", "open"

SENT = {
    **{at.value: "a new connection every 80 ms, in each family" for at in At},
    HEALTH: "a request to each node's health-check node port every 150 ms, in each family",
    OPEN: "exchanges every 250 ms on connections that stay open, at a nodePort",
    UNCHANGED: "24 new connections on each path of Services whose policy stays",
    UNCHANGED_HEALTH: "24 requests to the health check of a Service whose policy stays",
}
EVENTS = {
    policy: f"externalTrafficPolicy of a Service changes to {policy}"
    for policy in (TrafficPolicy.CLUSTER, TrafficPolicy.LOCAL)
}
OTHER_WAY = "It holds under the other policy only."
NO_LOSS = "Under Local other nodes must not answer, and a load balancer needs time to follow."
OWN_TIME = "A load balancer follows in its own time; other checks compare that with its bound."


def about(stream: str) -> Iterator[tuple[str, Check]]:
    """Yield the claims about a stream with their checks."""
    for check in CHECKS if stream in (UNCHANGED, UNCHANGED_HEALTH) else ():
        if isinstance(check.subject, Isolated | IsolatedConnections if stream == UNCHANGED else IsolatedHealth):
            yield "as without any change", check
    for check in checks_about(PolicyChange, CHECKS):
        claim, at = check.subject.claim, check.subject.at
        if stream == (OPEN if claim is PolicyClaim.KEPT else at.value if at else HEALTH):
            yield claim.value, check


def field(policy: TrafficPolicy, stream: str) -> Field:
    """Return one field of the table: the claims about a stream during changes to this policy."""
    judged, recorded, empty = dict[str, None](), dict[str, None](), dict[str, str]()
    for claim, check in about(stream):
        if isinstance(check.subject, PolicyChange) and not judges(check.subject.claim, policy):
            empty[claim] = OTHER_WAY
        else:
            (recorded if check.level is Level.RECORD else judged)[claim] = None
    if stream in set(At):
        made = {claim.value for claim in ENTRY_CLAIMS} - {*judged, *recorded, *empty}
        empty |= {claim: NO_LOSS if claim == PolicyClaim.NO_LOSS else OWN_TIME for claim in sorted(made)}
    return Field(tuple(judged), tuple(recorded), empty)


def required(stream: str) -> tuple[str, str]:
    """Return what is required of a stream while nothing changes, and of changes."""
    claims = dict.fromkeys(check.expected for _, check in about(stream) if check.level is not Level.RECORD)
    if stream in (UNCHANGED, UNCHANGED_HEALTH):
        return "as the source IP suite requires" if stream == UNCHANGED else "200 with a pod, 503 without", "the same"
    return "-", "; ".join(claims)


CROSSING = Crossing(
    SUITE,
    {f"to-{policy.value.lower()}": happens for policy, happens in EVENTS.items()},
    SENT,
    {stream: required(stream) for stream in SENT},
    {(f"to-{policy.value.lower()}", stream): field(policy, stream) for policy in EVENTS for stream in SENT},
    counts="claims",
)
