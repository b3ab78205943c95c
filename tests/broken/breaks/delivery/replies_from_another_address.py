"""A node answers from another of its addresses than the one dialled."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.model import EntryKind, Family, Path, Role, Vantage
from suites.path_checks import NODE_PORT_LOCAL
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.forwarding import internal_addresses, second_addresses
from tests.broken.nodes import Live, Nodes, Placed, new_mark
from tests.broken.ways import rests_on

TABLES = {Family.IPV4: "ip", Family.IPV6: "ip6"}
AFTER_ALL_NAT = 300
"""The priority of a chain that sees packets as they leave the node: connection tracking changes them at 100."""


@contextmanager
def answering_from_elsewhere(nodes: Nodes, live: Live) -> Iterator[None]:
    """Rules that know no connections: connection tracking would bring a reply back to what it was a reply to."""
    here, mark = nodes.roles[Role.ENDPOINT_NODE], new_mark()
    seconds = second_addresses(nodes, here)
    commands = []
    for family, dialled in internal_addresses(nodes, here).items():
        table = f"{TABLES[family]} {mark}"
        hook = f"{{ type filter hook postrouting priority {AFTER_ALL_NAT}; }}"
        commands += [f"add table {table}", f"add chain {table} out {hook}"]
        for port in live.service(NODE_PORT_LOCAL.slug.replace(".", "-"))["spec"]["ports"]:
            source = f'oifname "eth0" {TABLES[family]} saddr {dialled} {port["protocol"].lower()} sport'
            commands.append(
                f"add rule {table} out {source} {port['nodePort']} {TABLES[family]} saddr set {seconds[family]}"
            )
    script = " && ".join(f"nft {shlex.quote(command)}" for command in commands)
    try:
        nodes.on_nodes(lambda node: script if node == here else "")
        yield
    finally:
        nodes.take_away(mark)


@contextmanager
def replying(nodes: Nodes) -> Iterator[Placed]:
    with nodes.once_arranged(lambda live: answering_from_elsewhere(nodes, live)) as placed:
        yield placed


def spoiled(path: Path) -> bool:
    """Whether the answer leaves the endpoint node for another machine, from the service's nodePort."""
    dialled = path.service == NODE_PORT_LOCAL and path.entry.kind is EntryKind.NODE_PORT
    here = path.entry.role is Role.ENDPOINT_NODE
    elsewhere = path.client.vantage is Vantage.OUTSIDE or path.client.role is not Role.ENDPOINT_NODE
    return dialled and here and elsewhere


BREAK = Break(
    "replies-from-another-address",
    Group.DELIVERY,
    "the endpoint node answers nodePort traffic from another of its addresses than the one dialled",
    RunOptions(("source_ip",)),
    replying,
    path_checks(lambda path_check: spoiled(path_check.subject.path)),
    names="from another address|another route",
    opens=rests_on(spoiled),
    scoped=True,
)
