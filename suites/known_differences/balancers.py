"""Known differences of load balancers: proxies, forwarders that track no connections, MetalLB. Data only."""

from esipp.checks.continuity import CLAIMED_TWICE
from esipp.checks.ingress import OF_SERVICE, PROXY
from esipp.checks.known_differences import REHASHED, KnownDifference, Nature
from suites.references import KEP_1860, MEMBERLIST_DEAD, METALLB_JOINS, PROXY_UNDER_LOCAL, RFC_2992

REASON = "the load balancer of this Service is a proxy, so the backend sees the proxy's address"
REFERENCES = (KEP_1860, PROXY_UNDER_LOCAL)
EVIDENCE = (
    "The status of this Service has ipMode Proxy or a hostname, and --provider does not say forwarder. All excused "
    "connections show the same few addresses, and none is a node's, a pod's or a client's. No client outside is shown "
    "its own address there."
)
HIDES = "An unknown address of a node or a pod, or NAT outside the cluster, looks like a proxy's address."


def by_proxy(seen: str) -> tuple[KnownDifference, ...]:
    """Return the known difference for a judge that reports ``seen`` instead of the client's address.

    The judge may report it only where ``why_not_its_own`` (esipp/judging/ingress.py) finds no objection.
    """
    return (KnownDifference(((OF_SERVICE, PROXY),), seen, REASON, REFERENCES, evidence=EVIDENCE, hides=HIDES),)


STATELESS = KnownDifference(
    when=(),
    covers=REHASHED,
    reason="an ECMP forwarder tracks no connections: when its routes change, open connections reach another node, "
    "which resets them",
    references=(RFC_2992,),
    by_chance=True,
    evidence="Only connections that were open while the load balancer changed its routes were lost, and all of them "
    "were reset.",
    hides="A node that resets connections while routes change, for another reason.",
)
VIP_CLAIMED_TWICE = KnownDifference(
    when=(("load-balancer.profile", "metallb-l2"),),
    covers=CLAIMED_TWICE,
    reason="a finding: once a node is back, MetalLB's speaker there tells the others that the nodes which it could not "
    "reach are dead. Until these deny it, about a second later, another speaker claims their VIPs, too",
    references=(METALLB_JOINS, MEMBERLIST_DEAD),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="Around every lost request, the client asked who has the VIP, and several nodes answered. A node had come "
    "or gone at most 60 s before, and no bound of the load balancer is known.",
    hides="A node that loses new connections for another reason while two nodes claim the VIP.",
)
