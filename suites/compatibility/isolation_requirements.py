"""Texts of isolation and policy change checks: requirements, expectations, failures, references."""

from esipp.checks.check import Level
from esipp.checks.policy_change import At, ChangingService, PolicyClaim
from esipp.checks.timing import PROMPT
from suites.known_differences.balancers import by_proxy
from suites.references import *
from suites.requirement import Requirement

SERVICES = {
    ChangingService.NODE_PORT: "a NodePort Service",
    ChangingService.DEFAULT: "a LoadBalancer Service",
    ChangingService.ECMP: "a LoadBalancer Service (ECMP forwarder)",
}
ENTRIES = {
    At.ENDPOINT_NODE: "the nodePort of {service} on the endpoint node",
    At.BARE_NODE: "the nodePort of {service} on a node without local endpoints",
    At.VIP: "the VIP of {service}",
}
ANSWERED = "under Local the pod sees the client's own address, under Cluster the client gets an answer"
NEW_POLICY = {
    At.ENDPOINT_NODE: ANSWERED,
    At.BARE_NODE: "under Local the client gets no answer, under Cluster it gets one",
    At.VIP: ANSWERED,
}
ON_BARE = "and the node either rewrites the source to its own address or does not answer"

ENTRY_CLAIMS: dict[PolicyClaim, Requirement] = {
    PolicyClaim.SETTLES: Requirement(
        "When externalTrafficPolicy changes, new connections to {entry} follow the new policy within 30 s and until "
        "the next change: {new_policy}",
        "follows the new policy within 30 s, and stays so",
        "nodes ignore policy changes of existing Services, or some do; a node without local endpoints still serves "
        "after the return to Local; the load balancer does not follow",
        (DESIGN_BACKWARD, API_ETP, E2E_LAG),
    ),
    PolicyClaim.PROMPT: Requirement(
        f"When externalTrafficPolicy changes, new connections to {{entry}} follow the new policy from {PROMPT:.0f} s "
        "after the API server accepted the change: {new_policy}",
        f"follows the new policy within {PROMPT:.0f} s",
        "a node follows the old policy for seconds after each change: it rewrites, serves or drops",
        (DESIGN_BACKWARD, API_ETP, PROXIER),
        Level.EXTENDED,
    ),
    PolicyClaim.REWRITES: Requirement(
        "When externalTrafficPolicy changes to Cluster, the node that accepts connections to {entry} rewrites their "
        "source within 30 s, and every time until the next change",
        "an address of the node that accepted it, within 30 s",
        "rules of Local remain next to those of Cluster",
        (PROXIER, E2E_LOAD_BALANCERS),
        Level.EXTENDED,
    ),
    PolicyClaim.OTHERWISE: Requirement(
        "While externalTrafficPolicy changes, every answer at {entry} follows one of the two policies: no third "
        "address, no other Service's pod, {wrong_node}",
        "only what one of the two policies allows",
        "rules of both policies apply together for a moment: a node forwards connections without rewriting, "
        "masquerades them with another address, or returns to the old policy",
        (DESIGN_BACKWARD, API_ETP),
    ),
    PolicyClaim.TIME: Requirement(
        "Records the time from a policy change until new connections to {entry} follow it, in both directions",
        "recorded",
        "",
        (DESIGN_BACKWARD,),
        Level.RECORD,
    ),
    PolicyClaim.NO_LOSS: Requirement(
        "While externalTrafficPolicy changes, {entry} loses no new connection, because both policies lead to the local "
        "pod",
        "every connection answered",
        "a node removes the old rules of a Service before it adds the new ones",
        (DESIGN_BACKWARD, PROXIER),
        Level.EXTENDED,
    ),
}
HEALTH_CLAIMS: dict[PolicyClaim, Requirement] = {
    PolicyClaim.HEALTH_CLOSED: Requirement(
        "When externalTrafficPolicy of {service} changes to Cluster, every node stops answering its health check "
        "within 30 s, and does not answer until the return to Local",
        "no answer on any node within 30 s",
        "a node keeps the listener of a Service that has no health-check node port any more, and misleads load "
        "balancers that still probe it",
        (API_HEALTH_PORT, E2E_LOAD_BALANCERS),
    ),
    PolicyClaim.HEALTH_AGAIN: Requirement(
        "When externalTrafficPolicy of {service} returns to Local, its health check answers 200 on the endpoint node "
        "and 503 on other nodes within 30 s, and until the next change",
        "200 on the endpoint node and 503 elsewhere within 30 s",
        "the API server allocates no port on the return, or a node does not reopen it or gives an outdated answer",
        (API_HEALTH_PORT, E2E_LOAD_BALANCERS),
    ),
}
HEALTH_PROMPT = Requirement(
    f"Every node opens or closes the health-check node port of {{service}} within {PROMPT:.0f} s after the API server "
    "accepted a policy change",
    f"closed or open according to the new policy within {PROMPT:.0f} s",
    "a node follows seconds late, so load balancers rely on an outdated answer",
    (API_HEALTH_PORT, PROXIER),
    Level.EXTENDED,
)
KEPT_CLAIMS: dict[At, Requirement] = {
    At.ENDPOINT_NODE: Requirement(
        "Connections opened under Local through the endpoint node survive a change to Cluster and back, and the pod "
        "still sees the client's own address",
        "every exchange answered, with the same source",
        "a policy change flushes connection tracking, or the new rules apply to established connections",
        (DESIGN_BACKWARD, CONNTRACK),
        Level.EXTENDED,
    ),
    At.BARE_NODE: Requirement(
        "Connections opened under Cluster through a node without local endpoints survive a change to Local, and the "
        "pod still sees that node's address",
        "every exchange answered, with the same source",
        "a node without local endpoints drops established connections, or forwards them without rewriting",
        (DESIGN_BACKWARD, CONNTRACK),
        Level.EXTENDED,
    ),
}
ISOLATED = "{claim} This holds while other Services over the same pods change their policy."
ISOLATED_HEALTH = (
    "While other Services over the same pods change their policy, the health check of an unchanged Local Service "
    "answers {status} on {node}, every time."
)

ISOLATED_ASKED = (
    "every client opens new connections at a fixed rate while a LoadBalancer and a NodePort Service over the same pods "
    "change between Local and Cluster; every answer counts"
)
ISOLATED_FAILS_IF = (
    "a change of one Service affects another one over the same pods: its rules, endpoints or source addresses"
)
ISOLATED_HEALTH_FAILS_IF = (
    "a node restarts all health checks when one Service goes, or confuses the health checks of two Services"
)
CHANGES_ASKED = (
    "externalTrafficPolicy changes from Local to Cluster and back three times, each time after nodes followed the "
    "previous change, while a client outside opens new connections at a fixed rate; all times use one clock"
)

PROXIES = by_proxy("another-source")
