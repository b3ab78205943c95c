"""Building blocks of path checks for every suite: entries, Services, their sentences, controls, and ``path_check``."""

from dataclasses import replace

from esipp.checks.check import REPORTS, Check, Level
from esipp.checks.known_differences import Connections, KnownDifference
from esipp.checks.model import (
    NO_ANSWER,
    AddressClass,
    Backends,
    Balancer,
    Claim,
    Client,
    Entry,
    EntryKind,
    Family,
    Path,
    Port,
    Protocol,
    Role,
    Service,
    ServiceType,
    TrafficPolicy,
    Vantage,
)
from esipp.checks.path import Control, OnPath, PathCheck, Spread
from suites.clients import *
from suites.known_differences.paths import known_on
from suites.needs import needs
from suites.references import *

# ------------------------------------------------------------------------------------------------ requirement sentences
WHO = {
    "outside-1": "a client outside the cluster",
    "outside-2": "a second client outside the cluster",
    "outside-routed": "a client outside the cluster, in another subnet behind a router,",
    "outside-nat": "a client outside the cluster, behind NAT,",
    "second-pod-on-other-node": "a second pod on another node",
    "pod-on-control-plane": "a pod on a control plane node",
    "host-on-control-plane": "a host process on a control plane node",
    "pod-on-endpoint-node": "a pod on the endpoint node",
    "pod-on-bare-node": "a pod on a node without local endpoints",
    "pod-on-other-node": "a pod on another node",
    "host-on-endpoint-node": "a host process on the endpoint node",
    "host-on-bare-node": "a host process on a node without local endpoints",
    "host-on-other-node": "a host process on another node",
    "backend": "the backend pod",
}
NODES = {
    Role.ENDPOINT_NODE: "the endpoint node",
    Role.BARE_NODE: "a node without local endpoints",
    Role.OTHER_NODE: "another node without local endpoints",
    Role.CONTROL_PLANE: "a control plane node",
}
HEADERS = {
    Claim.FORWARDED_FOR: "an X-Forwarded-For header",
    Claim.PROXY_V1: "a PROXY protocol header (version 1)",
    Claim.PROXY_V2: "a PROXY protocol header (version 2)",
}
BALANCERS = {
    Balancer.FORWARD: "a forwarding load balancer",
    Balancer.ECMP: "an ECMP forwarding load balancer",
    Balancer.PROXY: "a proxying load balancer",
    Balancer.PROXY_FORWARDED_FOR: "a proxying load balancer with X-Forwarded-For",
    Balancer.PROXY_V1: "a proxying load balancer with PROXY protocol version 1",
    Balancer.PROXY_V2: "a proxying load balancer with PROXY protocol version 2",
}
PORTS = {
    Port.MAIN: "",
    Port.NAMED: " at the port with a named targetPort",
    Port.SAME: " at the port with the same number as its targetPort",
    Port.HTTP: " at the HTTP port",
}
BACKENDS = {
    Backends.HOST_NETWORK: "a host-network backend",
    Backends.NOT_READY: "a backend that is not ready",
    Backends.PAIR: "two backends",
    Backends.CONTROL_PLANE: "its only backend on a control plane node",
}
CLIENT_ADDRESS = "the client's own address"


def requirement(path: Path, accept: frozenset[AddressClass], reported: Claim, spread: Spread) -> str:
    """Return the requirement of a check on this path.

    Args:
        path: what the client dials, and how.
        accept: the address classes that fulfil the check.
        reported: the header in which the backend must learn the client's address.
        spread: which backends may answer.
    """
    over = f"over {path.protocol.value} and {path.family.value}"
    how = " from one socket" if path.one_socket else ""
    how += f" and claims another address in {HEADERS[path.claim]}" if path.claim is not Claim.NOTHING else ""
    sentence = f"When {WHO[path.client.name]} dials {_destination(path)} {over}{how}, {_outcome(path, accept)}"
    if reported is not Claim.NOTHING:
        sentence += f" and reads the client's own address from {HEADERS[reported]}"
    if spread is Spread.ONE:
        sentence += ", and the same backend answers every connection"
    return sentence + "."


