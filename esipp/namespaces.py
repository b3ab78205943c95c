"""The run's namespace: waited for, removed, and found again after a run that was killed."""

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from esipp.cluster import ApiError, Cluster
from esipp.convergence import Budget, Reading, converge, waiting
from esipp.errors import HarnessError
from esipp.labels import MANAGED_BY, OWNER, RUN_LABEL

ACCOUNT = Budget("the namespace's default service account", 20.0, need=1, spacing=0.05)
GONE = Budget("our namespace being gone", 90.0)


def owner() -> str:
    """Who will remove what this process makes: ``host/pid``."""
    return f"{socket.gethostname()}/{os.getpid()}"


def wait_for_account(cluster: Cluster, namespace: str) -> None:
    """Wait for a new namespace's default service account, without which no pod can be created.

    Raises:
        HarnessError: it does not come.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"

    def look() -> Reading:
        try:
            cluster.request("GET", path)
        except ApiError as refused:
            return Reading(False, refused.message)
        return Reading(True, "there")

    waited = converge(look, ACCOUNT)
    if not waited.held:
        raise HarnessError(
            f"The namespace {namespace} got no default service account: {waited.state}",
            "is the controller manager of the cluster running?",
        )


def remove_namespace(cluster: Cluster, name: str, budget: Budget = GONE) -> None:
    """Delete a namespace and wait until it is gone, within a budget.

    Raises:
        HarnessError: it is still there after the budget.
    """
    began = time.monotonic()
    cluster.delete(f"/api/v1/namespaces/{name}")
    # the namespace controller only starts after 5 s; what it would delete then is deleted while it waits
    kinds = [f"/api/v1/namespaces/{name}/{kind}" for kind in ("pods", "services")]
    objects = [f"{kind}/{item['metadata']['name']}" for kind in kinds for item in cluster.list(kind)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda path: cluster.delete(path, grace=1), objects))  # also pods that would serve on
    with waiting(budget.name, budget.seconds):
        gone = cluster.wait_gone(f"/api/v1/namespaces/{name}", budget=budget.seconds)
    if not gone:
        raise HarnessError(
            f"The namespace {name} is still there after {time.monotonic() - began:.0f} s.",
            f"see what holds it: kubectl --context {cluster.context} get namespace {name} -o yaml",
        )


def left_behind(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """The namespaces of earlier runs: name, and with it the run's id and its owner (``host/pid``)."""
    selector = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
    found = {}
    for item in cluster.list("/api/v1/namespaces", labelSelector=selector):
        metadata = item["metadata"]
        found[metadata["name"]] = (
            metadata.get("labels", {}).get(RUN_LABEL, ""),
            metadata.get("annotations", {}).get(OWNER, ""),
        )
    return found


def is_alive(owner: str) -> bool:
    """Whether the process that made a run is still there; only known of this host's, and then only if it is ours."""
    host, _, pid = owner.rpartition("/")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"esipp" in command or b"pytest" in command
