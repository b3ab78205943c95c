"""Namespaces of runs: waiting for one, removing one, and finding those of killed runs."""

import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.base.labels import FINALIZER, MANAGED_BY
from esipp.base.waiting import Budget, Reading, converge, waiting
from esipp.cluster.client import ApiError, Cluster, UnreachableError

ACCOUNT = Budget("the namespace's default service account", 20.0, need=1, spacing=0.05)
GONE = Budget("removal of the run's namespace", 90.0)
BACK = Budget("the API server to remove the run's objects", 90.0, need=1, spacing=0.5)
FORGOTTEN = 20.0
"""Seconds after a restart in which an API server may refuse requests, because it has not loaded all rights yet."""

LOST_AFTER = 35.0
"""Seconds that a kubelet has to end pods with a grace period of one second; then its node is assumed to be lost."""

CONFLICT = 409

T = TypeVar("T")


def owner() -> str:
    """The process that removes the objects of this run: ``host/pid``."""
    return f"{socket.gethostname()}/{os.getpid()}"


def wait_for_account(cluster: Cluster, namespace: str) -> None:
    """Wait for a new namespace's default service account, without which no pod can be created.

    Raises:
        HarnessError: it does not appear in time.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"

    def look() -> Reading:
        try:
            cluster.request("GET", path)
        except ApiError as refused:
            return Reading(False, refused.message)
        return Reading(True, "present")

    waited = converge(look, ACCOUNT)
    if not waited.held:
        raise HarnessError(
            f"The namespace {namespace} has no default service account: {waited.state}",
            "check that the cluster's controller manager is running.",
        )


def remove_namespace(cluster: Cluster, name: str, budget: Budget = GONE) -> None:
    """Delete a namespace and wait until it is gone; first wait for an unavailable API server.

    Raises:
        HarnessError: it still exists when the time is over.
    """
    path = f"/api/v1/namespaces/{name}"
    insist(lambda: _delete(cluster, path))
    began = time.monotonic()
    # the namespace controller starts only after 5 s, so delete pods and services meanwhile
    insist(
        lambda: _remove_objects(cluster, path, ("pods", "services"), grace=1)
    )  # also terminating pods that still serve
    with waiting(budget.name, budget.seconds):
        gone = _is_gone(cluster, path, min(LOST_AFTER, budget.seconds))
        if not gone:
            insist(lambda: _remove_objects(cluster, path, ("pods",), grace=0))
            left = budget.seconds - (time.monotonic() - began)
            gone = _is_gone(cluster, path, max(1.0, left))
    if not gone:
        raise HarnessError(
            f"The namespace {name} still exists after {time.monotonic() - began:.0f} s{_what_holds(cluster, path)}.",
            f"see what blocks it: kubectl --context {cluster.context} get namespace {name} -o yaml",
        )


def _delete(cluster: Cluster, path: str) -> None:
    """Delete a namespace; old servers refuse with a Conflict if it is already terminating."""
    try:
        cluster.delete(path)
    except ApiError as refused:
        if refused.status != CONFLICT:
            raise


def _is_gone(cluster: Cluster, path: str, seconds: float) -> bool:
    """Wait until it is gone; False if it still exists, or the API server does not answer, when the time is over."""
    until = time.monotonic() + seconds

    def look() -> bool:
        try:
            return cluster.wait_gone(path, budget=max(1.0, until - time.monotonic()))
        except UnreachableError:
            return False

    return insist(look)


def insist(do: Callable[[], T], budget: Budget = BACK) -> T:
    """Retry a removal until the API server is available.

    Raises:
        ApiError: the API server refused.
        UnreachableError: it did not answer in time.
    """
    done: list[T] = []
    trouble: list[Exception] = []
    began = time.monotonic()

    def look() -> Reading:
        try:
            done.append(do())
        except UnreachableError as silent:
            trouble.append(silent)
            return Reading(False, str(silent))
        except ApiError as refused:
            trouble.append(refused)
            forgotten = refused.status in (401, 403) and time.monotonic() - began < FORGOTTEN
            passing = forgotten or refused.status == 429 or refused.status >= 500
            return Reading(False, refused.message, hopeless=not passing)
        return Reading(True, "done")

    if not converge(look, budget).held:
        raise trouble[-1]
    return done[0]


def _remove_objects(cluster: Cluster, namespace: str, kinds: tuple[str, ...], grace: int) -> None:
    """Delete all objects of these kinds, and what a killed run keeps them by.

    ``grace`` is the grace period of pods; 0 removes them at once.
    """
    found = [(kind, each["metadata"]) for kind in kinds for each in cluster.list(f"{namespace}/{kind}")]

    def remove(kind: str, metadata: Json) -> None:
        path, kept = f"{namespace}/{kind}/{metadata['name']}", metadata.get("finalizers") or []
        if FINALIZER in kept:
            others = [each for each in kept if each != FINALIZER]
            cluster.patch(path, {"metadata": {"finalizers": others or None}}, "merge-patch")
        cluster.delete(path, grace=grace)

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda each: remove(*each), found))


def _what_holds(cluster: Cluster, path: str) -> str:
    """What the namespace controller waits for, according to the namespace's conditions; empty if unknown."""
    try:
        status = cluster.request("GET", path).get("status", {})
    except (ApiError, UnreachableError):
        return ""
    waits = [c.get("message", "") for c in status.get("conditions") or [] if c.get("status") == "True"]
    return f": {'; '.join(waits)}" if any(waits) else ""


def of_runs(cluster: Cluster) -> list[dict[str, Any]]:
    """The namespaces of all runs, as the API server lists them."""
    selector = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
    return cluster.list("/api/v1/namespaces", labelSelector=selector)


def is_alive(owner: str) -> bool:
    """Whether the process of a run still exists on this host and is esipp; False for other hosts."""
    host, _, pid = owner.rpartition("/")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"esipp" in command or b"pytest" in command
