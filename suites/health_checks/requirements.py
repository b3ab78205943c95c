"""Texts of the health check suite: requirements, expectations, failures, references."""

from esipp.checks.check import Level
from esipp.checks.health import NO_HEALTHY_FIELD, About, Place, Question, Situation
from esipp.checks.known_differences import KnownDifference
from esipp.checks.timing import PROMPT
from suites.references import *
from suites.requirement import IN_TIME, Requirement

# ---------------------------------------------------------------------------------------------------- single answers
_SERVES = "A node with a ready local endpoint answers every client's health check with 200"
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
TIME = "Every health-check node port of a node answers a client outside before a load balancer gives up"
SECOND_ADDRESS = "A node answers the health check on all its addresses, not only on its InternalIP"
EXCLUDED = (
    "A node with the label node.kubernetes.io/exclude-from-external-load-balancers answers the health check like any "
    "other node"
)
AT_VIP = "Records whether the VIP also answers the health check, as the design allows"
ANY_WAY = "The health check gives the same answer for any path and any method"
CONTRACT: dict[About, tuple[str, *tuple[Reference, ...]]] = {
    About.DOCUMENT: (
        "The health check answers with application/json that names the Service and its namespace, for 200 as for 503",
        SERVICE_HEALTH,
    ),
    About.COUNT: (
        "localEndpoints is the number of ready local endpoints; a pod with several ports counts once",
        SERVICE_HEALTH,
        DESIGN_HEALTH,
    ),
    About.PROXY: ("serviceProxyHealthy is true: the service proxy keeps up with changes", PROXY_HEALTHY),
    About.WEIGHT: (
        "X-Load-Balancing-Endpoint-Weight is the number of ready local endpoints, for 200 as for 503",
        HEALTH_WEIGHT,
    ),
}
NO_PROXY_HEALTH = (
    KnownDifference(
        when=(),
        covers=NO_HEALTHY_FIELD,
        reason="service proxies other than kube-proxy do not report their health; load balancers use the status code",
        references=(CILIUM_HEALTH_SERVER, PROXY_HEALTHY),
        evidence="The health check's document is valid and has no field serviceProxyHealthy.",
        hides="A kube-proxy that omits the field.",
    ),
)
TRUTH = {
    True: "When the health check of a node says 200, the node's nodePort answers the same client at the same time",
    False: "When the health check of a node says 503, the node's nodePort does not answer the same client at the same "
    "time",
}
PLACES = {
    Place.ENDPOINT_NODE: "of the endpoint node",
    Place.BARE_NODE: "of the node without local endpoints (bare-node)",
    Place.OTHER_NODE: "of the other node without local endpoints (other-node)",
    Place.CONTROL_PLANE: "of the control plane node",
    Place.EXCLUDED: "of the node with the exclusion label",
    Place.VIP: "at the VIP",
}


def expected(question: Question, about: About) -> str:
    """Return what a check expects of every answer."""
    pods = question.local_pods
    return {
        About.STATUS: "200" if pods else "503",
        About.DOCUMENT: "JSON that names the service",
        About.COUNT: f"localEndpoints {pods}",
        About.PROXY: "serviceProxyHealthy true",
        About.WEIGHT: f"weight {pods}",
        About.TRUTH: "serves" if pods else "does not serve",
        About.TIME: IN_TIME,
    }[about]


def asked(question: Question, about: About) -> str:
    """Return how a check probes."""
    if about is About.TIME:
        return f"20 requests or more of {question.client.name} to each health-check node port {PLACES[question.place]}"
    what = f"{question.method} {question.url}"
    sent = f"{question.client.name} sends {what} to the health-check node port {PLACES[question.place]}"
    return sent + (", and dials the Service's nodePort there at the same time" if about is About.TRUTH else "")


def fails_if(question: Question, about: About) -> str:
    """Return the fault that a check detects."""
    return {
        About.STATUS: "the health check always says 503, or still says 503 after the pod became ready"
        if question.local_pods
        else "the health check always says 200, or still says 200 after the last pod",
        About.DOCUMENT: "another Service's health check answers on this port, or the body is not a JSON document",
        About.COUNT: "the count includes endpoints of other nodes, unready ones, or one for each port or family",
        About.PROXY: "the service proxy reports that it does not keep up with its rules",
        About.WEIGHT: "the weight header is missing or counts something else",
        About.TRUTH: "the node's answer and its data path contradict each other",
        About.TIME: "single answers of the health check hang: load balancers leave the node although it serves",
    }[about]


