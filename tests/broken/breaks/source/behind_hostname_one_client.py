"""One client's packets through a hostname get an address that nobody has, as a proxy's would; others' do not."""

from contextlib import AbstractContextManager

from esipp.checks.model import Family
from tests.broken.balancing import HOSTNAME_FORWARDER
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.breaks.source.another_client import notices, showing, undecided
from tests.broken.nodes import Nodes, Placed

NOBODYS = {Family.IPV4: ("198.51.100.77",), Family.IPV6: ("2001:db8:77::77",)}
"""Addresses for documentation (RFC 5737, RFC 3849)."""


def showing_nobody(nodes: Nodes) -> AbstractContextManager[Placed]:
    return showing(nodes, lambda _: NOBODYS)


BREAK = Break(
    "hostname-vip-shows-one-client-as-a-proxy-would",
    Group.SOURCE,
    "the load balancer announces a hostname, --provider says nothing, and the endpoint node rewrites one client's "
    "address to one that nobody has",
    RunOptions(("source_ip",), (".outside-1-to-", ".outside-2-to-"), own=HOSTNAME_FORWARDER),
    showing_nobody,
    path_checks(notices),
    names="address is unknown to this run",
    opens=undecided,
)
