"""Traces: captures of all nodes in a window, and one connection followed through them: its four tuples, the changes of
its source, and what that testifies.
"""

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum

from esipp.base.errors import HarnessError
from esipp.checks.model import Outcome, Protocol
from esipp.judging.observation import Observation, Witness
from esipp.packets.capture import (
    ERROR,
    IN,
    NAMED,
    OTHER,
    OUT,
    REPLY,
    REQUEST,
    Capture,
    End,
    Join,
    Scope,
    Sighting,
    Tap,
    plain,
    say,
)
from esipp.probing.prober import Job, Prober

Flow = tuple[str, Join, End, End]

CLOCKS_APART = 1.0
"""Seconds by which the nodes' clocks may differ; the order between two nodes is as good as their clocks are."""

FIRST_BYTES = 65536
"""Bytes that a connection may have carried, at most, when it carries the nonce: a request, after what a proxy says."""

REUSE = 30.0
"""Seconds, at most, between the prober's and the nodes' time of a connection: a client may use its port again, but only
after all others, and the client's clock may be another."""


@dataclass(frozen=True)
class Change:
    """A change of a request's source between two sightings.

    ``node`` is where both are, or ``A to B`` where it changed on the way from one to the other, or "before NODE" where
    the first sighting has another source than the client reported. ``before`` and ``after`` are the interfaces. Where
    only the port is another, NAT moved it: another connection had it at the same destination.
    """

    node: str
    before: str
    after: str
    was: End
    became: End

    @property
    def moved(self) -> bool:
        """Whether only the source port changed."""
        return self.was[0] == self.became[0]

    def __str__(self) -> str:
        what = f"{say(self.was)} became {say(self.became)}" + (" (NAT moved the source port)" if self.moved else "")
        return f"{self.node}, between {self.before} and {self.after}: {what}"


@dataclass(frozen=True)
class Trace:
    """All sightings of one connection, and what they show.

    Args:
        path, seq: the observation it is about.
        requests, replies, errors: each packet once per interface and direction, in the order of time.
        at_node: client -> service address: the first request to the address that was dialled.
        at_pod: client -> backend: the last request to a backend, on the backend's node where that was captured.
        back_at_pod: backend -> client: the first reply from a backend.
        back_at_node: service address -> client: the last reply from the address that was dialled.
        changes: where the source changed.
        relayed: the backend's report led to another connection than the client's: a proxy is in between.
        lost: packets that the captures lack for sure: what is not among the sightings may have been there.
        at_home: whether ``at_pod`` was captured on the backend's own node, past everything that may rewrite it.
        turned_back: the client's node, if the request left it for the dialled address and came back for another one;
            else empty.
        apart: why it is ambiguous; then it has no sightings. Otherwise empty.
    """

    path: str
    seq: int
    requests: tuple[Sighting, ...] = ()
    replies: tuple[Sighting, ...] = ()
    errors: tuple[Sighting, ...] = ()
    at_node: Sighting | None = None
    at_pod: Sighting | None = None
    back_at_pod: Sighting | None = None
    back_at_node: Sighting | None = None
    changes: tuple[Change, ...] = ()
    relayed: bool = False
    lost: int = 0
    at_home: bool = False
    turned_back: str = ""
    apart: str = ""

    @property
    def seen(self) -> bool:
        """Whether the connection was found among the packets."""
        return bool(self.requests)

    @property
    def delivered(self) -> End | None:
        """The source with which the request reached a backend; None if no such packet was captured."""
        return self.at_pod.source if self.at_pod else None

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """All of them, in the order of time."""
        return tuple(sorted((*self.requests, *self.replies, *self.errors), key=lambda each: each.time))

    def said(self) -> str:
        """The trace as text: the packet view, one line for each tuple, then remarks."""
        if not self.seen:
            return self.apart or "none of its packets was captured"
        view = {
            "at the node": self.at_node or self.requests[0],
            "at the pod": self.at_pod,
            "back at the pod": self.back_at_pod,
            "back at the node": self.back_at_node,
        }
        lines = [f"{where + ':':<18}{_say(each)}" for where, each in view.items() if each]
        lines += [f"{'source changed:':<18}{each}" for each in self.changes]
        lines += [f"{'refused:':<18}{_say(each)}" for each in self.errors[:1]]
        if self.relayed:
            lines.append("a proxy is in between: another connection reached the backend")
        if not self.at_pod:
            last = self.requests[-1]
            where = f"{last.node} {last.direction} {last.interface}"
            lines.append(f"no packet to a backend was captured; the last one on {where}")
        elif self.back_at_pod and not self.back_at_node and not self.relayed:
            last = self.replies[-1]
            lines.append(
                f"no reply from the dialled address was captured; the last one {_say(last)}: it bypasses the node that"
                " rewrote the request"
            )
        if self.lost:
            lines.append(f"the captures lost {self.lost} packets: some may belong to it")
        return "\n".join(lines)


