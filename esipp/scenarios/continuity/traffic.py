"""The traffic of continuity: new connections at a steady pace, established ones, other streams, health checks, and
controls.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from esipp.base.clock import Clock
from esipp.checks.continuity import NODEPORT, Way
from esipp.checks.model import Balancer, Family, Protocol
from esipp.checks.profile import PROXY_PORT
from esipp.checks.stream import TIMEOUT, Reuse, StreamKind
from esipp.judging.link_owners import LinkAnswer, nodes_by_link, owners
from esipp.judging.timeline import PATIENCE, SLICE_GONE, Mark, Sample, Stream, is_late, read_request
from esipp.probing.prober import (
    ENDLESS,
    FIRST_PORT,
    LAST_PORT,
    Job,
    Line,
    Pace,
    Prober,
    Target,
    Traffic,
    read_who_has,
    steady,
    who_has,
)
from esipp.scenarios.continuity.evidence import Asked, Exchange, LinkChange, Sent, moves

PACE = Pace(0.1, TIMEOUT)
"""New connections on a way, and requests to the control listener."""

OTHERS_PACE = Pace(0.2, TIMEOUT)
"""Requests to the control listener of another node."""

HEALTH_PACE = Pace(0.1, 1.0)
"""Health checks of a node."""

LASTING, LASTING_PACE = 3, Pace(0.3, TIMEOUT)
"""Connections that last, on each way, and the exchanges on each of them."""

CALM = 1.2
"""Seconds in which every request must have been answered in time for a way to be settled."""


ASKED_EVERY, CONTROLS = 0.3, 5
"""Seconds between two questions to the link who has a VIP; and how often it is asked who has an address of a node."""

STILL = 3.0
"""Seconds for which a VIP must have stayed at its node for a way to be settled. After a node's return, two of MetalLB's
speakers took a VIP from each other every second, for five seconds (2026-11-27)."""

TRANSFERS = 30.0
"""Seconds after which no further transfer begins: on a way that loses large packets, each takes its whole timeout."""

KNOWN = 2.0
"""Seconds of silence beside answered TCP connections, beyond what a stream may take, after which it is known to be
broken. What is still waited for when it goes on from another port has no result."""

Stretch = tuple[Way, Family, StreamKind]


@dataclass(frozen=True)
class Targets:
    """Where everything is: each way by family; health checks of nodes by family; the control by family.

    ``others`` are the control listeners of other nodes, by node and family; ``sent`` where all other streams go.
    ``own`` are addresses of nodes in the families of which the link is asked who has the VIPs.
    """

    ways: Mapping[Asked, Target]
    health: Mapping[Family, Mapping[str, Target]]
    control: Mapping[Family, Target]
    others: Mapping[tuple[str, Family], Target] = field(default_factory=dict)
    sent: Mapping[Stretch, Target] = field(default_factory=dict)
    own: Mapping[tuple[str, Family], str] = field(default_factory=dict)


class Streams:
    """All streams from ``start`` to ``stop``; results come in as they arrive."""

    def __init__(self, prober: Prober, targets: Targets, clock: Clock) -> None:
        self.targets = targets
        self.streams: dict[Asked, Stream] = {}
        self.lasting: dict[Asked, list[Exchange]] = {}
        self.links: dict[Asked, list[LinkChange]] = {}
        self.owners: dict[Asked, list[LinkAnswer]] = {}
        self.own_links: dict[str, list[LinkAnswer]] = {}
        self.health: dict[Family, dict[str, Stream]] = {}
        self.control: dict[Family, Stream] = {}
        self.others: dict[tuple[str, Family], Stream] = {}
        self.sent: dict[Sent, Stream] = {}
        self.joined: dict[Asked, Stream] = {}
        self.joined_health: dict[Asked, Stream] = {}
        self._moved: dict[int, int] = {}
        self._parts: dict[Stretch, list[Stream]] = {}
        taken = sum(kind.ports for _, _, kind in targets.sent)
        self._one_port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT - taken)
        self._next_port = self._one_port + 1
        self._traffic = Traffic(prober, clock)

    @property
    def details(self) -> dict[tuple[str, int], str]:
        """The prober's words on requests without an answer, by stream and number."""
        return self._traffic.details

    @property
    def counts(self) -> bool:
        """Whether pods count datagrams that nobody answers."""
        return any(kind.reuse is Reuse.ONE_WAY for _, _, kind in self.targets.sent)

    def start(self) -> None:
        """Start all streams."""
        traffic = self._traffic
        for (way, family), target in self.targets.ways.items():
            name = f"{way.slug} {family.value}"
            self.streams[way, family] = traffic.connect(name, target, PACE)
            kept = self.lasting[way, family] = list[Exchange]()
            for number in range(LASTING):
                job = steady(f"{name} lasting {number}", "lasting", target, LASTING_PACE)
                traffic.follow(job, self._take(number, kept))
            if way.by == Balancer.DEFAULT.value:
                job = Job(f"{name} link", "neighbour", target.host, 0, ENDLESS, 0.0)
                traffic.follow(job, self._take_link(self.links.setdefault((way, family), [])))
                if any(family is of for _, of in self.targets.own):
                    told = self.owners.setdefault((way, family), [])
                    traffic.follow(who_has(target.host, ENDLESS, ASKED_EVERY), self._take_owner(told))
        for (node, _), host in self.targets.own.items():
            told = self.own_links.setdefault(node, [])
            traffic.follow(who_has(host, CONTROLS, ASKED_EVERY), self._take_owner(told))
        for family, nodes in self.targets.health.items():
            self.health[family] = {
                node: traffic.check_health(f"health check of {node} {family.value}", target, HEALTH_PACE)
                for node, target in nodes.items()
            }
        for family, target in self.targets.control.items():
            self.control[family] = traffic.connect(f"control {family.value}", target, PACE)
        for (node, family), target in self.targets.others.items():
            self.others[node, family] = traffic.connect(f"control {node} {family.value}", target, OTHERS_PACE)
        for key in self.targets.sent:
            if not key[2].count:
                self._send(key)

    def _send(self, key: Stretch) -> Stream:
        way, family, kind = key
        parts = self._parts.setdefault(key, [])
        name = f"{way.slug} {family.value} {kind.name} {len(parts)}"
        first = self._one_port
        if kind.ports > 1:  # none of another one: Cilium takes connections of two Services from one port for one
            first, self._next_port = self._next_port, self._next_port + kind.ports
        parts.append(self._traffic.send(kind, name, self.targets.sent[key], first))
        return parts[-1]

    def send_counted(self, checked: Callable[[], None]) -> None:
        """Send what does not go on: datagrams of each size and connections from one port at once, then what is much:
        transfers, larger ones one by one where a smaller one was complete, and storms one after the other.

        Args:
            checked: called between transfers; may raise an error.

        Raises:
            HarnessError: the prober is gone.
        """
        began = time.monotonic()
        counted = [key for key in self.targets.sent if key[2].count]
        for key in counted:
            if key[2].protocol is Protocol.UDP or key[2].reuse is Reuse.LASTING:
                self._send(key)
        bulk = sorted((key for key in counted if key[2].job_protocol == "bulk"), key=lambda key: key[2].size)
        small = [key for key in bulk if key[2].size == bulk[0][2].size]
        made = {key[:2]: self._send(key) for key in small}
        self._traffic.wait(made.values(), TIMEOUT + max((key[2].timeout for key in small), default=0.0))
        for key in bulk[len(small) :]:
            checked()
            complete = all(sample.answered for sample in made[key[:2]].samples) if key[:2] in made else True
            if complete and time.monotonic() < began + TRANSFERS:
                self._traffic.wait([self._send(key)], TIMEOUT + key[2].timeout)
        for key in (key for key in counted if key[2].job_protocol == "tcp"):
            checked()
            if time.monotonic() < began + TRANSFERS:
                self._traffic.wait([self._send(key)], TRANSFERS)

    def renew(self) -> None:
        """Go on from a new source port with each stream that keeps its own.

        So what connection tracking remembers of a port is due to one event alone.
        """
        keeps = [key for key in self._parts if key[2].keeps_port and not key[2].count]
        self._traffic.stop(self._parts[key][-1] for key in keeps)
        for key in keeps:
            self._send(key)

    def ask_arrived(self, prober: Prober, pod: Target, node: str) -> None:
        """Ask a pod which datagrams of one-way streams it has counted so far."""
        self._traffic.ask_arrived(prober, pod, node)

    def silent(self, now: float, marks: Iterable[Mark] = ()) -> list[str]:
        """The names of streams that keep their port and were answered from it, but not lately.

        Without those that have been silent for long enough while new TCP connections on their way were answered, once
        no EndpointSlice lost an endpoint any more: that they are not answered again is known.
        """
        found = []
        left = max((mark.at for mark in marks if mark.what == SLICE_GONE), default=0.0)
        for way, family, kind in self._parts:
            part = self._parts[way, family, kind][-1]
            if not kind.keeps_port or kind.count:
                continue
            last = self._last_answered(part)
            if last is None or last >= now - CALM - PATIENCE:
                continue
            control = self.streams[way, family].view(last, now - PATIENCE, now)
            since = max((each.started for each in control if not each.answered or is_late(each)), default=last)
            if now - max(since, left) <= kind.recovers + KNOWN:
                found.append(part.name)
        return found

    def _last_answered(self, part: Stream) -> float | None:
        """When the last answered probe began; None if there is none."""
        return max((each.started for each in self._traffic.counted(part) if each.answered), default=None)

    def dial_joined(self, addresses: Mapping[Family, str]) -> None:
        """Dial the nodePorts of a node that joins, and ask it whether it can serve."""
        for (way, family), target in self.targets.ways.items():
            if way.by != NODEPORT or family not in addresses:
                continue
            host, name = addresses[family], f"{way.slug} {family.value} of the node that joins"
            ports = [each.port for each in self.targets.health.get(family, {}).values()] if way.local else [PROXY_PORT]
            self.joined[way, family] = self._traffic.connect(name, Target(host, target.port), PACE)
            for port in ports[:1]:
                to = Target(host, self._moved.get(port, port))
                self.joined_health[way, family] = self._traffic.check_health(f"health check of {name}", to, HEALTH_PACE)

    def leave_joined(self) -> None:
        """Stop dialling the node that joined.

        Raises:
            HarnessError: the prober is gone.
        """
        self._traffic.stop([*self.joined.values(), *self.joined_health.values()])

    def redirect_health(self, port: int, new: int) -> None:
        """Probe the nodes' health checks at another port from now on, those that are probed at this one."""
        self._moved[port] = new
        self._traffic.redirect(port, new)

    def stop(self) -> None:
        """Stop all streams, and put what came in order.

        Raises:
            HarnessError: the prober is gone.
        """
        self._traffic.stop_all()
        for kept in self.lasting.values():
            kept.sort(key=lambda each: each.sample.started)
        for (way, family, kind), parts in self._parts.items():
            self.sent[way, family, kind.name] = self._joined(f"{way.slug} {family.value} {kind.name}", parts)

    def _joined(self, name: str, parts: Iterable[Stream]) -> Stream:
        """All parts of a stream as one; the numbers of its probes go on."""
        joined, base, spacing = list[Sample](), 0, 0.0
        for part in parts:
            for sample in part.samples:
                if detail := self.details.pop((part.name, sample.seq), ""):
                    self.details[name, base + sample.seq] = detail
            joined += [sample._replace(seq=base + sample.seq) for sample in part.samples]
            base, spacing = base + max((sample.seq + 1 for sample in part.samples), default=0), part.spacing
        stream = Stream(name, spacing, joined)
        stream.freeze()
        return stream

    def unsettled(self, now: float, asked: Sequence[Asked]) -> list[str]:
        """The names of the ways that did not answer every recent request in time, or whose VIP has just moved."""
        found = []
        for key in asked:
            recent = self.streams[key].view(now - CALM - 0.25, now, now)
            moved = any(each.at > now - STILL for each in moves(self.links.get(key, ())))
            if moved or len(recent) < CALM / PACE.every / 2 or not all(s.answered and not is_late(s) for s in recent):
                found.append(self.streams[key].name)
        return found

    def shared(self, now: float) -> list[str]:
        """The names of the ways for whose VIP several nodes answered lately."""
        nodes = nodes_by_link(self.own_links)
        recent = {key: [each for each in tuple(told) if each.at > now - STILL] for key, told in self.owners.items()}
        return [
            self.streams[key].name for key, told in recent.items() if any(len(owners(each, nodes)) > 1 for each in told)
        ]

    def latest(self, key: Asked) -> Sample | None:
        """The last answer on a way."""
        answered = (sample for sample in reversed(self.streams[key].samples) if sample.answered)
        return next(answered, None)

    def _take(self, job: int, kept: list[Exchange]) -> Callable[[Line], None]:
        ours = self._traffic.clock.ours

        def take(line: Line) -> None:
            lost = line.get("lost")
            number = (job, int(line.get("connection") or 0))
            kept.append(Exchange(number, read_request(line, ours), None if lost is None else ours(float(lost))))

        return take

    def _take_owner(self, kept: list[LinkAnswer]) -> Callable[[Line], None]:
        ours = self._traffic.clock.ours

        def take(line: Line) -> None:
            told = read_who_has(line)
            kept.append(replace(told, at=ours(told.at)))

        return take

    def _take_link(self, kept: list[LinkChange]) -> Callable[[Line], None]:
        ours = self._traffic.clock.ours

        def take(line: Line) -> None:
            if line["outcome"] == "answered":
                kept.append(LinkChange(ours(float(line["started"])), str(line["link"]), tuple(line["addresses"])))

        return take
