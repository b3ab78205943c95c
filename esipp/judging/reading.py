"""What observations show, and what packets and connection tracking say of the same connections. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from esipp.checks.model import AddressClass, Claim, EntryKind, Path, backends_of
from esipp.checks.observation import Observation, Outcome, Tracked, Witness
from esipp.judging.topology import Topology, family_of, parse_address


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
    origin = topology.origin(path, seen, observation.source[0] if observation.source else None)
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
    packets = [f"packets of {found} of {total} connections"] if found else []
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
