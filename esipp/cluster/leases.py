"""The Lease of a run, which shows that the run is active. It is in the run's namespace, and a thread renews it.

Only its own machine can look up a process. The Lease shows all other machines whether the run is active. As in
Kubernetes' leader election (coordination.k8s.io/v1), the holder renews the Lease long before it expires.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from esipp.base.json import Json
from esipp.base.labels import labels_of
from esipp.cluster.client import ApiError, Cluster, UnreachableError

NAME = "esipp-run"
"""The name of the Lease, which is fixed so that RBAC can limit the rights to it."""

MACHINE = "esipp.dev/machine"
"""Annotation of the Lease: a hash of the holder's kernel and PID namespace."""

DURATION, EVERY = 60, 15.0
"""Seconds for which a renewal is valid, and seconds between two renewals."""

REQUEST_SECONDS = 5.0
"""The timeout of a renewal. The API server may be stopped, also by a disruption of esipp."""

FORM = "%Y-%m-%dT%H:%M:%S.%fZ"
"""The format of ``MicroTime`` in the API."""


def path_of(namespace: str) -> str:
    """The API path of the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def machine() -> str:
    """An identifier of this kernel and PID namespace, because host names may be equal; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        pids = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {pids}".encode()).hexdigest()[:16]


def lease(run: str, holder: str, now: float) -> Json:
    """A new Lease for a run."""
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
    """The time (unix) until which a Lease is valid.

    The API server dates every change itself (``managedFields``), so that the holder's clock does not matter. If it does
    not, the holder's own time counts.
    """
    spec, about = lease.get("spec") or {}, lease.get("metadata") or {}
    dated = [moment(str(each.get("time") or "")) for each in about.get("managedFields") or ()]
    known = [each for each in dated if each is not None]
    renewed = max(known) if known else moment(str(spec.get("renewTime") or "")) or 0.0
    return renewed + float(spec.get("leaseDurationSeconds") or 0)


class Heartbeat:
    """The holder of a run's Lease, from ``begin`` to ``end``.

    Args:
        cluster: the cluster.
        namespace: namespace of the run.
        run: id of the run.
        owner: the process, as ``host/pid``.
        note: called once if there is no Lease, and once if it was not renewed in time. The run continues.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, run: str, owner: str, note: Callable[[str], object] = str
    ) -> None:
        self._cluster, self._namespace, self._run, self._owner, self._note = cluster, namespace, run, owner, note
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, every: float = EVERY) -> bool:
        """Create the Lease and start to renew it. Return whether there is a Lease."""
        made = lease(self._run, f"{self._owner}/{self._run}", time.time())
        try:
            self._cluster.create(path_of(self._namespace), made)
        except (ApiError, UnreachableError) as refused:
            self._note(
                f"Cannot create the run's Lease: {refused}. 'esipp clean' on another machine would treat this run as "
                "killed: do not use it there."
            )
            return False
        self._thread = threading.Thread(target=self._beat, args=(every,), name="esipp-lease", daemon=True)
        self._thread.start()
        return True

    def end(self) -> None:
        """Stop renewing. The Lease disappears with its namespace, or expires."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * REQUEST_SECONDS)  # it may wait for an unavailable API server
            self._thread = None

    def _beat(self, every: float) -> None:
        renewed, noted = time.monotonic(), False
        while not self._over.wait(every):
            try:
                self._renew()
            except Exception as broken:  # whatever it is, the next renewal may succeed
                late = time.monotonic() - renewed
                if late >= DURATION and not noted and not self._over.is_set():
                    noted = True
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


def moment(text: str) -> float | None:
    """The seconds since the epoch of a time as the API writes it; None if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
