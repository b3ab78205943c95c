"""Installation of flannel from its manifest, as the network add-on beside kube-proxy, with its VXLAN backend.

The manifest is the published one on both paths. Two things are changed: flannel gets the pods' subnets of the cluster's
families, and the image of its CNI plugin also has the plugin that it calls, as kind's node images lack it. The official
path pulls the images that the manifest names, the hermetic path builds them (`hermetic/flannel.py`).
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.hermetic import golang
from ci.hermetic.store import Store, key_of
from ci.lane_file import Lane
from ci.places import CONTEXT, Places, versions
from ci.published import fetch
from ci.step import Journal, SetupError

NAMESPACE, DAEMON_SET = "kube-flannel", "kube-flannel-ds"
CONFIG, NETWORK = "kube-flannel-cfg", "net-conf.json"
PLUGIN, CALLED = "install-cni-plugin", "bridge"
PLUGINS = "localhost/esipp/flannel-cni-plugin"
READY_SECONDS = 180


@dataclass(frozen=True)
class Flannel:
    """What flannel is installed from.

    Args:
        manifest: its manifest.
        called: the CNI plugin that flannel's own calls.
        images: the images that nodes cannot pull, and that are loaded into them.
        plugin: the image that has flannel's own CNI plugin as ``/flannel``; default: the manifest's.
    """

    manifest: Path
    called: Path
    images: tuple[str, ...] = ()
    plugin: str = ""


def published(places: Places, journal: Journal) -> Flannel:
    """For the official path: fetch the manifest, and build the plugin that kind's node images lack."""
    manifest = fetch("flannel", versions()["flannel"], places, journal)
    return Flannel(manifest, called(Store(places), journal))


def called(store: Store, journal: Journal) -> Path:
    """The CNI plugin that flannel's own calls, built from its Go module if need be."""
    return golang.cni_plugins().get(store, journal) / CALLED


def install(
    flannel: Flannel, lane: Lane, load: Callable[[ClusterAccess, str], None], there: ClusterAccess, journal: Journal
) -> None:
    """Install it; returns when its agent is ready on every node.

    Args:
        flannel: what it is installed from.
        lane: the cluster's lane.
        load: loads an image into the nodes.
        there: the cluster.
        journal: where its steps are noted.
    """
    documents = documents_of(flannel.manifest)
    plugins = build(there, flannel, documents, journal)
    for image in (*flannel.images, plugins):
        load(there, image)
    hint = f"ci/enter kubectl --context {CONTEXT} -n {NAMESPACE} logs daemonset/{DAEMON_SET} --all-containers"
    with journal.step("install flannel", hint=hint) as step:
        path = step.log.with_suffix(".yaml")
        path.write_text(yaml.safe_dump_all(adapted(documents, plugins, lane.pod_subnets), sort_keys=False))
        kubectl(there, step, "apply", "--server-side", "--filename", path)
        wait = ["rollout", "status", f"daemonset/{DAEMON_SET}", f"--timeout={READY_SECONDS}s"]
        kubectl(there, step, *wait, "--namespace", NAMESPACE)
        step.note = versions()["flannel"]["version"]


def build(there: ClusterAccess, flannel: Flannel, documents: list[dict[str, Any]], journal: Journal) -> str:
    """Build the image of CNI plugins, flannel's own and the one that it calls, and return its name."""
    base = flannel.plugin or _container(documents, PLUGIN)["image"]
    image = f"{PLUGINS}:{key_of(base, flannel.called)}"
    with journal.step("build flannel's image of CNI plugins") as step, tempfile.TemporaryDirectory() as folder:
        shutil.copy(flannel.called, folder)
        (Path(folder) / "Dockerfile").write_text(f"FROM {base}\nCOPY {CALLED} /\n")
        there.run(step, "docker", "build", "--tag", image, folder)
    return image


def documents_of(manifest: Path) -> list[dict[str, Any]]:
    """The objects of the manifest."""
    return [document for document in yaml.safe_load_all(manifest.read_text()) if document]


def images_of(documents: list[dict[str, Any]]) -> tuple[str, str]:
    """The images that the manifest names: flannel's, and that of its CNI plugin."""
    return _container(documents, "kube-flannel")["image"], _container(documents, PLUGIN)["image"]


def adapted(documents: list[dict[str, Any]], plugins: str, subnets: dict[str, str]) -> list[dict[str, Any]]:
    """Give the manifest the image of CNI plugins, and the pods' subnets by family.

    Raises:
        SetupError: the manifest has another form.
    """
    config = next((each for each in documents if each["metadata"]["name"] == CONFIG), None)
    if not config or NETWORK not in config.get("data", {}):
        raise _changed()
    network = json.loads(config["data"][NETWORK])
    for key, family in (("", "ipv4"), ("IPv6", "ipv6")):
        network.pop(f"{key}Network", None)
        network[f"Enable{family.replace('ip', 'IP')}"] = family in subnets
        network |= {f"{key}Network": subnets[family]} if family in subnets else {}
    config["data"][NETWORK] = json.dumps(network, indent=2)
    container = _container(documents, PLUGIN)
    container |= {"image": plugins, "command": ["cp"], "args": ["-f", "/flannel", f"/{CALLED}", "/opt/cni/bin/"]}
    return documents


def _container(documents: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for document in documents:
        if document["metadata"]["name"] == DAEMON_SET:
            pod = document["spec"]["template"]["spec"]
            for container in (*pod["initContainers"], *pod["containers"]):
                if container["name"] == name:
                    found: dict[str, Any] = container
                    return found
    raise _changed()


def _changed() -> SetupError:
    return SetupError("flannel's manifest has an unexpected form.", "adapt ci/flannel.py.")