# ---------------------------------------------------------------------------------------------------- scenarios
STABLE = Requirement(
    "While pods of other Services come and go, every answer of the health check is correct",
    "every answer correct",
    "endpoints of one Service change the health check of another, or every change restarts all health checks",
    (DESIGN_HEALTH,),
)
_CHANGES = "After each of many random changes (new pods, other nodes, unready, ready again, scaled to zero and back)"
PLACEMENT = Requirement(
    f"{_CHANGES}, every node reaches the correct answer and keeps it",
    "correct after every change",
    "the health check is stuck, later than its time limit, or flaps after a change",
    (DESIGN_HEALTH,),
)
PLACEMENT_PROMPT = Requirement(
    f"{_CHANGES}, every node gives the correct answer within {PROMPT:.0f} s",
    f"correct within {PROMPT:.0f} s after every change",
    "the service proxy follows every change seconds late",
    (DESIGN_HEALTH, SERVICE_HEALTH),
    Level.EXTENDED,
)
PLACEMENT_COUNT = Requirement(
    f"{_CHANGES}, localEndpoints reaches the number of ready local endpoints",
    "correct after every change",
    "the count is wrong after endpoints changed",
    (DESIGN_HEALTH, SERVICE_HEALTH),
    Level.EXTENDED,
)
TERMINATING = {
    "status": Requirement(
        "A node with only terminating pods answers 503 while they still serve, so load balancers stop sending traffic",
        "503 all the time",
        "terminating endpoints count as ready",
        (KEP_1669, SERVICE_HEALTH),
    ),
    "serves": Requirement(
        "A node with only terminating pods still serves while it says 503, so no connection is lost before load "
        "balancers stop sending traffic",
        "the terminating pod answers every connection",
        "the node drops traffic to endpoints as soon as they terminate",
        (KEP_1669,),
    ),
    "source": Requirement(
        "A terminating endpoint sees the client's own address",
        "the client's address every time",
        "the node masquerades traffic to terminating endpoints, or forwards it to another node",
        (KEP_1669, API_ETP),
    ),
    "count": Requirement(
        "A terminating endpoint does not count: localEndpoints is 0",
        "localEndpoints 0",
        "the count includes terminating endpoints",
        (KEP_1669, SERVICE_HEALTH),
        Level.EXTENDED,
    ),
}
CORDONED = Requirement(
    "A cordoned node gives the same health check answers as before, because it still serves",
    "the same answers as before",
    "the health check depends on whether the node accepts new pods",
    (KEP_3836, KEP_3458),
    # without --allow-disruptive a core check would make every usual run PARTIAL
    Level.EXTENDED,
)
LIFE_CYCLE: dict[str, Requirement] = {
    "allocated": Requirement(
        "A LoadBalancer Service with Local gets a health-check node port in the node port range",
        "a port in the range",
        "no port, or a port outside the range",
        (API_HEALTH_PORT,),
    ),
    "unique": Requirement(
        "Each health-check node port is unique among health-check node ports and nodePorts",
        "all different",
        "the API server allocates a port twice",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "not-with-cluster": Requirement(
        "A LoadBalancer Service with Cluster has no health-check node port",
        "none",
        "the API server allocates a port for every load balancer",
        (API_HEALTH_PORT,),
    ),
    "not-for-nodeport": Requirement(
        "A NodePort Service with Local has no health-check node port",
        "none",
        "the API server allocates a port for every Local Service",
        (API_HEALTH_PORT,),
    ),
    "refused-with-cluster": Requirement(
        "The API server refuses a health-check node port on a Service with Cluster",
        "refused as Invalid",
        "the API server accepts the field where it has no meaning",
        (API_HEALTH_PORT, VALIDATION),
    ),
    "refused-for-nodeport": Requirement(
        "The API server refuses a health-check node port on a NodePort Service",
        "refused as Invalid",
        "the API server accepts the field where it has no meaning",
        (API_HEALTH_PORT, VALIDATION),
    ),
    "chosen": Requirement(
        "A Service gets the health-check node port that the user requests",
        "the requested port, answered on every node",
        "the API server ignores the request, or nodes do not listen on the port",
        (API_HEALTH_PORT,),
    ),
    "immutable": Requirement(
        "The API server refuses to change a health-check node port that is in use",
        "refused as Invalid",
        "the port changes while a load balancer uses it",
        (API_HEALTH_PORT, VALIDATION),
    ),
    "kept-on-update": Requirement(
        "The health-check node port survives an update by a client that does not know the field",
        "the same port",
        "an update without the field frees the port",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "kept-on-patch": Requirement(
        "The health-check node port survives a patch of another field",
        "the same port",
        "a patch allocates a new port",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "kept-on-apply": Requirement(
        "The health-check node port survives a server-side apply that does not set it",
        "the same port",
        "an apply by another manager frees the port",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "kept": Requirement(
        "Some time after updates, patches and applies, the Service still has its original health-check node port, and "
        "every node answers on it",
        "the same port, answered on every node",
        "the port changes with an edit of the Service, or some time later",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "collision": Requirement(
        "The API server refuses a health-check node port that another Service uses",
        "refused",
        "the API server gives one port to two Services",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "freed-by-policy": Requirement(
        "A change to Cluster removes the health-check node port, and every node closes it",
        "no port, refused on every node",
        "a node keeps the port open after the policy change",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "claimable": Requirement(
        "Another Service can claim a freed health-check node port, and nodes then answer with the new Service's name",
        "the new Service's health check on every node",
        "the API server does not free the port, or a node keeps the old listener",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "freed-by-type": Requirement(
        "A change from type LoadBalancer to another type removes the health-check node port, and every node closes it",
        "no port, refused on every node",
        "a node keeps the port open after the change of type",
        (API_HEALTH_PORT, ALLOCATION),
    ),
    "freed-by-deletion": Requirement(
        "Every node closes the health-check node port of a deleted Service",
        "refused on every node",
        "a node keeps the port open after the deletion",
        (API_HEALTH_PORT,),
    ),
    "prompt": Requirement(
        f"Every node opens or closes a health-check node port within {PROMPT:.0f} s after its Service changes",
        f"within {PROMPT:.0f} s after every change",
        "the service proxy follows every change seconds late",
        (API_HEALTH_PORT, SERVICE_HEALTH),
        Level.EXTENDED,
    ),
    "collision-words": Requirement(
        "When the API server refuses a health-check node port that is in use, the message says so",
        "a message about the failed allocation",
        "the message does not say why",
        (ALLOCATION,),
        Level.EXTENDED,
    ),
}
