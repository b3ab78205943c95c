"""A kubeconfig with the credentials of the pod that esipp runs in, for the Python client, kubectl and watchdogs.

The Kubernetes documentation describes the mounted files and the variables that name the API server ("Accessing the
Kubernetes API from a Pod"). The kubeconfig names the token file and contains no token. The kubelet renews the token
long before it expires. kubectl reads the file for each command, and ``Cluster`` reads it when a token is refused.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from esipp.base.errors import PreflightError, if_not_writable

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the service account: ``token``, ``ca.crt``, ``namespace``."""

CONTEXT = "in-cluster"
"""The name of the context. Hints show it in place of the user's own."""

HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_pod(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs in a pod, judging by the API server's address in the environment."""
    return bool(environment.get(HOST))


def config_of(environment: Mapping[str, str], account: Path) -> dict[str, object]:
    """The kubeconfig of this pod.

    Raises:
        PreflightError: this is not a pod, or the pod has no service account token.
    """
    if not is_pod(environment):
        raise PreflightError(
            f"--in-cluster works only in a pod, and this is not a pod: ${HOST} is not set.",
            "use --context NAME for a cluster in your kubeconfig; deploy/job.yaml runs esipp as a Job.",
        )
    for name in ("token", "ca.crt"):
        if not (account / name).is_file():
            raise PreflightError(
                f"This pod has no service account: {account / name} is missing.",
                "set automountServiceAccountToken: true in the pod's spec, or use a projected volume as in "
                "deploy/job.yaml.",
            )
    host = environment[HOST]
    server = f"https://{f'[{host}]' if ':' in host else host}:{environment.get(PORT) or 443}"
    try:
        namespace = (account / "namespace").read_text(encoding="utf-8").strip() or "default"
    except OSError:
        namespace = "default"
    cluster = {"server": server, "certificate-authority": str(account / "ca.crt")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": {"tokenFile": str(account / "token")}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}}],
        "current-context": CONTEXT,
    }


@cache
def kubeconfig() -> str:
    """Write the kubeconfig of this pod, once per process, and return its path.

    The file remains when the process ends, because the watchdog (``disruption/watchdog.py``) may outlive the process.

    Raises:
        PreflightError: see ``config_of``; or the file cannot be written.
    """
    config = config_of(os.environ, ACCOUNT)
    with if_not_writable("Cannot write the pod's kubeconfig", "mount an emptyDir at /tmp, or name one in TMPDIR."):
        path = Path(tempfile.mkdtemp(prefix="esipp-")) / "kubeconfig"
        path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    return str(path)


def named(context: str | None, file: str | None, in_cluster: bool, *, yes: bool = False) -> tuple[str, str | None]:
    """The context and the kubeconfig that the options name, or the current context, if the user confirms it.

    Args:
        context, file: ``--context`` and ``--kubeconfig``.
        in_cluster: ``--in-cluster``.
        yes: ``--yes``: the current context is confirmed. Without it a terminal is asked.

    Raises:
        PreflightError: the options name no cluster, or two.
    """
    if in_cluster and (context or file):
        given = "--context" if context else "--kubeconfig"
        raise PreflightError(f"--in-cluster and {given} name two accounts.", "use one of them.")
    if in_cluster:
        return CONTEXT, kubeconfig()
    if context:
        return context, file
    if is_pod():
        raise PreflightError(
            "No cluster is named, and this is a pod.",
            "use --in-cluster for the cluster that the pod runs in; there is no default cluster.",
        )
    from esipp.cluster.client import current_context

    current = current_context(file)
    if current and (yes or _confirmed(current)):
        return current, file
    hint = f"use --context NAME, or --yes for the current context, {current}." if current else "use --context NAME."
    raise PreflightError("No cluster is named.", hint)


def _confirmed(context: str) -> bool:
    """Whether the user at the terminal confirms a context; without a terminal nobody does."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"Use the current context '{context}'? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
