"""The API server keeps the health-check node port of a Service that it refuses to create."""

from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.lying_api import keeping_ports_of_refused_services

BREAK = Break(
    "refused-service-keeps-its-health-port",
    Group.COMPATIBILITY,
    "a health-check node port stays allocated if the API server refuses the Service that requested it",
    RunOptions(("compatibility",), ("api.health-port.", "api.change.deleted")),
    keeping_ports_of_refused_services,
    lambda check: check.id == "api.health-port.of-refused",
    names="and keeps it",
    at_once=False,  # a run about the API alone never settles
    scoped=True,
)
