"""Harmless: nodes refuse connections to the nodePort of a Service without endpoints by a reset, and not by ICMP."""

from contextlib import AbstractContextManager

from esipp.checks.model import Family
from esipp.scenarios.service_change.subject import service_of
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.matching import AT_THE_NODE, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule


def resetting(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        ports = live.service(service_of("scaled-to-zero"))["spec"]["ports"]
        reset = ("--jump", "REJECT", "--reject-with", "tcp-reset")
        return [
            Rule(family, "INPUT", (*to_port(port, port["nodePort"]), *AT_THE_NODE, *reset), table="filter")
            for port in ports
            if port["protocol"] == "TCP"
            for family in Family
        ]

    return nodes.live(rules)


BREAK = Break(
    "reset-without-endpoints",
    Group.HARMLESS,
    "nodes refuse connections to the nodePort of a Service without endpoints by a TCP reset instead of ICMP",
    RunOptions(("changes",), ("changes.scaled-to-zero.", "changes.replaced.")),
    resetting,
    no_check,
    at_once=False,
    scoped=True,
)
