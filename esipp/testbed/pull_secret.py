"""What images are pulled with: a Secret in the run's namespace, copied or made of a docker config file.

Nothing of it but where it comes from is kept, told or logged. It goes with the namespace. Kubernetes documentation,
"Pull an Image from a Private Registry"; the file's form is docker's config.json.
"""

import base64
import json
from pathlib import Path
from typing import Any

from esipp.base.customisation import FILE, PULL_SECRET
from esipp.base.errors import PreflightError
from esipp.base.labels import labels_of
from esipp.base.redaction import KNOWN
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.rights import lacking, of_pull_secret
from esipp.testbed.images import registry_of

Json = dict[str, Any]

KINDS = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}  # the type of a Secret, and the key that it has then
OF_A_FILE = "kubernetes.io/dockerconfigjson"

WHAT = "image pull secret"
OPTION = "--image-pull-secret"
HINT_RIGHTS = (
    "docs/rights.md has the rights for it, which docs/rbac.yaml leaves out; or let the nodes pull by themselves."
)
HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
"""Docker Hub's names, of which config files have the second one, in a URL."""


def load(cluster: Cluster, source: str, image: str) -> Json | None:
    """The Secret's type and data; None where none is asked for.

    Args:
        cluster: where it is to be, and where it is copied from.
        source: ``NAMESPACE/NAME`` or ``file:PATH``.
        image: what is to be pulled; of a file only what is for its registry is taken.

    Raises:
        PreflightError: it cannot be read, has nothing to pull with, or may not be made.
    """
    if not source:
        return None
    from_file = source.startswith(FILE)
    namespace, _, name = ("", "", "") if from_file else source.partition("/")
    try:
        if missing := lacking(cluster, of_pull_secret(namespace, name)):
            raise PreflightError(
                f"{OPTION} {source}: the account of context '{cluster.context}' lacks these rights: "
                f"{', '.join(map(str, missing))}.",
                HINT_RIGHTS,
            )
        found = _of_file(Path(source.removeprefix(FILE)), image) if from_file else _copied(cluster, namespace, name)
    except ApiError as refused:
        raise PreflightError(f"{OPTION} {source} cannot be read: {refused.message}", "is it there?") from None
    except UnreachableError as silent:
        raise PreflightError(f"{OPTION} {source} cannot be read: {silent}.", "is the API server well?") from None
    _learn(found)
    return found


def manifest(run: str, found: Json) -> Json:
    """The Secret of the run's namespace."""
    metadata = {"name": PULL_SECRET, "labels": labels_of(run)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **found}


def _copied(cluster: Cluster, namespace: str, name: str) -> Json:
    """What a Secret of the cluster has to pull with."""
    item = cluster.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    key = KINDS.get(str(item.get("type")), "")
    if not (item.get("data") or {}).get(key):
        raise PreflightError(
            f"{OPTION}: the Secret {namespace}/{name} is of type {item.get('type')}, with which nothing is pulled.",
            f"its type must be {' or '.join(KINDS)}.",
        )
    return {"type": item["type"], "data": {key: item["data"][key]}}


def _of_file(path: Path, image: str) -> Json:
    """What a docker config file has for the image's registry, and nothing of its others."""
    try:
        whole = json.loads(path.expanduser().read_text(encoding="utf-8"))
        entries = dict(whole.get("auths") or {})
    except (OSError, ValueError, TypeError, AttributeError) as broken:
        why = broken.strerror if isinstance(broken, OSError) else "it is no docker config file"
        raise PreflightError(
            f"{OPTION}: {path} cannot be read: {why}.", "docker's config.json, or one like it."
        ) from None
    host = registry_of(image)
    fit = {name: each for name, each in entries.items() if _is_for(name, host) and isinstance(each, dict)}
    fit = {name: each for name, each in fit.items() if each.get("auth") or each.get("identitytoken")}
    if not fit:
        helper = whole.get("credsStore") or (whole.get("credHelpers") or {}).get(host)
        why = f", but the credential helper {helper}" if helper else ""
        raise PreflightError(
            f"{OPTION}: {path} has nothing for {host}{why}.",
            "make a file with 'docker --config FOLDER login', without a helper; or a Secret, and name that.",
        )
    text = json.dumps({"auths": fit})
    return {"type": OF_A_FILE, "data": {KINDS[OF_A_FILE]: base64.b64encode(text.encode()).decode()}}


def _is_for(entry: str, host: str) -> bool:
    """Whether an entry of the file, a host or a URL, is for this registry."""
    named = entry.partition("://")[2] or entry
    named = named.partition("/")[0]
    return named == host or {named, host} <= {*HUB}


def _learn(found: Json) -> None:
    """Know what is secret in it, so that it is hidden wherever it stands."""
    for data in found["data"].values():
        KNOWN.learn(WHAT, data)
        try:
            whole = json.loads(base64.b64decode(data))
            for each in (whole.get("auths") or whole).values():
                for key in ("auth", "password", "identitytoken", "registrytoken"):
                    KNOWN.learn(WHAT, each.get(key))
                account = base64.b64decode(each.get("auth") or "").decode()  # user:password
                KNOWN.learn(WHAT, account)
                KNOWN.learn(WHAT, account.partition(":")[2])
        except (ValueError, AttributeError, TypeError):
            continue  # not ours to judge: the kubelet will say so
