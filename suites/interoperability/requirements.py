"""Texts of this suite: requirements, references, and what trips each check."""

from dataclasses import dataclass

from esipp.checks.check import Level
from esipp.checks.health import Place
from esipp.checks.interoperability import MANY_SERVICES, InteroperabilityCheck, Kind
from esipp.checks.model import Client, Family, Role
from suites.clients import OUTSIDE_1, POD_ON_BARE_NODE, POD_ON_ENDPOINT_NODE, POD_ON_OTHER_NODE
from suites.known_differences.cilium import AT_BARE_NODES_IN_DSR, OF_MANY_SERVICES
from suites.known_differences.findings import COUNTED_TWICE
from suites.path_requirements import WHO
from suites.references import *

SUITE = "interoperability"
FAMILIES = tuple(Family)
NODES = (Place.ENDPOINT_NODE, Place.BARE_NODE, Place.OTHER_NODE, Place.CONTROL_PLANE)

PLACES = {
    Place.ENDPOINT_NODE: "the endpoint's node",
    Place.BARE_NODE: "the bare node",
    Place.OTHER_NODE: "another node without the pod",
    Place.CONTROL_PLANE: "the control plane's node",
}
KINDS = {
    Kind.BALANCER_LOCAL: "LoadBalancer with Local",
    Kind.NODE_PORT_LOCAL: "NodePort with Local",
    Kind.NODE_PORT_CLUSTER: "NodePort with Cluster",
    Kind.NODE_PORT_UNSET: "NodePort without a policy",
}

_DIFFERENT = {
    ("document", Place.ENDPOINT_NODE): (COUNTED_TWICE,),
    ("rewritten", Place.ENDPOINT_NODE): (OF_MANY_SERVICES,),
    ("rewritten", Place.BARE_NODE): (AT_BARE_NODES_IN_DSR,),
}
"""Known differences of checks, by what they claim and where."""


@dataclass(frozen=True)
class Said:
    """A check's sentence, what must be seen, what trips it, and why it is required."""

    requirement: str
    must: str
    tripped_by: str
    references: tuple[Reference, ...]


def trial(
    name: str,
    claim: str,
    level: Level,
    said: Said,
    *needs: str,
    place: Place | None = None,
    family: Family | None = None,
    kind: Kind | None = None,
    client: Client | None = None,
) -> InteroperabilityCheck:
    """One check about what a trial saw; its id follows from what it is about."""
    where = {Place.OTHER_NODE: {"nodes.three"}, Place.CONTROL_PLANE: {"nodes.control-plane"}}
    features = set(needs) | (where.get(place, set()) if place else set())
    features |= {f"family.{family.value.lower()}"} if family else set()
    features |= {"nodes.three"} if client is not None and client.role is Role.OTHER_NODE else set()
    words = {
        "node": PLACES[place] if place else "",
        "kind": KINDS[kind] if kind else "",
        "client": WHO[client.name] if client else "",
        "status": "200" if place is Place.ENDPOINT_NODE else "503",
        "pods": "1" if place is Place.ENDPOINT_NODE else "0",
    }
    parts = ["interop", name, kind.value if kind else "", claim, family.value.lower() if family else ""]
    parts += [place.value if place else "", client.name if client else ""]
    return InteroperabilityCheck(
        id=".".join(part for part in parts if part),
        requirement=said.requirement.format(**words),
        level=level,
        suite=SUITE,
        references=said.references,
        features=frozenset(features),
        trial=name,
        claim=claim,
        must=said.must.format(**words),
        tripped_by=said.tripped_by,
        differences=_DIFFERENT.get((claim, place), ()),
        place=place,
        family=family,
        kind=kind,
        client=client,
    )


# ------------------------------------------------------------------------------------------------------ neighbours
_MEANWHILE = (
    "while on the same nodes the pods of another Local service become unready and ready, and that service becomes "
    "Cluster, is deleted and made again with its old health-check port, and deleted"
)
NEIGHBOURS = {
    ("status", True): Said(
        f"The health check of a service whose pod is here says 200, {_MEANWHILE}",
        "200 every time",
        "the health check of one service follows another's endpoints, or listeners are closed and opened together",
        (DESIGN_HEALTH, API_HEALTH_PORT),
    ),
    ("status", False): Said(
        f"The health check of a service whose pod is elsewhere says 503, {_MEANWHILE}",
        "503 every time",
        "the health check of one service follows another's endpoints, or listeners are closed and opened together",
        (DESIGN_HEALTH, API_HEALTH_PORT),
    ),
    ("document", True): Said(
        f"The health check's document names its own service and counts its own pods, {_MEANWHILE}",
        "this service, localEndpoints 1",
        "documents of two services are mixed up, or a freed port is answered by the service that has another",
        (SERVICE_HEALTH,),
    ),
    ("document", False): Said(
        f"The health check's document names its own service and counts its own pods, none here, {_MEANWHILE}",
        "this service, localEndpoints 0",
        "documents of two services are mixed up, or endpoints of one are counted for the other",
        (SERVICE_HEALTH,),
    ),
    ("served", True): Said(
        "The nodePort of a service whose pod is here is answered by that pod, with the client's own address, "
        f"{_MEANWHILE}",
        "every connection by its own pod, from the client's address",
        "connections are lost, reach the other service's pods, or are rewritten while rules of another service change",
        (API_ETP, DESIGN_BACKWARD),
    ),
    ("served", False): Said(
        f"The nodePort of a service whose pod is elsewhere is not answered to clients outside, {_MEANWHILE}",
        "no answer",
        "the endpoints or the policy of one service open another one's nodePort",
        (API_ETP, DESIGN_BACKWARD),
    ),
}
KEPT = Said(
    "A service keeps its health-check node port, its nodePort, its ClusterIPs and all else while another one's policy "
    "flips and it is deleted and made again",
    "unchanged",
    "ports are given to another service, or a controller writes to services that are none of its business",
    (API_HEALTH_PORT, API_NODE_PORT),
)

