"""Known differences behind a proxying load balancer, for checks other than path checks. Data only."""

from esipp.checks.ingress import OF_SERVICE, PROXY
from esipp.checks.known_differences import KnownDifference
from suites.references import KEP_1860, PROXY_UNDER_LOCAL

REASON = "the load balancer of this Service is a proxy, so the backend sees the proxy's address"
REFERENCES = (KEP_1860, PROXY_UNDER_LOCAL)
EVIDENCE = (
    "The status of this Service has ipMode Proxy or a hostname, and --provider does not say forwarder. All excused "
    "connections show the same few addresses, and none is a node's, a pod's or a client's."
)
HIDES = "An unknown address of a node or a pod, or NAT outside the cluster, looks like a proxy's address."


def by_proxy(seen: str) -> tuple[KnownDifference, ...]:
    """Return the known difference for a judge that reports ``seen`` instead of the client's address.

    The judge may report it only where ``why_not_its_own`` (esipp/loadbalancers/ingress.py) finds no objection.
    """
    return (KnownDifference(((OF_SERVICE, PROXY),), seen, REASON, REFERENCES, evidence=EVIDENCE, hides=HIDES),)
