"""What the checks of this suite say: requirements, why, and what trips them."""

from dataclasses import dataclass

from esipp.checks.check import Difference, Level
from esipp.checks.health import NOT_TOLD, About, Situation
from esipp.checks.timing import PROMPT
from suites.references import *


@dataclass(frozen=True)
class Said:
    """A check's sentence, what must be seen, what trips it, and why it is required."""

    requirement: str
    must: str
    tripped_by: str
    references: tuple[Reference, ...]


# ------------------------------------------------------------------------------------------------ asked in one window
_SERVES = "A node with a ready local endpoint answers the health check with 200, whoever asks"
_BARE = "A node without a ready local endpoint answers the health check with 503: it answers, it does not fall silent"
STATUS: dict[tuple[Situation, bool], tuple[str, *tuple[Reference, ...]]] = {
    (Situation.ONE_POD, True): (_SERVES, DESIGN_HEALTH, TUTORIAL_LB),
    (Situation.ONE_POD, False): (_BARE, DESIGN_HEALTH, TUTORIAL_LB),
    (Situation.SEVERAL_PODS, True): (f"{_SERVES}; also one of several such nodes", DESIGN_HEALTH),
    (Situation.SEVERAL_PODS, False): (f"{_BARE}; also where several other nodes serve", DESIGN_HEALTH),
    (Situation.NO_PODS, False): ("Without any endpoint every node answers the health check with 503", DESIGN_HEALTH),
    (Situation.UNREADY_POD, False): ("A pod that is not ready counts for nothing: 503 on its node too", DESIGN_HEALTH),
    (Situation.PUBLISHED_POD, True): (
        "With publishNotReadyAddresses a pod that is not ready counts as ready: 200 on its node",
        API_NOT_READY,
    ),
    (Situation.PUBLISHED_POD, False): (f"{_BARE}; also where unready pods are published", DESIGN_HEALTH),
    (Situation.SEVERAL_PORTS, True): (f"{_SERVES}, also for a service with several ports", DESIGN_HEALTH),
    (Situation.SEVERAL_PORTS, False): (f"{_BARE}, also for a service with several ports", DESIGN_HEALTH),
    (Situation.HOST_NETWORK_POD, True): (f"{_SERVES}, also where it is a pod on the host network", DESIGN_HEALTH),
    (Situation.HOST_NETWORK_POD, False): (
        f"{_BARE}, also where the endpoint is a pod on the host network",
        DESIGN_HEALTH,
    ),
}
SECOND_ADDRESS = "The health check is answered on every address of a node, not on its InternalIP only"
EXCLUDED = (
    "A node that load balancers are told to leave out (node.kubernetes.io/exclude-from-external-load-balancers) "
    "answers the health check as any other"
)
AT_VIP = "Whether the health check is also answered at the VIP, as the design allows"
ANY_WAY = "Any path and any method get the same answer"
CONTRACT: dict[About, tuple[str, *tuple[Reference, ...]]] = {
    About.DOCUMENT: (
        "The answer is application/json and names the service's namespace and name, on 200 and on 503",
        SERVICE_HEALTH,
    ),
    About.COUNT: (
        "localEndpoints is the true number of ready local endpoints; several ports of a pod count once",
        SERVICE_HEALTH,
        DESIGN_HEALTH,
    ),
    About.PROXY: ("serviceProxyHealthy tells that the service proxy keeps up", PROXY_HEALTHY),
    About.WEIGHT: (
        "X-Load-Balancing-Endpoint-Weight is the number of ready local endpoints, on 200 and on 503",
        HEALTH_WEIGHT,
    ),
}
OTHER_WORDS = (
    Difference(
        when=(),
        seen=NOT_TOLD,
        reason="other service proxies than kube-proxy do not tell how they are; load balancers go by the status",
        references=(CILIUM_HEALTH_SERVER, PROXY_HEALTHY),
        evidence="The health document is valid and has no field serviceProxyHealthy.",
        hides="A kube-proxy that has lost the field.",
    ),
)
TRUTH = {
    True: "200 means that this node serves: the same client is answered at its nodePort at the same time",
    False: "503 means that this node does not serve: the same client gets no answer at its nodePort at the same time",
}