# ------------------------------------------------------------------------------------------------------------ many
_MANY = f"of {MANY_SERVICES} services that were made at once, over one pod,"
MANY = {
    "preserved": Said(
        f"At {{node}}, {_MANY} every {{kind}} answers at its nodePort, by the pod, with the client's own address",
        "the client's address, of every service",
        "rules of some services are missing, mixed up or late where there are many",
        (API_ETP, TUTORIAL),
    ),
    "silent": Said(
        f"At {{node}}, {_MANY} no {{kind}} answers a client outside, while every one with Cluster does",
        "no answer, of any service",
        "rules of some Local services are those of Cluster where there are many",
        (API_ETP,),
    ),
    "answers": Said(
        f"At {{node}}, {_MANY} every {{kind}} answers at its nodePort",
        "an answer, of every service",
        "rules of some services are missing or late where there are many",
        (API_ETP, TUTORIAL),
    ),
    "rewritten": Said(
        f"At {{node}}, {_MANY} every {{kind}} shows a node's address",
        "a node's address, of every service",
        "rules of some Cluster services are those of Local where there are many",
        (TUTORIAL, PROXIER),
    ),
    "status": Said(
        f"At {{node}}, {_MANY} the health check of every {{kind}} says {{status}}",
        "{status}, of every service",
        "health checks of some services are not opened, or get no endpoints, where there are many",
        (DESIGN_HEALTH, API_HEALTH_PORT),
    ),
    "document": Said(
        f"At {{node}}, {_MANY} the health check of every {{kind}} names its own service and counts its own pods",
        "its own name and localEndpoints {pods}, of every service",
        "documents of services are mixed up where there are many",
        (SERVICE_HEALTH,),
    ),
    "distinct": Said(
        f"{_MANY.capitalize()} each has its ports on the nodes to itself",
        "every port once",
        "ports are given twice where many are allocated at once",
        (API_NODE_PORT, API_HEALTH_PORT),
    ),
    "gone": Said(
        f"{MANY_SERVICES} services are deleted at once: soon no node listens for their health checks any more",
        "refused, of every service",
        "listeners of some services stay open where many are closed at once",
        (API_HEALTH_PORT,),
    ),
    "programmed": Said(
        f"How long it takes from the first of {MANY_SERVICES} services being created until the last are programmed",
        "recorded",
        "nothing: it is recorded",
        (DESIGN_INTEROP,),
    ),
}

# ----------------------------------------------------------------------------------------------------------- names
_NAME = "In {client}, the name of a service in its namespace and the cluster domain"
NAMES = {
    "clusterip": Said(
        f"{_NAME} resolves to exactly its ClusterIP of that family",
        "exactly its ClusterIP",
        "DNS answers with stale, foreign or no addresses, or is not reached from some nodes",
        (
            DNS,
            DNS_SPECIFICATION,
        ),
    ),
    "headless": Said(
        f"{_NAME} resolves to exactly the addresses of its ready pods where it is headless",
        "exactly its ready pods' addresses",
        "DNS lists pods that are not ready, or misses some that are",
        (DNS, DNS_SPECIFICATION, API_HEADLESS),
    ),
    "published": Said(
        f"{_NAME} resolves to the addresses of all its pods where it is headless and publishes unready ones",
        "exactly all its pods' addresses",
        "DNS misses pods that are not ready where they are to be published",
        (DNS, DNS_SPECIFICATION, API_NOT_READY),
    ),
    "balancer": Said(
        f"{_NAME} resolves to its ClusterIP, and not to its VIP, where it is a Local LoadBalancer: pods by-pass the "
        "load balancer, and the policy",
        "exactly its ClusterIP",
        "DNS answers with the load balancer's address inside the cluster",
        (DNS, DNS_SPECIFICATION, DESIGN_INTEROP),
    ),
    "namespace": Said(
        "In {client}, the name of a service and its namespace resolves to exactly its ClusterIP of that family",
        "exactly its ClusterIP",
        "the search domains of pods lack that of services",
        (
            DNS,
            DNS_SPECIFICATION,
        ),
    ),
    "short": Said(
        "In {client}, of its namespace, the name of a service alone resolves to exactly its ClusterIP of that family",
        "exactly its ClusterIP",
        "the search domains of pods lack that of their namespace",
        (
            DNS,
            DNS_SPECIFICATION,
        ),
    ),
    "dialled": Said(
        "When {client} dials a service by its name, it is seen with its own address",
        "the pod's own address",
        "a node-local DNS or proxy puts another address in between, or the pod is masqueraded on its way",
        (DNS, DNS_SPECIFICATION, TUTORIAL),
    ),
}
ASKING = (POD_ON_ENDPOINT_NODE, POD_ON_BARE_NODE, POD_ON_OTHER_NODE)
