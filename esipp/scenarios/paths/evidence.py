"""The evidence of path checks, and which of its connections count: not those with a port that another one had. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain

from esipp.checks.check import Feature
from esipp.checks.model import EntryKind, Family, Outcome, Path, Protocol, Vantage, backends_of
from esipp.judging.frame import Known
from esipp.judging.observation import (
    NOTHING_TRACKED,
    Observation,
    Reading,
    Tracked,
    Witness,
    contradicted,
    read,
    untrue,
)
from esipp.judging.scenario import RunThen
from esipp.judging.topology import IPAddress, Topology, family_of, parse_address

LINGERS = {Protocol.TCP: 10.0, Protocol.UDP: 60.0, Protocol.SCTP: 60.0}
"""Seconds that Cilium keeps the state of a connection after its last packet, by its defaults."""

SENT_AGAIN = 1.0
"""Seconds until a kernel sends a first packet again."""

PORTS_GIVEN = 28232
"""The fewest source ports that a client has: those that Linux gives out by default (``net.ipv4.ip_local_port_range``
32768 to 60999). Probes of paths have all from 1,024 up, so the share is an upper bound."""

MOST_BY_CHANCE = 0.1
"""The share of ports that may have been taken in that time by others, at most: above it, that a lost connection's was
among them is no evidence."""

OF_A_NODE = (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS, EntryKind.EXTERNAL_IP)
"""Entries that are one node's: no other node's NAT comes first."""


@dataclass(frozen=True)
class _Held:
    """A connection that was answered: at which pod, from which address, whose it was, and when by our clock."""

    path: str
    pod: str
    at: IPAddress
    whose: IPAddress
    began: float
    ended: float

    def meets(self, began: float, protocol: Protocol) -> bool:
        """Whether its state was there for the first packets of one that began then."""
        return self.began <= began + SENT_AGAIN and began <= self.ended + LINGERS[protocol]


@dataclass(frozen=True)
class Collision:
    """Whether each connection of an observation collided with another one, and which one."""

    explained: bool = False
    words: str = ""


NONE = Collision()


class Ports:
    """The source ports and addresses that each pod saw, with the clients behind them and the times.

    Args:
        observations: those of the window.
        clocks: seconds that a client's clock is ahead of ours, by its name. Times of others cannot be compared.
    """

    def __init__(self, observations: Iterable[Sequence[Observation]], clocks: Mapping[str, float]) -> None:
        self._clocks = clocks
        self._seen: dict[tuple[str, int], list[_Held]] = defaultdict(list)
        for made in observations:
            for each in made:
                for port, held in self._of(each):
                    self._seen[str((each.echo or {}).get("protocol")), port].append(held)

    def _of(self, each: Observation) -> Iterator[tuple[int, _Held]]:
        """The connections of an observation that were answered, each with the port that the pod saw."""
        ahead = self._ahead(each)
        if each.outcome is not Outcome.ANSWERED or ahead is None or len(each.spans) != len(each.port_pairs):
            return
        if not (each.echo and each.source and each.seen and each.backend):
            return
        at, whose = parse_address(each.seen[0]), parse_address(each.source[0])
        for (_, seen), (began, ended) in zip(each.port_pairs, each.spans, strict=True):
            if seen:
                yield seen, _Held(each.path, each.backend, at, whose, began - ahead, ended - ahead)

    def _ahead(self, each: Observation) -> float | None:
        """How far the clock of an observation's client is ahead of ours; its name stands in the path's key."""
        return next((ahead for name, ahead in self._clocks.items() if f".{name}-to-" in each.path), None)

    def collided(self, path: Path, lost: Observation, topology: Topology) -> Collision:
        """Whether each of these connections met another's from the very address and port that NAT may have given it.

        That is an address of a node, of a host process its own node's, with the port that the client itself had, of the
        same family and at a pod that it may have met. One of the two is a process of that node: between others a node's
        NAT sees to it. The other's state must have been there at that time.
        """
        ahead = self._ahead(lost)
        if lost.source is None or lost.outcome is not Outcome.TIMEOUT or ahead is None:
            return NONE
        if len(lost.spans) != len(lost.port_pairs):
            return NONE
        own, host = parse_address(lost.source[0]), path.client.vantage is Vantage.NODE
        may, pods = _may_have(path, topology), backends_of(path.service)

        def is_it(began: float, held: _Held) -> bool:
            of_the_node = held.whose != own and (host or held.whose == held.at)
            return held.pod in pods and held.at in may and of_the_node and held.meets(began, path.protocol)

        said = []
        chance = 0.0
        for (port, _), (began, _) in zip(lost.port_pairs, lost.spans, strict=True):
            came = began - ahead
            test = partial(is_it, came)
            met = next(filter(test, self._seen.get(_key(path, port), ())), None)
            if met is None:
                return NONE
            chance = max(chance, self._share(path, test))
            when = f"{met.began - came:+.1f} s"
            said.append(f"port {port}: {met.at} used it towards {met.pod} from {when} on ({met.path})")
        words = f"{'; '.join(said[:3])}; {chance:.1%} of all ports would collide by chance"
        return Collision(chance <= MOST_BY_CHANCE, words)

    def _share(self, path: Path, test: Callable[[_Held], bool]) -> float:
        """What share of all ports had such a connection at that time."""
        protocol = path.protocol.value.lower()
        taken = sum(1 for (of, _), all_held in self._seen.items() if of == protocol and any(map(test, all_held)))
        return min(1.0, taken / PORTS_GIVEN)

    def shared(self, path: Path, at: tuple[str, int], hung: Observation) -> str:
        """The connection through another Service to the same pods with this address and port at that time, as text.

        Args:
            path: of the connection that hung.
            at: the address and port by which packets show that it came to a pod.
            hung: the connection.
        """
        ahead = self._ahead(hung)
        if ahead is None or not hung.spans:
            return ""
        address, pods, came = parse_address(at[0]), backends_of(path.service), hung.spans[0][0] - ahead
        stem = path.key.partition(f".{path.protocol.value.lower()}.")[0]
        for held in self._seen.get(_key(path, at[1]), ()):
            other = held.path.partition(f".{path.protocol.value.lower()}.")[0] != stem
            if other and held.pod in pods and held.at == address and held.meets(came, path.protocol):
                return f"{held.path} used {address} port {at[1]} towards {held.pod} from {held.began - came:+.1f} s on"
        return ""


def _key(path: Path, port: int) -> tuple[str, int]:
    return path.protocol.value.lower(), port


def _may_have(path: Path, topology: Topology) -> Collection[IPAddress]:
    """The addresses, of the path's family, that NAT may give its connections."""
    stand = topology.stands.get(path.client.name)
    if path.client.vantage is Vantage.NODE:
        found = set(stand.addresses) if stand else set()
    else:
        dialled = topology.roles.get(path.entry.role) if path.entry.role and path.entry.kind in OF_A_NODE else None
        nodes = [node for node in topology.nodes.values() if dialled is None or node.name == dialled]
        found = {address for node in nodes for address in node.addresses}
    return {address for address in found if family_of(address) is path.family}