def _destination(path: Path) -> str:
    if path.service is None:
        return "the address of a backend pod"
    role = path.entry.role
    node = NODES[role] if role else ""
    if role is not None and role is path.client.role:
        node = "its own node"
    elif path.service.backends is Backends.CONTROL_PLANE and role is Role.ENDPOINT_NODE:
        node = NODES[Role.BARE_NODE]  # the endpoint node of other Services has no endpoint of this one
    entry, where = {
        EntryKind.CLUSTER_IP: ("the ClusterIP", ""),
        EntryKind.VIP: ("the VIP", ""),
        EntryKind.NODE_PORT: ("the nodePort", f" on {node}"),
        EntryKind.SECOND_ADDRESS: ("the nodePort", f" at a second address of {node}"),
        EntryKind.EXTERNAL_IP: (f"an externalIP (the address of {node})", ""),
    }[path.entry.kind]
    return f"{entry} of {_service(path.service, path.client)}{PORTS[path.port]}{where}"


def _admitted(ranges: tuple[str, ...], client: Client) -> str:
    return "this client" if ranges == (client.name,) else "another client"


def _service(service: Service, client: Client) -> str:
    types = {ServiceType.CLUSTER_IP: "a ClusterIP", ServiceType.NODE_PORT: "a NodePort"}
    name = f"{types.get(service.type, 'a LoadBalancer')} Service"
    if service.balancer is not Balancer.DEFAULT:
        name += f" behind {BALANCERS[service.balancer]}"
    traits = []
    if service.is_external:
        traits.append(f"externalTrafficPolicy {service.policy.value if service.policy else 'unset'}")
    if service.internal:
        traits.append(f"internalTrafficPolicy {service.internal.value}")
    if service.backends is not Backends.POD:
        traits.append(BACKENDS[service.backends])
    if service.families:
        traits.append(f"{service.families.value} only")
    if service.first:
        traits.append(f"dual-stack with {service.first.value} first")
    if service.reports is not Claim.NOTHING:
        traits.append(f"a load balancer that sends {HEADERS[service.reports]}")
    if service.old_form:
        traits.append(f"pre-1.7 annotations with the value {service.old_form.value}")
    if service.publish_not_ready:
        traits.append("publishNotReadyAddresses")
    if service.affinity:
        traits.append("sessionAffinity ClientIP")
    if service.prefers_close:
        traits.append("trafficDistribution PreferClose")
    if service.ranges:
        traits.append(f"loadBalancerSourceRanges that admit only {_admitted(service.ranges, client)}")
    if service.several_ports:
        traits.append("several ports")
    return name + (f" ({', '.join(traits)})" if traits else "")


def _outcome(path: Path, accept: frozenset[AddressClass]) -> str:
    if accept == frozenset(AddressClass):
        return "the check records the outcome and requires nothing"
    if accept <= NO_ANSWER:
        return "the client gets no answer"
    if accept == {AddressClass.CLIENT, AddressClass.NODE}:
        return "the client gets an answer"
    if {AddressClass.CLIENT, AddressClass.OTHER} <= accept:
        return "the backend answers"
    host = path.client.vantage is Vantage.NODE
    return {
        AddressClass.CLIENT: "the backend sees " + ("an address of the client's node" if host else CLIENT_ADDRESS),
        AddressClass.NODE: "the backend sees "
        + ("an address of a node other than the client's" if host else "a node's address"),
        AddressClass.HAIRPIN: "it sees an address of its own node as the source (hairpin)",
        AddressClass.LOAD_BALANCER: "the backend sees the load balancer's address",
    }[min(accept)]


# ------------------------------------------------------------------------------------------------------ building blocks
FAMILIES = tuple(Family)

# -------------------------------------------------------------------------------------------------------- entries
POD_IP = Entry(EntryKind.POD_IP)
CLUSTER_IP = Entry(EntryKind.CLUSTER_IP)
ENDPOINT_NODE = Entry(EntryKind.NODE_PORT, Role.ENDPOINT_NODE)
BARE_NODE = Entry(EntryKind.NODE_PORT, Role.BARE_NODE)
OTHER_NODE = Entry(EntryKind.NODE_PORT, Role.OTHER_NODE)
CONTROL_PLANE = Entry(EntryKind.NODE_PORT, Role.CONTROL_PLANE)
SECOND_OF_ENDPOINT_NODE = Entry(EntryKind.SECOND_ADDRESS, Role.ENDPOINT_NODE)
SECOND_OF_BARE_NODE = Entry(EntryKind.SECOND_ADDRESS, Role.BARE_NODE)
EXTERNAL_IP_OF_ENDPOINT_NODE = Entry(EntryKind.EXTERNAL_IP, Role.ENDPOINT_NODE)
EXTERNAL_IP_OF_BARE_NODE = Entry(EntryKind.EXTERNAL_IP, Role.BARE_NODE)
VIP = Entry(EntryKind.VIP)

