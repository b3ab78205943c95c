"""The run's namespace: waited for, removed, and found again after a run that was killed."""

import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from esipp.base.errors import HarnessError
from esipp.base.labels import MANAGED_BY
from esipp.base.waiting import Budget, Reading, converge, waiting
from esipp.cluster.client import ApiError, Cluster, UnreachableError

ACCOUNT = Budget("the namespace's default service account", 20.0, need=1, spacing=0.05)
GONE = Budget("our namespace being gone", 90.0)
BACK = Budget("the API server taking back what we made", 90.0, need=1, spacing=0.5)
FORGOTTEN = 20.0
"""Seconds in which an API server that was started again may refuse us: it does not know all accounts and rights yet."""

LOST_AFTER = 35.0
"""Seconds that a kubelet gets to end pods whose grace is one; after that it is taken for lost with its node."""

CONFLICT = 409

T = TypeVar("T")


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
    """Delete a namespace and wait until it is gone, within a budget; an API server that is away is waited for first.

    Raises:
        HarnessError: it is still there after the budget.
    """
    path = f"/api/v1/namespaces/{name}"
    insist(lambda: _delete(cluster, path))
    began = time.monotonic()
    # the namespace controller only starts after 5 s; what it would delete then is deleted while it waits
    insist(lambda: _remove_objects(cluster, path, ("pods", "services"), grace=1))  # also pods that would serve on
    with waiting(budget.name, budget.seconds):
        gone = _is_gone(cluster, path, min(LOST_AFTER, budget.seconds))
        if not gone:
            insist(lambda: _remove_objects(cluster, path, ("pods",), grace=0))
            left = budget.seconds - (time.monotonic() - began)
            gone = _is_gone(cluster, path, max(1.0, left))
    if not gone:
        raise HarnessError(
            f"The namespace {name} is still there after {time.monotonic() - began:.0f} s{_what_holds(cluster, path)}.",
            f"see what holds it: kubectl --context {cluster.context} get namespace {name} -o yaml",
        )


def _delete(cluster: Cluster, path: str) -> None:
    """Delete a namespace; servers of old refuse that of one that is going already, by a Conflict."""
    try:
        cluster.delete(path)
    except ApiError as refused:
        if refused.status != CONFLICT:
            raise


def _is_gone(cluster: Cluster, path: str, seconds: float) -> bool:
    """Wait until it is gone, so long at most; an API server that stays away does not say so."""
    until = time.monotonic() + seconds

    def look() -> bool:
        try:
            return cluster.wait_gone(path, budget=max(1.0, until - time.monotonic()))
        except UnreachableError:
            return False

    return insist(look)


def insist(do: Callable[[], T], budget: Budget = BACK) -> T:
    """Do something as soon as the API server is there to do it: what we made has to go, also after it was away.

    Raises:
        ApiError: it refused.
        UnreachableError: it did not answer within the budget.
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
    """Delete everything of these kinds; pods have so many seconds to end, and with none are forgotten at once."""
    objects = [f"{namespace}/{kind}/{each['metadata']['name']}" for kind in kinds
               for each in cluster.list(f"{namespace}/{kind}")]  # fmt: skip
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda path: cluster.delete(path, grace=grace), objects))


def _what_holds(cluster: Cluster, path: str) -> str:
    """What the namespace controller says it waits for; nothing where it says nothing."""
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
    """Whether the process that made a run is still there; only known of this host's, and then only if it is ours."""
    host, _, pid = owner.rpartition("/")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"esipp" in command or b"pytest" in command
