"""How a Service's load balancer is announced, as facts that excuses need. Pure."""

from collections.abc import Mapping

from esipp.checks.check import Check
from esipp.checks.profile import Class, LoadBalancer

INGRESS = "load-balancer.ingress"
"""The fact that sums up all Services; with a dot and a Service's name it is that Service's own (``ingress_facts``)."""

PROXIED_INGRESSES = ("Proxy", "hostname")
"""Ways to announce a load balancer that is, or may be, a proxy."""

TOLD = "load-balancer.class.told"
"""The fact that says forwarder or proxy, as ``--provider`` does; there is none where nobody said so."""

AT_SERVICE, OF_SERVICE = "service.ingress", "service.load-balancer"
"""Facts that ``facts_at`` adds for one Service: how it is announced; and ``proxy`` where it may be behind one."""

PROXY = Class.PROXY.value


def ingress_facts(ingresses: Mapping[str, str]) -> dict[str, str]:
    """How each Service of the cluster's own load balancer is announced, where that is not plainly an address.

    Args:
        ingresses: VIP, Proxy, hostname or none, by the Service's name.
    """
    return {f"{INGRESS}.{name}": way for name, way in sorted(ingresses.items()) if way in PROXIED_INGRESSES}


def class_facts(told: LoadBalancer | None) -> dict[str, str]:
    """What a user says of the load balancer's class, as a fact."""
    return {TOLD: told.kind.value} if told else {}


def facts_at(service: str, facts: Mapping[str, str]) -> Mapping[str, str]:
    """The facts as they are for one Service of the cluster's own load balancer.

    Args:
        service: its name; empty where no VIP of such a Service is dialled, which adds nothing.
        facts: those of the run.
    """
    way = facts.get(f"{INGRESS}.{service}", "")
    if not service:
        return facts
    proxied = way in PROXIED_INGRESSES and facts.get(TOLD) != Class.FORWARDER.value
    return {**facts, **({AT_SERVICE: way} if way else {}), **({OF_SERVICE: PROXY} if proxied else {})}


def service_of(check: Check) -> str:
    """The Service of the cluster's own load balancer that a check is about, be it that of a path's claim it repeats."""
    return check.own_service or str(getattr(getattr(check, "path_check", None), "own_service", ""))
