"""Source ranges of a run's VIPs: on a cloud, only the run's own clients (``spec.loadBalancerSourceRanges``).

With ranges, kube-proxy and most clouds filter before they forward, so the tested path differs slightly; reports state
that ranges were set. A load balancer's health checks have its own source addresses, which the provider must admit.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from esipp.base.errors import PreflightError
from esipp.base.json import Json
from esipp.base.labels import UNSERVED_CLASS
from esipp.checks.model import Family

AUTO, OFF, CLIENTS = "auto", "off", "clients"
FACT = "load-balancer.source-ranges"
NOBODY_THERE = {Family.IPV4: "192.0.2.0/32", Family.IPV6: "2001:db8::/128"}
"""Addresses reserved for documentation, which no client has."""

HINT = "use auto, off, clients, or comma-separated CIDRs such as 198.51.100.0/24,2001:db8::/32."


@dataclass(frozen=True)
class SourceRanges:
    """The source ranges: the user's CIDRs (``given``), or the run's own clients if ``clients`` is set."""

    clients: bool = False
    given: tuple[str, ...] = ()
    why: str = "--source-ranges off"

    @property
    def wanted(self) -> bool:
        """Whether Services have source ranges."""
        return self.clients or bool(self.given)

    def of(self, addresses: Iterable[str], families: Iterable[Family]) -> tuple[str, ...]:
        """The ranges for the addresses of the run's clients, nodes and pods.

        A family without a range would be open to all clients. So each family gets a range, if need be without clients.
        """
        found = {ipaddress.ip_address(address.partition("%")[0]) for address in addresses}
        own = sorted((each for each in found if not each.is_loopback), key=lambda each: (each.version, int(each)))
        ranges = list(self.given) or [f"{each}/{each.max_prefixlen}" for each in own]
        closed = {Family.IPV6 if ":" in each else Family.IPV4 for each in ranges}
        return (*ranges, *(NOBODY_THERE[family] for family in families if family not in closed))


def read(text: str) -> tuple[str, ...]:
    """The CIDRs of ``--source-ranges``; empty for a keyword.

    Raises:
        PreflightError: the value is neither a keyword nor CIDRs.
    """
    if text in (AUTO, OFF, CLIENTS):
        return ()
    try:
        return tuple(str(ipaddress.ip_network(each.strip(), strict=False)) for each in text.split(","))
    except ValueError as wrong:
        raise PreflightError(f"--source-ranges {text}: {wrong}.", HINT) from None


def decide(text: str, facts: Mapping[str, str]) -> SourceRanges:
    """The source ranges for this cluster; by default they are set unless the nodes are kind's."""
    if given := read(text):
        return SourceRanges(given=given, why="--source-ranges")
    if text == AUTO:
        provider = facts.get("provider", "unknown")
        return SourceRanges(clients=provider != "kind", why=f"--source-ranges auto, provider {provider}")
    return SourceRanges(clients=text == CLIENTS, why=f"--source-ranges {text}")


def is_open(service: Json) -> bool:
    """Whether a Service gets a VIP that is open to all clients."""
    spec = service["spec"]
    served = spec.get("loadBalancerClass") != UNSERVED_CLASS
    return bool(spec["type"] == "LoadBalancer" and served and not spec.get("loadBalancerSourceRanges"))


def limit(service: Json, ranges: Iterable[str]) -> Json:
    """The Service with these ranges; unchanged if it has no VIP, or has ranges already."""
    if not is_open(service):
        return service
    return {**service, "spec": {**service["spec"], "loadBalancerSourceRanges": list(ranges)}}
