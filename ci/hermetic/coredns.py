"""Installation of kubeadm's CoreDNS on a cluster without an uplink, without forwarding.

kubeadm's own add-on phase is skipped, because its Corefile forwards to the node's resolver. Instead, the manifest that
kubeadm prints for this cluster is changed and applied, so the Service's address and the rights are kubeadm's.
"""

from typing import Any

import yaml

from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.places import CLUSTER, CONTEXT
from ci.step import Journal, SetupError

READY_SECONDS = 120
# kind keeps its kubeadm configuration there, which has the Service subnets of the cluster's families.
PRINT = "kubeadm init phase addon coredns --print-manifest --config /kind/kubeadm.conf"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# `forward` asks the node's resolver, `loop` asks itself by way of it, and what falls through has nowhere to go.
OUTWARD = ("forward", "loop", "fallthrough")
ELSEWHERE = """.:53 {
    errors
    template ANY ANY {
        rcode NXDOMAIN
    }
}
"""


def install(there: ClusterAccess, journal: Journal) -> None:
    """Deploy CoreDNS, and wait until it is ready; MetalLB's parallel installation takes longer."""
    hint = f"ci/enter kubectl --context {CONTEXT} -n kube-system describe pods -l k8s-app=kube-dns"
    with journal.step("install CoreDNS", hint=hint) as step:
        printed = there.ask("docker", "exec", f"{CLUSTER}-control-plane", *PRINT.split())
        if not printed:
            raise SetupError(
                "kubeadm does not print its CoreDNS manifest.", "check that its configuration still exists on the node."
            )
        path = step.log.with_suffix(".yaml")
        path.write_text(adapted(printed))
        kubectl(there, step, "apply", "--server-side", "--filename", path)
        status = ["rollout", "status", "deployment/coredns", f"--timeout={READY_SECONDS}s"]
        kubectl(there, step, *status, "--namespace", "kube-system")


def adapted(manifest: str) -> str:
    """Return kubeadm's manifest for one replica that is noticed soon, with a Corefile that leads nowhere outside."""
    documents: list[dict[str, Any]] = [document for document in yaml.safe_load_all(manifest) if document]
    for document in documents:
        document["metadata"].pop("resourceVersion", None)  # it has one for updates, which an apply refuses
        if document["kind"] == "ConfigMap":
            document["data"]["Corefile"] = isolated(document["data"]["Corefile"])
        elif document["kind"] == "Deployment":
            document["spec"]["replicas"] = 1
            pod = document["spec"]["template"]["spec"]
            # Where kubeadm's lands as well, since only that node is there: suites and tests break workers.
            pod["nodeSelector"][CONTROL_PLANE] = ""
            for container in pod["containers"]:
                container["readinessProbe"]["periodSeconds"] = 1
    return yaml.safe_dump_all(documents, sort_keys=False)


def isolated(corefile: str) -> str:
    """Return the Corefile, serving the cluster's own zones only; every other name does not exist.

    A resolver that tries its search list meets names of other zones: as with an upstream server, they must be denied,
    where an error would make it report a trouble instead of a missing name.
    """
    lines: list[str] = []
    depth = 0  # of the block that is being left out
    zones: list[str] = []
    for line in corefile.splitlines():
        fields = line.split() or [""]
        if depth or fields[0] in OUTWARD:
            depth += line.count("{") - line.count("}")
            continue
        if fields[0] == "kubernetes":
            zones = [field for field in fields[1:] if field != "{"]
        lines.append(line)
    if not zones or not lines or lines[0].strip() != ".:53 {":
        raise SetupError("kubeadm's Corefile has an unexpected form.", "adapt ci/hermetic/coredns.py.")
    lines[0] = " ".join(f"{zone}:53" for zone in zones) + " {"
    return "\n".join(lines) + "\n" + ELSEWHERE