REMAIN = 0.95
"""The share of a path's connections that must remain after those in doubt are set aside.

A connection is in doubt if our own harness spoilt it: its prober failed, its echo document contradicts itself, its
packets contradict its echo, or it had the source port of another. One of 13 runs had such connections, one for each
path. Without one in twenty, the power that the verdict states is nearly the same; with fewer, the harness itself is
broken.
"""

LATE = 1.0
"""Seconds from which an answer is late: the first SYN is sent again then (RFC 6298, 2.1)."""


WITHOUT_A_SERVICE = (f"{EntryKind.POD_IP}.", f"{EntryKind.NODE_LISTENER}.")
"""How the keys of paths without a Service begin."""


@dataclass(frozen=True)
class Steer:
    """A change of a Service's routes by the reference load balancer, on our clock."""

    service: str
    family: Family
    at: float


@dataclass(frozen=True)
class FirstAnswers:
    """Equal answers on a path, one after the other, while the run waited for the data plane.

    Args:
        seen: the source that the backend saw.
        source: the client's own address; None if it is not known.
        backend: the pod that answered.
        count: the number of answers.
    """

    seen: str
    source: str | None
    backend: str | None
    count: int = 1


@dataclass(frozen=True)
class Wait:
    """A connection on a path that must not answer, with more time than those of the window; it took so many seconds."""

    answered: bool
    seconds: float


@dataclass(frozen=True)
class Stall:
    """A time in the window, on our clock, in which a client's prober should have run and did not."""

    client: str
    at: float
    seconds: float