# ------------------------------------------------------------------------------------------------------- trials
STABLE = Said(
    "The health check does not flap: every answer of a window is right while pods of other services come and go",
    "every answer right",
    "endpoints of one service change the health check of another, or it is rebuilt at every change",
    (DESIGN_HEALTH,),
)
PLACEMENT = Said(
    "Pods are placed, moved, made unready and ready, scaled to none and back at random: after each change every node "
    "comes to the right answer, and keeps it",
    "right after every round",
    "the health check is stuck, late beyond the budget, or flaps after a change",
    (DESIGN_HEALTH,),
)
PLACEMENT_PROMPT = Said(
    "Pods are placed, moved, made unready and ready, scaled to none and back at random: after each change every node "
    f"has the right answer within {PROMPT:.0f} s",
    f"right within {PROMPT:.0f} s after every round",
    "the service proxy follows every change, but seconds late",
    (DESIGN_HEALTH, SERVICE_HEALTH),
)
PLACEMENT_COUNT = Said(
    "After each change localEndpoints comes to the true number of ready local endpoints",
    "right after every round",
    "endpoints are counted wrongly once they have moved",
    (DESIGN_HEALTH, SERVICE_HEALTH),
)
TERMINATING = {
    "status": Said(
        "A node whose pods are all terminating answers 503, although they still serve: load balancers are to leave",
        "503 all the time",
        "terminating endpoints count as ready",
        (KEP_1669, SERVICE_HEALTH),
    ),
    "serves": Said(
        "A node whose pods are all terminating serves on while it says 503, so that no connection is lost until load "
        "balancers have left",
        "every connection answered by the leaving pod",
        "traffic to terminating endpoints is dropped as soon as they are no longer ready",
        (KEP_1669,),
    ),
    "source": Said(
        "A terminating endpoint sees the client's own address as ever",
        "the client's address every time",
        "the fallback to terminating endpoints masquerades, or goes to another node",
        (KEP_1669, API_ETP),
    ),
    "count": Said(
        "A terminating endpoint counts for nothing: localEndpoints 0",
        "localEndpoints 0",
        "terminating endpoints are counted",
        (KEP_1669, SERVICE_HEALTH),
    ),
}
CORDONED = Said(
    "Cordoning a node does not change its health check: cordoned nodes keep serving",
    "the same answers as before",
    "the health check follows whether pods may be scheduled",
    (KEP_3836, KEP_3458),
)
_CORE, _MORE = Level.CORE, Level.EXTENDED
LIFE_CYCLE: dict[str, tuple[Level, Said]] = {
    "allocated": (
        _CORE,
        Said(
            "A LoadBalancer Service with Local gets a health-check node port, within the node port range",
            "a port within the range",
            "no port, or one from elsewhere",
            (API_HEALTH_PORT,),
        ),
    ),
    "unique": (
        _CORE,
        Said(
            "No two services have the same health-check node port, nor one that is somebody's nodePort",
            "all different",
            "a port is handed out twice",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "not-with-cluster": (
        _CORE,
        Said(
            "A LoadBalancer Service with Cluster has no health-check node port",
            "none",
            "it is allocated for every load balancer",
            (API_HEALTH_PORT,),
        ),
    ),
    "not-for-nodeport": (
        _CORE,
        Said(
            "A NodePort Service with Local has no health-check node port",
            "none",
            "it is allocated for every Local service",
            (API_HEALTH_PORT,),
        ),
    ),
    "refused-with-cluster": (
        _CORE,
        Said(
            "A health-check node port that is asked for with Cluster is refused",
            "refused as Invalid",
            "the field is taken where it means nothing",
            (API_HEALTH_PORT, VALIDATION),
        ),
    ),
    "refused-for-nodeport": (
        _CORE,
        Said(
            "A health-check node port that is asked for with type NodePort is refused",
            "refused as Invalid",
            "the field is taken where it means nothing",
            (API_HEALTH_PORT, VALIDATION),
        ),
    ),
    "chosen": (
        _CORE,
        Said(
            "A health-check node port that the user chooses is the one that is used",
            "the chosen port, answered on every node",
            "the choice is ignored, or nobody listens there",
            (API_HEALTH_PORT,),
        ),
    ),
    "immutable": (
        _CORE,
        Said(
            "The health-check node port cannot be changed while it is needed",
            "refused as Invalid",
            "it can be changed under the load balancer's feet",
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
            "The health-check node port survives a patch of something else",
            "the same port",
            "a patch allocates a new port",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "kept-on-apply": (
        _CORE,
        Said(
            "The health-check node port survives a server-side apply that does not name it",
            "the same port",
            "apply by another manager frees the port",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "kept": (
        _CORE,
        Said(
            "Some time after such edits the service has the health-check node port that it began with, and every node "
            "answers there",
            "the same port, answered on every node",
            "the port moves while the service is edited, or some time after it",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "collision": (
        _CORE,
        Said(
            "A health-check node port that another service has is refused",
            "refused",
            "one port is given to two services",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "freed-by-policy": (
        _CORE,
        Said(
            "Leaving Local takes the health-check node port away, and every node stops listening there",
            "no port, refused on every node",
            "the listener survives the flip",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "claimable": (
        _CORE,
        Said(
            "A port that was freed can be claimed by another service, and then answers with that service's name",
            "the new service's health check on every node",
            "the port leaks, or the old listener stays",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "freed-by-type": (
        _CORE,
        Said(
            "Leaving type LoadBalancer takes the health-check node port away, and every node stops listening there",
            "no port, refused on every node",
            "the listener survives the change of type",
            (API_HEALTH_PORT, ALLOCATION),
        ),
    ),
    "freed-by-deletion": (
        _CORE,
        Said(
            "After a service is deleted no node listens at its health-check node port",
            "refused on every node",
            "the listener survives the service",
            (API_HEALTH_PORT,),
        ),
    ),
    "prompt": (
        _MORE,
        Said(
            f"Every node opens or closes a health-check node port within {PROMPT:.0f} s of the change of its service",
            f"within {PROMPT:.0f} s after every change",
            "the service proxy follows every change, but seconds late",
            (API_HEALTH_PORT, SERVICE_HEALTH),
        ),
    ),
    "collision-words": (
        _MORE,
        Said(
            "The refusal of a port that is taken says so",
            "a message that names the allocation",
            "the refusal does not tell why",
            (ALLOCATION,),
        ),
    ),
}
