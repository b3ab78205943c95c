"""Harmless: nodes drop what comes to the externalIP that a Service had, and do not refuse it."""

from tests.broken.breakage import Break, Group, no_check
from tests.broken.breaks.changes.external_ip import EVENT, dropped, has_none, has_one
from tests.broken.breaks.changes.freed import run_of
from tests.broken.breaks.changes.not_followed import once

BREAK = Break(
    "removed-external-ip-dropped",
    Group.HARMLESS,
    "nodes drop what comes to an externalIP that its LoadBalancer Service has lost, until it has it again",
    run_of(EVENT),
    once(EVENT, has_none, dropped, has_one),
    no_check,
    at_once=False,
    scoped=True,
)
