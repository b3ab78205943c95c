"""Nodes drop traffic to a Service's only pod once it terminates, although it still serves, or once it was killed."""

from esipp.scenarios.service_change.subject import service_of
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.changes.not_followed import NODE_PORTS, served
from tests.broken.leaving import dropping_once_it_leaves

BREAKS = tuple(
    Break(
        name,
        Group.CHANGES,
        what,
        RunOptions(("changes",), (f"changes.{event}.", f"changes.{another}.")),
        dropping_once_it_leaves(service_of(event), pod),
        served(event, *NODE_PORTS),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    )
    for name, what, event, pod, another in (
        (
            "terminating-pods-not-served-under-cluster",
            "nodes drop what clients send to the nodePort of a Cluster Service once its only pod terminates",
            "terminating", "changes-leaving", "terminating-local",
        ),
        (
            "terminating-pods-not-served-under-local",
            "nodes drop what clients send to the nodePort of a Local Service once its only pod terminates",
            "terminating-local", "changes-leaving-local", "terminating",
        ),
        (
            "not-served-again-after-a-kill",
            "nodes drop what clients send to the nodePort of a Service once its only pod was killed, also when there "
            "is another one",
            "killed", "changes-killed", "replaced",
        ),
    )
)  # fmt: skip
