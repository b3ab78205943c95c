"""Harmless: nodes without a local endpoint refuse connections to Local Services instead of dropping them."""

from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.model import Family, Role
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.matching import AT_THE_NODE, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule

REFUSED = {"TCP": ("--jump", "REJECT", "--reject-with", "tcp-reset"), "UDP": ("--jump", "REJECT")}


def refusing(nodes: Nodes) -> AbstractContextManager[Placed]:
    bare = tuple(node for node in nodes.containers if node != nodes.roles[Role.ENDPOINT_NODE])

    def rules(live: Live) -> list[Rule]:
        ports = [port for service in live.services if _local(service) for port in service["spec"]["ports"]]
        return [
            Rule(family, "INPUT", (*to_port(port, port["nodePort"]), *AT_THE_NODE, *refused), bare, "filter")
            for port in ports
            if port.get("nodePort") and (refused := REFUSED.get(port["protocol"]))
            for family in Family
        ]

    return nodes.live(rules)


def _local(service: Json) -> bool:
    return bool(service["spec"].get("externalTrafficPolicy") == "Local")


BREAK = Break(
    "bare-nodes-refuse",
    Group.HARMLESS,
    "nodes without a local endpoint refuse connections to nodePorts of Local Services (REJECT) instead of dropping "
    "them",
    RunOptions(("source_ip",)),
    refusing,
    no_check,
    scoped=True,
    fixed=True,
)
