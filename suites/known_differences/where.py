"""Which paths a known difference is about: what the files beside this one are written in."""

from collections.abc import Callable
from dataclasses import dataclass

from esipp.checks.model import AddressClass, Backends, Balancer, EntryKind, Path, Role, TrafficPolicy, Vantage
from esipp.checks.path import Override
from suites.clients import BACKEND

CLIENT = frozenset({AddressClass.CLIENT})
NODE = frozenset({AddressClass.NODE})
HAIRPIN = frozenset({AddressClass.HAIRPIN})
BARE = (Role.BARE_NODE, Role.OTHER_NODE)
"""The roles of nodes without an endpoint."""


@dataclass(frozen=True)
class Difference:
    """On which paths, where a check accepts what, which override holds."""

    on: Callable[[Path], bool]
    instead_of: frozenset[AddressClass]
    override: Override


def local(path: Path) -> bool:
    """Whether the service's externalTrafficPolicy is Local."""
    return path.service is not None and path.service.policy is TrafficPolicy.LOCAL


def inside(path: Path) -> bool:
    """Whether the client is a pod or a host process of the cluster."""
    return path.client.vantage is not Vantage.OUTSIDE


def hairpin(path: Path) -> bool:
    """Whether a backend reaches for its own service."""
    return path.client == BACKEND


def own_balancer(path: Path) -> bool:
    """Whether it is the VIP of the cluster's own load balancer."""
    return path.entry.kind is EntryKind.VIP and path.service is not None and path.service.balancer is Balancer.DEFAULT


def from_outside_under_cluster(path: Path) -> bool:
    """Clients outside at a service with Cluster, named or by default; annotations of old are another matter."""
    service = path.service
    cluster = service is not None and service.policy is not TrafficPolicy.LOCAL and not service.old_form
    return cluster and path.client.vantage is Vantage.OUTSIDE


def towards_another_node(path: Path) -> bool:
    """Whether a pod's packets leave its node for an address of another: one that is dialled, or a backend's."""
    a_node = path.entry.kind in (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    host_network = path.service is not None and path.service.backends is Backends.HOST_NETWORK
    elsewhere = a_node and path.entry.role is not path.client.role
    elsewhere |= host_network and path.client.role is not Role.ENDPOINT_NODE
    return path.client.vantage is Vantage.POD and elsewhere


def short_circuit(path: Path) -> bool:
    """A client on a node without endpoints that dials an address which its own node takes for the service's."""
    ways = path.entry.kind in (EntryKind.VIP, EntryKind.EXTERNAL_IP) or path.entry.role is path.client.role
    return local(path) and path.client.role in BARE and ways
