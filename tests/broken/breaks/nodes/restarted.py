"""What goes wrong once a node was restarted, or while it has other addresses."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.checks.disruption import Disruption
from esipp.disruption.marks import Mark
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.subject import At, Claim, service_of
from tests.broken.breakage import Break, Group
from tests.broken.breaks.nodes.returned import OF_BEFORE
from tests.broken.during import (
    at_other_node,
    effect_of,
    marked,
    of_change,
    once_so,
    over,
    run_of_change,
    while_so,
)
from tests.broken.lost import node_port_dropped
from tests.broken.matching import DROP
from tests.broken.nodes import Live, Nodes, Placed, Rule

RESTARTED, READDRESSED = "node-restarted", "node-readdressed-endpoint"


def without_a_service(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node that was restarted has no rules for one Service."""

    def rules(live: Live) -> Iterator[Rule]:
        for port in live.service(service_of(RESTARTED))["spec"]["ports"]:
            yield from node_port_dropped(port, (at_other_node(nodes),))

    return once_so(nodes, (service_of(RESTARTED),), over(lambda: marked(nodes, Mark.OFF)), rules)


def sent_to_its_old_address(nodes: Nodes) -> AbstractContextManager[Placed]:
    """What a node without endpoints sends to the pods of a node that has other addresses is lost."""

    def rules(live: Live) -> Iterator[Rule]:
        service = live.service(service_of(READDRESSED))
        for address in dict.fromkeys(address for _, address, _, _ in live.targets(service)):
            yield Rule(family_of(address), "FORWARD", ("--destination", address, *DROP), (nodes.bare,), "filter")

    has_others = effect_of(Disruption.NODE_READDRESSED, at_other_node)
    return while_so(nodes, (service_of(READDRESSED),), has_others(nodes), rules)


BREAKS = (
    Break(
        "service-gone-after-a-restart-of-a-node",
        Group.NODES,
        "a node that was restarted drops what comes to the nodePorts of one Service",
        run_of_change(RESTARTED),
        without_a_service,
        lambda check: of_change(check, RESTARTED, At.OTHER_NODE, Claim.SERVED),
        names=OF_BEFORE,
        at_once=False,
    ),
    Break(
        "pods-lost-with-the-address-of-their-node",
        Group.NODES,
        "a node without endpoints goes on sending packets for pods to the address that their node has lost",
        run_of_change(READDRESSED),
        sent_to_its_old_address,
        lambda check: (
            of_change(check, READDRESSED, At.BARE_NODE, Claim.SERVED)
            or of_change(check, READDRESSED, At.CLUSTER_IP, Claim.SERVED)
        ),
        names="to an address that the node has lost",
        at_once=False,
    ),
)
