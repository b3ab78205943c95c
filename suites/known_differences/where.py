"""Conditions on paths, in which the known differences of this package are written."""

from collections.abc import Callable
from dataclasses import dataclass

from esipp.checks.known_differences import KnownDifference
from esipp.checks.model import AddressClass, Backends, Balancer, EntryKind, Path, Role, TrafficPolicy, Vantage
from suites.clients import BACKEND

CLIENT = frozenset({AddressClass.CLIENT})
NODE = frozenset({AddressClass.NODE})
HAIRPIN = frozenset({AddressClass.HAIRPIN})
BARE = (Role.BARE_NODE, Role.OTHER_NODE, Role.CONTROL_PLANE)
"""The roles of nodes without an endpoint."""


@dataclass(frozen=True)
class OnPaths:
    """A known difference: the paths, the accepted classes of the check, and the known difference."""

    on: Callable[[Path], bool]
    instead_of: frozenset[AddressClass]
    known: KnownDifference


def local(path: Path) -> bool:
    """Return whether the Service has externalTrafficPolicy Local."""
    return path.service is not None and path.service.policy is TrafficPolicy.LOCAL


def inside(path: Path) -> bool:
    """Return whether the client is a pod or a host process of the cluster."""
    return path.client.vantage is not Vantage.OUTSIDE


def hairpin(path: Path) -> bool:
    """Return whether a backend dials its own Service."""
    return path.client == BACKEND


def own_balancer(path: Path) -> bool:
    """Return whether the path dials a VIP of the cluster's own load balancer."""
    return path.entry.kind is EntryKind.VIP and path.service is not None and path.service.balancer is Balancer.DEFAULT


def from_outside_under_cluster(path: Path) -> bool:
    """Return whether a client outside dials a Service with Cluster, set or by default, without old annotations."""
    service = path.service
    cluster = service is not None and service.policy is not TrafficPolicy.LOCAL and not service.old_form
    return cluster and path.client.vantage is Vantage.OUTSIDE


def towards_another_node(path: Path) -> bool:
    """Return whether a pod's packets go to another node's address, which it dials or which is the backend's."""
    a_node = path.entry.kind in (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    host_network = path.service is not None and path.service.backends is Backends.HOST_NETWORK
    elsewhere = a_node and path.entry.role is not path.client.role
    elsewhere |= host_network and path.client.role is not Role.ENDPOINT_NODE
    return path.client.vantage is Vantage.POD and elsewhere


def short_circuit(path: Path) -> bool:
    """Return whether a client's own node, without local endpoints, can serve the dialled address itself."""
    ways = path.entry.kind in (EntryKind.VIP, EntryKind.EXTERNAL_IP) or path.entry.role is path.client.role
    return local(path) and path.client.role in BARE and ways
