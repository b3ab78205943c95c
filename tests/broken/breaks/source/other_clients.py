"""Clients that are no neighbours of the nodes are masqueraded, or one client of several beside each other is."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from ci import network
from ci.access import ClusterAccess
from ci.places import places
from esipp.checks.check import Check, is_about
from esipp.checks.connections import Aspect, OnConnections
from esipp.checks.model import Client, Protocol
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from suites.clients import OUTSIDE_NAT, OUTSIDE_ROUTED, POD_ON_BARE_NODE, SECOND_POD_ON_OTHER_NODE
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.breaks.delivery.connections import first_flows_rewritten
from tests.broken.breaks.delivery.connections import of as of_connections
from tests.broken.forwarding import refused_at_bare_node
from tests.broken.masquerading import CLIENT, NAMES_THE_NODE, changed_into_pod_network, grouped
from tests.broken.matching import MASQUERADE, SENT_ON_HERE
from tests.broken.nodes import Live, Nodes, Placed, Rule

NEIGHBOUR = "0x10000000/0x10000000"
"""The mark of what neighbours of the nodes send."""


def masquerading_all_but_neighbours(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Every node, of what enters the pod network from elsewhere than the nodes' subnet and the pod network."""
    there = ClusterAccess.load(places())
    assert there is not None
    subnets = {family_of(subnet.partition("/")[0]): subnet for subnet in network.subnets(there)}

    def rules(live: Live) -> list[Rule]:
        made = []
        for family, own in grouped(live.backends).items():
            marking = ("--source", subnets[family], "--jump", "MARK", "--set-xmark", NEIGHBOUR)
            made.append(Rule(family, "POSTROUTING", marking, table="mangle"))
            others = ("!", "--source", nodes.pod_cidrs[family], "--match", "mark", "!", "--mark", NEIGHBOUR)
            made += [Rule(family, "POSTROUTING", ("--destination", each, *others, *MASQUERADE)) for each in own]
        return made

    return nodes.live(rules)


def masquerading_nat(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Every node, of what the client behind NAT sends to pods."""

    def rules(live: Live) -> list[Rule]:
        return [
            Rule(family, "POSTROUTING", ("--source", address, "--destination", nodes.pod_cidrs[family], *MASQUERADE))
            for family, own in grouped(filter(None, live.addresses_of(OUTSIDE_NAT.name))).items()
            for address in own
        ]

    return nodes.live(rules)


def masquerading_one_pod(
    nodes: Nodes, client: Client = SECOND_POD_ON_OTHER_NODE, *match: str
) -> AbstractContextManager[Placed]:
    """Every node, of what one pod, by default the second of two on a node, sends by a Service."""

    def rules(live: Live) -> list[Rule]:
        pods = [pod for pod in live.pods if pod["metadata"]["name"] == client.name]
        own = grouped(address["ip"] for pod in pods for address in pod["status"]["podIPs"])
        return [
            Rule(
                family,
                "POSTROUTING",
                ("--source", address, "--destination", nodes.pod_cidrs[family], *match, *SENT_ON_HERE, *MASQUERADE),
            )
            for family, addresses in own.items()
            for address in addresses
        ]

    return nodes.live(rules)


def of(client: Client) -> Callable[[PathCheck], bool]:
    """The checks that want the own address of this client outside."""
    return lambda check: changed_into_pod_network(check) and check.subject.path.client == client


def of_the_pod(check: PathCheck) -> bool:
    return check.subject.path.client == SECOND_POD_ON_OTHER_NODE and check.subject.accept == CLIENT


def masquerading_sctp_at_the_bare_node(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Every node, of what the pod on the bare node sends by a Service over SCTP."""
    return masquerading_one_pod(nodes, POD_ON_BARE_NODE, "--protocol", "sctp")


def of_sctp_at_the_bare_node(check: PathCheck) -> bool:
    path = check.subject.path
    return (path.client, path.protocol, check.subject.accept) == (POD_ON_BARE_NODE, Protocol.SCTP, CLIENT)


def together(check: Check) -> bool:
    """The checks of several paths together, of which some are not as required."""
    return is_about(check, OnConnections)


OURS = RunOptions(("vantages",))
BREAKS = (
    Break(
        "first-flows-rewritten-off-subnet",
        Group.SOURCE,
        "every node masquerades the first two flows of each client to each nodePort, and only other clients than the "
        "nodes' neighbours are asked",
        OURS,
        first_flows_rewritten,
        of_connections(Aspect.FIRST, Protocol.TCP, Protocol.UDP),
        names="another way than those after them",
        may=path_checks(refused_at_bare_node),
        unsure=together,
    ),
    Break(
        "source-rewritten-off-subnet",
        Group.SOURCE,
        "every node masquerades traffic to pods from clients in other subnets than its own",
        OURS,
        masquerading_all_but_neighbours,
        path_checks(of(OUTSIDE_ROUTED)),
        names=NAMES_THE_NODE,
        unsure=together,
        scoped=True,
        fixed=True,
    ),
    Break(
        "source-rewritten-client-behind-nat",
        Group.SOURCE,
        "every node masquerades traffic to pods from the one client outside that is behind NAT",
        OURS,
        masquerading_nat,
        path_checks(of(OUTSIDE_NAT)),
        names=NAMES_THE_NODE,
        unsure=together,
        scoped=True,
    ),
    Break(
        "source-rewritten-one-pod-of-two",
        Group.SOURCE,
        "every node masquerades traffic of one of two pods on a node, if it goes by a Service",
        OURS,
        masquerading_one_pod,
        path_checks(of_the_pod),
        names=NAMES_THE_NODE + "|masquerades traffic",
        unsure=together,
        scoped=True,
    ),
    Break(
        "source-rewritten-sctp-at-bare-node",
        Group.SOURCE,
        "every node masquerades SCTP of the pod on the node without local endpoints, if it goes by a Service: a pair "
        "that only the covering design asks",
        OURS,
        masquerading_sctp_at_the_bare_node,
        path_checks(of_sctp_at_the_bare_node),
        names=NAMES_THE_NODE + "|masquerades traffic",
        unsure=together,
        scoped=True,
    ),
)
