"""Who may use the VIPs of a run: on a cloud nobody but its own clients, by ``spec.loadBalancerSourceRanges``.

Where ranges are set, kube-proxy and most clouds filter before they forward, so the path that is asked is not quite the
one without them: reports say that they were set. Health checks of a balancer come from addresses of its own, and it is
up to the provider to admit those.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from esipp.base.errors import PreflightError
from esipp.checks.model import Family

Json = dict[str, Any]

AUTO, OFF, CLIENTS = "auto", "off", "clients"
FACT = "load-balancer.source-ranges"
NOBODY = "esipp.dev/nobody"
NOBODY_THERE = {Family.IPV4: "192.0.2.0/32", Family.IPV6: "2001:db8::/128"}
"""Addresses of documentation, which nobody has."""

HINT = "auto, off, clients, or CIDRs with commas between them: 198.51.100.0/24,2001:db8::/32"


@dataclass(frozen=True)
class SourceRanges:
    """``given`` are CIDRs of the user's; without them it is the run's own clients, where ``clients`` is set."""

    clients: bool = False
    given: tuple[str, ...] = ()
    why: str = "--source-ranges off"

    @property
    def wanted(self) -> bool:
        """Whether Services carry ranges at all."""
        return self.clients or bool(self.given)

    def of(self, addresses: Iterable[str], families: Iterable[Family]) -> tuple[str, ...]:
        """The ranges, where these are the addresses of the run's clients, of nodes and of pods.

        A family without a range would be open to everybody; so each of the cluster's gets one, if only of nobody.
        """
        found = {ipaddress.ip_address(address.partition("%")[0]) for address in addresses}
        own = sorted((each for each in found if not each.is_loopback), key=lambda each: (each.version, int(each)))
        ranges = list(self.given) or [f"{each}/{each.max_prefixlen}" for each in own]
        closed = {Family.IPV6 if ":" in each else Family.IPV4 for each in ranges}
        return (*ranges, *(NOBODY_THERE[family] for family in families if family not in closed))


def read(text: str) -> tuple[str, ...]:
    """The CIDRs that ``--source-ranges`` gives; none for a word.

    Raises:
        PreflightError: it is neither a word of ours nor CIDRs.
    """
    if text in (AUTO, OFF, CLIENTS):
        return ()
    try:
        return tuple(str(ipaddress.ip_network(each.strip(), strict=False)) for each in text.split(","))
    except ValueError as wrong:
        raise PreflightError(f"--source-ranges {text}: {wrong}.", HINT) from None


def decide(text: str, facts: Mapping[str, str]) -> SourceRanges:
    """Whether ranges are set on this cluster: by default on every one whose nodes are not kind's containers."""
    if given := read(text):
        return SourceRanges(given=given, why="--source-ranges")
    if text == AUTO:
        provider = facts.get("provider", "unknown")
        return SourceRanges(clients=provider != "kind", why=f"--source-ranges auto, provider {provider}")
    return SourceRanges(clients=text == CLIENTS, why=f"--source-ranges {text}")


def is_open(service: Json) -> bool:
    """Whether a Service gets a VIP at which anybody is served."""
    spec = service["spec"]
    served = spec.get("loadBalancerClass") != NOBODY
    return bool(spec["type"] == "LoadBalancer" and served and not spec.get("loadBalancerSourceRanges"))


def limit(service: Json, ranges: Iterable[str]) -> Json:
    """The same Service for these ranges only; unchanged where it has no VIP, or ranges already."""
    if not is_open(service):
        return service
    return {**service, "spec": {**service["spec"], "loadBalancerSourceRanges": list(ranges)}}
