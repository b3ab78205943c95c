"""Additional accounts on the cluster, and their kubeconfigs."""

import base64
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from esipp.cluster.client import Cluster
from tests.hostile.running import control_plane, docker

ISSUER = "https://kubernetes.default.svc.cluster.local"


@contextmanager
def account(cluster: Cluster, name: str, role: str = "cluster-admin") -> Iterator[Callable[[int], str]]:
    """An account with the rights of a ClusterRole, and how its tokens are made, which hold for so many seconds."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    try:
        made = cluster.create(accounts, {"metadata": {"name": name}})
        granted = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        cluster.create(bindings, {"metadata": {"name": name}, "roleRef": granted, "subjects": [subject]})

        def token(seconds: int) -> str:
            """The API server itself makes none that hold for less than ten minutes; its key does."""
            now = int(time.time())
            who = {"name": name, "uid": made["metadata"]["uid"]}
            claims = {
                "iss": ISSUER, "aud": [ISSUER], "sub": f"system:serviceaccount:default:{name}", "iat": now,
                "nbf": now, "exp": now + seconds, "kubernetes.io": {"namespace": "default", "serviceaccount": who},
            }  # fmt: skip
            return _signed(claims, docker("exec", control_plane(cluster), "cat", "/etc/kubernetes/pki/sa.key"))

        yield token
    finally:
        cluster.delete(f"{bindings}/{name}")
        cluster.delete(f"{accounts}/{name}")


def _signed(claims: dict[str, Any], key: str) -> str:
    """A JSON Web Token, RS256."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    body = ".".join(part(json.dumps(each).encode()) for each in ({"alg": "RS256", "typ": "JWT"}, claims))
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(key)
        file.flush()
        sign = ["openssl", "dgst", "-sha256", "-sign", file.name]
        made = subprocess.run(sign, input=body.encode(), capture_output=True, check=True)
    return f"{body}.{part(made.stdout)}"


def view(cluster: Cluster) -> dict[str, Any]:
    """The kubeconfig of the cluster's context, and nothing else of the file."""
    command = ["kubectl", "config", "view", "--raw", "--minify", "--flatten", "--context", cluster.context]
    done = subprocess.run([*command, "-o", "json"], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kubeconfig_with(cluster: Cluster, file: Path, token: str) -> Path:
    """A kubeconfig for the same cluster, and another account."""
    config = view(cluster)
    config["users"][0]["user"] = {"token": token}
    file.write_text(json.dumps(config))
    return file
