"""One connection that a node loses while pods are replaced."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import NODEPORT, Continuity, Phase, Way, What
from esipp.checks.model import Balancer, Family, TrafficPolicy
from esipp.scenarios.continuity.objects import DEPLOYMENT, ROLLED, service_name
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.matching import AT_THE_NODE
from tests.broken.nodes import Nodes, Placed, Rule
from tests.broken.policy_changes import in_background

WAY = Way(NODEPORT, TrafficPolicy.CLUSTER)
"""At the bare node's nodePort: what is sent again goes to the same node, and nothing of ours is on the way."""

CONNECTION = "0x2000000/0x2000000"
"""The bit of a connection's mark by which the node knows the one that it loses."""


def losing_one(port: str, node: str) -> list[Rule]:
    """The first SYN to a nodePort marks its connection and passes; whatever belongs to that afterwards is dropped.

    So every SYN that is sent again meets the same fate. Rules are put in front of each other.
    """
    first = ("--match", "limit", "--limit", "1/day", "--limit-burst", "1")
    to_port = ("--protocol", "tcp", "--dport", port, *AT_THE_NODE, "--syn")
    mark = ("--jump", "CONNMARK", "--set-xmark", CONNECTION)
    drop = ("--match", "connmark", "--mark", CONNECTION, "--jump", "DROP")
    return [Rule(Family.IPV4, "PREROUTING", words, (node,), "mangle") for words in ((*to_port, *first, *mark), drop)]


@contextmanager
def while_rolling(nodes: Nodes) -> Iterator[Placed]:
    """The bare node loses one connection, from the moment on at which our run begins its rolling update."""
    placed, stack = Placed(), ExitStack()

    def work(ended: Event) -> None:
        while not ended.wait(0.1):
            port = rolling(nodes)
            if port:
                stack.enter_context(nodes.rules(*losing_one(port, nodes.bare)))
                placed.at = time.time()
                return

    with stack, in_background(work):
        yield placed


def rolling(nodes: Nodes) -> str:
    """The nodePort of our run, if its Deployment is being updated; else empty."""
    for namespace in nodes.own_namespaces():
        for item in nodes.cluster.list(f"/apis/apps/v1/namespaces/{namespace}/deployments"):
            template = item["spec"]["template"]["metadata"]
            if item["metadata"]["name"] == DEPLOYMENT and template.get("annotations", {}).get(ROLLED) == "1":
                service = nodes.cluster.request("GET", f"/api/v1/namespaces/{namespace}/services/{service_name(WAY)}")
                return str(service["spec"]["ports"][0]["nodePort"])
    return ""


def notices(check: Check) -> bool:
    return is_about(check, Continuity) and (
        check.subject.phase,
        check.subject.way,
        check.subject.family,
        check.subject.what,
    ) == (
        Phase.ROLLING_UPDATE,
        WAY,
        Family.IPV4,
        What.NO_LOSS,
    )


def rehashed(check: Check) -> bool:
    """What a forwarder's own changes of routes break is known, and chance."""
    by_routes = Balancer.ECMP.value
    return (
        is_about(check, Continuity)
        and check.subject.way.by == by_routes
        and check.subject.what in (What.NO_LOSS, What.LASTING)
    )


BREAK = Break(
    "one-connection-lost",
    Group.DELIVERY,
    "the node without local endpoint drops a single connection during a rolling update",
    RunOptions(("continuity",), (f"continuity.{Phase.QUIET.value}.", f"continuity.{Phase.ROLLING_UPDATE.value}.")),
    while_rolling,
    notices,
    names="a node drops a connection",
    may=rehashed,
    at_once=False,
    scoped=True,
)
