"""Harmless: nodes drop what comes to the nodePort of a deleted Service, and do not refuse it."""

from tests.broken.breakage import Break, Group, no_check
from tests.broken.breaks.changes.freed_later import RUN, after
from tests.broken.breaks.changes.not_followed import dropped_at_node_ports

BREAK = Break(
    "freed-node-port-dropped",
    Group.HARMLESS,
    "nodes drop what comes to the nodePort of a deleted Service, from its end on",
    RUN,
    after(0.0, dropped_at_node_ports),
    no_check,
    at_once=False,
    scoped=True,
)