# ------------------------------------------------------------------------------------------------------- services
CLUSTER, LOCAL = TrafficPolicy.CLUSTER, TrafficPolicy.LOCAL
PLAIN = Service(ServiceType.CLUSTER_IP)
NODE_PORT_CLUSTER = Service(ServiceType.NODE_PORT, CLUSTER)
NODE_PORT_LOCAL = Service(ServiceType.NODE_PORT, LOCAL)
LB_CLUSTER = Service(ServiceType.LOAD_BALANCER, CLUSTER)
LB_LOCAL = Service(ServiceType.LOAD_BALANCER, LOCAL)
EXTERNAL_IPS_CLUSTER = Service(ServiceType.CLUSTER_IP, CLUSTER, external_ips=True)
EXTERNAL_IPS_LOCAL = Service(ServiceType.CLUSTER_IP, LOCAL, external_ips=True)

# -------------------------------------------------------------------------------------------------- what is accepted
CLIENT_IP = frozenset({AddressClass.CLIENT})
NODE_IP = frozenset({AddressClass.NODE})
HAIRPIN = frozenset({AddressClass.HAIRPIN})
BALANCER_IP = frozenset({AddressClass.LOAD_BALANCER})
ANSWERED = frozenset({AddressClass.CLIENT, AddressClass.LOAD_BALANCER, AddressClass.OTHER})
"""The sources that a backend may see where a header reports the client."""
CLIENT_OR_NODE_IP = frozenset({AddressClass.CLIENT, AddressClass.NODE})
ANYTHING = frozenset(AddressClass)


# ------------------------------------------------------------------------------------------------------- controls
def preconditions(path: Path) -> tuple[Control, ...]:
    """Return the controls which prove that the client keeps its own address when no Service is involved."""
    if path.client.vantage is Vantage.OUTSIDE:
        listener = Entry(EntryKind.NODE_LISTENER, path.entry.role or Role.ENDPOINT_NODE)
        way = Path(path.client, listener, path.protocol, path.family)
        return (Control(way, CLIENT_IP, "the network must not masquerade the client on its way to the node"),)
    if path.entry.kind is EntryKind.POD_IP or path.client == BACKEND:
        return ()
    direct = Path(path.client, POD_IP, path.protocol, path.family)
    if path.client.vantage is Vantage.POD:
        return (Control(direct, CLIENT_IP, "pods must see each other's own address without a Service"),)
    return (Control(direct, frozenset(), "the node must reach the pod directly"),)


def bare_node_controls(path: Path) -> tuple[Control, ...]:
    """Return the positive controls for silence: two Services or nodes that must answer the same client meanwhile."""
    siblings = {
        EntryKind.NODE_PORT: (NODE_PORT_CLUSTER, ENDPOINT_NODE),
        EntryKind.SECOND_ADDRESS: (NODE_PORT_CLUSTER, SECOND_OF_ENDPOINT_NODE),
        EntryKind.EXTERNAL_IP: (EXTERNAL_IPS_CLUSTER, EXTERNAL_IP_OF_ENDPOINT_NODE),
    }
    cluster_service, endpoint_entry = siblings[path.entry.kind]
    same_node = Path(path.client, path.entry, path.protocol, path.family, cluster_service)
    same_service = Path(path.client, endpoint_entry, path.protocol, path.family, path.service)
    return (
        Control(same_node, frozenset(), "the same node must answer this client for a Cluster Service"),
        Control(same_service, frozenset(), "the same Service must answer this client on the endpoint node"),
    )


def same_client(path: Path, service: Service, why: str, entry: Entry | None = None) -> Control:
    """Return a control: another Service that must answer the same client."""
    return Control(Path(path.client, entry or path.entry, path.protocol, path.family, service), frozenset(), why)


def same_service(path: Path, client: Client, why: str) -> Control:
    """Return a control: another client that the same Service must answer."""
    return Control(Path(client, path.entry, path.protocol, path.family, path.service, path.port), frozenset(), why)