class Tracer:
    """Follows connections through captures.

    Args:
        captures: those that are not blind.
        endpoints: the backends by ``(address, port)`` of their targets, with the node each stands on; a backend on
            the host network has its node's address, and only the port tells it from a nodePort.
    """

    def __init__(self, captures: Iterable[Capture], endpoints: Mapping[End, str]) -> None:
        self._endpoints = {plain(end): node for end, node in endpoints.items()}
        self._by_join: dict[tuple[str, Join], list[Sighting]] = defaultdict(list)
        self._by_ends: dict[tuple[End, End], list[Sighting]] = defaultdict(list)
        self._flows: dict[str, set[Flow]] = defaultdict(set)
        self._nonces: dict[Flow, set[str]] = defaultdict(set)
        self._lost = 0
        named: list[Sighting] = []
        for capture in captures:
            self._lost += capture.dropped
            for each in capture.sightings:
                if each.direction == OTHER:
                    continue
                if each.kind == NAMED:
                    named.append(each)
                    continue
                self._by_join[each.protocol, each.join].append(each)
                if each.kind == REQUEST:
                    self._by_ends[each.source, each.destination].append(each)
                    if each.nonce:
                        self._nonces[_flow(each)].add(each.nonce)
        for each in named:
            if (opened := self._opening(each)) is not None:
                self._flows[each.nonce].add(_flow(opened))
                self._nonces[_flow(opened)].add(each.nonce)

    def _opening(self, named: Sighting) -> Sighting | None:
        """The SYN of the connection on which a nonce was sent: from the same end to the same, and just before it."""
        opened = [
            (_bytes_between(each, named), each)
            for each in self._by_ends.get((named.source, named.destination), [])
            if each.protocol == named.protocol
        ]
        carried, found = min(opened, key=lambda each: each[0], default=(FIRST_BYTES, None))
        return found if carried < FIRST_BYTES else None

    def trace(self, observation: Observation) -> Trace:
        """All packets of one probe.

        Found by its nonce, which no other connection has: a datagram holds it, and of TCP the segment that carries the
        request, by whose sequence number its SYN is known; of SCTP by the initiate tag. Where no captured packet holds
        it, by the addresses and ports that the client reported, or, where those were rewritten before the first node,
        or a proxy stands between, that the backend reported; but not if several connections had these. Of an
        observation that stands for several probes it is the first's.
        """
        found = self._by_name(observation)
        relayed = len({each.join for each in found if each.protocol == "TCP" and each.kind == REQUEST}) > 1
        if not found:
            found, behind, apart = self._by_text(observation)
            if apart:
                return Trace(observation.path, observation.seq, lost=self._lost, apart=apart)
            relayed = bool(found and behind)
            found += behind
        together = sorted(found, key=lambda each: each.time)
        requests = _once(each for each in together if each.kind == REQUEST)
        replies = _once(each for each in together if each.kind == REPLY)
        dialled = plain(observation.dialled)
        at_pod = self._at_pod(requests)
        client = None if relayed or not requests or observation.source is None else plain(observation.source)
        return Trace(
            path=observation.path,
            seq=observation.seq,
            requests=requests,
            replies=replies,
            errors=_once(each for each in together if each.kind == ERROR),
            at_node=next((each for each in requests if each.destination == dialled), None),
            at_pod=at_pod,
            back_at_pod=next((each for each in replies if each.source in self._endpoints), None),
            back_at_node=next((each for each in reversed(replies) if each.source == dialled), None),
            changes=_changes(client, requests),
            relayed=relayed,
            lost=self._lost,
            at_home=at_pod is not None and at_pod.node == self._endpoints[at_pod.destination],
            turned_back=_turned_back(requests),
        )

    def _by_name(self, observation: Observation) -> list[Sighting]:
        """What is surely this probe's: the packets of every connection that carried its nonce, or its SCTP tag."""
        nonce = observation.nonce
        if observation.tag is not None:
            return self._around(observation, self._mine(nonce, self._by_join.get(("SCTP", observation.tag), [])))
        if nonce and (found := self._by_join.get(("UDP", nonce))):
            return self._around(observation, found)
        found = []
        for protocol, join in sorted({(flow[0], flow[1]) for flow in self._flows.get(nonce, ())}, key=str):
            found += self._mine(nonce, self._by_join[protocol, join])
        return self._around(observation, found)

    def _by_text(self, observation: Observation) -> tuple[list[Sighting], list[Sighting], str]:
        """The packets that the client's and the backend's reports lead to, and why they are ambiguous, or nothing.

        Another connection may have had the very ends that a client reported, where the kernel moved the client's own
        port out of its way. Its nonce shows that, or the backend's report, which leads to another one.
        """
        mine = self._opened(observation, observation.source, observation.dialled)
        theirs = self._opened(observation, observation.seen, observation.local)
        if len(mine) > 1:
            return [], [], _several(mine, "the client")
        found = self._joined(observation, mine)
        if not self._reached(found):
            return found, self._joined(observation, theirs), _several(theirs, "the backend") if len(theirs) > 1 else ""
        if theirs and not theirs.keys() & {(each.protocol, each.join) for each in found}:
            return [], [], "ambiguous: the client and the backend reported different connections"
        return found, [], ""

    def _opened(
        self, observation: Observation, source: End | None, destination: End | None
    ) -> dict[tuple[str, Join], Sighting]:
        """The first request of every connection between these two ends that may be the probe's, by its join key."""
        ends = plain(source), plain(destination)
        if ends[0] is None or ends[1] is None:
            return {}
        candidates = [each for each in self._by_ends.get((ends[0], ends[1]), []) if each.protocol != "UDP"]
        near = [each for each in candidates if not observation.time or abs(each.time - observation.time) <= REUSE]
        found: dict[tuple[str, Join], Sighting] = {}
        for each in sorted(self._mine(observation.nonce, near), key=lambda each: abs(each.time - observation.time)):
            found.setdefault((each.protocol, each.join), each)
        return found

    def _joined(self, observation: Observation, opened: Mapping[tuple[str, Join], Sighting]) -> list[Sighting]:
        """All packets that share the join key of the one request there is."""
        for key, first in opened.items():
            return self._around(observation, self._mine(observation.nonce, self._by_join[key]), first.time)
        return []

    def _mine(self, nonce: str, found: Iterable[Sighting]) -> list[Sighting]:
        """Those that are not known to be another probe's: two may share a sequence number, or a tag."""
        if not nonce:
            return list(found)
        return [each for each in found if not (known := self._names_of(each)) or nonce in known]

    def _names_of(self, each: Sighting) -> set[str]:
        """The captured nonces of a packet's connection."""
        there = self._nonces.get((each.protocol, each.join, each.source, each.destination), set())
        return there | self._nonces.get((each.protocol, each.join, each.destination, each.source), set())

    def _around(self, observation: Observation, found: list[Sighting], start: float | None = None) -> list[Sighting]:
        """Those within the probe's time: of two probes in a run, some pair may share a sequence number."""
        start = min((each.time for each in found), default=0.0) if start is None else start
        end = start + max(0.0, observation.ended - observation.started) + CLOCKS_APART
        return [each for each in found if start - CLOCKS_APART <= each.time <= end]

    def _reached(self, found: Iterable[Sighting]) -> bool:
        return any(each.kind == REQUEST and each.destination in self._endpoints for each in found)

    def _at_pod(self, requests: Iterable[Sighting]) -> Sighting | None:
        """The last request to a backend; on the backend's own node if captured there, whatever the clocks say."""
        there = [each for each in requests if each.destination in self._endpoints]
        at_home = [each for each in there if each.node == self._endpoints[each.destination]]
        return next(reversed(at_home or there), None)