@dataclass(frozen=True)
class Window:
    """The evidence that a ledger has as one record. Observations, witnesses, features and facts have their own.

    Args:
        topology: the owners of addresses.
        samples: the number of probes that every path must have.
        obstacles: why a path could not be dialled, by path key.
        blind: why there are no packets; empty if there are.
        steers: when the reference load balancer changed the routes of our Services.
        clocks: seconds that each client's clock is ahead of ours; times of other clients are no evidence.
        doubts: what in the cluster's environment may explain a wrong result of a path, by path key.
        windows: the number of windows with observations of a path, by path key, if there are several.
        first: the answers of each path while the run waited for the data plane, by path key.
        waits: patient connections on paths that must not answer, by path key.
        stalls: when machines stood still in the window.
        tracked: what the nodes' connection tracking says of a path's connections, by path key.
    """

    topology: Topology
    samples: int
    obstacles: Mapping[str, str] = field(default_factory=dict)
    blind: str = ""
    steers: Sequence[Steer] = ()
    clocks: Mapping[str, float] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    windows: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, Sequence[FirstAnswers]] = field(default_factory=dict)
    waits: Mapping[str, Sequence[Wait]] = field(default_factory=dict)
    stalls: Sequence[Stall] = ()
    tracked: Mapping[str, Tracked] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Evidence(Window):
    """All evidence for judging path checks.

    Args:
        observations: the judged window, by path key; a check uses its own path and those of its controls.
        features: the features of the cluster and its environment, by name.
        facts: facts about the cluster, for known differences (``pod-to-node.ipv4`` and the like).
        witnesses: the evidence of packets for the sampled connections, by path key.
    """

    observations: Mapping[str, Sequence[Observation]]
    features: Mapping[str, Feature]
    facts: Mapping[str, str] = field(default_factory=dict)
    witnesses: Mapping[str, Sequence[Witness]] = field(default_factory=dict)
    blind: str = "no packets were captured"
    _read: dict[str, list[Reading]] = field(default_factory=dict, compare=False)
    _ports: list[Ports] = field(default_factory=list, compare=False)
    _sound: dict[str, Sound] = field(default_factory=dict, compare=False, init=False, repr=False)
    _clients: list[frozenset[IPAddress]] = field(default_factory=list, compare=False)

    def readings(self, path: Path) -> list[Reading]:
        """The path's observations, each read once."""
        if path.key not in self._read:
            made = self.observations.get(path.key, ())
            self._read[path.key] = [read(path, each, self.topology) for each in made]
        return self._read[path.key]

    @property
    def ports(self) -> Ports:
        """The source ports of all connections; read once, and only if a known difference needs them."""
        if not self._ports:
            self._ports.append(Ports(self.observations.values(), self.clocks))
        return self._ports[0]

    @cached_property
    def late_without_a_service(self) -> tuple[tuple[float, float], ...]:
        """When answers on paths without a Service were late: start and end of each wait, on our clock."""
        found = []
        for path, made in self.observations.items():
            every = [one for each in made for one in each.irregular if path.startswith(WITHOUT_A_SERVICE)]
            if not every:
                continue
            ahead = next((ahead for name, ahead in self.clocks.items() if f".{name}-to-" in path), 0.0)
            for one in every:
                began = one.started if one.connected is None else one.connected
                if one.ended - began >= LATE:
                    found.append((began - ahead, one.ended - ahead))
        return tuple(found)

    @property
    def clients(self) -> frozenset[IPAddress]:
        """The addresses of all client sockets."""
        if not self._clients:
            made = chain.from_iterable(self.observations.values())
            self._clients.append(frozenset(map(parse_address, {each.source[0] for each in made if each.source})))
        return self._clients[0]

    def sources_at(self, path: Path) -> Mapping[str, int]:
        """The sources that pods saw in connections through the VIP of a path's Service, in its family."""
        return sources_at(path, self.observations)

    def preserved_at(self, path: Path) -> str:
        """A client outside whose own address pods saw at the VIP of a path's Service, in its family; empty if none."""
        for key, made in self.observations.items():
            name, at_vip, _ = key.removeprefix(stem(path)).partition("-to-vip")
            stand = self.topology.stands.get(name) if at_vip else None
            if stand is None or stand.node:
                continue
            pairs = ((each.source[0], each.seen[0]) for each in made if each.source and each.seen)
            if any(parse_address(seen) == stand.shown(parse_address(own)) for own, seen in pairs):
                return name
        return ""

    def turned_back_at(self, path: Path) -> set[str]:
        """Where packets show that requests of a path's client came back, at VIPs of the same load balancer."""
        same = f".{path.family.value.lower()}.{path.client.name}-to-vip"
        return {
            each.turned_back
            for key, told in self.witnesses.items()
            if key.endswith(same) and key.startswith("loadbalancer.") and ".reference-" not in key
            for each in told
            if not each.doubt
        }

    def sound(self, path: Path) -> Sound:
        """The sound observations of a path, and those set aside; computed once."""
        if path.key not in self._sound:
            self._sound[path.key] = _sound(path, self)
        return self._sound[path.key]

    def without_doubtful(self, paths: Sequence[Path]) -> Evidence:
        """The same evidence without the connections of these paths that are in doubt."""
        changed = {path.key: self.sound(path) for path in paths if self.sound(path).aside}
        if not changed:
            return self
        kept = {key: sound.observations for key, sound in changed.items()}
        read = {key: list(sound.readings) for key, sound in changed.items()}
        return replace(self, observations={**self.observations, **kept}, _read={**self._read, **read})

    def backends(self, path: Path) -> set[str]:
        """The pods that answered on a path, as they report themselves."""
        return {each.backend for each in self.observations.get(path.key, ()) if each.backend}


