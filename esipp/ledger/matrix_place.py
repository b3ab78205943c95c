"""The place of a path check in the matrix: the label of its line, its column, and the order."""

from esipp.checks.model import Balancer, EntryKind, Path, Role, ServiceType, TrafficPolicy


def service_name(path: Path) -> str:
    """The Service as a line names it, by its slug."""
    return path.service.slug if path.service else "pod IP"


def entry_name(path: Path) -> str:
    """The entry as a line names it: nothing where the service says it, a node's part where one is dialled."""
    entry, service = path.entry, path.service
    if entry.kind is EntryKind.SECOND_ADDRESS and entry.role:
        return f"{entry.role.value} (2nd)"
    if entry.role:
        return entry.role.value
    own = {EntryKind.POD_IP: None, EntryKind.CLUSTER_IP: "clusterip", EntryKind.VIP: "loadbalancer"}[entry.kind]
    return "" if own is None or (service and service.slug.startswith(own)) else entry.slug


def kind_of(path: Path) -> tuple[object, ...]:
    """The kind of a line: the entry, and the Service without its traits; all ClusterIPs are alike."""
    service = path.service
    if service is None:
        return (path.entry,)
    if path.entry.kind is EntryKind.CLUSTER_IP:
        return (path.entry, service.internal)
    policy = service.policy.value if service.policy else "Cluster"  # the default, where it is left unset
    return (path.entry, service.type, policy, service.balancer, service.external_ips)


def place_of(path: Path) -> tuple[object, ...]:
    """The order of lines: by kind of Service, then by entry, then the plain Service before the others."""
    service, entry = path.service, path.entry
    kind = -1 if entry.kind is EntryKind.VIP else list(EntryKind).index(entry.kind)
    role = list(Role).index(entry.role) if entry.role else -1
    if service is None or entry.kind is EntryKind.CLUSTER_IP:
        return (0, kind, "", 0, 0, service.internal is not None if service else False, len(service_name(path)))
    types = [*ServiceType].index(service.type), list(Balancer).index(service.balancer)
    policy = (service.policy or TrafficPolicy.CLUSTER).value
    return (1, *types, policy, kind, role, service.policy is None, len(service.slug))
