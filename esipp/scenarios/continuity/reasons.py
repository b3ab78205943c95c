"""Reasons for losses: a VIP that moved or that two nodes claimed, and the event behind it; a node that translated no
packet, that said 200 too early, or that reported a pod's end too late. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import NamedTuple

from esipp.checks.continuity import CHECKED, NODEPORT, ContinuityCheck, Phase, Way
from esipp.checks.model import Balancer, TrafficPolicy
from esipp.checks.timing import LAG, Blur, Held, hold, say_unknown
from esipp.judging.controls import Vantage
from esipp.judging.link_owners import ANSWERED_WITHIN, nodes_by_link, owners
from esipp.judging.timeline import ANSWERED, LOST, OURS, Sample, Stream, first_503
from esipp.judging.topology import parse_address
from esipp.scenarios.continuity.evidence import Break, ContinuityEvidence, LinkChange, moves

MOVES_WITHIN = 10.0
"""Seconds after an event in which a load balancer may move its VIP, if there is no promised bound. MetalLB in layer 2
mode promises "a few seconds" (its documentation, on limitations)."""

AFTER, FIRST = 2.0, 4
"""The node of the VIP shows in this many new connections, begun and answered within this many seconds after the
exchange that got no answer. Later ones do not count: MetalLB moved a VIP back within a second, when the pod was ready
again."""

CHANGES = 4
"""A VIP changes its node at most this often within ``AFTER`` seconds on either side. Where the pods that see the
client's own address change more often, the node that has the VIP forwards connections unchanged (DSR): it does not
show."""

EARLY = 0.5
"""Seconds by which others may notice an event before our watch does."""

CLOSE = 0.5
"""Seconds before and after a break in which new connections show where the VIP was. One of MetalLB's was at another
node for 0.4 s while a pod became unready (2026-11-24), and what was open at the first node was reset."""

IN_ORDER = 0.1
"""Seconds by which the prober may tell what the kernel told it in another order: the VIP's new link address, the last
answer before it, and the break after it. In nine runs the break came 3 ms later at least (2026-11-27)."""

MOST_TURNS = 0.1
"""The share of new connections that went to another node than the one before, at most, where a load balancer uses one
node at a time. One that spreads over two nodes shows a half."""

SPREAD_OVER = 10.0
"""Seconds before and after a break in which new connections show to which nodes a load balancer spreads them."""

NEAR = 1.0
"""Seconds between a break and a node's last or next new connection. With a third of all, it gets one in 0.3 s."""

CHANCE = 0.005
"""If chance explains a node's absence with a lower probability, the load balancer did not use that node meanwhile."""

AWAY = 0.4
"""Seconds for which a node's route is away at least, while a pod of a Local Service is replaced. The shortest that was
seen is 0.5 s (kind-metallb-bgp, 2026-11-30): ten new connections, which went to other nodes with a chance of 0.006."""

SERVES_WITHIN = 5.0
"""Seconds in which a healthy node may lose requests at most. After a restart of its agent, one of Cilium's lost some
for 2.5 s (kind-cilium, 32 tasks for each core, 2026-11-30)."""

LEFT, CAME = ("deleting", "unready", "gone"), ("ready",)


# --------------------------------------------------------------------------------------------------- VIPs that move
def taker(seen: ContinuityEvidence, pod_node: str, source: str, local: bool) -> str:
    """The node that received a connection from the load balancer, by the source address that the pod saw.

    A rewritten source is the address of that node. The client's own address came through the pod's own node, and so
    does all traffic of a Local Service, whatever address it shows.
    """
    if not source:
        return ""
    address = parse_address(source)
    return seen.owner(address) or (pod_node if local or address in seen.own else "")


