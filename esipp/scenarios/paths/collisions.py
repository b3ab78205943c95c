"""Port collisions: connections to which NAT gave the same source address and port towards a backend. Pure.

A shared port explains a loss only if the first connection's state still existed when the second one came. Cilium keeps
the state of a closing TCP connection for 10 s (``bpf-ct-timeout-regular-tcp-fin``), any other for 60 s
(``bpf-ct-timeout-regular-any``; docs.cilium.io, cilium-agent, 1.18). A lost connection met that state with its first
packet, or with its first retransmission a second later.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from esipp.checks.model import EntryKind, Path, Protocol, Vantage, backends_of
from esipp.checks.observation import Observation, Outcome
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
    """Whether each connection of an observation collided with another one, and how likely that is by chance."""

    explained: bool = False
    chance: float = 0.0
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
        return Collision(chance <= MOST_BY_CHANCE, chance, words)

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
