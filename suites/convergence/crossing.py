"""The table of endpoint changes and streams, from the checks: the claims about each stream, and why one is not made."""

from collections.abc import Mapping

from esipp.checks.check import Level
from esipp.checks.crossing import Crossing, Field
from esipp.checks.endpoint_change import EVENTS, Event, What, judges
from suites.convergence.checks import AT_VIP, CHECKS, EXPECTED, SUITE

VIP, NODE_PORT, HEALTH = "vip", "node-port", "health-check"

SENT = {
    VIP: "a new connection through the VIP every 20 ms, in each family",
    NODE_PORT: "a new connection at each node's nodePort every 40 ms; in the second family every 100 ms",
    HEALTH: "a request to each node's health check every 20 ms, in each family",
}
CLAIMS: Mapping[str, tuple[What, ...]] = {
    VIP: tuple(what for what in AT_VIP if what is not What.BALANCE),
    NODE_PORT: (What.PATH, What.PATH_PROMPT, What.PLACE, What.SOURCE),
    HEALTH: (What.HEALTH, What.HEALTH_PROMPT, What.OTHERS),
}
"""The claims about each stream, for each load balancer. The balance is judged after all changes."""

NOTHING_GOES = "No node loses its pod."
STILL_SERVES = "The pod still serves: `no-loss-on-graceful-deletion` requires that nothing is lost."
GONE = "The pod no longer serves: the load balancer needs the time of its health checks, as `black-hole` requires."
OTHER_WAY = "Times of the other direction are recorded there."


def why_not(event: Event, what: What) -> str:
    """Return why a claim is not judged over such changes; empty if it is."""
    if judges(what, event):
        return ""
    if what in (What.TIMES_UP, What.TIMES_DOWN):
        return OTHER_WAY
    if not event.removes:
        return NOTHING_GOES
    return STILL_SERVES if event.serves else GONE


def field(event: Event, stream: str) -> Field:
    """Return one field of the table: the claims about a stream during such changes."""
    judged, recorded, empty = dict[str, None](), dict[str, None](), dict[str, str]()
    for check in CHECKS:
        what = check.subject.what
        if what in CLAIMS[stream] and (check.subject.family is not None) is (stream == VIP):
            if why := why_not(event, what):
                empty[what.value] = why
            else:
                (recorded if check.level is Level.RECORD else judged)[what.value] = None
    return Field(tuple(judged), tuple(recorded), empty)


def required(stream: str) -> tuple[str, str]:
    """Return what is required of a stream between changes, and of changes."""
    always = {VIP: "no more losses than at the nodePorts; ", NODE_PORT: "", HEALTH: "200 with a ready pod, 503 without"}
    steady = "; ".join(EXPECTED[what] for what in CLAIMS[stream] if what in (What.PLACE, What.SOURCE))
    claims = (EXPECTED[what] for what in CLAIMS[stream] if what not in (What.TIMES_UP, What.TIMES_DOWN))
    return always[stream] + steady, "; ".join(claims)


CROSSING = Crossing(
    SUITE,
    {kind.value: event.happens for kind, event in EVENTS.items()},
    SENT,
    {stream: required(stream) for stream in SENT},
    {(kind.value, stream): field(event, stream) for kind, event in EVENTS.items() for stream in SENT},
    counts="claims",
)