def _takers(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> tuple[str, str]:
    """The node that had received a connection, and the one that receives new ones after the break; empty if unknown.

    The client's neighbour table shows it, where it has a node for the VIP. Elsewhere new connections do: the VIP has
    not moved as long as the first node receives any, as a load balancer may use several nodes at a time. Where it uses
    one at a time, the VIP was at another node if the last new connection before the break and the first one after it
    went there, even if it came back soon.
    """
    if shown := by_links(seen, check, broken):
        return shown.before, shown.after
    local = check.subject.way.local
    before = taker(seen, seen.nodes.get(broken.pod, ""), broken.source, local)
    stream = seen.streams.get((check.subject.way, check.subject.family))
    there = _around(seen, stream, broken, local) if stream else ""
    if there not in ("", before):
        return before, there
    since = min(broken.at, broken.sample.started)  # while an exchange waits for its answer, a VIP can go and come back
    begun: list[Sample] = stream.view(since, since + AFTER) if stream else []
    # A SYN that the client repeats shows who took it in the end: the VIP may have moved once more meanwhile.
    answered = sorted((each for each in begun if each.answered), key=lambda each: each.ended)
    in_time = [each for each in answered if each.ended <= since + AFTER] or answered[:1]
    nodes = [taker(seen, each.node, each.source, local) for each in in_time[:FIRST]]
    return before, before if before in nodes else next(iter(nodes), "")


class Shown(NamedTuple):
    """The node to which the client's frames went before a connection broke, and the one to which they went then.

    ``left`` is when the VIP had left the first one, if the connection was answered through that node even later.
    """

    before: str
    after: str
    left: float | None = None


def by_links(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> Shown | None:
    """Where the client's frames went, by its neighbour table, however short the VIP was at the second node.

    None if the table had no entry of the VIP, or one that is no node's: behind a router or a cloud's load balancer, a
    VIP changes its node unseen.
    """
    told = seen.links.get((check.subject.way, check.subject.family), ())
    before = [each for each in told if each.at < broken.since - IN_ORDER]
    if not before:
        return None
    links = {each.link: _holder(seen, each) for each in told}
    home = _through(seen, check, broken)
    until = [each for each in told if each.at < broken.since]
    if links[until[-1].link] == home:
        before = until
    last = before[-1].link
    if not links[last]:
        return None
    if home != links[last] and home in {links[each.link] for each in before} - {""}:
        return Shown(home, links[last], moves(before)[-1].at)
    moved = [each.link for each in told[len(before) :] if each.at <= broken.at + IN_ORDER and each.link != last]
    if not moved:
        return Shown(links[last], links[last])
    return Shown(links[last], links[moved[0]] or f"with link address {moved[0]}")


def _through(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> str:
    """The node through which a connection was answered last; empty if that is not known."""
    if not broken.source:
        return ""
    node = seen.owner(parse_address(broken.source))
    return node or (seen.nodes.get(broken.pod, "") if check.subject.way.local else "")


def _outlived(seen: ContinuityEvidence, check: ContinuityCheck, shown: Shown, broken: Break) -> str:
    """That an earlier event's phase had moved the VIP away from a connection that was answered even later, as text.

    On kind, connections were answered through the VIP's former node for 91 s more, and then reset (2026-11-27). How
    they got there is not known. Empty if the VIP moved in this phase, or while nothing was done.
    """
    if shown.left is None:
        return ""
    phase = seen.phase_of(shown.left, shown.left)
    if phase in (None, Phase.QUIET, check.subject.phase):
        return ""
    ago = broken.at - shown.left
    return (
        f"the VIP had moved from node {shown.before} to node {shown.after} {ago:.1f} s before, in the phase "
        f"{phase.value}; the connection was answered through its first node even after that"
    )


def _holder(seen: ContinuityEvidence, change: LinkChange) -> str:
    """The node that has a link address; empty if it is not known."""
    owners = (seen.owner(parse_address(each)) for each in change.addresses)
    return next(filter(None, owners), "")


def _around(seen: ContinuityEvidence, stream: Stream, broken: Break, local: bool) -> str:
    """The node to which the last new connection before a break and the first after it went; empty if they differ.

    It says something only of a load balancer that uses one node at a time, as the whole stream shows.
    """
    nodes = [taker(seen, each.node, each.source, local) for each in stream.samples if each.answered]
    if sum(one != other for one, other in pairwise(nodes)) > MOST_TURNS * len(nodes):
        return ""
    close = [each for each in stream.view(broken.at - CLOSE, broken.at + CLOSE) if each.answered]
    for last, first in pairwise(close):
        if last.started <= broken.at < first.started:
            one, other = (taker(seen, each.node, each.source, local) for each in (last, first))
            return one if one == other else ""
    return ""


def hides_its_node(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> bool:
    """Whether pods of several nodes see the client's own address by turns, so that the node of the VIP does not show.

    In the client's neighbour table it does.
    """
    if by_links(seen, check, broken):
        return False
    stream = seen.streams.get((check.subject.way, check.subject.family))
    around = stream.view(broken.sample.started - AFTER, broken.sample.started + AFTER) if stream else []
    nodes = [each.node for each in around if each.answered and parse_address(each.source) in seen.own]
    return sum(one != other for one, other in pairwise(nodes)) > CHANGES


class Absence(NamedTuple):
    """A time in which a node took no new connection, while others took ``missed``: from its last one to its next.

    ``chance`` is the probability of such a run around a moment if its share had not changed.
    """

    node: str
    since: float
    until: float
    missed: int
    chance: float


def by_turns(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> list[tuple[float, str]]:
    """When new connections began around a break, and which node took each; empty if the VIP is at one node at a time.

    A router sends each connection to one of the nodes that announce the VIP, by a hash.
    """
    stream = seen.streams.get((check.subject.way, check.subject.family))
    if stream is None or by_links(seen, check, broken):
        return []
    took = [
        (each.started, node)
        for each in stream.view(broken.since - SPREAD_OVER, broken.sample.started + SPREAD_OVER)
        if each.answered and (node := taker(seen, each.node, each.source, check.subject.way.local))
    ]
    turns = sum(one != other for (_, one), (_, other) in pairwise(took))
    return took if turns > max(CHANGES, MOST_TURNS * len(took)) else []


def _absences(took: Sequence[tuple[float, str]], broken: Break) -> Iterator[Absence]:
    """For each node, the time without new connections in which a break falls: between its last one and its next."""
    for node in sorted({node for _, node in took}):
        mine = [-inf, *(at for at, of in took if of == node), inf]
        for moment in (broken.since, broken.sample.started):
            since, until = next((one, other) for one, other in pairwise(mine) if one <= moment < other)
            missed = sum(since < at < until for at, _ in took)
            share = (len(mine) - 2) / (len(took) - missed)
            yield Absence(node, since, until, missed, (1 - share) ** missed * (1 + missed * share))


class Rerouting(NamedTuple):
    """A node that may have stopped or begun to take new connections as one broke, and the event before, as text."""

    absence: Absence
    stopped: bool
    event: str
    ago: float


def _reroutings(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> Iterator[Rerouting]:
    """The absences of nodes that begin or end as a connection broke.

    For each there is an event within the load balancer's time limit that explains it.
    """
    limit = seen.bound.seconds if seen.bound else MOVES_WITHIN
    for each in _absences(by_turns(seen, check, broken), broken):
        left, came = broken.since - each.since <= NEAR, each.until - broken.sample.started <= NEAR
        if not (left or came):
            continue
        shown = Shown(each.node if left else "", each.node if came else "")
        causes = [
            (at, words)
            for at, words, _ in _events(seen, check, shown.before, shown.after, shown)
            if at - EARLY <= broken.sample.started and broken.since <= at + limit
        ]
        if causes:
            at, words = max(causes)
            yield Rerouting(each, left, words, max(0.0, broken.sample.started - at))


def rerouted(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> str:
    """The node that stopped or began to take new connections as one broke, and the event that caused it, as text.

    Empty if new connections do not show it, or if no event within the load balancer's time limit explains it.
    """
    for (node, _, _, missed, chance), stopped, event, ago in _reroutings(seen, check, broken):
        if chance < CHANCE:
            did = "stopped taking" if stopped else "began to take"
            return f"node {node} {did} new connections then ({missed} went to others), {ago:.1f} s after {event}"
    return ""


def perhaps_rerouted(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> str:
    """The node whose route may have been away for a moment right after an event, and the event, as text.

    New connections were too few to show it or to rule it out. Empty if they rule it out.
    """
    for (node, since, until, missed, chance), stopped, event, ago in _reroutings(seen, check, broken):
        if ago <= NEAR and until - since >= AWAY:
            did = "stopped taking" if stopped else "begun to take"
            return (
                f"node {node} may have {did} new connections as one broke, {ago:.1f} s after {event}: in "
                f"{until - since:.1f} s all {missed} went to others, by chance with a probability of {chance:.3f}"
            )
    return ""


def taken_by(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> str:
    """The node of the VIP before and after a connection broke, as text."""
    if nodes := {node for _, node in by_turns(seen, check, broken)}:
        return f"new connections went to nodes {', '.join(sorted(nodes))} by turns"
    before, after = _takers(seen, check, broken)
    if not before or not after:
        return "the node that has the VIP is unknown"
    if before == after:
        return f"the VIP stayed on node {before}"
    return f"the VIP moved from node {before} to node {after}, and no action of the scenario explains that"


def why_moved(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> str:
    """The VIP's move away from a connection and the event of this phase that caused it, as text.

    Empty if it did not move, or if no event within the load balancer's time limit explains the move.
    """
    before, after = _takers(seen, check, broken)
    if not before or not after or before == after:
        return ""
    leaves = seen.bound.seconds if seen.bound else MOVES_WITHIN
    shown = by_links(seen, check, broken)
    left = shown.left if shown else None
    since, until = (broken.since, broken.at) if left is None else (left, left)
    found = [
        (at, words)
        for at, words, moves_for in _events(seen, check, before, after, shown)
        if at - EARLY <= until and since <= at + max(leaves, moves_for)
    ]
    if not found:
        return _outlived(seen, check, shown, broken) if shown else ""
    at, words = max(found)
    return f"the VIP moved from node {before} to node {after} {max(0.0, broken.at - at):.1f} s after {words}"


def _events(
    seen: ContinuityEvidence, check: ContinuityCheck, before: str, after: str, shown: Shown | None
) -> Iterator[tuple[float, str, float]]:
    """The events in a check's phase that may move its VIP from one node to another: time, text, and seconds.

    For a node that becomes usable again they count even if the load balancer's bound is shorter: it only covers nodes
    that must be left. What an event says of itself needs a move that the table shows, and no bound that is known.
    """
    window = seen.window(check.subject.phase)
    if window is None:
        return
    event = check.subject.event
    moments = [*window.causes, *window.started, *(at for at in (window.happened, window.ended) if at is not None)]
    if event.frees_vip:
        moves_for = event.frees_for if shown and seen.bound is None else 0.0
        yield from ((at, event.frees_vip, moves_for) for at in moments)
    elif event.refuses and shown and (node := seen.places.of(event.node)) in (before, after):
        yield from ((at, f"node {node} stopped or began to take new flows", 0.0) for at in moments)
    if not check.subject.way.local:
        return
    for mark in seen.marks:
        node = seen.nodes.get(mark.pod, "")
        concerns = (mark.what in LEFT and node == before) or (mark.what in CAME and node == after)
        if concerns and window.began <= mark.at <= window.until:
            words = f"pod {mark.pod} on node {node} {_WORDS[mark.what]}"
            yield mark.at, words, MOVES_WITHIN if mark.what in CAME else 0.0


_WORDS = {
    "deleting": "began to terminate", "unready": "became unready", "gone": "was gone", "ready": "became ready",
}  # fmt: skip


# ------------------------------------------------------------------------------------- nodes that translate nothing
FLOW = "udp-socket"
"""The stream whose datagrams belong to one established flow at each nodePort."""

IN_A_ROW = 2
"""So many datagrams one after the other get no answer where a node translates nothing: a network may lose a single
one. In the first run there were six to eight (kind-iptables, 2026-11-28)."""

KEPT = 10.0
"""Seconds for which Linux keeps the conntrack entry of an INIT without an answer, however often it is repeated
(nf_conntrack_proto_sctp.c: the state CLOSED, of which repeated INITs do not renew the timeout)."""

BETWEEN = 1.0
"""Seconds from the end of that entry to the port's next INIT that is answered: twice the time between two INITs."""


def untranslated(seen: ContinuityEvidence, check: ContinuityCheck, broken: Sequence[Break]) -> str:
    """That nodes translated no packet of a family whenever a connection broke, as text; empty if one did.

    A node resets a connection to an address of its own. A VIP is none, so what is sent there is lost.
    """
    at_vip = check.subject.way.by == Balancer.DEFAULT.value
    outcomes = {"reset", LOST} if at_vip else {"reset"}
    if not check.subject.event.rewrites or any(each.sample.outcome not in outcomes for each in broken):
        return ""
    found = [_silent_there(seen, check, each) for each in broken]
    return found[0] if all(found) else ""


def _silent_there(seen: ContinuityEvidence, check: ContinuityCheck, broken: Break) -> str:
    """What was silent at the node of a connection as it broke, as text; empty if nothing was."""
    node = _node_of(seen, check, broken.pod, broken.source)
    pauses, said = _without_translation(seen, check, node)
    return said if any(since <= broken.at and broken.since <= until for since, until in pauses) else ""


def entered_untranslated(
    seen: ContinuityEvidence, check: ContinuityCheck, last: Sample, since: float, until: float
) -> str:
    """That a port's silence began while its node translated no packet of the family, and ended in time, as text.

    An INIT that comes then gets a conntrack entry without translation. The entry holds for all later INITs of the port,
    and ends after ``KEPT`` seconds.

    Args:
        last: the last answered probe before the silence.
        since: when the first probe without an answer was sent.
        until: when the next answered probe was sent.
    """
    if not check.subject.event.rewrites:
        return ""
    pauses, said = _without_translation(seen, check, _node_of(seen, check, last.pod, last.source))
    fits = any(began <= since <= ended and until <= ended + KEPT + BETWEEN for began, ended in pauses)
    return f"as it began, {said}" if fits else ""


def _node_of(seen: ContinuityEvidence, check: ContinuityCheck, pod: str, source: str) -> str:
    """The node that received what reached a pod with this source."""
    if check.subject.way.by == NODEPORT:
        return seen.places.endpoint if check.subject.way.local else seen.places.bare
    return taker(seen, seen.nodes.get(pod, ""), source, check.subject.way.local)


def _without_translation(
    seen: ContinuityEvidence, check: ContinuityCheck, node: str
) -> tuple[Sequence[tuple[float, float]], str]:
    """The times in which a node translated no packet of a family, and what shows them, as text."""
    family, window = check.subject.family, seen.window(check.subject.phase)
    policies = {seen.places.bare: TrafficPolicy.CLUSTER, seen.places.endpoint: TrafficPolicy.LOCAL}
    flows = {node: seen.sent.get((Way(NODEPORT, each), family, FLOW)) for node, each in policies.items()}
    if node in flows:
        return _pauses(flows[node], ANSWERED), f"node {node} answered no datagram of the established UDP flow meanwhile"
    if window is None or not all(
        any(since <= window.until and window.began <= until for since, until in _pauses(flow, ANSWERED))
        for flow in flows.values()
    ):
        return (), ""
    return _pauses(seen.health.get(family, {}).get(node), "200"), (
        f"the health check of node {node} did not answer 200 meanwhile; in this phase, nodes {' and '.join(flows)} "
        "answered no datagram of their established UDP flows for a while"
    )


def _pauses(stream: Stream | None, fine: str) -> list[tuple[float, float]]:
    """The times in which a stream was silent.

    Each lasts from the last good probe before it to the first one after it, as the silence may have begun right after
    the one, and ended right before the other.
    """
    samples = [each for each in stream.samples if each.outcome != OURS] if stream else []
    good = [number for number, each in enumerate(samples) if each.outcome == fine]
    return [
        (samples[before].started, samples[after].started)
        for before, after in pairwise(good)
        if after - before > IN_A_ROW
    ]


# ------------------------------------------------------------------------------------- new connections that are lost
def claimed_twice(seen: ContinuityEvidence, check: ContinuityCheck, lost: Sequence[Sample]) -> str:
    """That several nodes answered for the VIP around every lost request, right after a node came or went, as text.

    Empty if one of the requests was lost at another time, if the client asked nobody who has the VIP, or if the load
    balancer promises a bound.
    """
    event, window = check.subject.event, seen.window(check.subject.phase)
    if window is None or not event.frees_vip or not event.frees_for or seen.bound is not None:
        return ""
    nodes = nodes_by_link(seen.own_links)
    told = seen.owners.get((check.subject.way, check.subject.family), ())
    twice = [each for each in told if len(owners(each, nodes)) > 1]
    freed = [at for at in (*window.causes, window.happened, window.ended) if at is not None]
    around = [
        next((each for each in twice if sample.started - ANSWERED_WITHIN <= each.at <= sample.ended), None)
        for sample in lost
        if any(at - EARLY <= sample.ended and sample.started <= at + event.frees_for for at in freed)
    ]
    first = next(iter(around), None)
    if first is None or len(around) < len(lost) or not all(around):
        return ""
    return f"{' and '.join(owners(first, nodes))} answered for the VIP meanwhile, after {event.frees_vip}"


def served_late(seen: ContinuityEvidence, check: ContinuityCheck, lost: Sequence[Sample]) -> str:
    """That the load balancer had begun to use a new node, as the node that joined said 200 but served nothing, as text.

    Empty unless all requests were lost in that time.
    """
    way, family = check.subject.way, check.subject.family
    if not check.subject.event.joins or way.local or way.by not in CHECKED:
        return ""
    asked = (Way(NODEPORT, TrafficPolicy.CLUSTER), family)
    streams = (seen.joined_health.get(asked), seen.joined.get(asked))
    health, dialled = (stream.samples if stream else () for stream in streams)
    says = next((each.ended for each in health if each.outcome == "200"), None)
    serves = next((each.started for each in dialled if each.answered), None)
    if says is None or serves is None:
        return ""
    steers = [each for each in seen.steers.get(way, ()) if each.family in ("", family.value)]
    before = {node for each in steers if each.at < says - EARLY for node in each.nodes}
    new = (each.at for each in steers if says - EARLY <= each.at <= serves and not before.issuperset(each.nodes))
    used = min(new, default=None)
    if used is None or not all(used <= each.ended and each.started <= serves for each in lost):
        return ""
    return f"the node that joined said 200 for {serves - says:.1f} s before its nodePort answered"


def used_too_early(seen: ContinuityEvidence, check: ContinuityCheck, lost: Sequence[Sample]) -> str:
    """The nodes that a load balancer began to use again as these requests were lost, as text.

    Empty unless all requests were lost from then on, and before such a node served.
    """
    way, family = check.subject.way, check.subject.family
    window = seen.window(check.subject.phase)
    if not lost or window is None or way.by not in CHECKED:
        return ""
    steers = [each for each in seen.steers.get(way, ()) if each.family in ("", family.value)]
    found = [
        (after.at, _serves(seen, check, window.until, node, after.at), node)
        for before, after in pairwise(steers)
        for node in sorted({*after.nodes} - {*before.nodes})
    ]
    found = [(used, serves, node) for used, serves, node in found if serves - used <= SERVES_WITHIN]
    blamed = [next((of for of in found if of[0] - EARLY <= each.started <= of[1]), None) for each in lost]
    words = {f"node {of[2]}, which served only {of[1] - of[0]:.1f} s later" for of in blamed if of}
    return f"the load balancer had begun to use {', '.join(sorted(words))}" if all(blamed) else ""


def _serves(seen: ContinuityEvidence, check: ContinuityCheck, until: float, node: str, used: float) -> float:
    """When a node had answered a first request, and its healthCheckNodePort was open, after it began to be used.

    An agent that opens this port later than its own one still has the endpoints of before its restart.
    """
    way, family = check.subject.way, check.subject.family
    stream, health = seen.streams.get((way, family)), seen.health.get(family, {}).get(node)
    through = (
        each.ended
        for each in (stream.view(used - EARLY, until) if stream else ())
        if each.answered and taker(seen, each.node, each.source, way.local) == node
    )
    said = [(each.ended, each.outcome in ("200", "503")) for each in (health.samples if health else ())]
    was_open = not said or [is_open for at, is_open in said if at < used][-1:] == [True]
    opened = used if was_open else min((at for at, is_open in said if is_open and at >= used), default=inf)
    return max(min(through, default=inf), opened)


# ---------------------------------------------------------------------------------------- nodes that report too late
@dataclass(frozen=True)
class Late:
    """A node that reported a pod's end too late for a load balancer to leave it in time.

    ``doubt`` is why that does not count against the node: our own machine was too slow.
    """

    words: str
    doubt: str = ""


def late_nodes(seen: ContinuityEvidence, check: ContinuityCheck, lost: float, vantage: Vantage) -> Late | None:
    """The node whose health check answered 503 too late for its pod's end, so that requests were lost; None if none.

    A pod keeps serving for the bound of the load balancer plus ``LAG`` seconds, in which its node must answer 503.
    """
    window = seen.window(check.subject.phase)
    if not check.subject.event.graceful or window is None or not check.subject.way.local:
        return None
    for mark in seen.marks:
        node = seen.nodes.get(mark.pod, "")
        checks = seen.health.get(check.subject.family, {}).get(node)
        ends = mark.at + seen.serves
        if mark.what != "deleting" or checks is None or not window.began <= mark.at <= lost or lost < ends - LAG:
            continue
        said = first_503(checks, mark.at)
        lag = min(said, window.until) - mark.at
        if lag <= LAG:
            continue
        words = f"node {node} answered 503 only {lag:.1f} s after {mark.pod} began to terminate ({LAG:.0f} s allowed)"
        blur = Blur(checks.longest_gap(mark.at, mark.at + lag), vantage.slow(mark.at, mark.at + lag))
        doubt = say_unknown(LAG, blur) if hold(lag, LAG, blur) is Held.UNKNOWN else ""
        return Late(words, f"{words}; {doubt}" if doubt else "")
    return None
