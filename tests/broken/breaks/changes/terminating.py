"""Nodes drop traffic to a Service's only pod once it terminates, although it still serves."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Family
from esipp.scenarios.service_change.subject import At, Claim, Pods, ServiceChange
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.matching import AT_THE_NODE, DROP, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import in_background, set_up_run, states_of

SERVICE, (POD,) = "changes-terminating", Pods.LEAVING.names


@contextmanager
def dropping_once_it_leaves(nodes: Nodes) -> Iterator[Placed]:
    placed, stack = Placed(), ExitStack()

    def rules(live: Live) -> list[Rule]:
        ports = live.service(SERVICE)["spec"]["ports"]
        words = [(*to_port(port, port["nodePort"]), *AT_THE_NODE, *DROP) for port in ports]
        return [Rule(family, "PREROUTING", each, table="mangle") for family in Family for each in words]

    def work(ended: threading.Event) -> None:
        live = set_up_run(nodes, {SERVICE}, ended)
        if live is None:
            return
        for pod in states_of(nodes, f"/api/v1/namespaces/{live.namespace}/pods/{POD}", ended):
            if pod["metadata"].get("deletionTimestamp"):
                stack.enter_context(nodes.rules(*rules(live)))
                placed.at = time.time()
                return

    with stack, in_background(work):
        yield placed


def notices(check: Check) -> bool:
    if not is_about(check, ServiceChange) or check.subject.event.service != SERVICE:
        return False
    return check.subject.at is not At.CLUSTER_IP and check.subject.claim is Claim.SERVED


BREAK = Break(
    "terminating-pods-not-served-under-cluster",
    Group.CHANGES,
    "nodes drop what clients send to the nodePort of a Cluster Service once its only pod terminates",
    RunOptions(("changes",), ("changes.terminating.", "changes.terminating-local.")),
    dropping_once_it_leaves,
    notices,
    names="does not follow a change",
    at_once=False,
    scoped=True,
)
