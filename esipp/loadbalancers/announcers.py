"""The nodes that announce VIPs, where the load balancer keeps that in Leases, as Cilium's L2 announcements do.

Under Local, a node without an endpoint must not announce a VIP: it drops what comes to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from esipp.base.json import Json
from esipp.checks.check import Fact
from esipp.checks.ingress import ANNOUNCER, WITH_ENDPOINT, WITHOUT_ENDPOINT
from esipp.checks.profile import LoadBalancer
from esipp.cluster.client import ApiError, Cluster, UnreachableError

NAMESPACE = "kube-system"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
OF_SERVICE = "kubernetes.io/service-name"
"""The label of an EndpointSlice."""


@dataclass(frozen=True)
class Announcer:
    """The node that holds the Lease of a Service."""

    node: str
    lease: str


def announcer_facts(
    cluster: Cluster, found: Iterable[LoadBalancer], namespace: str, services: Mapping[str, Json]
) -> dict[str, Fact]:
    """Whether the node that announces a Local Service's VIPs has a ready endpoint of it, as a fact for each.

    Args:
        cluster: the cluster; what its account may not list gives no facts.
        found: the profiles that fit.
        namespace: of the Services.
        services: our Services of the cluster's own load balancer, by name, as the API server has them.
    """
    forms = [each.steering.lease.value for each in found if each.steering.lease]
    local = [name for name, each in services.items() if each["spec"].get("externalTrafficPolicy") == "Local"]
    if not forms or not local:
        return {}
    try:
        holders = holders_of(cluster.list(LEASES), forms, namespace, local)
        nodes = endpoint_nodes(cluster.list(SLICES.format(namespace)))
    except (ApiError, UnreachableError):
        return {}
    facts = {}
    for name, announcer in holders.items():
        own = nodes.get(name, frozenset())
        value = WITH_ENDPOINT if announcer.node in own else WITHOUT_ENDPOINT
        where = f"its ready endpoints are on {', '.join(sorted(own)) or 'no node'}"
        facts[f"{ANNOUNCER}.{name}"] = Fact(value, f"{announcer.node} holds Lease {announcer.lease}; {where}")
    return facts


def holders_of(
    leases: Iterable[Json], forms: Iterable[str], namespace: str, services: Iterable[str]
) -> dict[str, Announcer]:
    """The node that holds the Lease of each of these Services; those without a holder are left out."""
    by_lease = {
        form.replace("NAMESPACE", namespace).replace("SERVICE", name): name for form in forms for name in services
    }
    found = {}
    for each in leases:
        lease, node = str(each["metadata"]["name"]), str((each.get("spec") or {}).get("holderIdentity") or "")
        if lease in by_lease and node:
            found[by_lease[lease]] = Announcer(node, f"{NAMESPACE}/{lease}")
    return found


def endpoint_nodes(slices: Iterable[Json]) -> dict[str, frozenset[str]]:
    """The nodes of the ready endpoints of each Service; an endpoint without conditions is ready."""
    found: dict[str, frozenset[str]] = {}
    for each in slices:
        service = str((each["metadata"].get("labels") or {}).get(OF_SERVICE) or "")
        ready = (
            str(endpoint.get("nodeName") or "")
            for endpoint in each.get("endpoints") or ()
            if (endpoint.get("conditions") or {}).get("ready") is not False
        )
        found[service] = found.get(service, frozenset()) | frozenset(filter(None, ready))
    return found
