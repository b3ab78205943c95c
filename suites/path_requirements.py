"""Requirement sentences of path checks, generated from the path, so that text and check cannot differ."""

from esipp.checks.model import (
    NO_ANSWER,
    AddressClass,
    Backends,
    Balancer,
    Claim,
    Client,
    EntryKind,
    Path,
    Port,
    Role,
    Service,
    ServiceType,
    Vantage,
)
from esipp.checks.path import Spread

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
