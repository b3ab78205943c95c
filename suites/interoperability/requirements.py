"""Texts of the interoperability scenarios: requirements, expectations, failures, references."""

from esipp.checks.check import Check, Level
from esipp.checks.health import Place
from esipp.checks.interoperability import MANY_SERVICES, Interoperability, Kind
from esipp.checks.model import Client, Family
from esipp.checks.timing import FIELD_LIMIT
from suites.clients import OUTSIDE_1, POD_ON_BARE_NODE, POD_ON_ENDPOINT_NODE, POD_ON_OTHER_NODE
from suites.known_differences.cilium import AT_BARE_NODES_IN_DSR, COUNTED_TWICE, OF_MANY_SERVICES
from suites.needs import needs
from suites.path_checks import WHO
from suites.references import *
from suites.requirement import Requirement

SUITE = "interoperability"
FAMILIES = tuple(Family)
NODES = (Place.ENDPOINT_NODE, Place.BARE_NODE, Place.OTHER_NODE, Place.CONTROL_PLANE)

PLACES = {
    Place.ENDPOINT_NODE: "the endpoint node",
    Place.BARE_NODE: "a node without local endpoints",
    Place.OTHER_NODE: "another node without local endpoints",
    Place.CONTROL_PLANE: "a control plane node",
}
KINDS = {
    Kind.BALANCER_LOCAL: "LoadBalancer Service with Local",
    Kind.NODE_PORT_LOCAL: "NodePort Service with Local",
    Kind.NODE_PORT_CLUSTER: "NodePort Service with Cluster",
    Kind.NODE_PORT_UNSET: "NodePort Service without a policy",
}

_DIFFERENT = {
    ("document", Place.ENDPOINT_NODE): (COUNTED_TWICE,),
    ("rewritten", Place.ENDPOINT_NODE): (OF_MANY_SERVICES,),
    ("rewritten", Place.BARE_NODE): AT_BARE_NODES_IN_DSR,
}
"""Known differences, by claim and node."""


def scenario_check(
    scenario: str,
    claim: str,
    said: Requirement,
    *others: str,
    place: Place | None = None,
    family: Family | None = None,
    kind: Kind | None = None,
    client: Client | None = None,
) -> Check[Interoperability]:
    """Return one check of a scenario; its id follows from its subject."""
    words = {
        "node": PLACES[place] if place else "",
        "kind": KINDS[kind] if kind else "",
        "client": WHO[client.name] if client else "",
        "status": "200" if place is Place.ENDPOINT_NODE else "503",
        "pods": "1" if place is Place.ENDPOINT_NODE else "0",
    }
    parts = ["interop", scenario, kind.value if kind else "", claim, family.value.lower() if family else ""]
    parts += [place.value if place else "", client.name if client else ""]
    third = needs(node=client.role if client else None)
    return Check(
        id=".".join(part for part in parts if part),
        requirement=f"{said.sentence.format(**words)}.",
        level=said.level,
        suite=SUITE,
        references=said.references,
        features=needs(*others, family=family, node=place) | third,
        subject=Interoperability(scenario, claim, place, family, kind, client),
        expected=said.expected.format(**words),
        fails_if=said.fails_if,
        differences=_DIFFERENT.get((claim, place), ()),
    )


# ------------------------------------------------------------------------------------------------------- isolation
_MEANWHILE = (
    "Meanwhile another Local Service on the same nodes changes: its pods become unready and ready, and its policy "
    "becomes Cluster. Then it is deleted, recreated with its old health-check node port, and deleted again"
)
NEIGHBOURS = {
    ("status", True): Requirement(
        f"The health check of a Service with a local pod says 200. {_MEANWHILE}",
        "200 every time",
        "the health check of one Service follows the endpoints of another, or a node restarts all its listeners",
        (DESIGN_HEALTH, API_HEALTH_PORT),
    ),
    ("status", False): Requirement(
        f"The health check of a Service without a local pod says 503. {_MEANWHILE}",
        "503 every time",
        "the health check of one Service follows the endpoints of another, or a node restarts all its listeners",
        (DESIGN_HEALTH, API_HEALTH_PORT),
    ),
    ("document", True): Requirement(
        f"The health check's document names its own Service and counts only its local pod. {_MEANWHILE}",
        "this Service, localEndpoints 1",
        "a node mixes up the documents of two Services, or answers on a freed port for the wrong Service",
        (SERVICE_HEALTH,),
        Level.EXTENDED,
    ),
    ("document", False): Requirement(
        f"Without a local pod, the health check's document names its own Service and counts no endpoint. {_MEANWHILE}",
        "this Service, localEndpoints 0",
        "a node mixes up the documents of two Services, or counts endpoints of one for the other",
        (SERVICE_HEALTH,),
        Level.EXTENDED,
    ),
    ("served", True): Requirement(
        "The local pod of a Service answers every connection to the node's nodePort and sees the client's own address. "
        f"{_MEANWHILE}",
        "its own pod answers every connection and sees the client's address",
        "while rules of another Service change, a node drops connections, rewrites them, or uses other pods",
        (API_ETP, DESIGN_BACKWARD),
    ),
    ("served", False): Requirement(
        f"The nodePort of a Service without a local pod does not answer clients outside. {_MEANWHILE}",
        "no answer",
        "the endpoints or the policy of one Service open the nodePort of another",
        (API_ETP, DESIGN_BACKWARD),
    ),
}
KEPT = Requirement(
    "A Service keeps its health-check node port, nodePort, ClusterIPs and all other fields while another Service "
    "changes its policy, is deleted and is recreated",
    "unchanged",
    "the API server gives its ports to another Service, or a controller writes to the wrong Service",
    (API_HEALTH_PORT, API_NODE_PORT),
)

