"""Harmless: nodes drop what comes to a Service in the family that it no longer has, and refuse nothing."""

from tests.broken.breakage import Break, Group, no_check
from tests.broken.breaks.changes.freed import run_of
from tests.broken.breaks.changes.not_followed import dropped_over_ipv4, has_one_family, once

BREAK = Break(
    "silent-in-the-family-that-is-gone",
    Group.HARMLESS,
    "nodes drop what comes over IPv4 to a Service as long as it has IPv6 alone, and refuse nothing",
    run_of("families"),
    once("families", has_one_family, dropped_over_ipv4, until=lambda service: not has_one_family(service)),
    no_check,
    at_once=False,
    scoped=True,
)
