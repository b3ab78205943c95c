"""Checks of this machine: image reference, kubectl, disk, clock."""

import json
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from esipp.app.doctor.model import DoctorCheck, ok, warn
from esipp.checks.versions import read_version
from esipp.cluster.client import Cluster

KUBECTL_SECONDS = 10.0
SKEW = 1
"""Minor versions by which kubectl may differ from the server: Kubernetes documentation, "Version Skew Policy"."""

MOST_DIFFERENCE = 5.0
"""Seconds by which clocks may differ without a warning. Certificates, tokens and events depend on them."""


def kubectl_version(path: str) -> str:
    """The version of kubectl; empty if it does not report one."""
    try:
        done = subprocess.run(
            [path, "version", "--client", "--output=json"], capture_output=True, text=True, timeout=KUBECTL_SECONDS,
            check=False,
        )  # fmt: skip
        return str(json.loads(done.stdout)["clientVersion"]["gitVersion"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return ""


def of_kubectl(path: str, client: str, server: str) -> DoctorCheck:
    """Whether a kubectl supports a server; with an unknown server version, every kubectl does."""
    own, other = read_version(client), read_version(server)
    if own is None:
        return warn("kubectl", f"{path} does not report its version", "check that 'kubectl version --client' works.")
    if other is not None and (own[0] != other[0] or abs(own[1] - other[1]) > SKEW):
        return warn(
            "kubectl",
            f"{client} ({path}) supports servers up to one minor version older or newer, not {server}",
            "esipp reaches clients in pods with 'kubectl exec': put a matching kubectl first on PATH.",
        )
    return ok("kubectl", f"{client} ({path})")


def of_clock(cluster: Cluster, now: Callable[[], float] = time.time) -> DoctorCheck:
    """How much this machine's clock differs from the API server's, apart from the duration of the request."""
    began = now()
    date = cluster.date()
    ended = now()
    try:
        server = parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError):
        return warn("clock", "the API server does not report its time", "check whether a proxy is in between.")
    # The server reports whole seconds, so its time may be anything up to the next one.
    behind, before = began - (server + 1), server - ended
    apart = max(behind, before, 0.0)
    if apart > MOST_DIFFERENCE:
        which = "ahead of" if behind > before else "behind"
        return warn(
            "clock",
            f"this machine's clock is {apart:.0f} s {which} the API server's",
            "set this machine's clock (NTP): certificates, tokens and the times in reports depend on it.",
        )
    return ok("clock", "the clocks of this machine and the API server agree")


def moment(text: str) -> float | None:
    """The time of an API object (RFC 3339) in seconds since 1970; None if it is unreadable."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except ValueError:
        return None