class Agreement(StrEnum):
    """Whether the two witnesses agree."""

    AGREED = "agreed"
    UNSEEN = "unseen"
    CONTRADICTION = "contradiction"


def agree(observation: Observation, trace: Trace) -> tuple[Agreement, str]:
    """Whether packets agree with the reports of the client and the backend, and why, as a sentence.

    ``unseen`` is no contradiction: the observation then rests on one witness. That a request without an answer was
    delivered all the same is none either: both witnesses may be right, and ``trace.delivered`` is what to judge.
    """
    if not trace.seen:
        return Agreement.UNSEEN, trace.apart or "none of its packets was captured"
    peer, local = plain(observation.seen), plain(observation.local)
    if peer is None:
        if trace.delivered is not None:
            text = f"{observation.outcome}, but the request reached a backend from {say(trace.delivered)}"
        else:
            text = f"{observation.outcome}, and no packet to a backend was captured"
        return Agreement.AGREED, text
    if trace.at_pod is None:
        return Agreement.UNSEEN, "its way to the backend was not captured"
    if local is not None and trace.at_pod.destination != local:
        text = f"the backend reports its address {say(local)}, the packet went to {say(trace.at_pod.destination)}"
    elif peer != trace.at_pod.source:
        text = f"the backend reports the peer {say(peer)}, the packet to it came from {say(trace.delivered)}"
    else:
        return Agreement.AGREED, f"the packet to the backend came from {say(peer)}"
    if trace.lost:
        return Agreement.UNSEEN, f"{text}; but the captures lost {trace.lost} packets, which may explain that"
    where = f"{trace.at_pod.node} {trace.at_pod.direction} {trace.at_pod.interface}"
    if not trace.at_home:
        return Agreement.UNSEEN, f"{text} on {where}; its way on the backend's own node was not captured"
    return Agreement.CONTRADICTION, f"{text} (captured on {where})"


