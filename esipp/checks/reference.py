"""References: public documents on which checks, known differences and versions rest, and those of versions. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

GITHUB = "https://github.com"
KUBERNETES_DOCS = "https://kubernetes.io/docs"


@dataclass(frozen=True)
class Reference:
    """A document that a reader can open.

    Args:
        title: names the document, and the part of it that is meant.
        url: leads to that part. Empty only for a reference from an older ledger, which kept titles alone.
    """

    title: str
    url: str = ""

    def __str__(self) -> str:
        return self.title

    @property
    def link(self) -> str:
        """The address if a report can safely link to it. A ledger can come from anywhere, so only HTTPS is linked."""
        return self.url if self.url.startswith("https://") else ""

    def as_json(self) -> dict[str, str]:
        """Return the reference as a JSON object."""
        return {"title": self.title, "url": self.url}


def read_reference(written: str | Mapping[str, Any]) -> Reference:
    """Return the reference that ``as_json`` wrote, or that an older ledger has as text.

    Raises:
        KeyError: a part is missing.
    """
    return Reference(written) if isinstance(written, str) else Reference(str(written["title"]), str(written["url"]))


def titles(references: Iterable[Reference]) -> str:
    """Return the titles in one line of plain text."""
    return "; ".join(each.title for each in references)


def with_urls(references: Iterable[Reference]) -> str:
    """Return the titles in one line of plain text, each with its URL if there is one."""
    return "; ".join(f"{each.title} <{each.url}>" if each.url else each.title for each in references)


# ---------------------------------------------------------------------------------------------------- where they are
def docs(page: str, title: str) -> Reference:
    """Return a page of the Kubernetes documentation; ``page`` includes its anchor."""
    return Reference(f"Kubernetes documentation, {title}", f"{KUBERNETES_DOCS}/{page}")


def issue(repository: str, number: int, title: str) -> Reference:
    """Return an issue on GitHub, which redirects to a pull request of the same number."""
    return Reference(f"{repository}#{number}: {title}", f"{GITHUB}/{repository}/issues/{number}")


def kep(number: int, title: str, folder: str = "") -> Reference:
    """Return a Kubernetes Enhancement Proposal: its folder, or the issue with the same number."""
    where = f"tree/master/keps/{folder}" if folder else f"issues/{number}"
    return Reference(f"KEP-{number}: {title}", f"{GITHUB}/kubernetes/enhancements/{where}")


# ----------------------------------------------------------------------------------------------- of Kubernetes versions
_KUBERNETES = "kubernetes/kubernetes"
KEP_508 = kep(508, "IPv6 clusters")
KEP_555 = kep(555, "server-side apply", "sig-api-machinery/555-server-side-apply")
KEP_563 = kep(563, "IPv4/IPv6 dual-stack", "sig-network/563-dual-stack")
KEP_580 = kep(580, "pod readiness gates", "sig-network/580-pod-readiness-gates")
KEP_614 = kep(614, "SCTP Services", "sig-network/614-SCTP-support")
KEP_752 = kep(752, "EndpointSlices", "sig-network/0752-endpointslices")
KEP_1669 = kep(1669, "proxy terminating endpoints", "sig-network/1669-proxy-terminating-endpoints")
KEP_1860 = kep(1860, "load balancers' ipMode", "sig-network/1860-kube-proxy-IP-node-binding")
KEP_1959 = kep(1959, "spec.loadBalancerClass of Services", "sig-cloud-provider/1959-service-lb-class-field")
KEP_2086 = kep(2086, "internalTrafficPolicy of Services", "sig-network/2086-service-internal-traffic-policy")
KEP_3836 = kep(
    3836,
    "kube-proxy improved ingress connectivity reliability",
    "sig-network/3836-kube-proxy-improved-ingress-connectivity-reliability",
)
KEP_4444 = kep(4444, "traffic distribution for Services", "sig-network/4444-service-traffic-distribution")
FIELDS_SINCE_1_7 = issue(_KUBERNETES, 41162, "Promotes Source IP preservation for Virtual IPs from Beta to GA")
ANNOTATIONS_REMOVED = issue(_KUBERNETES, 50224, "Remove deprecated ESIPP beta annotations")
HEALTH_DOCUMENT = issue(_KUBERNETES, 44053, "Proxy healthchecks overhaul")
HEALTH_WEIGHT = issue(_KUBERNETES, 118999, "X-Load-Balancing-Endpoint-Weight in health checks")
PROXY_HEALTHY = issue(_KUBERNETES, 111661, "serviceProxyHealthy in health checks")
AFFINITY_CONFIG = issue(_KUBERNETES, 49850, "sessionAffinityConfig")
OWN_TRAFFIC = issue(_KUBERNETES, 77523, "a node's own traffic to a VIP takes the Service's chain")
CARRIED_OVER = issue(_KUBERNETES, 103532, "Service: Fix semantics for Update wrt allocations")
EXTERNAL_IPS_POLICY = issue(_KUBERNETES, 119150, "Allow specifying ExternalTrafficPolicy for Services with ExternalIPs")
TUTORIAL_NODE_PORT = docs(
    "tutorials/services/source-ip/#source-ip-for-services-with-type-nodeport",
    "Using Source IP: Services with Type=NodePort",
)
