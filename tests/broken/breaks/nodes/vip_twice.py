"""Several nodes answer on their link (ARP, NDP) that they have a VIP; or one node does so twice.

A node answers for each address of its interface. kube-vip puts VIPs there, and leaves them there when it loses them
while the network is away (kube-vip/kube-vip#996).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, Way, What
from esipp.checks.disruption import Disruption
from esipp.checks.model import Balancer, Family, Protocol, Role, TrafficPolicy
from esipp.judging.topology import family_of
from esipp.scenarios.continuity.objects import service_name
from esipp.scenarios.every_node.evidence import vip_service
from esipp.scenarios.every_node.subject import EveryNode, Requires
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.during import at_endpoint_node, end_of, entered_once_so, run_of
from tests.broken.matching import vips
from tests.broken.nodes import LONGEST, Live, Nodes, Placed

OWN_VIPS = tuple(Way(Balancer.DEFAULT.value, policy) for policy in TrafficPolicy)
AT_REST = RunOptions(("nodes",), (".one-node", ".every-endpoint"))
WHILE_QUIET = RunOptions(("continuity",), (f"continuity.{Phase.QUIET.value}.{Balancer.DEFAULT.value}.",))
STATIC = tuple(vip_service(policy, Protocol.TCP) for policy in TrafficPolicy)
LEASE = f"valid_lft {LONGEST:.0f} preferred_lft 0"
"""After this time, the node has lost the address by itself, whatever happens to the test; it dials from no such one."""

LENGTHS = {Family.IPV4: "32", Family.IPV6: "128 nodad"}
ANNOUNCED = re.compile(r'announcing from node "([^"]+)"')

Having = Callable[[Nodes, Live], Mapping[str, Iterable[str]]]
"""The addresses that each node gets."""


@contextmanager
def on_interfaces(nodes: Nodes, addresses: Mapping[str, Iterable[str]]) -> Iterator[None]:
    """Nodes have addresses on their interface, too; always taken away again."""

    def each(node: str, does: str, ends: Callable[[Family], str]) -> str:
        own = ((family_of(address), address) for address in addresses.get(node, ()))
        return " && ".join(f"ip addr {does} {address}/{ends(family)}" for family, address in own)

    try:
        nodes.on_nodes(lambda node: each(node, "replace", lambda family: f"{LENGTHS[family]} dev eth0 {LEASE}"))
        yield
    finally:
        gone = {family: f"{length.split()[0]} dev eth0" for family, length in LENGTHS.items()}
        nodes.on_nodes(lambda node: each(node, "del", lambda family: gone[family]).replace(" && ", "; ") or "true")


def by_both(nodes: Nodes, live: Live, services: Iterable[str]) -> dict[str, list[str]]:
    """Two nodes with endpoints have the VIPs, one of which may be the one that announces them."""
    every = [vip for name in services for vip in vips(live.service(name))]
    return {nodes.roles[role]: every for role in (Role.ENDPOINT_NODE, Role.OTHER_NODE)}


def by_who_announces(nodes: Nodes, live: Live, services: Iterable[str]) -> dict[str, list[str]]:
    """The node that announces a VIP has it on its interface as well."""
    found: dict[str, list[str]] = {}
    for name in services:
        found.setdefault(_announcer(nodes, live, name), []).extend(vips(live.service(name)))
    return found


def _announcer(nodes: Nodes, live: Live, service: str) -> str:
    """The node from which MetalLB announces a Service, by its event."""
    node = ""

    def look() -> Reading:
        nonlocal node
        events = nodes.cluster.list(f"/api/v1/namespaces/{live.namespace}/events")
        events = [each for each in events if each["involvedObject"]["name"] == service]
        events.sort(key=lambda each: each.get("lastTimestamp") or each["metadata"]["creationTimestamp"])
        named = [found[1] for each in events if (found := ANNOUNCED.search(each.get("message") or ""))]
        node = named[-1] if named else ""
        return Reading(bool(node), f"{len(events)} events")

    waited = converge(look, Budget("a speaker to say that it announces the VIP", 20.0, need=1))
    assert waited.held, f"{service}: {waited}"
    return node


def from_set_up_on(
    having: Callable[[Nodes, Live, Iterable[str]], Mapping[str, Iterable[str]]], services: tuple[str, ...]
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    return lambda nodes: nodes.once_arranged(lambda live: on_interfaces(nodes, having(nodes, live, services)))


def once_back(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Two nodes have the VIPs from when the endpoint node is back on."""
    names = [service_name(way) for way in OWN_VIPS]
    is_back = end_of(Disruption.CUT_OFF, at_endpoint_node)(nodes)
    return entered_once_so(nodes, names, is_back, lambda live: on_interfaces(nodes, by_both(nodes, live, names)))


def one_node(check: Check, phase: Phase) -> bool:
    return is_about(check, Continuity) and (check.subject.phase, check.subject.what) == (phase, What.ONE_NODE)


def at_rest(check: Check) -> bool:
    return is_about(check, EveryNode) and check.subject.requires is Requires.ONE_NODE


def through_vips(check: Check) -> bool:
    """New connections may reach either node, and what is open breaks when that changes."""
    return is_about(check, Continuity) and check.subject.way in OWN_VIPS and check.subject.what is not What.ONE_NODE


TWICE = "several nodes answer for one VIP"

BREAKS = (
    Break(
        "vip-kept-by-a-node-that-was-cut-off",
        Group.NODES,
        "both nodes with endpoints answer on their link for the VIPs of the cluster's own load balancer, from the "
        "return of the endpoint node to the network on",
        run_of(Phase.CUT_OFF),
        once_back,
        lambda check: one_node(check, Phase.CUT_OFF),
        names=TWICE,
        may=lambda check: by_chance(check) or through_vips(check),
        at_once=False,
    ),
    Break(
        "vip-at-two-nodes",
        Group.NODES,
        "both nodes with endpoints answer on their link for VIPs of the cluster's own load balancer",
        AT_REST,
        from_set_up_on(by_both, STATIC),
        at_rest,
        names=TWICE,
    ),
    Break(
        "vip-at-two-nodes-all-the-time",
        Group.NODES,
        "both nodes with endpoints answer on their link for VIPs while nothing changes",
        WHILE_QUIET,
        from_set_up_on(by_both, tuple(service_name(way) for way in OWN_VIPS)),
        lambda check: one_node(check, Phase.QUIET),
        names=TWICE,
        may=through_vips,
        at_once=False,
    ),
    Break(
        "vip-answered-twice-by-its-node",
        Group.HARMLESS,
        "the node that announces a VIP has it on its interface, too, so that it answers each question twice",
        AT_REST,
        from_set_up_on(by_who_announces, STATIC),
        no_check,
    ),
)
