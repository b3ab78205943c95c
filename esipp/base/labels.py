"""Labels of every object of a run, by which ``esipp clean`` finds what a killed run left."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "esipp"}
RUN_LABEL = "esipp.dev/run"
SERVER_LABEL = "esipp.dev/server"
OWNER = "esipp.dev/owner"
"""Annotation of a run's namespace: the host and process that removes it, as ``host/pid``."""

ROUTE_LABEL, TOOLS_LABEL = "esipp.dev/route", "esipp.dev/tools"
"""Labels of an outside client's container: the addresses to which the docker engine's machine has a route because of
it, and the image with the tools that remove it."""

UNSERVED_CLASS = "esipp.dev/nobody"
"""A load balancer class that no controller serves: the Service gets its ports and no VIP."""


def labels_of(run: str) -> dict[str, str]:
    """The labels of a run's objects."""
    return {**MANAGED_BY, RUN_LABEL: run}