def _flow(each: Sighting) -> Flow:
    return each.protocol, each.join, each.source, each.destination


def _several(opened: Mapping[tuple[str, Join], Sighting], whose: str) -> str:
    each = next(iter(opened.values()))
    ends = f"{say(each.source)} -> {say(each.destination)}"
    return f"ambiguous: {len(opened)} connections had the ends {ends} that {whose} reported"


def _bytes_between(opened: Sighting, named: Sighting) -> int:
    """How many bytes a connection carried before a segment, if this is its SYN."""
    return (int(named.join) - int(opened.join) - 1) % 2**32


def _once(sightings: Iterable[Sighting]) -> tuple[Sighting, ...]:
    """Without what was sent again: a SYN that is repeated has the same sequence number."""
    first: dict[tuple[str, str, str, End, End], Sighting] = {}
    for each in sightings:
        first.setdefault((each.node, each.interface, each.direction, each.source, each.destination), each)
    return tuple(first.values())


def _changes(client: End | None, requests: tuple[Sighting, ...]) -> tuple[Change, ...]:
    found = []
    if client and requests and requests[0].source != client:
        first = requests[0]
        found.append(Change(f"before {first.node}", "the client", first.interface, client, first.source))
    for one, other in itertools.pairwise(requests):
        if one.source != other.source:
            went_out = one.node == other.node and one.direction == OUT and other.direction == IN
            there = f"beyond {one.node}" if went_out else one.node
            node = there if one.node == other.node else f"{one.node} to {other.node}"
            found.append(Change(node, one.interface, other.interface, one.source, other.source))
    return tuple(found)


def _turned_back(requests: tuple[Sighting, ...]) -> str:
    """The node that a request left for the dialled address and came back to for another one; or an empty string."""
    if not requests:
        return ""
    node, dialled = requests[0].node, requests[0].destination
    here = itertools.dropwhile(lambda each: (each.direction, each.destination) != (OUT, dialled), requests)
    back = any(each.direction == IN and each.destination != dialled for each in here if each.node == node)
    return node if back else ""


def _say(each: Sighting) -> str:
    return f"{say(each.source)} -> {say(each.destination)} on {each.node} {each.direction} {each.interface}"


# --------------------------------------------------------------------------------------------- the captures of a window
KNOWN_TIMEOUT = 2.0
"""Seconds for a probe of an agent to its own node's listener; a capture without that probe is not trusted."""

PROTOCOLS = {"http": Protocol.TCP, "tcp": Protocol.TCP, "udp": Protocol.UDP, "sctp": Protocol.SCTP}
"""The protocol of each listener of an echo server."""


