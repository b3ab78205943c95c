"""The credentials of the pod that esipp runs in, as a kubeconfig: one way for the Python client, kubectl and watchdogs.

What the kubelet mounts into a pod, and the variables that name the API server, are the Kubernetes documentation's
("Accessing the Kubernetes API from a Pod"). The kubeconfig names the token's file and holds no token. The kubelet
writes a new one long before the old one ends: kubectl reads the file anew for each command, and ``Cluster`` as soon as
a token is refused.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from esipp.base.errors import PreflightError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the service account: ``token``, ``ca.crt``, ``namespace``."""

CONTEXT = "in-cluster"
"""What the context is called, and stands in hints in place of the reader's own."""

HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_pod(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this looks like a pod: the API server's address is in the environment."""
    return bool(environment.get(HOST))


def config_of(environment: Mapping[str, str], account: Path) -> dict[str, object]:
    """The kubeconfig of this pod.

    Raises:
        PreflightError: this is no pod, or one without a service account's token.
    """
    if not is_pod(environment):
        raise PreflightError(
            f"--in-cluster is for pods, and this is none: ${HOST} is not set.",
            "--context NAME for a cluster of your kubeconfig; deploy/job.yaml runs esipp as a Job.",
        )
    for name in ("token", "ca.crt"):
        if not (account / name).is_file():
            raise PreflightError(
                f"This pod has no service account: {account / name} is missing.",
                "automountServiceAccountToken: true in the pod's spec, or a projected volume as in deploy/job.yaml.",
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
    """Write the kubeconfig of this pod, once a process, and return its path.

    It stays when the process has ended: what watches over disruptions (``disruption/leash.py``) may outlive it.

    Raises:
        PreflightError: see ``config_of``; or there is nowhere to write.
    """
    config = config_of(os.environ, ACCOUNT)
    try:
        path = Path(tempfile.mkdtemp(prefix="esipp-")) / "kubeconfig"
        path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    except OSError as broken:
        raise PreflightError(
            f"The pod's kubeconfig cannot be written: {broken.strerror}.",
            "mount an emptyDir at /tmp, or name one in TMPDIR.",
        ) from None
    return str(path)


def named(context: str | None, file: str | None, in_cluster: bool) -> tuple[str, str | None]:
    """Which context of which kubeconfig the options mean.

    Args:
        context, file: ``--context`` and ``--kubeconfig``.
        in_cluster: ``--in-cluster``.

    Raises:
        PreflightError: none, or two.
    """
    if in_cluster and (context or file):
        given = "--context" if context else "--kubeconfig"
        raise PreflightError(f"--in-cluster and {given} name two accounts.", "one of them.")
    if in_cluster:
        return CONTEXT, kubeconfig()
    if context:
        return context, file
    if is_pod():
        raise PreflightError(
            "No cluster is named, and this is a pod.",
            "--in-cluster asks the cluster that it runs in; nothing is run against a cluster by default.",
        )
    raise PreflightError("No cluster is named.", "--context NAME; nothing is run against a cluster by default.")
