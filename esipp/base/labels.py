"""The labels every object of a run carries, so that whatever a killed run left can be found and removed."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "esipp"}
RUN_LABEL = "esipp.dev/run"
SERVER_LABEL = "esipp.dev/server"
OWNER = "esipp.dev/owner"
"""Annotation of a run's namespace: host and process that will remove it, as ``host/pid``."""


def labels_of(run: str) -> dict[str, str]:
    """The labels of one run's objects."""
    return {**MANAGED_BY, RUN_LABEL: run}
