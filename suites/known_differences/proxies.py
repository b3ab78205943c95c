"""What backends see behind a load balancer that is a proxy, for checks that are no path. Data only."""

from esipp.checks.check import Difference
from esipp.checks.ingress import OF_SERVICE, PROXY
from suites.references import KEP_1860, PROXY_UNDER_LOCAL

REASON = "the load balancer of this Service is a proxy: the backend sees the address that it connects from"
REFERENCES = (KEP_1860, PROXY_UNDER_LOCAL)
EVIDENCE = (
    "This Service announces ipMode Proxy or a hostname, and --provider does not say forwarder. All that is excused "
    "shows the same few addresses, and none is a node's, a pod's or a client's."
)
HIDES = "An address of a node or a pod that nobody told us of, or NAT before the cluster, looks like a proxy's own."


def by_proxy(seen: str) -> tuple[Difference, ...]:
    """What may be seen there instead of the client's address, in the words of a judge.

    The judge must say this word only where ``why_not_its_own`` (esipp/loadbalancers/ingress.py) has nothing against it.
    """
    return (Difference(((OF_SERVICE, PROXY),), seen, REASON, REFERENCES, evidence=EVIDENCE, hides=HIDES),)
