"""Witnesses: what packets and nodes say of connections, beside the prober and the echo server. Pure."""

from collections.abc import Collection, Sequence

from esipp.checks.observation import Tracked, Witness

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
