"""What probes, packets and connection tracking report of connections, and what that shows. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from esipp.checks.check import PACKETS
from esipp.checks.model import (
    AddressClass,
    Claim,
    EntryKind,
    Outcome,
    Path,
    Role,
    Vantage,
    backends_of,
)
from esipp.judging.topology import Topology, family_of, parse_address


class Irregular(NamedTuple):
    """An answered probe whose answer came late or more than once, or for which the SYN was sent again.

    ``started``, ``connected`` (None for datagrams) and ``ended`` are the prober's monotonic seconds. ``again``
    counts the SYNs after the first, ``copies`` the further copies of the answer.
    """

    started: float
    connected: float | None
    ended: float
    again: int
    copies: int


@dataclass(frozen=True)
class Observation:
    """One probe of one path, or ``count`` probes with the same result, as prober and echo server report it.

    ``source`` is the client's view of its address and port, ``seen`` the backend's view, ``local`` the backend's own
    end. For several probes, ``source``, ``seen`` and times are those of the first. ``ports`` has all pairs of source
    ports, at the client and at the backend. ``moments`` has the start and end of each probe in the same order, if they
    were recorded. ``connected`` is the time at which the connection was accepted, or None. Times are the prober's
    monotonic seconds. ``tag`` is an SCTP INIT's initiate tag. ``connection`` numbers the established connections of a
    job, from 0. ``addresses`` are the results of a name lookup. ``irregular`` are those of its probes that did not go
    smoothly.
    """

    path: str
    seq: int
    outcome: Outcome
    source: tuple[str, int] | None = None
    dialled: tuple[str, int] | None = None
    seen: tuple[str, int] | None = None
    echo: Mapping[str, Any] | None = None
    started: float = 0.0
    connected: float | None = None
    ended: float = 0.0
    time: float = 0.0
    detail: str = ""
    observer: str = "echo"
    nonce: str = ""
    tag: int | None = None
    count: int = 1
    ports: tuple[tuple[int, int | None], ...] = ()
    connection: int = 0
    addresses: tuple[str, ...] = ()
    moments: tuple[tuple[float, float], ...] = ()
    irregular: tuple[Irregular, ...] = ()

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """Return start and end of each probe, in the order of ``port_pairs``; empty if only the first is known."""
        if self.moments or self.count > 1:
            return self.moments
        return ((self.started, self.ended),)

    @property
    def took(self) -> tuple[float, ...]:
        """Return the seconds of each probe, to the millisecond; empty if only the first is known."""
        return tuple(round(ended - started, 3) for started, ended in self.spans)

    @property
    def backend(self) -> str | None:
        """Return the pod that answered, as it reports itself."""
        return str(self.echo["pod"]) if self.echo and self.echo.get("pod") else None

    @property
    def node(self) -> str | None:
        """Return the node of the pod that answered, as the pod reports it."""
        return str(self.echo["node"]) if self.echo and self.echo.get("node") else None

    @property
    def local(self) -> tuple[str, int] | None:
        """Return the address and port at which the client reached the backend, as the backend reports it."""
        if not self.echo or not self.echo.get("local_address"):
            return None
        return str(self.echo["local_address"]), int(self.echo.get("local_port") or 0)

    @property
    def port_pairs(self) -> tuple[tuple[int, int | None], ...]:
        """Return the source port of each probe, at the client and at the backend."""
        if self.ports or self.source is None:
            return self.ports
        return ((self.source[1], self.seen[1] if self.seen else None),)


@dataclass(frozen=True)
class Witness:
    """The evidence of packets about one sampled connection.

    Args:
        path, seq: the observation of the connection.
        seen: whether the packets include the connection.
        words: the connection in packets: sender, receiver, node and interface.
        delivered: the source with which its request reached a backend, or None.
        change: where the source changed: ``node esipp-worker, between eth0 and veth1: A became B``; else empty.
        contradiction: why packets and echo server cannot both be right; else empty.
        doubt: why its packets could not be distinguished from another connection's; else empty.
        turned_back: the client's node, if the request left it and came back for another address; else empty.
    """

    path: str
    seq: int
    seen: bool
    words: str = ""
    delivered: tuple[str, int] | None = None
    change: str = ""
    contradiction: str = ""
    doubt: str = ""
    turned_back: str = ""


@dataclass(frozen=True)
class Tracked:
    """What the nodes' connection tracking says of the connections of one path.

    Args:
        agreed: how many have the source there that the backend reported.
        contradicted: how many have another one.
        words: the first of these, as a sentence; empty if there is none.
    """

    agreed: int
    contradicted: int = 0
    words: str = ""


# ----------------------------------------------------------------------------------------------- whose address it shows
@dataclass(frozen=True)
class Origin:
    """The origin of an address: the classes that it fits for one client, and its owner as text."""

    classes: frozenset[AddressClass]
    owner: str


def origin_of(topology: Topology, path: Path, seen: str, source: str | None) -> Origin:
    """The origin of the source address that a backend saw.

    Args:
        path: the path of the probe; its client decides what ``client`` means.
        seen: the source address the backend saw.
        source: the address of the client's own socket. For a client outside or in a pod, ``client`` is exactly
            this one, or what NAT before the cluster makes of it; for a host process it is any address of its node,
            as masquerading picks the outgoing one.
    """
    address = parse_address(seen)
    classes: set[AddressClass] = set()
    owners: list[str] = []
    stand = topology.stands.get(path.client.name)
    if source is not None and topology.shown(path.client.name, source) == address:
        classes.add(AddressClass.CLIENT)
        owners.append(f"client {path.client.name}")
    for other in topology.stands.values():
        if other is not stand and other.client.vantage is not Vantage.NODE and address in other.addresses:
            owners += [f"client {other.client.name}"] if other.client.name not in topology.backends else []
            if other.client.vantage is Vantage.POD:
                classes.add(AddressClass.POD)
    for node in topology.nodes.values():
        if address in node.addresses:
            owners.append(f"node {node.name}{_remark(topology, node.name, path)}")
            own = stand is not None and stand.node == node.name
            if own and path.client.vantage is Vantage.NODE:
                classes.add(AddressClass.CLIENT)  # and no other: otherwise a rewritten source would look the same
            elif own and path.client.name in topology.backends:
                classes.add(AddressClass.HAIRPIN)
            else:
                classes.add(AddressClass.NODE)
    for pod in topology.backends.values():
        held = {parse_address(a) for a in pod.addresses.values()}
        if address in held and not classes & {AddressClass.CLIENT, AddressClass.NODE, AddressClass.HAIRPIN}:
            classes.add(AddressClass.POD)
            owners.append(f"pod {pod.name}")
    for name, addresses in topology.balancers.items():
        if address in addresses:
            classes.add(AddressClass.LOAD_BALANCER)
            owners.append(f"load balancer of {name}")
    if not classes:
        classes.add(AddressClass.OTHER)
    return Origin(frozenset(classes), " or ".join(owners) or "unknown address")


def _remark(topology: Topology, node: str, path: Path) -> str:
    """The role of a node on a path, so that a reader sees where the source was rewritten."""
    parts = []
    stand = topology.stands.get(path.client.name)
    if path.entry.role and topology.roles.get(path.entry.role) == node:
        parts.append("the node dialled")
    if stand and stand.node == node:
        parts.append("the client's")
    if not parts and topology.roles.get(Role.ENDPOINT_NODE) == node:
        parts.append("the endpoint's")
    return f" ({', '.join(parts)})" if parts else ""


# -------------------------------------------------------------------------------------------------------- what it shows
@dataclass(frozen=True)
class Reading:
    """The reading of one observation: the classes that it fits, its text, and the number of probes in it."""

    classes: frozenset[AddressClass]
    words: str
    product_fault: str = ""
    harness_fault: str = ""
    count: int = 1
    misdirected: bool = False
    reset: bool = False
    hung: bool = False


def contradiction(observation: Observation) -> str:
    """Why an echo document cannot be true, or an empty string.

    Catches an echo server that is wrong or of another version: its fields must agree with each other and with the
    probe. Packets, the second witness, show the rest.
    """
    echo = observation.echo or {}
    try:
        reported, raw = parse_address(str(echo["peer_address"])), parse_address(str(echo["peer_address_raw"]))
        local = parse_address(str(echo["local_address"]))
    except (KeyError, ValueError) as broken:
        return f"its document has no valid addresses ({broken})"
    if reported != raw:
        return f"it reports the peer {reported}, but its socket saw {raw}"
    if reported.version != local.version:
        return f"it reports that the peer {reported} reached it at {local}, of another IP family"
    if (echo.get("nonce") or "") != observation.nonce:  # grouped results have none, however few they are
        return f"it answered with the nonce {echo.get('nonce')!r} instead of {observation.nonce!r}"
    return ""


def reported_address(observation: Observation, header: Claim) -> str | None:
    """The client's address as a proxy reports it out of band, or None.

    In X-Forwarded-For only the last entry comes from the proxy; those before it may come from the client.
    """
    echo = observation.echo or {}
    if header is Claim.FORWARDED_FOR:
        lines = echo.get("x_forwarded_for") or []
        return str(lines[-1]).rpartition(",")[2].strip() if lines else None
    proxied = echo.get("proxy_protocol") or {}
    wanted = 1 if header is Claim.PROXY_V1 else 2
    return proxied.get("source_address") if proxied.get("version") == wanted else None


def read(path: Path, observation: Observation, topology: Topology) -> Reading:
    """Read one observation."""
    outcome, count = observation.outcome, observation.count
    if outcome is Outcome.ANSWERED:
        return _read_answer(path, observation, topology)
    if outcome is Outcome.REFUSED:
        return Reading(frozenset({AddressClass.REFUSED}), "refused", count=count)
    if outcome is Outcome.TIMEOUT and observation.connected is not None:
        fault = "the connection was accepted, then no data came"
        other = frozenset({AddressClass.OTHER})
        return Reading(other, "accepted, then silence", product_fault=fault, count=count, hung=True)
    if outcome in (Outcome.TIMEOUT, Outcome.UNREACHABLE):
        words = "no answer" if outcome is Outcome.TIMEOUT else "unreachable"
        return Reading(frozenset({AddressClass.DROPPED}), words, count=count)
    if outcome is Outcome.ERROR:
        why = observation.detail or "no reason given"
        return Reading(frozenset(), f"probe failed: {why}", harness_fault=f"the prober failed: {why}", count=count)
    fault = {
        Outcome.RESET: "the connection was established, then reset",
        Outcome.INVALID: "something other than the echo server answered",
        Outcome.MISDIRECTED: "the answer came from another address than the one that was dialled",
    }[outcome]
    return Reading(
        frozenset({AddressClass.OTHER}),
        outcome.value,
        f"{fault} {observation.detail}".strip(),
        count=count,
        misdirected=outcome is Outcome.MISDIRECTED,
        reset=outcome is Outcome.RESET,
    )


def _read_answer(path: Path, observation: Observation, topology: Topology) -> Reading:
    count = observation.count
    lie = contradiction(observation)
    if lie:
        words = f"the echo server contradicts itself: {lie}"
        return Reading(frozenset(), words, harness_fault=f"echo server: {lie}", count=count)
    assert observation.seen is not None
    seen = observation.seen[0]
    origin = origin_of(topology, path, seen, observation.source[0] if observation.source else None)
    words, fault = f"{parse_address(seen)} = {origin.owner}", ""
    if path.entry.kind is EntryKind.NODE_LISTENER:
        dialled, answered = topology.roles.get(path.entry.role) if path.entry.role else None, observation.node
        if dialled != answered:
            fault = f"the listener of node {dialled} was dialled, node {answered} answered"
            words = f"{words}, {fault}"
    elif observation.backend is None:
        return Reading(frozenset(), words, harness_fault="the echo server does not know its own pod", count=count)
    elif observation.backend not in backends_of(path.service):
        fault = f"answered by pod {observation.backend}, not a backend of this Service"
        words = f"{words}, {fault}"
    if not fault and family_of(seen) is not path.family:
        fault = f"the backend saw an {family_of(seen)} address on an {path.family} path"
    return Reading(origin.classes, words, fault, count=count)


# -------------------------------------------------------------------------------------- packets and connection tracking
MOST_CONTRADICTED = 1
"""The most sampled connections of one kind on which the echo server and the packets may contradict each other.

