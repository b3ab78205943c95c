"""Nodes and health checks that come from link-local addresses, as those of Azure do."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Family
from esipp.checks.profile import PROXY_PORT
from esipp.scenarios.every_node.evidence import HEALTH
from esipp.scenarios.every_node.subject import FROM_LINK_LOCAL, EveryNode
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.matching import AT_THE_NODE, DROP
from tests.broken.nodes import Live, Nodes, Placed, Rule

FROM_THERE = RunOptions(("nodes",), ("nodes.link-local-", "nodes.health.", "nodes.proxy-health."))
SOURCE = ("--source", "fe80::/10")


def _dropping(matches: Callable[[Live], list[tuple[str, ...]]]) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """All nodes drop what comes to them from link-local addresses and matches."""

    def make(live: Live) -> list[Rule]:
        words = ((*SOURCE, *each, *AT_THE_NODE, *DROP) for each in matches(live))
        return [Rule(Family.IPV6, "PREROUTING", each, table="mangle") for each in words]

    return lambda nodes: nodes.live(make)


def health_checks(live: Live) -> list[tuple[str, ...]]:
    """The health-check node port, and kube-proxy's own."""
    ports = (live.service(HEALTH)["spec"]["healthCheckNodePort"], PROXY_PORT)
    return [("--protocol", "tcp", "--dport", str(port)) for port in ports]


def echo_requests(live: Live) -> list[tuple[str, ...]]:
    """What ping sends."""
    del live
    return [("--protocol", "icmpv6", "--icmpv6-type", "echo-request")]


def from_link_local(check: Check) -> bool:
    return is_about(check, EveryNode) and check.subject.entrance in FROM_LINK_LOCAL


BREAKS = (
    Break(
        "health-checks-from-link-local-addresses-dropped",
        Group.HEALTH,
        "all nodes drop requests to the health-check node port and to kube-proxy's own that come from link-local "
        "addresses",
        FROM_THERE,
        _dropping(health_checks),
        from_link_local,
        names="no answer",
    ),
    Break(
        "pings-from-link-local-addresses-dropped",
        Group.HARMLESS,
        "all nodes drop ICMPv6 echo requests that come from link-local addresses",
        FROM_THERE,
        _dropping(echo_requests),
        no_check,
    ),
)
