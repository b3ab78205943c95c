"""A load balancer in two zones announces two addresses of each family for a Service; the second one is wrong."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Family, Protocol, TrafficPolicy
from esipp.judging.topology import family_of
from esipp.scenarios.every_node.evidence import vip_service
from esipp.scenarios.every_node.subject import Entrance, EveryNode, Requires
from tests.broken.balancing import OWN, PROFILE, fault
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.matching import MASQUERADE, came_by, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule

IN_TWO_ZONES = RunOptions(("nodes",), own=(*OWN, "--addresses", "2"), options=PROFILE)
DIFFERS = r"1 of \d+ targets differ"


def at_every_address(check: Check) -> bool:
    return is_about(check, EveryNode) and check.subject.requires is Requires.EVERY_ADDRESS


def at_every_local_address(check: Check) -> bool:
    return at_every_address(check) and is_about(check, EveryNode) and check.subject.policy is TrafficPolicy.LOCAL


def shares(check: Check) -> bool:
    """Checks of shares at VIPs: fewer connections arrive."""
    return is_about(check, EveryNode) and check.subject.entrance is Entrance.VIP


def rewritten(live: Live) -> Iterator[Rule]:
    """Nodes masquerade what came to the second address of Local Services."""
    for protocol in Protocol:
        service = live.service(vip_service(TrafficPolicy.LOCAL, protocol))
        for family in Family:
            for address in [vip for vip in vips(service) if family_of(vip) is family][1:]:
                for port in service["spec"]["ports"]:
                    yield Rule(family, "POSTROUTING", (*came_by(port, port["port"], address), *MASQUERADE))


def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
    return nodes.live(rewritten)


BREAKS = (
    Break(
        "balancer-second-address-leads-nowhere",
        Group.BALANCERS,
        "a load balancer announces two addresses of each family, and drops what comes to the second",
        IN_TWO_ZONES,
        fault("one-address"),
        at_every_address,
        names=DIFFERS,
        may=shares,
    ),
    Break(
        "balancer-second-address-rewrites",
        Group.BALANCERS,
        "nodes masquerade what comes to the second announced address of Local Services",
        IN_TWO_ZONES,
        apply,
        at_every_local_address,
        names=DIFFERS,
    ),
)
