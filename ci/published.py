"""Installation of components from published images: Calico, cloud-provider-kind."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import requests

from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.needs import CALICO, CLOUD_PROVIDER
from ci.places import CLUSTER, Places, versions
from ci.step import Journal, SetupError

CONTAINER = "esipp-cloud-provider"
OF_THE_CLUSTER = f"label=io.x-k8s.cloud-provider-kind.cluster={CLUSTER}"
"""The label of cloud-provider-kind's containers for this cluster."""
SOCKET = "/var/run/docker.sock"


def install(there: ClusterAccess, names: Sequence[str], where: Places, journal: Journal) -> None:
    """Bring into a new cluster what its lane takes as published; nodes and Services wait for it by themselves."""
    if CALICO in names:
        pinned = versions()[CALICO]
        manifest = fetch("Calico", pinned, where, journal)
        with journal.step(f"install Calico {pinned['version']}") as step:
            kubectl(there, step, "apply", "--server-side", "--filename", manifest)
    if CLOUD_PROVIDER in names:
        pinned = versions()[CLOUD_PROVIDER]
        with journal.step(f"start cloud-provider-kind {pinned['version']}", hint=f"docker logs {CONTAINER}") as step:
            options = ["--detach", "--name", CONTAINER, "--network", "kind", "--volume", f"{SOCKET}:{SOCKET}"]
            there.run(step, "docker", "run", *options, pinned["image"])


def remove(there: ClusterAccess) -> None:
    """Remove the containers next to the nodes; the other objects disappear with the cluster."""
    there.ask("docker", "rm", "--force", "--volumes", CONTAINER)
    made = (there.ask("docker", "ps", "--all", "--quiet", "--filter", OF_THE_CLUSTER) or "").split()
    if made:
        there.ask("docker", "rm", "--force", "--volumes", *made)


def fetch(what: str, pinned: Mapping[str, str], places: Places, journal: Journal) -> Path:
    """A released manifest, downloaded once and checked against its digest.

    Args:
        what: the component, for messages.
        pinned: ``version``, ``manifest`` (its URL) and ``sha256``, from ci/versions.toml.

    Raises:
        SetupError: the download fails, or has another digest.
    """
    path = places.artifacts / f"{what.lower()}-manifest" / f"{pinned['sha256']}.yaml"
    if not path.is_file():
        with journal.step(f"download {what} {pinned['version']}'s manifest") as step:
            try:
                answer = requests.get(pinned["manifest"], timeout=30)
                answer.raise_for_status()
            except requests.RequestException as error:
                raise SetupError(
                    f"Cannot download {what}'s manifest: {error}.", "check that the internet is reachable."
                ) from error
            content = answer.content
            found = hashlib.sha256(content).hexdigest()
            if found != pinned["sha256"]:
                raise SetupError(
                    f"{what}'s manifest has the digest {found}.", "ci/versions.toml pins another one: do not use it."
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_suffix(".half")
            half.write_bytes(content)
            half.rename(path)
            step.note = f"{len(content)} bytes"
    return path
