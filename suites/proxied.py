"""What backends see behind a load balancer that is a proxy, for rows that are no path. Data only."""

from esipp.rows import Difference

INGRESSES = ("Proxy", "hostname")
"""What a Service's status says of the way in where its load balancer is, or may well be, a proxy."""

REASON = "the load balancer is a proxy (ingress {}): the backend sees whatever address it connects from"
REFERENCE = "KEP-1860; kubernetes/kubernetes#123714: Local with ipMode Proxy has no defined semantics"


def by_proxy(seen: str) -> tuple[Difference, ...]:
    """What may be seen there instead of the client's address, in the words of a judge."""
    return tuple(
        Difference((("load-balancer.ingress", ingress),), seen, REASON.format(ingress), REFERENCE)
        for ingress in INGRESSES
    )
