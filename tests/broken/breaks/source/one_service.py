"""Connections to one Service are masqueraded, those to other Services are not."""

from contextlib import AbstractContextManager

from esipp.checks.model import Family, Role
from esipp.checks.path import PathCheck
from suites.path_checks import NODE_PORT_LOCAL
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import CLIENT, NAMES_THE_NODE
from tests.broken.matching import MASQUERADE, SENT_ON_HERE, came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import NODE_PORTS, from_the_node


def masquerading_one(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        return [
            Rule(family, "POSTROUTING", (*came_by(port, port["nodePort"]), *SENT_ON_HERE, *MASQUERADE), here)
            for port in live.service(NODE_PORT_LOCAL.slug.replace(".", "-"))["spec"]["ports"]
            for family in Family
        ]

    return nodes.live(rules)


def notices(path_check: PathCheck) -> bool:
    path = path_check.subject.path
    at_its_node_port = path.service == NODE_PORT_LOCAL and path.entry.kind in NODE_PORTS
    here = path.entry.role is Role.ENDPOINT_NODE and not from_the_node(path, Role.ENDPOINT_NODE)
    return at_its_node_port and here and path_check.subject.accept == CLIENT


BREAK = Break(
    "source-rewritten-one-service",
    Group.SOURCE,
    "the endpoint node masquerades connections to the nodePorts of only one Service",
    RunOptions(("source_ip",)),
    masquerading_one,
    path_checks(notices),
    names=NAMES_THE_NODE,
    scoped=True,
)
