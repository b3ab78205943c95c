"""What the checks about flips say: requirements, what must be seen, what trips it, and why."""

from dataclasses import dataclass

from esipp.checks.check import Difference, Level
from esipp.checks.policy_change import At, FlipClaim, Flipping
from esipp.checks.timing import PROMPT
from suites.known_differences.proxies import by_proxy
from suites.references import *


@dataclass(frozen=True)
class Said:
    """A check's sentence, its level, what must be seen, what trips it, and why it is required."""

    requirement: str
    level: Level
    must: str
    tripped_by: str
    references: tuple[Reference, ...]


SERVICES = {
    Flipping.NODE_PORT: "a NodePort service",
    Flipping.DEFAULT: "a LoadBalancer service",
    Flipping.ECMP: "a LoadBalancer service behind a balancer that forwards to several nodes",
}
ENTRIES = {
    At.ENDPOINT_NODE: "the endpoint node's nodePort",
    At.BARE_NODE: "the bare node's nodePort",
    At.VIP: "the VIP",
}
KEEPS = "Local shows the client's own address"
AS_IT_SAYS = {
    At.ENDPOINT_NODE: f"{KEEPS}, Cluster answers",
    At.BARE_NODE: "Local does not answer, Cluster does",
    At.VIP: f"{KEEPS}, Cluster answers",
}
ON_BARE = "answers of a node without the pod come with its own address or not at all"

ENTRY_CLAIMS: dict[FlipClaim, Said] = {
    FlipClaim.SETTLES: Said(
        "When externalTrafficPolicy flips, new connections at {entry} of {service} are as the new policy says within "
        "30 s, and stay so until the next flip: {as_it_says}",
        Level.CORE,
        "as the new policy says within 30 s, and so it stays",
        "the policy of a service is taken when it is created and no more, or by some nodes only; a bare node goes on "
        "serving after Local has returned; the balancer does not follow",
        (DESIGN_BACKWARD, API_ETP, E2E_LAG),
    ),
    FlipClaim.PROMPT: Said(
        "When externalTrafficPolicy flips, new connections at {entry} of {service} are as the new policy says from "
        f"{PROMPT:.0f} s after the API server took the flip on: {{as_it_says}}",
        Level.EXTENDED,
        f"as the new policy says within {PROMPT:.0f} s",
        "a node goes on for seconds as the old policy says, after each flip: rewriting, serving or silent",
        (DESIGN_BACKWARD, API_ETP, PROXIER),
    ),
    FlipClaim.REWRITES: Said(
        "When externalTrafficPolicy becomes Cluster, the source at {entry} of {service} is rewritten by the node that "
        "took the connection within 30 s, and every time until the next flip",
        Level.EXTENDED,
        "an address of the node that took it, within 30 s",
        "the rules of Local are left behind beside those of Cluster",
        (PROXIER, E2E_LOAD_BALANCERS),
    ),
    FlipClaim.OTHERWISE: Said(
        "While externalTrafficPolicy of {service} flips, an answer at {entry} is as one of both policies says, and "
        "never otherwise: no third address, no pod of others, {wrong_node}",
        Level.CORE,
        "only what one of both policies says",
        "for a moment rules of both policies hold together: a node hands connections on unrewritten, masquerades them "
        "by another address, or goes back to the old policy",
        (DESIGN_BACKWARD, API_ETP),
    ),
    FlipClaim.TIME: Said(
        "How long after a flip new connections at {entry} of {service} are as the new policy says, in both directions",
        Level.RECORD,
        "recorded",
        "",
        (DESIGN_BACKWARD,),
    ),
    FlipClaim.NO_LOSS: Said(
        "While externalTrafficPolicy of {service} flips, {entry} loses no new connection: under both policies it has "
        "a pod to go to",
        Level.EXTENDED,
        "every connection answered",
        "the rules of a service are taken away before the new ones are there",
        (DESIGN_BACKWARD, PROXIER),
    ),
}
HEALTH_CLAIMS: dict[FlipClaim, Said] = {
    FlipClaim.HEALTH_CLOSED: Said(
        "When externalTrafficPolicy of {service} leaves Local, its health-check port is given up: within 30 s nobody "
        "answers there for it on any node, and so it stays until the return",
        Level.CORE,
        "no answer on any node within 30 s",
        "a node keeps the listener of a service that has no health-check port any more: a balancer that still asks "
        "takes an old answer for a true one",
        (API_HEALTH_PORT, E2E_LOAD_BALANCERS),
    ),
    FlipClaim.HEALTH_AGAIN: Said(
        "When externalTrafficPolicy of {service} returns to Local, it has a health-check port again: 200 on the "
        "endpoint node and 503 on the others within 30 s, and so it stays until the next flip",
        Level.CORE,
        "200 where the pod is and 503 elsewhere within 30 s",
        "no port is allocated on the return, a node does not open it again, or tells what was true before",
        (API_HEALTH_PORT, E2E_LOAD_BALANCERS),
    ),
}
HEALTH_PROMPT = Said(
    "When externalTrafficPolicy of {service} flips, its health-check port is given up or answered on every node within "
    f"{PROMPT:.0f} s after the API server took the flip",
    Level.EXTENDED,
    f"closed or open as the new policy says within {PROMPT:.0f} s",
    "a node follows seconds later than it should: a balancer goes by what was true before",
    (API_HEALTH_PORT, PROXIER),
)
KEPT_CLAIMS: dict[At, Said] = {
    At.ENDPOINT_NODE: Said(
        "Connections that were made under Local through the endpoint node work on while the policy goes to Cluster "
        "and back, and the pod goes on seeing the client's own address",
        Level.EXTENDED,
        "every exchange answered, by the same source",
        "a change of the policy flushes connection tracking, or established connections are sent through the new rules",
        (DESIGN_BACKWARD, CONNTRACK),
    ),
    At.BARE_NODE: Said(
        "Connections that were made under Cluster through the bare node work on after the policy went to Local, and "
        "the pod goes on seeing that node's address",
        Level.EXTENDED,
        "every exchange answered, by the same source",
        "a node that has no endpoint any more drops what is under way, or hands it on unrewritten",
        (DESIGN_BACKWARD, CONNTRACK),
    ),
}
BESIDE = "While policies of services over the same pods flip: {claim}"
BESIDE_HEALTH = (
    "While policies of services over the same pods flip, the health check of a steady Local service answers {status} "
    "on the {place}, every time."
)

CILIUM = Difference(
    (("service-proxy", "cilium"),),
    "kept",
    "Cilium does not rewrite the source on the way to a backend of the same node",
    (CILIUM_NO_REWRITE,),
    evidence="Every answer under Cluster that was not rewritten shows the client's own address.",
    hides="Nothing that the API promises: the answer came back, and the source is the true one.",
)
PROXIES = by_proxy("another-source")
