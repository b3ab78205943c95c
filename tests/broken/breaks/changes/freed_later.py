"""Nodes that serve what a deleted Service had, long after its end: rules come back, or flows are never forgotten."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from esipp.base.json import Json
from esipp.checks.model import Family
from esipp.checks.stream import Reuse
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.subject import At, Claim, service_of
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.changes.freed import AT_NODES, at_node_ports, at_ports_of, lives_on, of_stream
from tests.broken.breaks.changes.not_followed import Make, once
from tests.broken.forwarding import handed_on
from tests.broken.matching import AT_THE_NODE, MASQUERADE, came_by, hands_to, to_port, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule

EVENT, VIP_EVENT = "freed", "freed-vip"
RUN = RunOptions(("changes",), (f"changes.{EVENT}.", "changes.taken-over."), options=("--long",))

EVER_SEEN = (
    *("--match", "hashlimit", "--hashlimit-above", "1/day", "--hashlimit-burst", "1"),
    *("--hashlimit-mode", "srcip,srcport", "--hashlimit-htable-expire", "600000", "--hashlimit-name", "esipp-ever"),
)
"""Flows from an address and port that had another one in this run, however long ago."""

LEASE = 240
"""Seconds for which the node keeps the VIPs at most: longer than the event lasts from then on."""

FREED_NODES = (*AT_NODES, At.OTHER_NODE, At.CONTROL_PLANE)


def gone_for(event: str, seconds: float) -> Callable[[Json], bool]:
    """A test whether the list of Services has not had an event's for so long."""
    missed: list[float] = []

    def changed(services: Json) -> bool:
        if all(each["metadata"]["name"] != service_of(event) for each in services["items"]):
            missed.append(time.monotonic())
        return bool(missed) and missed[-1] - missed[0] >= seconds

    return changed


def after(seconds: float, make: Make, event: str = EVENT) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Rules, made from an event's Service as it was, so many seconds after it is gone."""

    def made(nodes: Nodes, live: Live, _: Json) -> Iterator[Rule]:
        yield from make(nodes, live, live.service(service_of(event)))

    return lambda nodes: once(event, gone_for(event, seconds), made, watched="")(nodes)


def served_over_tcp(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """Nodes send what comes to the nodePort over TCP to the pod."""
    for port, address, _, target in live.targets(service):
        if port["protocol"] == "TCP":
            yield from lives_on(port, address, target, nodes)


def never_forgets(port: dict[str, int], address: str, target: int, nodes: Nodes) -> Iterator[Rule]:
    """Nodes send a flow on to its pod for ever."""
    first, *others = handed_on(port, address, target, True, nodes.containers)
    words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *EVER_SEEN, *hands_to(address, target))
    yield Rule(family_of(address), first.chain, words, first.nodes)
    yield from others


@contextmanager
def vip_comes_back(nodes: Nodes) -> Iterator[Placed]:
    """A node has the VIPs of a deleted Service, and serves them. They expire by themselves."""
    taken: list[str] = []

    def made(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
        taken.extend(vips(service))
        _addresses(nodes, "replace", taken, f"valid_lft {LEASE} preferred_lft 0")  # never a source
        for port, address, _, target in live.targets(service):
            for vip in (each for each in taken if family_of(each) is family_of(address)):
                words = (*to_port(port), "--destination", vip, *hands_to(address, target))
                yield Rule(family_of(vip), "PREROUTING", words, (nodes.bare,))
                yield Rule(
                    family_of(vip), "POSTROUTING", (*came_by(port, port["port"], vip), *MASQUERADE), (nodes.bare,)
                )

    try:
        with after(60.0, made, VIP_EVENT)(nodes) as placed:
            yield placed
    finally:
        _addresses(nodes, "del", taken, "|| true")


def _addresses(nodes: Nodes, how: str, addresses: list[str], more: str) -> None:
    """Give addresses to the node without endpoints, or take them away."""

    def line(address: str) -> str:
        length, quick = (32, "") if family_of(address) is Family.IPV4 else (128, "nodad" if how == "replace" else "")
        return f"ip address {how} {address}/{length} dev eth0 {quick} {more}"

    nodes.on_nodes(lambda node: "\n".join(map(line, addresses)) if node == nodes.bare else "")


BREAKS = (
    Break(
        "freed-vip-comes-back-after-a-minute",
        Group.CHANGES,
        "a node serves the VIP of a deleted Service again, a minute after its end, and says that the VIP is its own",
        RunOptions(("changes",), (f"changes.{VIP_EVENT}.", "changes.taken-over."), options=("--long",)),
        vip_comes_back,
        of_stream(VIP_EVENT, "tcp-new", claims=(Claim.GONE,)),
        names="keeps the rules of a deleted Service",
        at_once=False,
        scoped=True,
    ),
    Break(
        "freed-node-port-served-again-after-a-minute",
        Group.CHANGES,
        "nodes serve the nodePort of a deleted Service again over TCP, a minute after its end",
        RUN,
        after(60.0, served_over_tcp),
        of_stream(EVENT, "tcp-new", claims=(Claim.GONE,), at=FREED_NODES),
        names="keeps the rules of a deleted Service",
        may=of_stream(EVENT, "tcp-port", claims=(Claim.GONE,)),
        at_once=False,
        scoped=True,
    ),
    Break(
        "freed-node-port-never-forgets-a-flow",
        Group.CHANGES,
        "nodes send what comes from a used UDP port to the nodePort of a deleted Service on to its pod, for ever",
        RUN,
        at_ports_of(EVENT, "UDP", never_forgets),
        of_stream(EVENT, "udp-idle", claims=(Claim.FORGOTTEN,), at=FREED_NODES),
        names="had the time to forget the flow",
        # new sockets may get a port that another one had: of 400 random ones, two are likely the same
        may=at_node_ports(EVENT, Reuse.NEW, protocol="UDP", claims=(Claim.GONE,)),
        at_once=False,
        scoped=True,
    ),
)
