"""The health-check node port changes with every update."""

from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.health import HealthScenario
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.controllers import controller
from tests.broken.health_proxies import claims
from tests.broken.nodes import Nodes, Placed

EDITED = "life-1"
"""The Service that the scenario edits in fields other than its policy."""


def moving_the_port(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Somebody lets go of the port, and takes another one, whenever the Service was changed by somebody else."""
    known: dict[str, str] = {}

    def act(path: str, service: Json) -> bool:
        version = service["metadata"]["resourceVersion"]
        if service["metadata"]["name"] != EDITED or known.setdefault(path, version) == version:
            return False
        nodes.cluster.patch(path, {"spec": {"externalTrafficPolicy": "Cluster"}}, "merge-patch")
        back = nodes.cluster.patch(path, {"spec": {"externalTrafficPolicy": "Local"}}, "merge-patch")
        known[path] = back["metadata"]["resourceVersion"]
        return True

    return controller(nodes, act)


def about_edits(check: Check) -> bool:
    """What an edit itself shows depends on who comes first."""
    return is_about(check, HealthScenario) and check.subject.claim.startswith("kept-on-")


BREAK = Break(
    "health-port-changes-on-update",
    Group.COMPATIBILITY,
    "a Service's health-check node port changes with every update",
    RunOptions(("health_checks",)),
    moving_the_port,
    lambda check: claims(check, "lifecycle", "kept"),
    names="changes with an edit",
    may=about_edits,
    at_once=False,
    scoped=True,
)
