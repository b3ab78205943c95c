"""The judge of what the connections of many paths show together. Pure.

A Service is compared with the network without one: the controls of the same paths, from the same clients and in the
same window. What both show alike, the network does. What came about while a machine stood still, the machine did.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from esipp.base.plural import counted
from esipp.checks.check import Status, Verdict
from esipp.checks.connections import Aspect, ConnectionsCheck
from esipp.checks.model import NO_ANSWER, AddressClass, Outcome, Path, backends_of
from esipp.checks.path import OnPath
from esipp.judging.controls import BY_CHANCE, HOPS, LEAST_FAULTS
from esipp.judging.frame import Decision, undecided
from esipp.judging.observation import Irregular, Reading, origin_of
from esipp.judging.statistics import more_lost_p
from esipp.judging.topology import family_of, parse_address
from esipp.scenarios.paths.evidence import LATE, Evidence, FirstAnswers

LEAST_SHARE = 0.005
"""The smallest share of connections that counts."""

TIMED = (Aspect.LATE, Aspect.LATE_AFTER_ACCEPT)
"""Aspects that a machine can cause which stands still, or is busy."""

LEAST_SECONDS = 5
"""The fewest different seconds in which late connections must begin, and in which they must be answered. A pause of
some machine, such as a node that is busy for a moment, delays many answers at once, and ends for all at once."""

BARELY = 0.2
"""The share of connections that processes of an overloaded machine may answer late, which proves nothing there: a
healthy pod was busy for 6.4 s (docs/soak.md, run 92). A rule of a node delays nearly all that it meets."""

WORSE = 2
"""How many times as many faults as all connections a part of them must have to be named alone."""

NEAR = 1.5
"""Seconds around a standstill in which an answer may be late because of it: TCP sends again after one second."""

SHOWN = 3
"""The most paths that a reason names."""

LOOK = {
    Aspect.FIRST: (
        "the first packets of a client take another way than those after them: an exception path that ends once an "
        "entry is there (a flow table, a BPF map, an IP set that fills), or rules that were there before those of the "
        "Service were complete"
    ),
    Aspect.LATE: (
        "packets to the Service are lost and sent again, or wait: look on the nodes that the reason names for a rule "
        "that limits or drops (iptables-save, nft list ruleset), for a full connection tracking table (dmesg: "
        "'nf_conntrack: table full'; insert_failed in conntrack -S), and for a queue"
    ),
    Aspect.LATE_AFTER_ACCEPT: (
        "connections to the Service are opened at once, and then their first data is lost and sent again, or waits: "
        "look on the nodes that the reason names for a rule that limits or drops packets of open connections "
        "(iptables-save, nft list ruleset: connbytes, hashlimit, ctstate INVALID), and for a queue; and whether the "
        "pods were busy"
    ),
    Aspect.COPIES: (
        "packets are duplicated on the way to the Service: by a rule (nft dup, TEE), a mirrored port, or two "
        "nodes that both forward what one of them got"
    ),
    Aspect.PORTS: (
        "NAT translates the source port although it keeps the address: an SNAT rule to the client's own address, "
        "random ports (--random, --random-fully), or a load balancer that opens connections of its own"
    ),
    Aspect.SILENCE: (
        "the node answers after seconds: it holds packets until it has an endpoint, or forwards them to another node "
        "in the end"
    ),
}
"""Where to look first after a failure."""


def diagnose_connections(check: ConnectionsCheck, _: Verdict) -> str:
    """Where to look first after a failure."""
    return LOOK[check.subject.aspect]


def decide_connections(check: ConnectionsCheck, evidence: Evidence) -> Decision:
    """Decide one check, on those of its paths that were asked."""
    left_out = evidence.obstacles.keys() | evidence.doubts.keys()
    asked = [each for each in check.subject.members if each.path.key not in left_out and evidence.readings(each.path)]
    if not asked:
        return undecided(check, "no path of this kind was asked")
    decide = {Aspect.FIRST: _decide_first, Aspect.SILENCE: _decide_silence}.get(check.subject.aspect, _compare)
    return decide(check, asked, evidence)


# ------------------------------------------------------------------------------------------- paths that are one by one
def _decide_first(check: ConnectionsCheck, asked: Collection[OnPath], evidence: Evidence) -> Decision:
    """Whether each path showed from the beginning what it showed in the judged window."""
    wrong: dict[str, str] = {}
    seen: dict[str, int] = {}
    for each in asked:
        answers = evidence.first.get(each.path.key, ())
        if not answers or not _as_required(each, evidence) or _rewritten_before(each, evidence):
            continue
        seen[each.path.key] = sum(answer.count for answer in answers)
        amiss = [answer for answer in answers if not _is_right(each.path, each.accept, answer, evidence)]
        if amiss:
            number = sum(answer.count for answer in amiss)
            owner = origin_of(evidence.topology, each.path, amiss[0].seen, amiss[0].source).owner
            shown = f"{amiss[0].seen} = {owner}" + (f" at {amiss[0].backend}" if amiss[0].backend else "")
            wrong[each.path.key] = f"{number} of the first {seen[each.path.key]} showed {shown}"
    what = "showed another source at first than in the judged window"
    return _one_by_one(check, seen, wrong, what, "no path of this kind answers as required in the judged window")


def _decide_silence(check: ConnectionsCheck, asked: Collection[OnPath], evidence: Evidence) -> Decision:
    """Whether what does not answer in the judged window does not answer later, either."""
    wrong: dict[str, str] = {}
    seen: dict[str, int] = {}
    for each in asked:
        waits = evidence.waits.get(each.path.key, ())
        controls = (control.path for control in each.controls if control.path.service is not None)
        held = all(any(not reading.classes & NO_ANSWER for reading in evidence.readings(path)) for path in controls)
        if not waits or not held or not _as_required(each, evidence):
            continue
        seen[each.path.key] = len(waits)
        late = [wait.seconds for wait in waits if wait.answered]
        if late:
            wrong[each.path.key] = f"{len(late)} of {len(waits)} answered after {min(late):.1f} s"
    return _one_by_one(check, seen, wrong, "answered late", "no path of this kind is silent in the judged window")


def _one_by_one(
    check: ConnectionsCheck, seen: Mapping[str, int], wrong: Mapping[str, str], what: str, nothing: str
) -> Decision:
    """The decision on paths of which each must be as required; ``seen`` has the number of connections of each."""
    if not seen:
        return undecided(check, f"{nothing}, so there is nothing to compare with")
    number = f"{counted(sum(seen.values()), 'connection')} on {counted(len(seen), 'path')}"
    tally = {"as required": len(seen) - len(wrong), what: len(wrong)}
    if not wrong:
        return Decision(Status.PASS, check.expected, f"{number}, all as required", tally=tally)
    named = "; ".join(f"{key}: {words}" for key, words in list(wrong.items())[:SHOWN])
    reason = f"{len(wrong)} of {counted(len(seen), 'path')} {what}, among them {named}"
    return Decision(Status.FAIL, check.expected, f"{number}: {len(wrong)} {what}", reason, tally=tally)


def _fits(reading: Reading, accept: frozenset[AddressClass]) -> bool:
    return not reading.product_fault and bool(reading.classes & accept)


def _as_required(subject: OnPath, evidence: Evidence) -> bool:
    """Whether all connections of a path were as required in the judged window; else its own check says so."""
    sound = evidence.sound(subject.path)
    return not sound.broken and all(_fits(reading, subject.accept) for reading in sound.readings)


def _rewritten_before(subject: OnPath, evidence: Evidence) -> bool:
    """Whether the first connections without a Service, too, showed another source: the network did that."""
    return any(
        not _is_right(control.path, control.accept, answer, evidence)
        for control in subject.controls
        if control.path.service is None and control.accept
        for answer in evidence.first.get(control.path.key, ())
    )


def _is_right(path: Path, accept: frozenset[AddressClass], answer: FirstAnswers, evidence: Evidence) -> bool:
    origin = origin_of(evidence.topology, path, answer.seen, answer.source)
    own = path.service is None or answer.backend in backends_of(path.service)
    return own and family_of(answer.seen) is path.family and bool(origin.classes & accept)


# ------------------------------------------------------------------------------------------------- many connections
@dataclass
class _Count:
    """The connections of some paths, and those with a fault.

    Args:
        asked: connections that could show the fault.
        faults: those that did; ``still``: those of them around the time at which some machine stood still.
        again: those after a repeated SYN.
        begun: the seconds, on our clock, in which connections with a fault began.
        over: the seconds in which they were answered. A kernel answers a repeated SYN whatever processes do, so such a
            connection counts where it began.
        slowest: the longest time to an answer.
    """

    asked: int = 0
    faults: int = 0
    still: int = 0
    again: int = 0
    begun: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    slowest: float = 0.0

    @property
    def share(self) -> float:
        """The share with a fault."""
        return self.faults / max(self.asked, 1)

    def __iadd__(self, other: "_Count") -> "_Count":
        self.asked += other.asked
        self.faults += other.faults
        self.still += other.still
        self.again += other.again
        self.begun |= other.begun
        self.over |= other.over
        self.slowest = max(self.slowest, other.slowest)
        return self


def _compare(check: ConnectionsCheck, asked: Collection[OnPath], evidence: Evidence) -> Decision:
    """Whether connections through Services have more faults than those without one, in all or in a part of them."""
    aspect = check.subject.aspect
    counts: dict[str, _Count] = {}

    def count(paths: Iterable[Path]) -> _Count:
        total = _Count()
        for path in {each.key: each for each in paths}.values():
            if path.key not in counts:
                counts[path.key] = _count(aspect, path, evidence)
            total += counts[path.key]
        return total

    def through(members: Iterable[OnPath]) -> _Count:
        return count(each.path for each in members)

    def beside(members: Iterable[OnPath]) -> _Count:
        return count(control.path for each in members for control in each.controls if not control.path.service)

    def usual(members: Collection[OnPath]) -> float:
        """The share of faults without a Service, had each client made as many of these connections as of those.

        What the network does to one client alone is then not blamed on an entry that it dials more often than others.
        """
        clients: dict[str, list[OnPath]] = {}
        for each in members:
            clients.setdefault(each.path.client.name, []).append(each)
        likely = 0.0
        for own in clients.values():
            without = beside(own)
            likely += through(own).asked * (without.share if without.asked else beside(members).share)
        return likely / max(through(members).asked, 1)

    found: list[_Excess] = []
    compared = False
    for name, members in _parts(asked).items():
        own, without = through(members), beside(members)
        if not without.asked:
            continue
        compared = True
        excess = partial(_is_excess, aspect, own, without=without.asked, share=usual(members))
        if excess(own.faults):
            reason = f"{name}{_say(aspect, own)}, {_say(aspect, without)} without a Service"
            found.append(_Excess(name, own.share, excess(own.faults - own.still), excess(own.again), reason))
    everything, without = through(asked), beside(asked)
    observed = f"{_say(aspect, everything)}; without a Service {_say(aspect, without)}"
    tally = {"as required": everything.asked - everything.faults, WORDS[aspect]: everything.faults}
    if not compared:
        return undecided(check, "no connection without a Service was asked for to compare with", observed)
    sees = (
        f"{LEAST_FAULTS} connections and {LEAST_SHARE:.1%} of those with one client, at one entry or of one Service, "
        "if they are more than without a Service"
    )
    if not found:
        return Decision(Status.PASS, check.expected, observed, tally=tally, sees=sees)
    worst = max(found, key=lambda each: (each.alone, each.share))
    for each in found:
        if not each.name and (each.alone, WORSE * each.share) >= (worst.alone, worst.share):
            worst = each
    if not worst.alone:
        why = f"{worst.reason}, but at that time machines of clients paused, or answers without a Service were late"
        return Decision(Status.INCONCLUSIVE, check.expected, observed, why, tally=tally, sees=sees)
    barely = aspect in TIMED and worst.share <= BARELY and not any(each.resent for each in found)
    return Decision(Status.FAIL, check.expected, observed, worst.reason, tally=tally, sees=sees, late=barely)


@dataclass(frozen=True)
class _Excess:
    """Connections with more faults than those without a Service.

    Args:
        name: the part that they are; empty for all.
        share: the share with faults.
        alone: whether they are more even without the faults at a time at which a machine stood still.
        resent: whether those with a repeated SYN alone are: a kernel answers whatever its processes do.
        reason: the sentence.
    """

    name: str
    share: float
    alone: bool
    resent: bool
    reason: str


WORDS = {
    Aspect.LATE: "late",
    Aspect.LATE_AFTER_ACCEPT: "accepted and then answered late",
    Aspect.COPIES: "answered more than once",
    Aspect.PORTS: "with another source port",
}
"""What a fault is called."""


def _parts(asked: Collection[OnPath]) -> dict[str, list[OnPath]]:
    """All members, and those of each client, entry and Service."""
    parts: dict[str, list[OnPath]] = {"": list(asked)}
    for each in asked:
        client, entry, service = each.path.client, each.path.entry, each.path.service
        for name in (f"from {client.name}: ", f"at {entry.slug}: ", *((f"of {service.slug}: ",) if service else ())):
            parts.setdefault(name, []).append(each)
    return parts


def _is_excess(aspect: Aspect, own: _Count, faults: int, *, without: int, share: float) -> bool:
    """Whether so many faults are a fault of the data plane: more than a share of so many without a Service."""
    if faults < max(LEAST_FAULTS, LEAST_SHARE * own.asked):
        return False
    if aspect in TIMED and min(len(own.begun), len(own.over)) < LEAST_SECONDS:
        return False
    expected = min(math.ceil(round(HOPS * share * without, 6)), without)
    return more_lost_p(faults, own.asked, expected, without) < BY_CHANCE


def _say(aspect: Aspect, count: _Count) -> str:
    said = f"{count.faults} of {count.asked} {WORDS[aspect]}"
    if aspect in TIMED and count.faults:
        resent = f"{count.again} after a repeated SYN, " if aspect is Aspect.LATE else ""
        said += f" ({resent}the slowest after {count.slowest:.1f} s)"
    return said


def _standstills(evidence: Evidence) -> list[tuple[float, float]]:
    """When a machine stood still: that of a client, or one that was late to answer without a Service."""
    return [(each.at, each.at + each.seconds) for each in evidence.stalls] + [*evidence.late_without_a_service]


def _span(aspect: Aspect, one: Irregular) -> tuple[float, float] | None:
    """From when to when a connection waited, on its prober's clock; None if it does not show the fault."""
    accepted = one.ended if one.connected is None else one.connected
    if aspect is Aspect.LATE_AFTER_ACCEPT:
        return (accepted, one.ended) if one.ended - accepted >= LATE else None
    shows = one.again or accepted - one.started >= LATE if aspect is Aspect.LATE else one.copies
    return (one.started, accepted) if shows else None


