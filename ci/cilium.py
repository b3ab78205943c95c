"""Installation of Cilium from its chart, in place of the network add-on and, by default, of kube-proxy.

On both paths the chart comes from Cilium's Go module, pinned by `hermetic/modules/cilium/VERSION/go.sum`. The official
path pulls the chart's images; the hermetic path builds them into the nodes (`hermetic/cilium.py`).
"""

import copy
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ci import network
from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.hermetic.golang import cilium_module
from ci.lane_file import CILIUM, Lane
from ci.places import CI, CLUSTER, CONTEXT, versions
from ci.step import Journal, SetupError, output

VALUES = CI / "cilium-values.yaml"
READY_SECONDS = 300  # each agent compiles its programs on its node
NAMESPACE = "kube-system"
MODULE, CHART = "github.com/cilium/cilium", "install/kubernetes/cilium"
DOWNLOAD_SECONDS = 600


@dataclass(frozen=True)
class Chart:
    """The tools to install Cilium: helm, and the folder of the chart."""

    helm: Path
    folder: Path


def fetch_chart(folder: Path, version: str, journal: Journal) -> Chart:
    """For the official path: return helm, from PATH or built into ``folder``, and the chart's folder in Go's cache.

    Raises:
        SetupError: Go is missing, no module proxy is reachable, or no module pins the version.
    """
    module = cilium_module(version)
    go = shutil.which("go")
    if not go:
        raise SetupError("Cilium's chart comes from its Go module, but Go is not installed.", "install Go.")
    with journal.step(f"fetch Cilium {version}'s chart and helm") as step:
        step.hint = "check that the Go module proxy is reachable."
        helm = shutil.which("helm")
        if not helm:
            env = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
            step.run([go, "install", f"helm.sh/helm/v3/cmd/helm@{versions()['helm']['version']}"], env=env)
            helm = str(folder / "helm")
        # Go holds what it downloads there against go.sum.
        answer = output([go, "-C", module, "mod", "download", "-json", MODULE], timeout=DOWNLOAD_SECONDS)
        where = str(json.loads(answer).get("Dir") or "") if answer else ""
        if not where or not (Path(where) / CHART).is_dir():
            raise SetupError(f"The Go module {MODULE} is not available.", step.hint, step.log)
    return Chart(Path(helm), Path(where) / CHART)


def values(lane: Lane) -> dict[str, Any]:
    """The chart's values for a lane: the common ones, those from its kind config, then its own."""
    here: dict[str, Any] = {"k8sServiceHost": f"{CLUSTER}-control-plane", "k8sServicePort": 6443}
    here["kubeProxyReplacement"] = lane.service_proxy == CILIUM
    for key in ("ipv4", "ipv6"):
        its = lane.pod_subnets.get(key)
        here[key] = {"enabled": bool(its)}
        here |= {f"{key}NativeRoutingCIDR": its} if its else {}
    return laid_over(laid_over(yaml.safe_load(VALUES.read_text()), here), lane.cilium_values)


def laid_over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Lay mappings over each other key by key, as helm does with several files of values."""
    merged = copy.deepcopy(dict(base))
    for key, value in more.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = laid_over(below, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def render(chart: Chart, lane: Lane, kubernetes: str, file: Path) -> str:
    """Render the chart, with the values written to ``file``.

    Raises:
        SetupError: helm refuses.
    """
    file.write_text(yaml.safe_dump(values(lane), sort_keys=False))
    options = ["--namespace", NAMESPACE, "--values", str(file), "--kube-version", kubernetes]
    command = [str(chart.helm), "template", "cilium", str(chart.folder), *options]
    rendered = output(command, timeout=120)
    if not rendered:
        raise SetupError("helm cannot render Cilium's chart.", " ".join(command))
    return rendered


def check_cgroups(there: ClusterAccess, lane: str) -> None:
    """Make sure that each node has a cgroup of its own in the cgroup v2 hierarchy, where its agent attaches programs.

    The root of the hierarchy has no such file; who has no other cgroup there is on it with all of the machine.

    Raises:
        SetupError: a node has none.
    """
    mounted = "mount -t cgroup2 none /mnt && test -e /mnt/cgroup.events"
    for node in network.node_addresses(there):
        if there.ask("docker", "exec", "--privileged", node, "unshare", "--mount", "sh", "-c", mounted) is None:
            raise SetupError(
                f"The lane '{lane}' cannot run here: {node} has no cgroup v2 of its own, so that Cilium's socket "
                "programs would act on all of this machine.",
                "use a machine with cgroup v2, or kind-cilium: its programs act on the nodes' own namespaces only.",
            )


def install(chart: Chart, lane: Lane, there: ClusterAccess, journal: Journal) -> None:
    """Install it; returns when every node's agent, and the operator, are ready.

    Raises:
        SetupError: helm refuses, it does not become ready, or its socket programs would act on more than the cluster.
    """
    hint = f"ci/enter kubectl --context {CONTEXT} -n {NAMESPACE} logs daemonset/cilium --all-containers"
    with journal.step("install Cilium", hint=hint) as step:
        if not values(lane)["socketLB"]["hostNamespaceOnly"]:
            check_cgroups(there, lane.name)
        path = step.log.with_suffix(".yaml")
        path.write_text(render(chart, lane, there.kubernetes, step.log.with_suffix(".values.yaml")))
        kubectl(there, step, "apply", "--server-side", "--filename", path)
        for what in ("daemonset/cilium", "deployment/cilium-operator"):
            wait = ["rollout", "status", what, f"--timeout={READY_SECONDS}s", "--namespace", NAMESPACE]
            kubectl(there, step, *wait)
        how = f"{values(lane)['loadBalancer']['mode']} mode" if lane.service_proxy == CILIUM else "beside kube-proxy"
        step.note = f"{lane.cilium_version}, {how}"
