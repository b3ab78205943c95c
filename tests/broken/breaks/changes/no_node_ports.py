"""Nodes serve a VIP only where its Service has nodePorts."""

from esipp.scenarios.service_change.subject import At, Pods
from tests.broken.breakage import Break, Group
from tests.broken.breaks.changes.freed import run_of
from tests.broken.breaks.changes.not_followed import dropped_at_vips, once, selects, served

EVENT = "vip-without-node-ports"

BREAK = Break(
    "vip-without-node-ports-dropped",
    Group.CHANGES,
    "nodes drop what comes to the VIP of a Service without nodePorts once its endpoint is another one",
    run_of(EVENT),
    once(EVENT, selects(Pods.SECOND), dropped_at_vips),
    served(EVENT, At.VIP),
    names="does not follow a change",
    at_once=False,
    scoped=True,
)
