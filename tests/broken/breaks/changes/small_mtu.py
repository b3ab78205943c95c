"""Nodes that lose the messages by which a pod learns of a smaller MTU on the way to a client."""

from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Family
from esipp.scenarios.service_change.subject import At, ServiceChange
from tests.broken.breakage import Break, Group
from tests.broken.breaks.changes.freed import run_of
from tests.broken.matching import DROP
from tests.broken.nodes import Nodes, Placed, Rule

TOO_BIG = {
    Family.IPV4: ("--protocol", "icmp", "--icmp-type", "fragmentation-needed"),
    Family.IPV6: ("--protocol", "icmpv6", "--icmpv6-type", "packet-too-big"),
}


def dropping(nodes: Nodes) -> AbstractContextManager[Placed]:
    return nodes.rules(
        *(Rule(family, "PREROUTING", (*words, *DROP), (nodes.bare,), "mangle") for family, words in TOO_BIG.items())
    )


def notices(check: Check) -> bool:
    return is_about(check, ServiceChange) and check.subject.at is At.SMALL_MTU


BREAK = Break(
    "pods-never-hear-of-a-smaller-mtu",
    Group.CHANGES,
    "a node drops the ICMP messages by which pods on other nodes learn of a smaller MTU on the way to a client",
    run_of("replaced"),
    dropping,
    notices,
    names="smaller MTU",
    at_once=False,
)
