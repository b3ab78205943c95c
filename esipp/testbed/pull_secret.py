"""The image pull secret: a Secret in the run's namespace, copied or created from a docker config file.

esipp stores and logs only its source. The Secret is deleted with the namespace. Kubernetes documentation, "Pull an
Image from a Private Registry"; the file has the format of docker's config.json.
"""

import base64
import json
from pathlib import Path

from esipp.base.customisation import FILE, PULL_SECRET
from esipp.base.errors import PreflightError
from esipp.base.json import Json
from esipp.base.labels import labels_of
from esipp.base.redaction import KNOWN
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.rights import lacking, of_pull_secret
from esipp.testbed.images import registry_of

KINDS = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}  # the type of a Secret, and its key
OF_A_FILE = "kubernetes.io/dockerconfigjson"

WHAT = "image pull secret"
OPTION = "--image-pull-secret"
HINT_RIGHTS = (
    "docs/rights.md lists the rights for it, which docs/rbac.yaml omits; or configure the nodes to pull the images."
)
HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
"""Docker Hub's names; config files contain the second one, in a URL."""


def load(cluster: Cluster, source: str, image: str) -> Json | None:
    """Load the Secret's type and data; None without a source.

    Args:
        cluster: the cluster of the run, from which a Secret is copied.
        source: ``NAMESPACE/NAME`` or ``file:PATH``.
        image: the image to pull; from a file, only the credentials for its registry are used.

    Raises:
        PreflightError: the source is unreadable or has no credentials, or the account may not create the Secret.
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
        raise PreflightError(f"Cannot read {OPTION} {source}: {refused.message}", "check that it exists.") from None
    except UnreachableError as silent:
        raise PreflightError(
            f"Cannot read {OPTION} {source}: {silent}.", "check the health of the API server."
        ) from None
    _learn(found)
    return found


def manifest(run: str, found: Json) -> Json:
    """The Secret for the run's namespace."""
    metadata = {"name": PULL_SECRET, "labels": labels_of(run)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **found}


def _copied(cluster: Cluster, namespace: str, name: str) -> Json:
    """The credentials in a Secret of the cluster."""
    item = cluster.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    key = KINDS.get(str(item.get("type")), "")
    if not (item.get("data") or {}).get(key):
        raise PreflightError(
            f"{OPTION}: the Secret {namespace}/{name} of type {item.get('type')} has no credentials for images.",
            f"use a Secret of type {' or '.join(KINDS)}.",
        )
    return {"type": item["type"], "data": {key: item["data"][key]}}


def _of_file(path: Path, image: str) -> Json:
    """The credentials for the image's registry in a docker config file, and no others."""
    try:
        whole = json.loads(path.expanduser().read_text(encoding="utf-8"))
        entries = dict(whole.get("auths") or {})
    except (OSError, ValueError, TypeError, AttributeError) as broken:
        why = broken.strerror if isinstance(broken, OSError) else "it is not a docker config file"
        raise PreflightError(
            f"{OPTION}: cannot read {path}: {why}.", "use docker's config.json, or a file in the same format."
        ) from None
    host = registry_of(image)
    fit = {name: each for name, each in entries.items() if is_for(name, host) and isinstance(each, dict)}
    fit = {name: each for name, each in fit.items() if each.get("auth") or each.get("identitytoken")}
    if not fit:
        helper = whole.get("credsStore") or (whole.get("credHelpers") or {}).get(host)
        why = f", only the credential helper {helper}" if helper else ""
        raise PreflightError(
            f"{OPTION}: {path} has no credentials for {host}{why}.",
            "create a file with 'docker --config FOLDER login', without a helper; or create a Secret and name it.",
        )
    text = json.dumps({"auths": fit})
    return {"type": OF_A_FILE, "data": {KINDS[OF_A_FILE]: base64.b64encode(text.encode()).decode()}}


def is_for(entry: str, host: str) -> bool:
    """Whether an entry of the file, a host or a URL, is for this registry."""
    named = entry.partition("://")[2] or entry
    named = named.partition("/")[0]
    return named == host or {named, host} <= {*HUB}


def _learn(found: Json) -> None:
    """Register the credentials for redaction."""
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
            continue  # the kubelet reports invalid data
