"""The evidence of path checks, and which of its connections count. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from esipp.checks.check import Feature
from esipp.checks.model import Family, Path
from esipp.checks.observation import Observation, Witness
from esipp.judging.reading import Reading, read
from esipp.judging.topology import IPAddress, Topology, parse_address
from esipp.scenarios.paths.collisions import Ports

REMAIN = 0.95
"""The share of a path's connections that must remain after those in doubt are set aside.

A connection is in doubt if our own harness spoilt it: its prober failed, its echo document contradicts itself, its
packets contradict its echo, or it had the source port of another. One of 13 runs had such connections, one for each
path. Without one in twenty, the power that the verdict states is nearly the same; with fewer, the harness itself is
broken.
"""

LATE = 1.0
"""Seconds from which an answer is late: the first SYN is sent again then (RFC 6298, 2.1)."""

MOST_CONTRADICTED = 1
"""The most sampled connections of a path on which the echo server and the packets may contradict each other.

One may be set aside if they agree on another one. Two are no accident: packets are matched by the nonce, so either the
echo server or the captures are wrong, and the other connections cannot be trusted either.
"""


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
class Evidence:
    """All evidence for judging path checks.

    Args:
        observations: the judged window, by path key; a check uses its own path and those of its controls.
        topology: the owners of addresses.
        features: the features of the cluster and its environment, by name.
        samples: the number of probes that every path must have.
        facts: facts about the cluster, for known differences (``pod-to-node.ipv4`` and the like).
        obstacles: why a path could not be dialled, by path key.
        witnesses: the evidence of packets for the sampled connections, by path key.
        blind: why there are no packets; empty if there are.
        steers: when the reference load balancer changed the routes of our Services.
        clocks: seconds that each client's clock is ahead of ours; times of other clients are no evidence.
        doubts: what in the cluster's environment may explain a wrong result of a path, by path key.
        windows: the number of windows with observations of a path, by path key, if there are several.
        first: the answers of each path while the run waited for the data plane, by path key.
        waits: patient connections on paths that must not answer, by path key.
        stalls: when machines stood still in the window.
    """

    observations: Mapping[str, Sequence[Observation]]
    topology: Topology
    features: Mapping[str, Feature]
    samples: int
    facts: Mapping[str, str] = field(default_factory=dict)
    obstacles: Mapping[str, str] = field(default_factory=dict)
    witnesses: Mapping[str, Sequence[Witness]] = field(default_factory=dict)
    blind: str = "no packets were captured"
    steers: Sequence[Steer] = ()
    clocks: Mapping[str, float] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    windows: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, Sequence[FirstAnswers]] = field(default_factory=dict)
    waits: Mapping[str, Sequence[Wait]] = field(default_factory=dict)
    stalls: Sequence[Stall] = ()
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
    def waited(self) -> tuple[tuple[float, float], ...]:
        """When connections that were accepted waited long for their answer: start and end, on our clock."""
        found = []
        for path, made in self.observations.items():
            every = [one for each in made for one in each.irregular]
            ahead = (
                next((ahead for name, ahead in self.clocks.items() if f".{name}-to-" in path), 0.0) if every else 0.0
            )
            for one in every:
                if one.connected is not None and one.ended - one.connected >= LATE:
                    found.append((one.connected - ahead, one.ended - ahead))
        return tuple(found)

    @property
    def clients(self) -> frozenset[IPAddress]:
        """The addresses of all client sockets."""
        if not self._clients:
            made = (each for observations in self.observations.values() for each in observations)
            self._clients.append(frozenset(parse_address(each.source[0]) for each in made if each.source))
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
    witnesses = evidence.witnesses.get(path.key, ())
    contradicted = {each.seq: each.contradiction for each in witnesses if each.contradiction}
    agreed = any(each.seen and not each.contradiction for each in witnesses)
    if contradicted and (not agreed or len(contradicted) > MOST_CONTRADICTED):
        return Sound(broken=next(iter(contradicted.values())))
    kept: list[tuple[Observation, Reading]] = []
    aside: Counter[str] = Counter()
    had: set[int] = set()
    for reading, each in zip(readings, made, strict=True):
        doubt = reading.harness_fault or ("" if each.ports else contradicted.get(each.seq, ""))
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
