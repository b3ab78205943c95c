"""What goes wrong while a node has another address."""

from collections.abc import Callable, Iterator

from esipp.checks.check import Check
from esipp.checks.disruption import Disruption
from esipp.checks.model import Role
from esipp.checks.profile import PROXY_PORT
from esipp.disruption.addresses import another
from esipp.scenarios.service_change.subject import At, Claim, Health, service_of
from tests.broken.breakage import Apply, Break, Group
from tests.broken.during import at_endpoint_node, effect_of, of_change, once_so, run_of_change
from tests.broken.forwarding import internal_addresses
from tests.broken.matching import AT_THE_NODE, DROP
from tests.broken.nodes import Live, Nodes, Rule

ADDED, ADDED_LOCAL = "address-added", "address-added-local"


def from_then_on(event: str, made: Callable[[Nodes, Live], Iterator[Rule]]) -> Apply:
    """Rules from when the endpoint node has another address on."""
    has_another = effect_of(Disruption.ADDRESS_ADDED, at_endpoint_node)
    return lambda nodes: once_so(nodes, (service_of(event),), has_another(nodes), lambda live: made(nodes, live))


def dropped_there(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The endpoint node drops what comes to nodePorts at its other address."""
    node, ports = nodes.roles[Role.ENDPOINT_NODE], live.service(service_of(ADDED))["spec"]["ports"]
    for family, address in internal_addresses(nodes, node).items():
        for port in ports:
            to = ("--protocol", port["protocol"].lower(), "--destination", another(address))
            yield Rule(family, "PREROUTING", (*to, "--dport", str(port["nodePort"]), *DROP), (node,), "mangle")


def still_well(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """From now on, the endpoint node's health check always says 200, as a listener does that gets no updates."""
    node, port = nodes.roles[Role.ENDPOINT_NODE], live.service(service_of(ADDED_LOCAL))["spec"]["healthCheckNodePort"]
    to = ("--protocol", "tcp", "--dport", str(port), *AT_THE_NODE, "--jump", "REDIRECT", "--to-ports", str(PROXY_PORT))
    for family in nodes.pod_cidrs:
        yield Rule(family, "PREROUTING", to, (node,))


def of_health(check: Check) -> bool:
    """The health check of the Service at the endpoint node."""
    return of_change(check, ADDED_LOCAL, At.ENDPOINT_NODE, Claim.STATUS) and Health.SERVICE in check.id


BREAKS = (
    Break(
        "added-address-not-served",
        Group.NODES,
        "the endpoint node drops what comes to nodePorts at an address that it gets",
        run_of_change(ADDED),
        from_then_on(ADDED, dropped_there),
        lambda check: of_change(check, ADDED, At.NEW_ADDRESS, Claim.SERVED),
        names="when its service proxy started",
        at_once=False,
    ),
    Break(
        "health-check-forgotten-with-an-added-address",
        Group.NODES,
        "a node's health check goes on to say 200 without endpoints once the node has got another address",
        run_of_change(ADDED_LOCAL),
        from_then_on(ADDED_LOCAL, still_well),
        of_health,
        names="while it must say 503",
        at_once=False,
    ),
)
