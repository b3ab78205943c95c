"""What the checks of this suite say, and why."""

from esipp.checks.check import Level
from esipp.checks.endpoint_change import What
from esipp.checks.timing import PROMPT
from suites.references import *

SUITE = "convergence"

WHILE = "While pods of a Local service become ready, unready, end, are killed and move to other nodes"
FIRST = " (nodePorts: in the service's first family)"

REQUIREMENTS: dict[What, tuple[str, *tuple[Reference, ...]]] = {
    What.STEERS: (
        f"{WHILE}, the load balancer steers in the end: to every node that gets its first pod, where it uses all of "
        "them at once or that node is the only one, and away from every node that loses its last one. While no pod "
        "moves it loses no more requests than a control straight to the nodes does.",
        DESIGN_TIMES, DESIGN_BLACKHOLE,
    ),
    What.PLACE: (
        f"{WHILE}, no request through the VIP is answered by a pod that is neither ready nor serving while it ends.",
        API_ETP, DESIGN_BLACKHOLE,
    ),
    What.SOURCE: (
        f"{WHILE}, every single answer of a request through the VIP shows that the pod saw the client's own address.",
        API_ETP, TUTORIAL_LB,
    ),
    What.BLACK_HOLE: (
        "When a node loses its last pod, requests through the VIP are lost for (N+1) x health check period at most "
        "after the node's own 503 (how long the node took to say that is its proxy's lag, and has a check of its own). "
        "The bound is --bound, or by N and period of the profile; the load balancer's own word stands beside it.",
        DESIGN_BOUND,
    ),
    What.NO_LOSS: (
        "When the last pod of a node is deleted and serves on until the load balancer has steered away, no request "
        "through the VIP is lost: the node says 503 and still serves.",
        KEP_1669, DESIGN_BLACKHOLE,
    ),
    What.BALANCE: (
        "New connections through the VIP of a Local service are split equally between nodes, not pods: one node has "
        "two pods and the other has one.",
        DESIGN_BALANCE,
    ),
    What.TIMES_UP: (
        "How long it takes from a pod being ready on a bare node to the first request through that node.",
        DESIGN_TIMES,
    ),
    What.TIMES_DOWN: (
        "How long it takes from a node's last pod being gone or unready to the last request through that node, lost "
        "ones included.",
        DESIGN_TIMES,
    ),
    What.HEALTH: (
        f"{WHILE}, the health check of their node follows each time: 200 with the first pod, 503 after the last.",
        DESIGN_TIMES, SERVICE_HEALTH,
    ),
    What.PATH: (
        f"{WHILE}, the nodePort of their node follows each time: it answers with the first pod, and no more after the "
        f"last{FIRST}.",
        DESIGN_BLACKHOLE, API_ETP,
    ),
    What.HEALTH_PROMPT: (
        f"{WHILE}, the health check of their node follows within {PROMPT:.0f} s of the EndpointSlice each time.",
        SYNC_PERIOD, DESIGN_TIMES,
    ),
    What.PATH_PROMPT: (
        f"{WHILE}, the nodePort of their node follows within {PROMPT:.0f} s of the EndpointSlice each time{FIRST}.",
        SYNC_PERIOD, DESIGN_BLACKHOLE,
    ),
    What.VIEW_LOCAL: (
        "For a Local service the load balancer takes exactly the nodes with ready pods for healthy.",
        AZURE, DESIGN_TIMES,
    ),
    What.VIEW_CLUSTER: (
        "For a Cluster service over the same pods the load balancer takes all its nodes for healthy.",
        AZURE,
    ),
    What.FREED: (
        "When that Cluster service is deleted, the load balancer lets go of its VIPs.",
        CLOUD_PROVIDER,
    ),
}  # fmt: skip

PLACE_AT_NODES = (
    f"{WHILE}, no request at a nodePort is answered by a pod of another node, or by one that is neither ready nor "
    "serving while it ends: a bare node drops, it does not forward.",
    DESIGN_BLACKHOLE, API_ETP,
)  # fmt: skip
SOURCE_AT_NODES = (
    f"{WHILE}, every single answer of a request at a nodePort shows that the pod saw the client's own address.",
    API_ETP,
)
SOURCE_BEHIND_PROXY = (
    f"{WHILE}, every single answer of a request through the VIP shows that the pod saw the proxy's own address.",
    API_IP_MODE,
    KEP_1860,
)

LEVELS: dict[What, Level] = {
    What.STEERS: Level.CORE,
    What.PLACE: Level.CORE,
    What.SOURCE: Level.CORE,
    What.BLACK_HOLE: Level.EXTENDED,
    What.NO_LOSS: Level.EXTENDED,
    What.BALANCE: Level.EXTENDED,
    What.TIMES_UP: Level.RECORD,
    What.TIMES_DOWN: Level.RECORD,
    What.HEALTH: Level.CORE,
    What.PATH: Level.CORE,
    What.HEALTH_PROMPT: Level.EXTENDED,
    What.PATH_PROMPT: Level.EXTENDED,
    What.VIEW_LOCAL: Level.EXTENDED,
    What.VIEW_CLUSTER: Level.EXTENDED,
    What.FREED: Level.EXTENDED,
}