@dataclass
class Watch:
    """Captures of all nodes with an agent, from ``begin`` to ``end``; it never fails a run.

    Args:
        endpoints: who answers, as ``Tracer`` has it.
        scope: what is captured.
        ways: the prefix of a command on each node.
        known: what each capture must see: a connection of this prober to this address and port.
        captures: those that can be believed.
        blind: which cannot be believed, and why; empty where all can.
    """

    endpoints: Mapping[End, str]
    scope: Scope = field(default_factory=lambda: Scope(()))
    ways: Mapping[str, Sequence[str]] = field(default_factory=dict)
    known: Mapping[str, tuple[Prober, End]] = field(default_factory=dict)
    captures: list[Capture] = field(default_factory=list)
    blind: str = ""
    traces: dict[tuple[str, int], Trace] = field(default_factory=dict)
    _taps: list[Tap] = field(default_factory=list)
    _known: dict[str, list[Observation]] = field(default_factory=dict)

    def begin(self) -> None:
        """Start a tap on every node, wait until all listen, and send what each must see."""
        for node, way in sorted(self.ways.items()):
            self._taps.append(Tap(node, way, self.scope))
        with ThreadPoolExecutor(max_workers=12) as pool:
            list(pool.map(Tap.listening, self._taps))
        self._send_known()

    def end(self) -> None:
        """Send once more what each tap must see, stop them all, and ask each whether it can be believed."""
        self._send_known()
        with ThreadPoolExecutor(max_workers=12) as pool:
            taken = list(pool.map(Tap.stop, self._taps))
        doubts = {capture.node: capture.blindness(self._known.get(capture.node, ())) for capture in taken}
        self.captures = [capture for capture in taken if not doubts[capture.node]]
        self.blind = "; ".join(doubt for doubt in doubts.values() if doubt)

    def stop(self) -> None:
        """Stop whatever still runs; for the end of a run that was cut short."""
        for tap in self._taps:
            tap.stop()

    def witnesses(self, observations: Mapping[str, Iterable[Observation]]) -> dict[str, list[Witness]]:
        """The witnesses of packets for each fully recorded connection, by path."""
        tracer = Tracer(self.captures, self.endpoints)
        seeing = {capture.node for capture in self.captures}
        whole = set(self.endpoints.values()) <= seeing and not any(capture.dropped for capture in self.captures)
        found: dict[str, list[Witness]] = {}
        for key, made in observations.items():
            for each in made:
                if each.ports or not each.source:
                    continue  # stands for many, or never left its client
                trace = self.traces[key, each.seq] = tracer.trace(each)
                found.setdefault(key, []).append(_witness(each, trace, whole=whole))
        return found

    def unseen(
        self, observations: Mapping[str, Iterable[Observation]], witnesses: Mapping[str, Iterable[Witness]]
    ) -> list[str]:
        """A sentence for each protocol of which the captures show no answered connection, though they show others."""
        answered, shown = Counter[Protocol](), Counter[Protocol]()
        for key, made in observations.items():
            known = {each.seq: each.seen for each in witnesses.get(key, ())}
            for each in made:
                protocol = PROTOCOLS.get(str((each.echo or {}).get("protocol")))
                if each.seq in known and each.outcome is Outcome.ANSWERED and protocol:
                    answered[protocol] += 1
                    shown[protocol] += known[each.seq]
        return [
            f"no capture shows any of {number} answered connections over {protocol}: only the echo server shows them"
            for protocol, number in sorted(answered.items())
            if not shown[protocol] and shown.total()
        ]

    def _send_known(self) -> None:
        flying = {
            node: agent.submit(Job(f"known {node}", "tcp", *end, 1, KNOWN_TIMEOUT))
            for node, (agent, end) in self.known.items()
        }
        for node, future in flying.items():
            with contextlib.suppress(TimeoutError, HarnessError):  # then that capture lacks its proof
                self._known.setdefault(node, []).extend(future.result(timeout=KNOWN_TIMEOUT + 10))


def _moved(change: Change) -> str:
    """A change without the ports, which differ from connection to connection."""
    if change.moved:
        return (
            f"{change.node}, between {change.before} and {change.after}: NAT moved the source port of {change.was[0]}"
        )
    return f"{change.node}, between {change.before} and {change.after}: {change.was[0]} became {change.became[0]}"


def _witness(observation: Observation, trace: Trace, *, whole: bool) -> Witness:
    """What a trace testifies; that nothing went to a backend only if every backend's node was watched, without loss."""
    agreement, why = agree(observation, trace)
    if observation.outcome is not Outcome.ANSWERED and trace.delivered is None and not whole:
        agreement = Agreement.UNSEEN
    return Witness(
        observation.path,
        observation.seq,
        seen=agreement is Agreement.AGREED,
        words=trace.said(),
        delivered=trace.delivered,
        change="; ".join(dict.fromkeys(_moved(change) for change in trace.changes)),
        contradiction=why if agreement is Agreement.CONTRADICTION else "",
        doubt=trace.apart,
        turned_back=trace.turned_back,
    )
