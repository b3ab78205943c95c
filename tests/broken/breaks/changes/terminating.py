"""Nodes drop traffic to a Service's only pod once it terminates, although it still serves."""

from esipp.checks.check import Check, is_about
from esipp.scenarios.service_change.subject import At, Claim, Pods, ServiceChange
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.leaving import dropping_once_it_leaves

SERVICE, (POD,) = "changes-terminating", Pods.LEAVING.names


def notices(check: Check) -> bool:
    if not is_about(check, ServiceChange) or check.subject.event.service != SERVICE:
        return False
    return check.subject.at is not At.CLUSTER_IP and check.subject.claim is Claim.SERVED


BREAK = Break(
    "terminating-pods-not-served-under-cluster",
    Group.CHANGES,
    "nodes drop what clients send to the nodePort of a Cluster Service once its only pod terminates",
    RunOptions(("changes",), ("changes.terminating.", "changes.terminating-local.")),
    dropping_once_it_leaves(SERVICE, POD),
    notices,
    names="does not follow a change",
    at_once=False,
    scoped=True,
)
