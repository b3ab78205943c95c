"""Texts of the health check suite: requirements, expectations, failures, references."""

from dataclasses import dataclass

from esipp.checks.check import Level
from esipp.checks.health import NOT_TOLD, About, Situation
from esipp.checks.known_differences import KnownDifference
from esipp.checks.timing import PROMPT
from suites.references import *


@dataclass(frozen=True)
class Said:
    """The requirement of a check, what it expects, which fault it detects, and its references."""

    requirement: str
    must: str
    tripped_by: str
    references: tuple[Reference, ...]


# ---------------------------------------------------------------------------------------------------- single answers
_SERVES = "A node with a ready local endpoint answers the health check of every client with 200"
_BARE = "A node without a ready local endpoint answers the health check with 503, and does not stay silent"
STATUS: dict[tuple[Situation, bool], tuple[str, *tuple[Reference, ...]]] = {
    (Situation.ONE_POD, True): (_SERVES, DESIGN_HEALTH, TUTORIAL_LB),
    (Situation.ONE_POD, False): (_BARE, DESIGN_HEALTH, TUTORIAL_LB),
    (Situation.SEVERAL_PODS, True): (f"{_SERVES}, also when other nodes have endpoints too", DESIGN_HEALTH),
    (Situation.SEVERAL_PODS, False): (f"{_BARE}, also when several other nodes have endpoints", DESIGN_HEALTH),
    (Situation.NO_PODS, False): (
        "Every node answers the health check of a Service without endpoints with 503",
        DESIGN_HEALTH,
    ),
    (Situation.UNREADY_POD, False): (
        "A pod that is not ready does not count as an endpoint, so its node answers 503 too",
        DESIGN_HEALTH,
    ),
    (Situation.PUBLISHED_POD, True): (
        "With publishNotReadyAddresses, a pod that is not ready counts as an endpoint, so its node answers 200",
        API_NOT_READY,
    ),
    (Situation.PUBLISHED_POD, False): (f"{_BARE}, also with publishNotReadyAddresses", DESIGN_HEALTH),
    (Situation.SEVERAL_PORTS, True): (f"{_SERVES}, also for a Service with several ports", DESIGN_HEALTH),
    (Situation.SEVERAL_PORTS, False): (f"{_BARE}, also for a Service with several ports", DESIGN_HEALTH),
    (Situation.HOST_NETWORK_POD, True): (
        f"{_SERVES}, also when the endpoint is a pod on the host network",
        DESIGN_HEALTH,
    ),
    (Situation.HOST_NETWORK_POD, False): (
        f"{_BARE}, also when the endpoint is a pod on the host network",
        DESIGN_HEALTH,
    ),
}
SECOND_ADDRESS = "A node answers the health check on all its addresses, not only on its InternalIP"
EXCLUDED = (
    "A node with the label node.kubernetes.io/exclude-from-external-load-balancers answers the health check like any "
    "other node"
)
AT_VIP = "Records whether the VIP also answers the health check, as the design allows"
ANY_WAY = "The health check gives the same answer for any path and any method"
CONTRACT: dict[About, tuple[str, *tuple[Reference, ...]]] = {
    About.DOCUMENT: (
        "The answer is application/json and names the Service and its namespace, with 200 and with 503",
        SERVICE_HEALTH,
    ),
    About.COUNT: (
        "localEndpoints is the number of ready local endpoints; a pod with several ports counts once",
        SERVICE_HEALTH,
        DESIGN_HEALTH,
    ),
    About.PROXY: ("serviceProxyHealthy is true, so the service proxy keeps up with changes", PROXY_HEALTHY),
    About.WEIGHT: (
        "X-Load-Balancing-Endpoint-Weight is the number of ready local endpoints, with 200 and with 503",
        HEALTH_WEIGHT,
    ),
}
NO_PROXY_HEALTH = (
    KnownDifference(
        when=(),
        covers=NOT_TOLD,
        reason="service proxies other than kube-proxy do not report their health; load balancers use the status code",
        references=(CILIUM_HEALTH_SERVER, PROXY_HEALTHY),
        evidence="The health check's document is valid and has no field serviceProxyHealthy.",
        hides="A kube-proxy that omits the field.",
    ),
)
TRUTH = {
    True: "When a node's health check says 200, the same client gets an answer from its nodePort at the same time",
    False: "When a node's health check says 503, the same client gets no answer from its nodePort at the same time",
}

