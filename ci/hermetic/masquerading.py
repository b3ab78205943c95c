"""kindnet's masquerading, imitated: kind's own network has it on the official path, the hermetic path's has not.

kindnet masquerades whatever leaves a node for an address that is neither a pod's nor the node's own, whoever sent it:
https://github.com/kubernetes-sigs/kind/blob/main/images/kindnetd/cmd/kindnetd/masq.go
"""

import yaml

from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.lane_file import Lane
from ci.places import CI, CONTEXT
from ci.step import Journal

MANIFEST = CI / "hermetic" / "masquerading.yaml"
NAMESPACE, DAEMON_SET = "kube-system", "esipp-network-masquerading"
PROGRAMS = {"ipv4": "iptables", "ipv6": "ip6tables"}
READY_SECONDS = 120


def install(image: str, lane: Lane, there: ClusterAccess, journal: Journal) -> None:
    """Masquerade on every node; returns when all have the rules.

    Args:
        image: the base image, which nodes have.
        lane: the cluster's lane.
        there: the cluster.
        journal: where its step is noted.
    """
    hint = f"ci/enter kubectl --context {CONTEXT} -n {NAMESPACE} logs daemonset/{DAEMON_SET}"
    with journal.step("masquerade as kindnet does", hint=hint) as step:
        path = step.log.with_suffix(".yaml")
        path.write_text(manifest(image, lane.pod_subnets))
        kubectl(there, step, "apply", "--server-side", "--filename", path)
        wait = ["rollout", "status", f"daemonset/{DAEMON_SET}", f"--timeout={READY_SECONDS}s"]
        kubectl(there, step, *wait, "--namespace", NAMESPACE)


def manifest(image: str, subnets: dict[str, str]) -> str:
    """The manifest, with the image and the pods' subnets by family."""
    document = yaml.safe_load(MANIFEST.read_text())
    (container,) = document["spec"]["template"]["spec"]["containers"]
    container["image"] = image
    container["args"] = [part for family, net in subnets.items() for part in (PROGRAMS[family], net)]
    return yaml.safe_dump(document, sort_keys=False)
