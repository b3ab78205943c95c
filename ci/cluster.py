"""The kind cluster, the same on both paths: create, load the echo image, wait for the nodes, delete."""

import contextlib
import json
from pathlib import Path
from typing import Any

import yaml

from ci.access import ClusterAccess
from ci.containers import Image, name_of
from ci.lane_file import Lane
from ci.places import CLUSTER, CONTEXT, ROOT, Places
from ci.step import Journal, SetupError, Step

ECHO = Image("localhost/esipp/echoserver", ROOT / "images" / "echoserver", "the echo server's")
READY_SECONDS = 180


def config_file(places: Places) -> Path:
    """The path of the current cluster's kind config."""
    return places.run / "kind.yaml"


def config_of(lane: Lane, *, hermetic: bool) -> str:
    """Return the lane's kind config, without the add-ons of kubeadm that something else installs."""
    config: dict[str, Any] = yaml.safe_load(lane.kind_config.read_text())
    without = ["addon/coredns"] if hermetic else []  # ci/hermetic/coredns.py deploys it
    without += ["addon/kube-proxy"] if lane.kube_proxy else []  # ci/kube_proxy.py does
    if without:
        # Naming skipPhases replaces kind's own: preflight, and a kube-proxy that is not wanted.
        unwanted = config.get("networking", {}).get("kubeProxyMode") == "none"
        phases = ["preflight", *without, *(["addon/kube-proxy"] if unwanted else [])]
        skip = {"kind": "InitConfiguration", "skipPhases": phases}
        config["kubeadmConfigPatches"] = [*config.get("kubeadmConfigPatches", []), yaml.safe_dump(skip)]
    text = yaml.safe_dump(config, sort_keys=False)
    return text + (f"# {lane.made_from}\n" if lane.made_from else "")


def write_config(lane: Lane, places: Places, *, hermetic: bool) -> Path:
    """Write the kind config down: a kept cluster is used again only by the same one."""
    path = config_file(places)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config_of(lane, hermetic=hermetic))
    return path


def made_as(lane: Lane, places: Places, *, hermetic: bool) -> bool:
    """Say whether the cluster at hand was made by the kind config that the lane has now."""
    with contextlib.suppress(OSError):
        return config_file(places).read_text() == config_of(lane, hermetic=hermetic)
    return False


def create(there: ClusterAccess, config: Path, journal: Journal, logs: Path) -> None:
    """Create the cluster; when that fails its logs are exported before it is deleted."""
    what = f"create the kind cluster '{CLUSTER}', Kubernetes {there.kubernetes}"
    with journal.step(what, hint=f"node logs are in {logs}/nodes") as step:
        try:
            # --retain: a failed cluster tells why; it is deleted below.
            options = ("--name", CLUSTER, "--image", there.node_image, "--config", config, "--retain", "--wait", "0s")
            there.run(step, "kind", "create", "cluster", *options)
        except SetupError as error:
            there.ask("kind", "export", "logs", "--name", CLUSTER, logs / "nodes", timeout=60)
            kubelets = [path.read_text(errors="replace") for path in (logs / "nodes").glob("*/kubelet.log")]
            if any("too many open files" in text for text in kubelets):
                error.hint = "the kubelets ran out of inotify instances: sysctl fs.inotify.max_user_instances=1024"
            raise


def delete(there: ClusterAccess, step: Step) -> None:
    """Delete the cluster, if it exists."""
    there.run(step, "kind", "delete", "cluster", "--name", CLUSTER)


def healthy(there: ClusterAccess) -> bool:
    """Whether the cluster runs: all of its nodes are Ready."""
    if there.ask("docker", "version", timeout=10) is None:
        return False
    text = there.ask("kubectl", "--context", CONTEXT, "--request-timeout=5s", "get", "nodes", "-o", "json", timeout=15)
    nodes = json.loads(text)["items"] if text else []
    return bool(nodes) and all(_ready(node) for node in nodes)


def _ready(node: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))


def await_nodes(there: ClusterAccess, journal: Journal) -> None:
    """Wait until every node is Ready."""
    with journal.step("wait for the nodes to be Ready", hint="ci/enter kubectl describe nodes") as step:
        kubectl(there, step, "wait", "node", "--all", "--for=condition=Ready", f"--timeout={READY_SECONDS}s")


def kubectl(there: ClusterAccess, step: Step, *arguments: str | Path, stdin: bytes | None = None) -> None:
    """Run kubectl against the cluster."""
    there.run(step, "kubectl", "--context", CONTEXT, *arguments, stdin=stdin)


def load_echo(there: ClusterAccess, reference: str, journal: Journal) -> None:
    """Load an image into every node that lacks it."""
    with journal.step(f"load {name_of(reference)} into the nodes") as step:
        there.run(step, "kind", "load", "docker-image", "--name", CLUSTER, reference)
