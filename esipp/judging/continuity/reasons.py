"""Why something was lost: a VIP that moved, and by which event; a node that told too late that its pod ends. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from esipp.checks.continuity import GRACEFUL, ContinuityCheck, Phase
from esipp.checks.endpoint_change import LAG
from esipp.checks.timing import Blur, Held, hold, say_unknown
from esipp.judging.continuity.evidence import Break, Seen
from esipp.judging.continuity.expected_backends import told_503
from esipp.judging.controls import Vantage
from esipp.judging.endpoint_change.samples import Sample
from esipp.judging.topology import parse_address

MOVES_WITHIN = 10.0
"""Seconds after an event in which a load balancer may move its VIP, where nobody gives a bound. MetalLB in layer 2 mode
promises "a few seconds" (its documentation, on limitations)."""

AFTER, FIRST = 2.0, 4
"""The node of the VIP shows in this many new connections, begun within this many seconds after the exchange that got no
answer. Later ones do not count: MetalLB moved a VIP back within a second, when the pod was ready again."""

EARLY = 0.5
"""Seconds by which others may hear of an event before we do."""

LEFT, CAME = ("deleting", "unready", "gone"), ("ready",)

OF_THE_PHASE = {
    Phase.FLIPS: "the policy was changed",
    Phase.EXCLUDE: "the endpoint node was excluded or admitted again",
    Phase.SPEAKER: "the speaker was restarted",
}
"""What a phase does that lets any node announce a VIP, or forbids it to one."""


# --------------------------------------------------------------------------------------------------- VIPs that move
def taker(seen: Seen, pod_node: str, source: str, local: bool) -> str:
    """The node that took a connection from the load balancer, as far as the pod's view of the source shows.

    A rewritten source is the address of the node that took it. One that is the client's own came through the pod's own
    node, and so does all that a Local service is sent, whosever address it shows.
    """
    if not source:
        return ""
    address = parse_address(source)
    return seen.owner(address) or (pod_node if local or address in seen.own else "")


def _takers(seen: Seen, check: ContinuityCheck, broken: Break) -> tuple[str, str]:
    """The node that had taken a connection, and the one that takes new ones once it broke; empty if unknown.

    The VIP is still where it was as long as that node takes any: a load balancer may use several at a time.
    """
    local = check.way.local
    before = taker(seen, seen.nodes.get(broken.pod, ""), broken.source, local)
    stream = seen.streams.get((check.way, check.family))
    since = min(broken.at, broken.sample.started)  # while an exchange waits for its answer, a VIP can go and come back
    later: list[Sample] = stream.view(since, since + AFTER) if stream else []
    answered = [taker(seen, each.node, each.source, local) for each in later if each.answered][:FIRST]
    return before, before if before in answered else next(iter(answered), "")


def taken_by(seen: Seen, check: ContinuityCheck, broken: Break) -> str:
    """Where the VIP was before and after a connection broke, in words."""
    before, after = _takers(seen, check, broken)
    if not before or not after:
        return "which node has the VIP could not be told"
    if before == after:
        return f"the VIP stayed on node {before}"
    return f"the VIP moved from node {before} to node {after}, and nothing that was done explains that"


def why_moved(seen: Seen, check: ContinuityCheck, broken: Break) -> str:
    """That the VIP moved away from a connection, and the event of this phase that made it, in words.

    Empty where it did not move, or where no event in the time that the load balancer has for it explains that.
    """
    before, after = _takers(seen, check, broken)
    if not before or not after or before == after:
        return ""
    leaves = seen.bound.seconds if seen.bound else MOVES_WITHIN
    found = [
        (at, words)
        for at, words, comes in _events(seen, check, before, after)
        if at - EARLY <= broken.at and broken.since <= at + (max(leaves, MOVES_WITHIN) if comes else leaves)
    ]
    if not found:
        return ""
    at, words = max(found)
    return f"the VIP moved from node {before} to node {after} {max(0.0, broken.at - at):.1f} s after {words}"


def _events(seen: Seen, check: ContinuityCheck, before: str, after: str) -> Iterator[tuple[float, str, bool]]:
    """What was done in a row's phase that may move its VIP from a node to another, and when.

    With it comes whether a node can be used again by that: the bound is about nodes that are to be left.
    """
    window = seen.window(check.phase)
    if window is None:
        return
    if check.phase in OF_THE_PHASE:
        moments = [*window.causes, *(at for at in (window.happened, window.ended) if at is not None)]
        yield from ((at, OF_THE_PHASE[check.phase], False) for at in moments)
    if not check.way.local:
        return
    for mark in seen.marks:
        node = seen.nodes.get(mark.pod, "")
        concerns = (mark.what in LEFT and node == before) or (mark.what in CAME and node == after)
        if concerns and window.began <= mark.at <= window.until:
            yield mark.at, f"pod {mark.pod} of node {node} was {_WORDS[mark.what]}", mark.what in CAME


_WORDS = {"deleting": "told to end", "unready": "unready", "gone": "gone", "ready": "ready"}


# ------------------------------------------------------------------------------------------ nodes that tell too late
@dataclass(frozen=True)
class Late:
    """A node that told so late of a pod's end that a load balancer could not leave it in time.

    ``doubt`` is why that is not held against the node: our own machine was too slow.
    """

    words: str
    doubt: str = ""


def late_nodes(seen: Seen, check: ContinuityCheck, lost: float, vantage: Vantage) -> Late | None:
    """Whether requests were lost because a node said 503 too late for its pod's end, by its own health check.

    A pod serves on for the bound of the load balancer and for ``LAG`` seconds, in which its node must say 503.
    """
    window = seen.window(check.phase)
    if check.phase not in GRACEFUL or window is None or not check.way.local:
        return None
    for mark in seen.marks:
        node = seen.nodes.get(mark.pod, "")
        checks = seen.health.get(check.family, {}).get(node)
        ends = mark.at + seen.serves
        if mark.what != "deleting" or checks is None or not window.began <= mark.at <= lost or lost < ends - LAG:
            continue
        said = told_503(checks, mark.at)
        lag = min(said, window.until) - mark.at
        if lag <= LAG:
            continue
        words = f"node {node} said 503 only {lag:.1f} s after {mark.pod} was told to end, {LAG:.0f} s are left for that"
        blur = Blur(checks.longest_gap(mark.at, mark.at + lag), vantage.slow(mark.at, mark.at + lag))
        doubt = say_unknown(LAG, blur) if hold(lag, LAG, blur) is Held.UNKNOWN else ""
        return Late(words, f"{words}; {doubt}" if doubt else "")
    return None
