"""Node ports of Services, and who else has one. nodePorts and health check node ports come from one allocator."""

from collections.abc import Collection, Iterable

from esipp.base.json import Json

BY_NUMBER = range(30_000, 30_086)
"""The static band of the default range. While other ports are free, API servers allocate from it only if a Service
requests a specific port (KEP-3668, enabled by default since Kubernetes 1.28)."""


ALLOCATED = "already allocated"
"""What an API server says of a port or a ClusterIP that is not free."""


def node_ports(service: Json) -> list[int]:
    """The nodePorts of a Service; an ExternalName Service may have no ports at all."""
    return [each["nodePort"] for each in service["spec"].get("ports") or [] if each.get("nodePort")]


def health_port(service: Json) -> int | None:
    """The health check node port of a Service, if it has one."""
    return service["spec"].get("healthCheckNodePort") or None


def all_ports(service: Json) -> list[int]:
    """All node ports of a Service, the health check node port last."""
    port = health_port(service)
    return [*node_ports(service), *([port] if port else [])]


def taken(
    services: Iterable[Json],
    ports: Collection[int],
    but: Collection[tuple[str, str]],
    addresses: Collection[str] = (),
) -> str:
    """A sentence about another Service that took one of these ports or addresses; empty if there is none.

    Args:
        services: all Services of the cluster.
        ports: the ports to look for.
        but: namespaces and names of Services that may have them.
        addresses: the ClusterIPs to look for.
    """
    for item in services:
        owner = item["metadata"]["namespace"], item["metadata"]["name"]
        theirs = [f"port {port}" for port in sorted({*all_ports(item)} & {*ports})]
        theirs += sorted({*(item["spec"].get("clusterIPs") or ())} & {*addresses})
        if theirs and owner not in but:
            return f"the Service {'/'.join(owner)} took {theirs[0]} meanwhile"
    return ""
