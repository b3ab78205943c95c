"""A VIP that two nodes have once one of them was cut off."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, What
from esipp.scenarios.continuity.objects import service_name
from tests.broken.breakage import Break, Group
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.breaks.nodes.returned import AT_OWN_VIP, has_returned
from tests.broken.during import LOOKS, of_phase, run_of
from tests.broken.matching import vips
from tests.broken.nodes import Nodes, Placed
from tests.broken.policy_changes import in_background, set_up_run
from tests.broken.shells import shell

EVERY = 1.0
"""Seconds between announcements: the other node answers requests for the VIP, too."""

TAKE = "ip address replace {vip}/{length} dev eth0 valid_lft 900 preferred_lft 0 {as_is}"
"""The node drops the address by itself if nobody else does, and never sends from it. That another node has the address
must not keep it from having it (``nodad``)."""
LEAVE = "ip address delete {vip}/{length} dev eth0 || true"
ANNOUNCING = ("ipv4/conf/eth0/arp_notify", "ipv6/conf/eth0/ndisc_notify")
"""Settings by which the kernel announces all addresses of an interface whose link-layer address is set."""
ANNOUNCE = "ip link set dev eth0 address $(cat /sys/class/net/eth0/address)"


def _with(command: str, addresses: list[str]) -> str:
    each = [(vip, 128, "nodad") if ":" in vip else (vip, 32, "") for vip in addresses]
    return "; ".join(command.format(vip=vip, length=length, as_is=as_is) for vip, length, as_is in each)


def _announcing(value: int) -> str:
    return "; ".join(f"echo {value} >/proc/sys/net/{name}" for name in ANNOUNCING)


@contextmanager
def taken_by_another_node(nodes: Nodes) -> Iterator[Placed]:
    """The node without endpoints has the VIP of a Local Service, too, from the endpoint node's return on.

    It claims it by gratuitous ARP and unsolicited neighbour advertisements, as an agent does that still believes itself
    to be the leader.
    """
    placed, name, returned, node = Placed(), service_name(AT_OWN_VIP), has_returned(nodes), nodes.bare
    addresses: list[str] = []

    def work(ended: Event) -> None:
        live = set_up_run(nodes, {name}, ended)
        if live is None:
            return
        while not returned():
            if ended.wait(LOOKS):
                return
        addresses.extend(vips(live.service(name)))
        shell(node).run(f"set -e; {_with(TAKE, addresses)}; {_announcing(1)}")
        placed.at = time.time()
        while True:
            shell(node).run(ANNOUNCE)
            if ended.wait(EVERY):
                return

    try:
        with in_background(work):
            yield placed
    finally:
        if addresses:
            shell(node).run(f"{_with(LEAVE, addresses)}; {_announcing(0)}")


def at_the_vip(check: Check) -> bool:
    """All that is sent to the VIP, after the return and while nothing changes."""
    return is_about(check, Continuity) and check.subject.way == AT_OWN_VIP


BREAK = Break(
    "vip-at-two-nodes-after-one-was-cut-off",
    Group.NODES,
    "from the return of the endpoint node to the network on, a node without endpoints claims a Local Service's VIP as "
    "well, and drops what comes to it",
    run_of(Phase.CUT_OFF),
    taken_by_another_node,
    lambda check: of_phase(check, Phase.QUIET, AT_OWN_VIP, What.NO_LOSS),
    names="to a node that cannot serve them",
    may=lambda check: by_chance(check) or at_the_vip(check),
    at_once=False,
)