# ---------------------------------------------------------------------------------------------------- scenarios
STABLE = Said(
    "While pods of other Services come and go, every answer of the health check is correct",
    "every answer correct",
    "endpoints of one Service change the health check of another, or every change restarts all health checks",
    (DESIGN_HEALTH,),
)
_CHANGES = "After each of many random changes (new pods, other nodes, unready, ready again, scaled to zero and back)"
PLACEMENT = Said(
    f"{_CHANGES}, every node reaches the correct answer and keeps it",
    "correct after every change",
    "the health check is stuck, later than its time limit, or flaps after a change",
    (DESIGN_HEALTH,),
)
PLACEMENT_PROMPT = Said(
    f"{_CHANGES}, every node gives the correct answer within {PROMPT:.0f} s",
    f"correct within {PROMPT:.0f} s after every change",
    "the service proxy follows every change seconds late",
    (DESIGN_HEALTH, SERVICE_HEALTH),
)
PLACEMENT_COUNT = Said(
    f"{_CHANGES}, localEndpoints reaches the number of ready local endpoints",
    "correct after every change",
    "the count is wrong after endpoints changed",
    (DESIGN_HEALTH, SERVICE_HEALTH),
)
TERMINATING = {
    "status": Said(
        "A node with only terminating pods answers 503 while they still serve, so load balancers stop sending traffic",
        "503 all the time",
        "terminating endpoints count as ready",
        (KEP_1669, SERVICE_HEALTH),
    ),
    "serves": Said(
        "A node with only terminating pods still serves while it says 503, so no connection is lost before load "
        "balancers stop sending traffic",
        "the terminating pod answers every connection",
        "the node drops traffic to endpoints as soon as they terminate",
        (KEP_1669,),
    ),
    "source": Said(
        "A terminating endpoint sees the client's own address",
        "the client's address every time",
        "the node masquerades traffic to terminating endpoints, or forwards it to another node",
        (KEP_1669, API_ETP),
    ),
    "count": Said(
        "A terminating endpoint does not count: localEndpoints is 0",
        "localEndpoints 0",
        "the count includes terminating endpoints",
        (KEP_1669, SERVICE_HEALTH),
    ),
}
CORDONED = Said(
    "A cordoned node gives the same health check answers as before, because it still serves",
    "the same answers as before",
    "the health check depends on whether the node accepts new pods",
    (KEP_3836, KEP_3458),
)
_CORE, _MORE = Level.CORE, Level.EXTENDED
LIFE_CYCLE: dict[str, tuple[Level, Said]] = {
    "allocated": (
        _CORE,
        Said(
            "A LoadBalancer Service with Local gets a health-check node port in the node port range",
            "a port in the range",
            "no port, or a port outside the range",
            (API_HEALTH_PORT,),
        ),
    ),
    "unique": (
        _CORE,
        Said(
            "Each health-check node port is unique among health-check node ports and nodePorts",
            "all different",
            "the API server allocates a port twice",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "not-with-cluster": (
        _CORE,
        Said(
            "A LoadBalancer Service with Cluster has no health-check node port",
            "none",
            "the API server allocates a port for every load balancer",
            (API_HEALTH_PORT,),
        ),
    ),
    "not-for-nodeport": (
        _CORE,
        Said(
            "A NodePort Service with Local has no health-check node port",
            "none",
            "the API server allocates a port for every Local Service",
            (API_HEALTH_PORT,),
        ),
    ),
    "refused-with-cluster": (
        _CORE,
        Said(
            "The API server refuses a health-check node port on a Service with Cluster",
            "refused as Invalid",
            "the API server accepts the field where it has no meaning",
            (API_HEALTH_PORT, VALIDATION),
        ),
    ),
    "refused-for-nodeport": (
        _CORE,
        Said(
            "The API server refuses a health-check node port on a NodePort Service",
            "refused as Invalid",
            "the API server accepts the field where it has no meaning",
            (API_HEALTH_PORT, VALIDATION),
        ),
    ),
    "chosen": (
        _CORE,
        Said(
            "A Service gets the health-check node port that the user requests",
            "the requested port, answered on every node",
            "the API server ignores the request, or nodes do not listen on the port",
            (API_HEALTH_PORT,),
        ),
    ),
    "immutable": (
        _CORE,
        Said(
            "The API server refuses to change a health-check node port that is in use",
            "refused as Invalid",
            "the port changes while a load balancer uses it",
            (API_HEALTH_PORT, VALIDATION),
        ),
    ),
    "kept-on-update": (
        _CORE,
        Said(
            "The health-check node port survives an update by a client that does not know the field",
            "the same port",
            "an update without the field frees the port",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "kept-on-patch": (
        _CORE,
        Said(
            "The health-check node port survives a patch of another field",
            "the same port",
            "a patch allocates a new port",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "kept-on-apply": (
        _CORE,
        Said(
            "The health-check node port survives a server-side apply that does not set it",
            "the same port",
            "an apply by another manager frees the port",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "kept": (
        _CORE,
        Said(
            "Some time after such edits, the Service still has its original health-check node port, and every node "
            "answers on it",
            "the same port, answered on every node",
            "the port changes with an edit of the Service, or some time later",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "collision": (
        _CORE,
        Said(
            "The API server refuses a health-check node port that another Service uses",
            "refused",
            "the API server gives one port to two Services",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "freed-by-policy": (
        _CORE,
        Said(
            "A change to Cluster removes the health-check node port, and every node closes it",
            "no port, refused on every node",
            "a node keeps the port open after the policy change",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "claimable": (
        _CORE,
        Said(
            "Another Service can claim a freed health-check node port, and nodes then answer with its name",
            "the new Service's health check on every node",
            "the API server does not free the port, or a node keeps the old listener",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "freed-by-type": (
        _CORE,
        Said(
            "A change from type LoadBalancer removes the health-check node port, and every node closes it",
            "no port, refused on every node",
            "a node keeps the port open after the change of type",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "freed-by-deletion": (
        _CORE,
        Said(
            "Every node closes the health-check node port of a deleted Service",
            "refused on every node",
            "a node keeps the port open after the deletion",
            (API_HEALTH_PORT,),
        ),
    ),
    "prompt": (
        _MORE,
        Said(
            f"Every node opens or closes a health-check node port within {PROMPT:.0f} s after its Service changes",
            f"within {PROMPT:.0f} s after every change",
            "the service proxy follows every change seconds late",
            (API_HEALTH_PORT, SERVICE_HEALTH),
        ),
    ),
    "collision-words": (
        _MORE,
        Said(
            "When the API server refuses a port in use, the message says so",
            "a message about the failed allocation",
            "the message does not say why",
            (ALLOCATION,),
        ),
    ),
}