def shows_masquerading(path: Path) -> tuple[Control, ...]:
    """Return a control for pods that dial another node: some network add-ons masquerade them on their own node."""
    towards_a_node = path.entry.kind in (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    if path.client.vantage is not Vantage.POD or not towards_a_node or path.entry.role in (None, path.client.role):
        return ()
    listener = Path(path.client, Entry(EntryKind.NODE_LISTENER, path.entry.role), path.protocol, path.family)
    return (Control(listener, CLIENT_OR_NODE_IP, "shows whether the network add-on masquerades pod traffic to nodes"),)


def features(path: Path) -> frozenset[str]:
    """Return the features that a cluster needs for this path."""
    family, service = path.family.value.lower(), path.service
    others = {
        "nodes.three": {path.client.role, path.entry.role} == {Role.OTHER_NODE, Role.BARE_NODE},
        "sctp": path.protocol is Protocol.SCTP,
        f"nodes.second-address.{family}": path.entry.kind is EntryKind.SECOND_ADDRESS,
        "external-ips": service is not None and service.external_ips,
        "families.dual": service is not None and (service.families or service.first) is not None,
        "nodes.control-plane": Role.CONTROL_PLANE in (path.client.role, path.entry.role)
        or (service is not None and service.backends is Backends.CONTROL_PLANE),
    }
    if service is not None and service.reports is not Claim.NOTHING:
        others[f"{REPORTS}{service.reports.value}"] = True
    balanced = service is not None and service.type is ServiceType.LOAD_BALANCER
    balancer = service.balancer if service is not None and balanced else None
    asked = (name for name, needed in others.items() if needed)
    return needs(*asked, client=path.client, family=path.family, balancer=balancer)


# -------------------------------------------------------------------------------------------------------- the check
def path_check(
    path: Path,
    accept: frozenset[AddressClass],
    level: Level,
    *references: Reference,
    suffix: str = "",
    controls: tuple[Control, ...] = (),
    differences: tuple[KnownDifference, ...] = (),
    reported: Claim = Claim.NOTHING,
    spread: Spread = Spread.ANY,
    also: frozenset[str] = frozenset(),
) -> PathCheck:
    """Return one check. Its id, requirement, features, controls and known differences follow from its path.

    Args:
        path: what the client dials, and how.
        accept: the address classes that fulfil the check.
        level: how binding it is. SCTP checks are never core.
        references: the documents that it rests on.
        suffix: what its id adds to the path's key.
        controls: controls beyond those that follow from the path.
        differences: known differences beyond those that follow from the path.
        reported: the header in which the backend must learn the client's address.
        spread: which backends may answer.
        also: features beyond those that follow from the path.
    """
    if path.protocol is Protocol.SCTP and level is Level.CORE:
        level = Level.EXTENDED  # KEP-614: the network add-on may lack SCTP
    controls = preconditions(path) + (shows_masquerading(path) if accept in (CLIENT_IP, NO_ANSWER) else ()) + controls
    subject = OnPath(path, accept, controls, reported, spread)
    return Check(
        id=path.key + suffix,
        requirement=requirement(path, accept, reported, spread),
        level=level,
        suite="source_ip",
        references=references,
        features=features(path) | also,
        subject=subject,
        expected=subject.expected,
        differences=differences + known_on(path, accept),
    )


def answers_and_rewrites(path: Path, *references: Reference) -> tuple[PathCheck, PathCheck]:
    """Return two checks of one path: it answers (API contract), and the source is rewritten (kube-proxy)."""
    host = path.client.vantage is Vantage.NODE
    elsewhere = path.entry.kind in (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    elsewhere = elsewhere and path.entry.role is not path.client.role
    # masquerading by its own node leaves a host process an address of that node
    rewritten = CLIENT_IP if host and not elsewhere else NODE_IP
    return (
        path_check(path, CLIENT_OR_NODE_IP, Level.CORE, API_ETP, *references, suffix=".answers"),
        path_check(path, rewritten, Level.EXTENDED, *references, PROXIER),
    )


def silent_at_bare_node(path: Path, *references: Reference, also: frozenset[str] = frozenset()) -> PathCheck:
    """Return a check that a node without local endpoints does not answer.

    It is core for clients outside. For clients inside it is extended: the API only warns them, and eBPF data planes
    answer.
    """
    level = Level.CORE if path.client.vantage is Vantage.OUTSIDE else Level.EXTENDED
    return path_check(path, NO_ANSWER, level, *references, controls=bare_node_controls(path), also=also)
