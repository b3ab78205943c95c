"""Facts about Services of the cluster's own load balancer, for known differences. Pure."""

from collections.abc import Mapping

from esipp.checks.profile import Class, LoadBalancer

INGRESS = "load-balancer.ingress"
"""The fact about all Services; with a dot and a name, the fact about one Service (``ingress_facts``)."""

PROXIED_INGRESSES = ("Proxy", "hostname")
"""Forms of status of a load balancer that is, or may be, a proxy."""

NAMED_CLASS = "load-balancer.class.named"
"""The fact that ``--provider`` says forwarder or proxy; absent without ``--provider``."""

AT_SERVICE, OF_SERVICE = "service.ingress", "service.load-balancer"
"""Facts that ``facts_at`` adds for one Service: its form of status, and ``proxy`` if a proxy may serve it."""

ANNOUNCER, AT_ANNOUNCER = "load-balancer.announcer", "service.announcer"
"""With a dot and a name, the fact about the node that announces a Local Service; ``facts_at`` adds it as the second."""

WITH_ENDPOINT, WITHOUT_ENDPOINT = "a node with an endpoint", "a node without an endpoint"
"""What it says."""

PROXY = Class.PROXY.value


def ingress_facts(ingresses: Mapping[str, str]) -> dict[str, str]:
    """Return the form of status of each Service of the cluster's own load balancer, unless it is a plain address.

    Args:
        ingresses: VIP, Proxy, hostname or none, by the Service's name.
    """
    return {f"{INGRESS}.{name}": way for name, way in sorted(ingresses.items()) if way in PROXIED_INGRESSES}


def class_facts(named: LoadBalancer | None) -> dict[str, str]:
    """Return the class of load balancer that the user names, as a fact."""
    return {NAMED_CLASS: named.kind.value} if named else {}


def facts_at(service: str, facts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the facts for one Service of the cluster's own load balancer.

    Args:
        service: its name; empty if the check dials no such VIP, which adds nothing.
        facts: the facts of the run.
    """
    way = facts.get(f"{INGRESS}.{service}", "")
    if not service:
        return facts
    proxied = way in PROXIED_INGRESSES and facts.get(NAMED_CLASS) != Class.FORWARDER.value
    announcer = facts.get(f"{ANNOUNCER}.{service}", "")
    more = {AT_SERVICE: way, OF_SERVICE: PROXY if proxied else "", AT_ANNOUNCER: announcer}
    return {**facts, **{name: value for name, value in more.items() if value}}