One may be set aside if they agree on another one. Two are no accident: packets are matched by the nonce, so either the
echo server or the captures are wrong, and the other connections cannot be trusted either.
"""

NOTHING_TRACKED = Tracked(0)


def contradicted(witnesses: Sequence[Witness]) -> tuple[list[Witness], str]:
    """Those that contradict the echo server, and why none of the connections can be trusted.

    The second is empty if those few can be set aside.
    """
    found = [each for each in witnesses if each.contradiction]
    agreed = any(each.seen and not each.contradiction for each in witnesses)
    broken = bool(found) and (not agreed or len(found) > MOST_CONTRADICTED)
    return found, found[0].contradiction if broken else ""


def say_delivered(witnesses: Sequence[Witness], answered: Collection[int] = ()) -> str:
    """A sentence if packets of a connection reached a backend although it got no answer; else empty.

    Args:
        witnesses: those of connections that must get no answer.
        answered: the numbers of those that got one.
    """
    for each in witnesses:
        if each.delivered and each.seq not in answered:
            view = "; ".join(" ".join(line.split()) for line in each.words.splitlines())
            return f"no answer, but packets reached a backend: {view}"
    return ""


def untrue(tracked: Tracked) -> str:
    """Why none of a path's connections can be trusted, as connection tracking contradicts too many; else empty."""
    if tracked.contradicted > MOST_CONTRADICTED or (tracked.contradicted and not tracked.agreed):
        return tracked.words
    return ""


def say_witnesses(witnesses: Sequence[Witness], blind: str, total: int, tracked: Tracked = NOTHING_TRACKED) -> str:
    """The witnesses behind a verdict, as text; packets are captured for the sampled connections only."""
    found, doubtful = sum(each.seen for each in witnesses), sum(bool(each.doubt) for each in witnesses)
    packets = [f"{PACKETS} {found} of {total} connections"] if found else []
    tables = [f"connection tracking of {tracked.agreed} of {total} connections"] if tracked.agreed else []
    if found:
        why = [f"the packets of {doubtful} more cannot be distinguished from others" if doubtful else "", blind]
    elif blind:
        why = [blind]
    elif doubtful:
        why = [f"the packets of {doubtful} of its connections cannot be distinguished from others"]
    elif witnesses:
        why = ["the captured packets do not show the way to a backend"]
    else:
        why = ["no packets of its connections were captured"]
    if not packets and not tables:
        return f"echo server only: {why[0]}"
    against = f"tracking contradicts {tracked.contradicted} more: {tracked.words}" if tracked.contradicted else ""
    heard = ", ".join(["echo server", *packets, *tables][:-1]) + f", and {[*packets, *tables][-1]}"
    return "; ".join(filter(None, (heard, *why, against)))
