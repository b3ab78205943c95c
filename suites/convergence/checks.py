"""Checks of the convergence suite: each load balancer, and the nodes, while endpoints change."""

from esipp.checks.check import HEALTH_VIEW, Check, Level
from esipp.checks.endpoint_change import AFTER_503, EVENTS, EXPECTED, PROXIES, WEIGHED, EndpointChange, What
from esipp.checks.known_differences import PROXIED, KnownDifference, Nature
from esipp.checks.model import Balancer, Family
from esipp.checks.required_features import PACKETS
from esipp.checks.timing import PROMPT
from suites.clients import OUTSIDE_1
from suites.known_differences.balancers import STATELESS, by_proxy
from suites.known_differences.kube_proxy import forwarded_masqueraded
from suites.needs import needs
from suites.references import *

# --------------------------------------------------------------------------------------------------- their requirements
SUITE = "convergence"

HOW = f"({', '.join(event.words for event in EVENTS.values())})"
WHILE = f"While endpoints of a Local Service change {HOW}"
FIRST_FAMILY = " (in the Service's first family)"

REQUIREMENTS: dict[What, tuple[str, *tuple[Reference, ...]]] = {
    What.STEERS: (
        f"{WHILE}, the load balancer eventually follows. It sends traffic to every node that gains its first endpoint, "
        "if it uses all nodes at once or that node is the only one. It stops sending traffic to every node that loses "
        "its last endpoint. While no endpoint changes, it loses no more requests than a control that dials the nodes.",
        DESIGN_TIMES, DESIGN_BLACKHOLE,
    ),
    What.PLACE: (
        f"{WHILE}, every answer through the VIP comes from a pod that is ready, or terminating and still serving.",
        API_ETP, DESIGN_BLACKHOLE,
    ),
    What.SOURCE: (
        f"{WHILE}, the pod sees the client's own address in every request through the VIP that gets an answer.",
        API_ETP, TUTORIAL_LB,
    ),
    What.BLACK_HOLE: (
        "When a node loses its last endpoint, requests through the VIP are lost for at most (N+1) x health check "
        "period after the node first answers 503. Another check limits the delay of the node itself. The bound "
        "comes from --bound, or from N and period of the profile. The report also shows what the load balancer "
        "reports.",
        DESIGN_BOUND,
    ),
    What.NO_LOSS: (
        "When the last pod of a node is deleted and still serves until the load balancer stops using the node, no "
        "request through the VIP is lost: the node's health check says 503 and the node still serves.",
        KEP_1669, DESIGN_BLACKHOLE,
    ),
    What.BALANCE: (
        "The load balancer distributes new connections to a Local Service equally between nodes, not pods, when one "
        "node has two pods and the other has one.",
        DESIGN_BALANCE,
    ),
    What.TIMES_UP: (
        "Records the time from the first ready pod on a node to the first request through that node.",
        DESIGN_TIMES,
    ),
    What.TIMES_DOWN: (
        "Records the time after a node's last pod ends or becomes unready, until the last request through that node, "
        "including lost requests.",
        DESIGN_TIMES,
    ),
    What.HEALTH: (
        f"{WHILE}, the health check of each node follows every change: 200 with the first pod, 503 after the last.",
        DESIGN_TIMES, SERVICE_HEALTH,
    ),
    What.OTHERS: (
        f"While endpoints of a Local Service on other nodes change {HOW}, the health check of every node that never "
        "has a pod says 503 all the time.",
        DESIGN_HEALTH, SERVICE_HEALTH,
    ),
    What.PATH: (
        f"{WHILE}, the nodePort of each node follows every change: it answers with the first pod, and stops after the "
        f"last{FIRST_FAMILY}.",
        DESIGN_BLACKHOLE, API_ETP,
    ),
    What.HEALTH_PROMPT: (
        f"{WHILE}, the health check of each node follows every change of an EndpointSlice within {PROMPT:.0f} s.",
        SYNC_PERIOD, DESIGN_TIMES,
    ),
    What.PATH_PROMPT: (
        f"{WHILE}, the nodePort of each node follows every change of an EndpointSlice within {PROMPT:.0f} s"
        f"{FIRST_FAMILY}.",
        SYNC_PERIOD, DESIGN_BLACKHOLE,
    ),
    What.THRESHOLD: (
        "The load balancer stops using a node after as many failed health checks in a row as its profile says.",
        DESIGN_BOUND,
    ),
    What.VIEW_LOCAL: (
        "For a Local Service, the load balancer reports exactly the nodes with ready pods as healthy.",
        AZURE, DESIGN_TIMES,
    ),
    What.VIEW_CLUSTER: (
        "For a Cluster Service with the same pods, the load balancer reports all its nodes as healthy, except those "
        "with the exclusion label.",
        AZURE,
    ),
    What.FREED: (
        "When a Cluster Service is deleted, the load balancer releases its VIPs.",
        CLOUD_PROVIDER,
    ),
}  # fmt: skip

