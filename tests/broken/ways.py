"""Paths of connections through a cluster, to select the checks that must notice a break."""

from collections.abc import Callable

from esipp.checks.check import Check, is_about
from esipp.checks.model import Backends, Balancer, EntryKind, Path, Role, TrafficPolicy, Vantage
from esipp.checks.path import OnPath

NODE_PORTS = (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)


def into_pods(path: Path) -> bool:
    """Whether the backend is in the pod network."""
    return path.service is None or path.service.backends is not Backends.HOST_NETWORK


def sent_on_by(path: Path) -> Role | None:
    """The node whose service proxy sends the connection to a backend; None where there is none, or it may be any."""
    service, entry, client = path.service, path.entry, path.client
    if service is None:
        return None
    if entry.kind in NODE_PORTS:
        return entry.role
    if client.role is not None and not by_a_proxy(path):
        return client.role  # a ClusterIP, a VIP, an externalIP: the client's own node takes them for the service's
    if entry.kind is EntryKind.EXTERNAL_IP:
        return entry.role
    return Role.ENDPOINT_NODE if service.policy is TrafficPolicy.LOCAL else None  # where the balancer sends it


def by_a_proxy(path: Path) -> bool:
    """Whether a load balancer that is a proxy is dialled, whoever dials."""
    forwards = (Balancer.DEFAULT, Balancer.FORWARD, Balancer.ECMP)
    return path.entry.kind is EntryKind.VIP and path.service is not None and path.service.balancer not in forwards


def from_the_node(path: Path, role: Role) -> bool:
    """Whether a process of this node itself dials, which any address of the node belongs to."""
    return path.client.vantage is Vantage.NODE and path.client.role is role


def rests_on(spoiled: Callable[[Path], bool]) -> Callable[[Check], bool]:
    """Whether one of a check's controls takes such a path, so that the check cannot be decided."""
    return lambda check: is_about(check, OnPath) and any(spoiled(control.path) for control in check.subject.controls)
