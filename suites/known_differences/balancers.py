"""Known differences of load balancers: proxies, forwarders that track no connections, MetalLB, Cilium. Data only."""

from esipp.checks.continuity import CLAIMED_TWICE
from esipp.checks.ingress import AT_ANNOUNCER, OF_SERVICE, PROXY, WITHOUT_ENDPOINT
from esipp.checks.known_differences import REHASHED, Connections, KnownDifference, Nature
from esipp.checks.model import NO_ANSWER
from suites.known_differences.where import CLIENT, OnPaths, inside, local, own_balancer
from suites.references import (
    CILIUM_L2_LOCAL,
    CILIUM_L2_LOCAL_FIX,
    KEP_1860,
    MEMBERLIST_DEAD,
    METALLB_BGP,
    METALLB_JOINS,
    PROXY_UNDER_LOCAL,
    RFC_2992,
)

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
ROUTES_CHANGED = KnownDifference(
    when=(),
    covers=REHASHED,
    reason="routers spread the VIP over nodes and track no connections: when these nodes change, open connections "
    "reach another node, which does not know them",
    references=(RFC_2992, METALLB_BGP),
    by_chance=True,
    evidence="New connections went to several nodes by turns; the client's neighbour table has no node for the VIP. "
    "At most a second before or after the break, a node stopped or began to take new connections: so many went to "
    "others meanwhile as chance brings about in less than one of two hundred cases. At most 10 s before, or the load "
    "balancer's bound, the Service had lost or got a pod on that node, or something was done to it or to the "
    "VIP's announcers.",
    hides="A node that breaks connections while these nodes change, for another reason.",
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
ANNOUNCED_WITHOUT_ENDPOINT = OnPaths(
    lambda path: own_balancer(path) and local(path) and not inside(path),
    CLIENT,
    KnownDifference(
        when=(("load-balancer.profile", "cilium-l2"), (AT_ANNOUNCER, WITHOUT_ENDPOINT)),
        covers=Connections(NO_ANSWER),
        reason="Cilium's L2 announcements do not regard externalTrafficPolicy: any node may announce the VIP of a "
        "Local Service, and one without an endpoint drops what comes to it",
        references=(CILIUM_L2_LOCAL, CILIUM_L2_LOCAL_FIX),
        before="cilium.version 1.20.2",
        nature=Nature.DEFECT,
        evidence="A client outside gets no answer from the VIP of a Local Service. The node that holds the Lease of "
        "this Service has no ready endpoint of it, by its EndpointSlices, once the run's Services are there.",
        hides="The VIP of such a Service may be silent for another reason.",
    ),
)