# ----------------------------------------------------------------------------------------------------------- scale
_MANY = f"After {MANY_SERVICES} Services are created at once for one pod,"
MANY = {
    "preserved": Requirement(
        f"{_MANY} every {{kind}} answers on its nodePort on {{node}}, and the pod sees the client's own address",
        "the client's address, for every Service",
        "with many Services, rules of some are missing, mixed up or late",
        (API_ETP, TUTORIAL),
    ),
    "silent": Requirement(
        f"{_MANY} no {{kind}} answers a client outside on {{node}}, while every Service with Cluster does",
        "no answer, from any Service",
        "with many Services, some Local Services get the rules of Cluster",
        (API_ETP,),
    ),
    "answers": Requirement(
        f"{_MANY} every {{kind}} answers on its nodePort on {{node}}",
        "an answer, from every Service",
        "with many Services, rules of some are missing or late",
        (API_ETP, TUTORIAL),
    ),
    "rewritten": Requirement(
        f"{_MANY} the pod sees a node's address in connections to every {{kind}} on {{node}}",
        "a node's address, for every Service",
        "with many Services, some Cluster Services get the rules of Local",
        (TUTORIAL, PROXIER),
        Level.EXTENDED,
    ),
    "status": Requirement(
        f"{_MANY} the health check of every {{kind}} says {{status}} on {{node}}",
        "{status}, from every Service",
        "with many Services, some health checks do not listen, or do not get their endpoints",
        (DESIGN_HEALTH, API_HEALTH_PORT),
    ),
    "document": Requirement(
        f"{_MANY} the health check of every {{kind}} on {{node}} names its own Service and counts its own pods",
        "its own name and localEndpoints {pods}, from every Service",
        "with many Services, a node mixes up their documents",
        (SERVICE_HEALTH,),
        Level.EXTENDED,
    ),
    "distinct": Requirement(
        f"{_MANY} no two of them have the same port on the nodes",
        "every port once",
        "the API server allocates some ports twice when many are created at once",
        (API_NODE_PORT, API_HEALTH_PORT),
    ),
    "gone": Requirement(
        f"After {MANY_SERVICES} Services are deleted at once, every node closes their health-check node ports within "
        f"{FIELD_LIMIT:.0f} s",
        "refused, for every Service",
        "nodes keep some listeners when many are closed at once",
        (API_HEALTH_PORT,),
    ),
    "programmed": Requirement(
        f"Records the time from the creation of the first of {MANY_SERVICES} Services until nodes serve the last one",
        "recorded",
        "nothing: it is recorded",
        (DESIGN_INTEROP,),
        Level.RECORD,
    ),
}

# ------------------------------------------------------------------------------------------------------------- DNS
_NAME = "For {client}, the fully qualified name of"
NAMES = {
    "clusterip": Requirement(
        f"{_NAME} a Service resolves to exactly its ClusterIP of the requested IP family",
        "exactly its ClusterIP",
        "DNS returns outdated, wrong or no addresses, or some nodes do not reach it",
        (
            DNS,
            DNS_SPECIFICATION,
        ),
    ),
    "headless": Requirement(
        f"{_NAME} a headless Service resolves to exactly the addresses of its ready pods in the requested IP family",
        "exactly its ready pods' addresses",
        "DNS returns pods that are not ready, or omits ready ones",
        (DNS, DNS_SPECIFICATION, API_HEADLESS),
    ),
    "published": Requirement(
        f"{_NAME} a headless Service with publishNotReadyAddresses resolves to exactly the addresses of all its "
        "pods in the requested IP family",
        "exactly all its pods' addresses",
        "DNS omits pods that are not ready despite publishNotReadyAddresses",
        (DNS, DNS_SPECIFICATION, API_NOT_READY),
    ),
    "balancer": Requirement(
        f"{_NAME} a LoadBalancer Service with Local resolves to exactly its ClusterIP and not to its VIP, so pods "
        "bypass the load balancer and the policy",
        "exactly its ClusterIP",
        "DNS returns the load balancer's address inside the cluster",
        (DNS, DNS_SPECIFICATION, DESIGN_INTEROP),
    ),
    "namespace": Requirement(
        "For {client}, the name SERVICE.NAMESPACE resolves to exactly the Service's ClusterIP of the requested IP "
        "family",
        "exactly its ClusterIP",
        "the search domains of pods lack the one for Services",
        (
            DNS,
            DNS_SPECIFICATION,
        ),
    ),
    "short": Requirement(
        "For {client}, the short name of a Service in the pod's own namespace resolves to exactly its ClusterIP of the "
        "requested IP family",
        "exactly its ClusterIP",
        "the search domains of pods lack the one for their namespace",
        (
            DNS,
            DNS_SPECIFICATION,
        ),
    ),
    "dialled": Requirement(
        "When {client} dials a Service by its DNS name, the backend sees the pod's own address",
        "the pod's own address",
        "a node-local DNS or proxy changes the address, or a node masquerades the pod",
        (DNS, DNS_SPECIFICATION, TUTORIAL),
    ),
}
ASKING = (POD_ON_ENDPOINT_NODE, POD_ON_BARE_NODE, POD_ON_OTHER_NODE)
