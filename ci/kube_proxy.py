"""Installation of a kube-proxy that is older than the API server, as after an upgrade of the control plane alone.

kubeadm's own add-on phase is skipped, so no kube-proxy of the cluster's version ever writes rules. The manifest that
kubeadm prints for this cluster is applied, with another image.
"""

from typing import Any

import yaml

from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.places import CLUSTER, CONTEXT
from ci.step import Journal, SetupError

NAME = "kube-proxy"
ROLLOUT_SECONDS = 120
PRINT = "kubeadm init phase addon kube-proxy --print-manifest --config /kind/kubeadm.conf"


def install(there: ClusterAccess, image: str, journal: Journal) -> None:
    """Deploy kube-proxy of an image that the nodes have, and wait until it runs on each of them."""
    version = image.rpartition(":")[2]
    hint = f"ci/enter kubectl --context {CONTEXT} -n kube-system describe pods -l k8s-app=kube-proxy"
    with journal.step(f"install kube-proxy {version}", hint=hint) as step:
        printed = there.ask("docker", "exec", f"{CLUSTER}-control-plane", *PRINT.split())
        if not printed:
            raise SetupError(
                "kubeadm does not print its kube-proxy manifest.",
                "check that its configuration still exists on the node.",
            )
        path = step.log.with_suffix(".yaml")
        path.write_text(with_image(printed, image))
        kubectl(there, step, "apply", "--server-side", "--filename", path)
        status = ["rollout", "status", f"daemonset/{NAME}", f"--timeout={ROLLOUT_SECONDS}s"]
        kubectl(there, step, *status, "--namespace", "kube-system")


def with_image(manifest: str, image: str) -> str:
    """Return kubeadm's manifest with another image of kube-proxy.

    Raises:
        SetupError: it has no DaemonSet with a container of this name, or no configuration.
    """
    documents: list[dict[str, Any]] = [document for document in yaml.safe_load_all(manifest) if document]
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "DaemonSet"]
    containers = [part for pod in pods for part in pod["containers"] if part["name"] == NAME]
    if len(containers) != 1 or not any(each["kind"] == "ConfigMap" for each in documents):
        raise SetupError("kubeadm's kube-proxy manifest has an unexpected form.", "adapt ci/kube_proxy.py.")
    containers[0]["image"] = image
    return yaml.safe_dump_all(documents, sort_keys=False)
