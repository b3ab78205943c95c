"""Nodes drop requests to a Service without endpoints, instead of refusing them."""

from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Family
from esipp.scenarios.service_change.subject import Claim, ServiceChange
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.matching import DROP
from tests.broken.nodes import Nodes, Placed, Rule

REFUSALS = {
    Family.IPV4: ("--protocol", "icmp", "--icmp-type", "port-unreachable"),
    Family.IPV6: ("--protocol", "icmpv6", "--icmpv6-type", "port-unreachable"),
}


def dropping(nodes: Nodes) -> AbstractContextManager[Placed]:
    return nodes.rules(*(Rule(family, "OUTPUT", (*words, *DROP), table="mangle") for family, words in REFUSALS.items()))


def notices(check: Check) -> bool:
    return is_about(check, ServiceChange) and check.subject.claim is Claim.REFUSED


BREAK = Break(
    "dropped-without-endpoints",
    Group.CHANGES,
    "nodes drop requests to a Service without endpoints instead of refusing them",
    RunOptions(("changes",), ("changes.scaled-to-zero.", "changes.replaced.")),
    dropping,
    notices,
    names="wait for a timeout",
    at_once=False,
)