PLACE_AT_NODES = (
    f"{WHILE}, every answer of a nodePort comes from a local pod that is ready, or terminating and still serving. "
    "Nodes without local endpoints drop requests and do not forward them.",
    DESIGN_BLACKHOLE, API_ETP,
)  # fmt: skip
SOURCE_AT_NODES = (
    f"{WHILE}, the pod sees the client's own address in every request to a nodePort that gets an answer.",
    API_ETP,
)
SOURCE_BEHIND_PROXY = (
    f"{WHILE}, the pod sees the proxy's own address in every request through the VIP that gets an answer.",
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
    What.OTHERS: Level.CORE,
    What.PATH: Level.CORE,
    What.HEALTH_PROMPT: Level.EXTENDED,
    What.PATH_PROMPT: Level.EXTENDED,
    What.THRESHOLD: Level.EXTENDED,
    What.VIEW_LOCAL: Level.EXTENDED,
    What.VIEW_CLUSTER: Level.EXTENDED,
    What.FREED: Level.EXTENDED,
}

FAILS_IF = {
    What.STEERS: "the load balancer ignores health checks and endpoints, keeps a removed node, flaps, or is too slow",
    What.PLACE: "a node without local endpoints forwards to another node, or a node uses a pod that is not ready",
    What.SOURCE: "a node or the load balancer masquerades connections while endpoints change",
    What.BLACK_HOLE: "the load balancer needs more failed health checks, or probes less often, than its bound allows",
    What.NO_LOSS: "a node drops requests while its last pod terminates, although the pod still serves (KEP-1669)",
    What.BALANCE: "the load balancer uses only one node, prefers some, or hashes badly",
    What.HEALTH: "the health check always says 200, still says 200 after the last pod, or says 503 with local pods",
    What.OTHERS: "a node without a pod says 200 while pods of other nodes change, or nothing at all",
    What.PATH: "the service proxy of a node does not follow EndpointSlices",
    What.HEALTH_PROMPT: "the service proxy of a node is late every time, or syncs too rarely",
    What.PATH_PROMPT: "the service proxy of a node is late every time, or syncs too rarely",
    What.THRESHOLD: "the load balancer needs more or fewer failed health checks, so the bound of its profile is wrong",
    What.VIEW_LOCAL: "the load balancer reports a node without endpoints as healthy, or an endpoint node as unhealthy",
    What.VIEW_CLUSTER: "the load balancer excludes nodes although the policy is Cluster",
    What.FREED: "the load balancer keeps the VIP of a deleted Service, which may later lead to other pods",
}

ASKED = (
    "pods on fixed nodes come and go in a seeded sequence (--moves, --seed), while a client outside probes the VIP, "
    "the nodePort and the health check of every node about every 20 ms; the report has the actual interval"
)

PACKETS_ASKED = (
    "packets at all nodes with an agent, while pods on fixed nodes come and go (--moves, --seed): the health checks of "
    "a node from its 503 until the load balancer stops using it"
)


# ----------------------------------------------------------------------------------------------------------- the checks
BALANCERS = (Balancer.DEFAULT, Balancer.ECMP, Balancer.PROXY)

AT_VIP = (
    What.STEERS, What.PLACE, What.SOURCE, What.BLACK_HOLE, What.NO_LOSS, What.BALANCE, What.TIMES_UP, What.TIMES_DOWN,
)  # fmt: skip
AT_NODES = (What.HEALTH, What.OTHERS, What.HEALTH_PROMPT, What.PATH, What.PATH_PROMPT, What.PLACE, What.SOURCE)
OWN_VIEWS = (What.VIEW_LOCAL, What.VIEW_CLUSTER)
VIEWS = (*OWN_VIEWS, What.FREED)

