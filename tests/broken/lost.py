"""Rules that lose requests to a Service: packets to its addresses are dropped, or connections end."""

from collections.abc import Iterable, Iterator, Mapping

from esipp.base.json import Json
from esipp.checks.model import Family
from esipp.judging.topology import family_of
from tests.broken.matching import AT_THE_NODE, DROP, came_by, to_port
from tests.broken.nodes import Rule

RESET = ("--jump", "REJECT", "--reject-with", "tcp-reset")


def nobody_takes(addresses: Iterable[str]) -> list[Rule]:
    """All nodes drop what is sent to these addresses."""
    return [Rule(family_of(each), "PREROUTING", ("--destination", each, *DROP), (), "mangle") for each in addresses]


def node_port_dropped(port: Json, there: tuple[str, ...] = (), families: Iterable[Family] = Family) -> Iterator[Rule]:
    """Nodes, or all, drop what comes to a nodePort at any of their addresses."""
    words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *DROP)
    return (Rule(family, "PREROUTING", words, there, "mangle") for family in families)


def connections_ended(port: Json, there: tuple[str, ...], ends: Mapping[str, tuple[str, ...]]) -> Iterator[Rule]:
    """Nodes drop or reset connections that they send on from a nodePort, as ``ends`` says of each state of one."""
    for family in Family:
        for state, end in ends.items():
            own = (*came_by(port, port["nodePort"]), "--ctdir", "ORIGINAL", "--ctstate", state)
            yield Rule(family, "FORWARD", (*own, *end), there, "filter")
