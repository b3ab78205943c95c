"""The Lease by which a run shows that it lives: it lies in the run's namespace, and a thread renews it.

A process can be looked up on its own machine only. The Lease tells every other machine whether the run is at work:
as Kubernetes' own leaders do (coordination.k8s.io/v1), its holder renews it long before it ends.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from esipp.base.labels import labels_of
from esipp.cluster.client import ApiError, Cluster, UnreachableError

Json = dict[str, Any]

NAME = "esipp-run"
"""Of the Lease. A name of its own, so that RBAC can limit the rights to it."""

MACHINE = "esipp.dev/machine"
"""Annotation of the Lease: the kernel and the PID namespace of its holder, as a hash."""

DURATION, EVERY = 60, 15.0
"""Seconds that a renewal is good for, and seconds between two renewals."""

REQUEST_SECONDS = 5.0
"""A renewal may take so long. The API server may be stopped, by a disruption of ours too."""

FORM = "%Y-%m-%dT%H:%M:%S.%fZ"
"""``MicroTime`` of the API."""


def path_of(namespace: str) -> str:
    """The Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def machine() -> str:
    """What tells this kernel and PID namespace from others, which may have the same host name; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        pids = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {pids}".encode()).hexdigest()[:16]


def lease(run: str, holder: str, now: float) -> Json:
    """The Lease of a run that begins to hold it now."""
    moment = _micro_time(now)
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "labels": labels_of(run), "annotations": {MACHINE: machine()}},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION,
            "acquireTime": moment,
            "renewTime": moment,
        },
    }


def fresh_until(lease: Json) -> float:
    """The time (unix) until which a Lease is good.

    The API server dates every change itself (``managedFields``), so that the holder's clock does not matter; where
    it does not, the holder's word counts.
    """
    spec, about = lease.get("spec") or {}, lease.get("metadata") or {}
    dated = [_moment(str(each.get("time") or "")) for each in about.get("managedFields") or ()]
    known = [each for each in dated if each is not None]
    renewed = max(known) if known else _moment(str(spec.get("renewTime") or "")) or 0.0
    return renewed + float(spec.get("leaseDurationSeconds") or 0)


class Heartbeat:
    """Holds a run's Lease from ``begin`` to ``end``.

    Args:
        cluster: where.
        namespace: the run's.
        run: its id.
        owner: the process, as ``host/pid``.
        note: is told, once each, why there is no Lease, or that it was not renewed in time. The run goes on.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, run: str, owner: str, note: Callable[[str], object] = str
    ) -> None:
        self._cluster, self._namespace, self._run, self._owner, self._note = cluster, namespace, run, owner, note
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, every: float = EVERY) -> bool:
        """Make the Lease, and renew it from now on; whether there is one."""
        made = lease(self._run, f"{self._owner}/{self._run}", time.time())
        try:
            self._cluster.create(path_of(self._namespace), made)
        except (ApiError, UnreachableError) as refused:
            self._note(
                f"There is no Lease: {refused}. 'esipp clean' on another machine takes this run for one that was "
                "killed: do not use it there."
            )
            return False
        self._thread = threading.Thread(target=self._beat, args=(every,), name="esipp-lease", daemon=True)
        self._thread.start()
        return True

    def end(self) -> None:
        """Renew no more. The Lease goes with its namespace, or ends by itself."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * REQUEST_SECONDS)  # it may wait for an API server that is away
            self._thread = None

    def _beat(self, every: float) -> None:
        renewed, told = time.monotonic(), False
        while not self._over.wait(every):
            try:
                self._renew()
            except Exception as broken:  # whatever it is, the next renewal may succeed
                late = time.monotonic() - renewed
                if late >= DURATION and not told and not self._over.is_set():
                    told = True
                    self._note(f"The Lease was not renewed for {late:.0f} s: {broken}")
            else:
                renewed = time.monotonic()

    def _renew(self) -> None:
        self._cluster.request(
            "PATCH",
            f"{path_of(self._namespace)}/{NAME}",
            body={"spec": {"renewTime": _micro_time(time.time())}},
            content="application/merge-patch+json",
            read_timeout=REQUEST_SECONDS,
        )


def _micro_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(FORM)


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