def _count(aspect: Aspect, path: Path, evidence: Evidence) -> _Count:
    """The connections of one path."""
    total = _Count()
    still_times = _standstills(evidence)
    ahead = evidence.clocks.get(path.client.name, 0.0)
    for each in evidence.observations.get(path.key, ()):
        if each.outcome is not Outcome.ANSWERED:
            continue
        if aspect is Aspect.PORTS:
            kept = each.seen and each.source and parse_address(each.seen[0]) == parse_address(each.source[0])
            pairs = [pair for pair in each.port_pairs if pair[1] is not None] if kept else []
            total += _Count(len(pairs), sum(own != seen for own, seen in pairs))
            continue
        total.asked += each.count
        for one in each.irregular:
            span = _span(aspect, one)
            if span is None:
                continue
            began, ended = span[0] - ahead, span[1] - ahead
            # A kernel sends SYNs and answers them whatever its processes do, if its machine runs at all.
            resent = aspect is Aspect.LATE and one.again > 0
            near, until = (0.0, began) if resent else (NEAR, ended)
            still = aspect in TIMED and any(since - near <= until and began <= end + near for since, end in still_times)
            over = int(began if resent else ended)
            total += _Count(0, 1, int(still), int(resent), {int(began)}, {over}, ended - began)
    return total
