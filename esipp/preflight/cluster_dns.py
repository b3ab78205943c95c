"""The cluster's DNS, according to kube-system."""

from esipp.checks.check import Feature
from esipp.cluster.client import ApiError, Cluster, UnreachableError

LABEL = "k8s-app=kube-dns"
"""The label of the cluster's DNS, for any server (CoreDNS and node-local caches keep it)."""

SYSTEM = "/api/v1/namespaces/kube-system"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"


def dns_feature(cluster: Cluster) -> Feature:
    """The feature ``dns``: a Service with the label has a ready endpoint."""
    try:
        names = sorted(item["metadata"]["name"] for item in cluster.list(f"{SYSTEM}/services", labelSelector=LABEL))
        for name in names:
            ready = 0
            for piece in cluster.list(SLICES, labelSelector=f"kubernetes.io/service-name={name}"):
                ready += sum(
                    1 for each in piece.get("endpoints") or [] if each.get("conditions", {}).get("ready", True)
                )
            if ready:
                return Feature(True, f"Service kube-system/{name} ({LABEL}) has {ready} ready endpoints")
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"cannot read Services and EndpointSlices of kube-system ({broken})")
    if names:
        return Feature(False, f"Service kube-system/{names[0]} ({LABEL}) has no ready endpoint")
    return Feature(False, f"kube-system has no Service with the label {LABEL}")