@dataclass(frozen=True)
class Sound:
    """The sound observations of a path.

    Args:
        observations, readings: the sound ones, one reading for each.
        aside: the number of connections in doubt, by reason.
        broken: why the whole path is unusable, through no fault of the product; or an empty string.
    """

    observations: tuple[Observation, ...] = ()
    readings: tuple[Reading, ...] = ()
    aside: Mapping[str, int] = field(default_factory=dict)
    broken: str = ""

    def text(self, total: int) -> str:
        """The connections that were set aside, as text; or an empty string."""
        count = sum(self.aside.values())
        return f"{count} of {total} set aside: {'; '.join(sorted(self.aside))}" if count else ""


def _sound(path: Path, evidence: Evidence) -> Sound:
    """Set aside the connections of a path that are in doubt, through no fault of the product.

    If too many are in doubt, or too many of the sampled ones, the path is ``broken``.
    """
    readings, made = evidence.readings(path), evidence.observations.get(path.key, ())
    total = sum(reading.count for reading in readings)
    asked = evidence.samples * evidence.windows.get(path.key, 1)
    if readings and total != asked:
        return Sound(broken=f"{total} probes were made instead of {asked}")
    contradicting, broken = contradicted(evidence.witnesses.get(path.key, ()))
    if broken := broken or untrue(evidence.tracked.get(path.key, NOTHING_TRACKED)):
        return Sound(broken=broken)
    lies = {each.seq: each.contradiction for each in contradicting}
    kept: list[tuple[Observation, Reading]] = []
    aside: Counter[str] = Counter()
    had: set[int] = set()
    for reading, each in zip(readings, made, strict=True):
        doubt = reading.harness_fault or ("" if each.ports else lies.get(each.seq, ""))
        if doubt:
            aside[doubt] += each.count
            continue
        own = each if path.one_socket else _without_ports(each, had)
        if own.count < each.count:
            aside[PORT_REUSED] += each.count - own.count
            reading = replace(reading, count=own.count)
        if own.count:
            kept.append((own, reading))
    if sum(aside.values()) > (1 - REMAIN) * total:
        return Sound(broken=_say_broken(aside, total))
    return Sound(tuple(each for each, _ in kept), tuple(reading for _, reading in kept), aside)


PORT_REUSED = "reused the source port of an earlier connection"


def _without_ports(observation: Observation, had: set[int]) -> Observation:
    """An observation without the connections that reuse one of these source ports; adds its own ports to them."""
    left = []
    for pair in observation.port_pairs:
        if pair[0] not in had:
            left.append(pair)
        if pair[0]:  # 0: this host never let it begin
            had.add(pair[0])
    again = len(observation.port_pairs) - len(left)
    ports = tuple(left) if observation.ports else ()
    return replace(observation, count=observation.count - again, ports=ports) if again else observation


def _say_broken(aside: Mapping[str, int], total: int) -> str:
    """Why a path is unusable: the reason alone if all connections share it."""
    worst, count = max(aside.items(), key=lambda each: each[1])
    if worst == PORT_REUSED:
        return f"{total} probes had only {total - count} source ports, so they were fewer connections"
    return worst if count == total else f"{sum(aside.values())} of {total} connections are in doubt, most: {worst}"


def sources_at(path: Path, observations: Mapping[str, Sequence[Observation]]) -> Counter[str]:
    """The sources that pods saw in all connections through the VIP of a path's Service, in its family."""
    found: Counter[str] = Counter()
    for key, made in observations.items():
        if key.startswith(stem(path)) and "-to-vip" in key:
            for each in made:
                if each.seen:
                    found[each.seen[0]] += each.count
    return found


def stem(path: Path) -> str:
    """The common start of the keys of all paths to one Service in one family, whatever the client and entry."""
    assert path.service is not None
    return f"{path.service.slug}.{path.protocol.value.lower()}.{path.family.value.lower()}."


# ---------------------------------------------------------------------------------------------------- in the ledger
def window_of(evidence: Evidence) -> Window:
    """What is recorded of the evidence."""
    kept = {each.name: getattr(evidence, each.name) for each in fields(Window)}
    return Window(**kept | {"steers": tuple(evidence.steers), "stalls": tuple(evidence.stalls)})


def evidence_of(window: Window | None, then: RunThen) -> Evidence:
    """The evidence again, from what was recorded of it and the run's other records."""
    if window is None:
        return Evidence(observations={}, topology=Topology(), features={}, samples=then.samples)
    return Evidence(observations=then.observations, witnesses=then.witnesses, features={}, **vars(window))


def with_known(evidence: Evidence, known: Known) -> Evidence:
    """The evidence, with what is known of the cluster."""
    return replace(evidence, features=known.features, facts=known.facts)
