"""Checks of this machine: image reference, kubectl, disk, clock."""

import json
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from esipp.app.doctor.model import DoctorCheck, ok, warn
from esipp.base.kubernetes_version import read_version
from esipp.cluster.client import Cluster

KUBECTL_SECONDS = 10.0
SKEW = 1
"""Minor versions that kubectl may be away from the server: Kubernetes documentation, "Version Skew Policy"."""

MOST_DIFFERENCE = 5.0
"""Seconds that clocks may differ before it is told: certificates, tokens and events are dated by them."""


def kubectl_version(path: str) -> str:
    """What kubectl calls itself; empty where it does not say."""
    try:
        done = subprocess.run(
            [path, "version", "--client", "--output=json"], capture_output=True, text=True, timeout=KUBECTL_SECONDS,
            check=False,
        )  # fmt: skip
        return str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return ""


def of_kubectl(path: str, client: str, server: str) -> DoctorCheck:
    """Whether a kubectl fits a server; of a server that is not known every one does."""
    own, other = read_version(client), read_version(server)
    if own is None:
        return warn("kubectl", f"{path} does not tell its version", "does 'kubectl version --client' work?")
    if other is not None and (own[0] != other[0] or abs(own[1] - other[1]) > SKEW):
        return warn(
            "kubectl",
            f"{client} ({path}) is made for servers one minor version older or younger, not for {server}",
            "clients in pods are reached by 'kubectl exec': have one of the server's age first on PATH.",
        )
    return ok("kubectl", f"{client} ({path})")


def of_clock(cluster: Cluster, now: Callable[[], float] = time.time) -> DoctorCheck:
    """How far this machine's clock and the API server's are apart; what the request took is not held against them."""
    began = now()
    told = cluster.date()
    ended = now()
    try:
        server = parsedate_to_datetime(told).timestamp()
    except (ValueError, TypeError):
        return warn("clock", "the API server does not tell its time", "is it asked through a proxy?")
    # whole seconds are told: it may be anything up to the next one
    behind, before = began - (server + 1), server - ended
    apart = max(behind, before, 0.0)
    if apart > MOST_DIFFERENCE:
        which = "ahead of" if behind > before else "behind"
        return warn(
            "clock",
            f"this machine's clock is {apart:.0f} s {which} the API server's",
            "certificates and tokens are judged by it, and times in reports are this machine's: set it (NTP).",
        )
    return ok("clock", "this machine's and the API server's agree")


def moment(told: str) -> float | None:
    """Seconds since 1970 of an API object's time (RFC 3339); None if it cannot be read."""
    try:
        return datetime.fromisoformat(told).astimezone(UTC).timestamp()
    except ValueError:
        return None
