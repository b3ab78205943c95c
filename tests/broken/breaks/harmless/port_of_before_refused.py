"""Harmless: nodes refuse what pods send to the port that a Service had, and do not just forget it."""

from collections.abc import Iterator

from esipp.base.json import Json
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.objects import PORT
from tests.broken.breakage import Break, Group, no_check
from tests.broken.breaks.changes.freed import run_of
from tests.broken.breaks.changes.not_followed import once
from tests.broken.breaks.changes.ports import has_later_port
from tests.broken.matching import to_port
from tests.broken.nodes import Live, Nodes, Rule

EVENT = "port-changed"


def refused(_: Nodes, __: Live, service: Json) -> Iterator[Rule]:
    for port in service["spec"]["ports"]:
        for own in service["spec"]["clusterIPs"]:
            words = ("--destination", own, *to_port(port, PORT), "--jump", "REJECT")
            yield Rule(family_of(own), "FORWARD", words, table="filter")


BREAK = Break(
    "port-of-before-refused",
    Group.HARMLESS,
    "nodes refuse what pods send to a ClusterIP at the port that its Service had",
    run_of(EVENT),
    once(EVENT, has_later_port, refused),
    no_check,
    at_once=False,
    scoped=True,
)
