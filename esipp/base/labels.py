"""Labels of every object of a run, by which ``esipp clean`` finds what a killed run left."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "esipp"}
RUN_LABEL = "esipp.dev/run"
SERVER_LABEL = "esipp.dev/server"
OWNER = "esipp.dev/owner"
"""Annotation of a run's namespace: the host and process that removes it, as ``host/pid``."""

UNSERVED_CLASS = "esipp.dev/nobody"
"""A load balancer class that no controller serves: the Service gets its ports and no VIP."""


def labels_of(run: str) -> dict[str, str]:
    """The labels of a run's objects."""
    return {**MANAGED_BY, RUN_LABEL: run}
