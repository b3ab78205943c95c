"""Connections to a Service's second port are masqueraded, those to its other ports are not."""

from contextlib import AbstractContextManager

from esipp.checks.model import Family, Port
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import NAMES_THE_NODE
from tests.broken.matching import MASQUERADE, came_by, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule

SECOND = Port.NAMED


def masquerading_second_ports(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        found = []
        for service in live.services:
            spec = service["spec"]
            for port in (each for each in spec["ports"] if each["name"].startswith(f"{SECOND.label}-")):
                for address in (*spec["clusterIPs"], *vips(service)):
                    words = (*came_by(port, port["port"], address), *MASQUERADE)
                    found.append(Rule(Family.IPV6 if ":" in address else Family.IPV4, "POSTROUTING", words))
                words = (*came_by(port, port["nodePort"]), *MASQUERADE)
                found += [Rule(family, "POSTROUTING", words) for family in Family]
        return found

    return nodes.live(rules)


BREAK = Break(
    "source-rewritten-second-port",
    Group.SOURCE,
    "every node masquerades connections to a Service's second port, but not to its other ports",
    RunOptions(("source_ip",)),
    masquerading_second_ports,
    path_checks(lambda path_check: path_check.subject.path.port is SECOND),
    names=NAMES_THE_NODE,
    scoped=True,
)