CORE_OF_OWN = frozenset({What.BLACK_HOLE})
"""Claims that are core for the cluster's own load balancer and extended for the reference ones. The check is recorded
if neither a profile nor the user gives a bound (``Judge.unpromised``)."""


WEIGHING = KnownDifference(
    when=(),
    covers=WEIGHED,
    reason="the load balancer uses the weights that the nodes' health checks report: the distribution fits these, and "
    "not an equal one",
    references=(HEALTH_WEIGHT,),
    evidence="The nodes' health checks reported unequal weights; the distribution fits these and not an equal one.",
    hides="A load balancer with a skew that equals the weights by chance.",
)


OTHER_FAMILYS_503 = KnownDifference(
    when=(("service-proxy", "kube-proxy"), ("families.services", "IPv4, IPv6")),
    covers=AFTER_503,
    reason="kube-proxy's proxiers of both families share one health-check node port, and the first one answers for "
    "both: the node said 503 and stopped serving the nodePort of one family, while the other still led to the pod",
    references=(SHARED_HEALTH_PORT, SHARED_HEALTH_PORT_FIX),
    before="kube-proxy-version 1.36",
    nature=Nature.DEFECT,
    by_chance=True,
    evidence="At the moment of each such answer, the same pod answered the node's nodePort of that family, and the "
    "nodePort of the other family was probed and silent; at most 3 s after the 503.",
    hides="A service proxy that is late by up to 3 s in one family, for another reason.",
)


def differences(balancer: Balancer, what: What, family: Family | None) -> tuple[KnownDifference, ...]:
    """Return the known differences of a check; ``family`` is that of the VIP."""
    if what is What.BALANCE:
        return (WEIGHING,)
    if what is What.PLACE:
        return (OTHER_FAMILYS_503,)
    if what is What.SOURCE and family is not None:
        proxied = by_proxy(PROXIED) if balancer is Balancer.DEFAULT else ()
        return (*proxied, forwarded_masqueraded(family))
    return (STATELESS,) if balancer is Balancer.ECMP and what is What.NO_LOSS else ()


def check(
    balancer: Balancer,
    what: What,
    place: str,
    family: Family | None,
    level: Level,
    sentence: str,
    *references: Reference,
) -> Check[EndpointChange]:
    """Return one check; its features follow from its load balancer, claim and family."""
    others = [HEALTH_VIEW] if what in OWN_VIEWS and balancer is Balancer.DEFAULT else []
    others += ["nodes.four"] if what is What.OTHERS else []
    others += [PACKETS] if what is What.THRESHOLD else []
    return Check(
        id=f"{SUITE}.{balancer.value}.{place}.{what.value}",
        requirement=sentence,
        level=level,
        suite=SUITE,
        references=references,
        features=needs(*others, client=OUTSIDE_1, family=family, balancer=balancer),
        subject=EndpointChange(balancer, what, family),
        expected=EXPECTED[what],
        fails_if=FAILS_IF.get(what, ""),
        asked=PACKETS_ASKED if what is What.THRESHOLD else ASKED,
        differences=differences(balancer, what, family),
    )


def at_vip(balancer: Balancer, what: What, family: Family) -> Check[EndpointChange]:
    level = Level.CORE if balancer is Balancer.DEFAULT and what in CORE_OF_OWN else LEVELS[what]
    said = REQUIREMENTS[what]
    if what is What.SOURCE and balancer in PROXIES:
        level, said = Level.EXTENDED, SOURCE_BEHIND_PROXY
    return check(balancer, what, family.value.lower(), family, level, *said)


def at_nodes(balancer: Balancer, what: What) -> Check[EndpointChange]:
    said = {What.PLACE: PLACE_AT_NODES, What.SOURCE: SOURCE_AT_NODES}.get(what, REQUIREMENTS[what])
    return check(balancer, what, "nodes", None, LEVELS[what], *said)


def of_balancer(balancer: Balancer, what: What) -> Check[EndpointChange]:
    return check(balancer, what, "balancer", None, LEVELS[what], *REQUIREMENTS[what])


CHECKS = [
    *(at_vip(balancer, what, family) for balancer in BALANCERS for family in Family for what in AT_VIP),
    *(at_nodes(balancer, what) for balancer in BALANCERS for what in AT_NODES),
    *(of_balancer(each, What.THRESHOLD) for each in BALANCERS),
    *(of_balancer(each, what) for each in BALANCERS for what in (OWN_VIEWS if each is Balancer.DEFAULT else VIEWS)),
]
