"""The ports that Services have on every node: nodePorts and health checks' come from one range, by one allocator."""

from collections.abc import Collection, Iterable
from typing import Any

Json = dict[str, Any]

BY_NUMBER = range(30_000, 30_086)
"""The band of the default range that API servers give to those who ask for a number; who asks for any port is given
none of it while others are left (KEP-3668, on by default since Kubernetes 1.28)."""


def node_ports(service: Json) -> list[int]:
    """Its nodePorts; an ExternalName Service may have no ports at all."""
    return [each["nodePort"] for each in service["spec"].get("ports") or [] if each.get("nodePort")]


def health_port(service: Json) -> int | None:
    """Its health check's node port, if it has one."""
    return service["spec"].get("healthCheckNodePort") or None


def all_ports(service: Json) -> list[int]:
    """Its ports on the nodes, the health check's last."""
    port = health_port(service)
    return [*node_ports(service), *([port] if port else [])]


def taken(services: Iterable[Json], ports: Collection[int], but: Collection[tuple[str, str]]) -> str:
    """Which service has one of these ports by now, as a sentence; empty where none has.

    Args:
        services: all of the cluster.
        ports: those that somebody else may have taken.
        but: namespaces and names of services that may have them.
    """
    for item in services:
        owner = item["metadata"]["namespace"], item["metadata"]["name"]
        theirs = sorted({*all_ports(item)} & {*ports})
        if theirs and owner not in but:
            return f"the service {'/'.join(owner)} took port {theirs[0]} meanwhile"
    return ""
