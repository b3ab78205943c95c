"""Nodes that do not follow EndpointSlices that users write; harmless: an endpoint without nodeName is served."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL
from esipp.checks.model import Family, Role
from esipp.scenarios.service_change.subject import At, Claim, Pods, service_of
from tests.broken.breakage import Break, Group, no_check
from tests.broken.breaks.changes.freed import of_stream, run_of, stays_at_its_node
from tests.broken.matching import AT_THE_NODE, DROP, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule

EVENT, NAMELESS = "endpoint-slices", "endpoint-without-node"


def to_the_first_pod(live: Live, event: str) -> Iterator[tuple[Json, str, int]]:
    """Each port of an event's Service, with each address of the first pod: port, address, target port."""
    first = [pod for pod in live.pods if pod["metadata"]["name"] in Pods.FIRST.names]
    spec = {**live.service(service_of(event))["spec"], "selector": {RUN_LABEL: live.run}}
    for port, address, _, target in Live(live.run, first, live.services).targets({"spec": spec}):
        yield port, address, target


def keeping_the_first(event: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """The endpoint node sends TCP connections to the first pod for ever."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def made(live: Live) -> Iterator[Rule]:
            for port, address, target in to_the_first_pod(live, event):
                if port["protocol"] == "TCP":
                    yield from stays_at_its_node(port, address, target, nodes)

        return nodes.live(made)

    return apply


def dropped_at(role: Role, service: str, *match: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """A node drops TCP connections to a Service's nodePort, or those of them that match."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def made(live: Live) -> Iterator[Rule]:
            for port in live.service(service)["spec"]["ports"]:
                words = (*to_port(port, port["nodePort"]), *match, *AT_THE_NODE, *DROP)
                for family in Family if port["protocol"] == "TCP" else ():
                    yield Rule(family, "PREROUTING", words, (nodes.roles[role],), "mangle")

        return nodes.live(made)

    return apply


BREAKS = (
    Break(
        "own-slices-lead-to-the-endpoint-of-before",
        Group.CHANGES,
        "a node goes on sending TCP connections to the endpoint that a user's EndpointSlice had first",
        run_of(EVENT),
        keeping_the_first(EVENT),
        of_stream(EVENT, "tcp-new", claims=(Claim.SERVED, Claim.GONE), at=(At.ENDPOINT_NODE,)),
        names="serve endpoints of a Service without a selector|whose nodeName is not its own",
        at_once=False,
        scoped=True,
    ),
    Break(
        "node-that-a-slice-names-does-not-serve",
        Group.CHANGES,
        "a node drops TCP connections to a Local Service although the nodeName in a user's EndpointSlice is its own",
        run_of(EVENT),
        dropped_at(Role.BARE_NODE, service_of(EVENT)),
        of_stream(EVENT, "tcp-new", claims=(Claim.SERVED,), at=(At.BARE_NODE,)),
        names="find by their nodeName",
        at_once=False,
        scoped=True,
    ),
    Break(
        "endpoint-without-node-name-served",
        Group.HARMLESS,
        "a node serves, under Local, an endpoint without nodeName in a user's EndpointSlice",
        run_of(NAMELESS),
        keeping_the_first(NAMELESS),
        no_check,
        at_once=False,
        scoped=True,
    ),
)
