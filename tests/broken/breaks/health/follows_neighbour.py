"""The health check of one Service answers for another one on every node."""

from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.interoperability import Interoperability
from esipp.checks.model import Family
from esipp.scenarios.interoperability.objects import A, B
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.matching import AT_THE_NODE
from tests.broken.nodes import Live, Nodes, Placed, Rule

SETTLED = "interop.nodeport.local.tcp.ipv4.outside-1-to-bare-node"
"""Asked where all others are trials, so that it is known when the run began to look."""


def following(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        theirs, others = (str(live.service(name)["spec"]["healthCheckNodePort"]) for name in (A, B))
        words = ("--protocol", "tcp", "--dport", theirs, *AT_THE_NODE, "--jump", "REDIRECT", "--to-ports", others)
        return [Rule(family, "PREROUTING", words) for family in Family]

    return nodes.live(rules)


def notices(check: Check) -> bool:
    """Checks about the answers of the health check of the service that is watched."""
    return (
        is_about(check, Interoperability)
        and check.subject.scenario == "neighbours"
        and check.subject.claim in ("status", "document")
    )


BREAK = Break(
    "interop-health-follows-neighbour",
    Group.HEALTH,
    "on every node, another Service's health check answers for a Service",
    RunOptions(("interoperability",)),
    following,
    notices,
    names="follows the endpoints of another|mixes up",
    scoped=True,
    fixed=True,
)
