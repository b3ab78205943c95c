"""A check's requirement as a sentence, made from what is checked, so that prose cannot drift from it."""

from esipp.checks.model import (
    NO_ANSWER,
    AddressClass,
    Backends,
    Balancer,
    Claim,
    EntryKind,
    Path,
    Port,
    Service,
    ServiceType,
    Vantage,
)
from esipp.checks.path import Spread

WHO = {
    "outside-1": "a client outside the cluster",
    "outside-2": "a second client outside the cluster",
    "pod-on-endpoint-node": "a pod on the endpoint's node",
    "pod-on-bare-node": "a pod on the bare node",
    "pod-on-other-node": "a pod on another node",
    "host-on-endpoint-node": "a host process on the endpoint's node",
    "host-on-bare-node": "a host process on the bare node",
    "host-on-other-node": "a host process on another node",
    "backend": "the backend itself",
}
HEADERS = {
    Claim.FORWARDED_FOR: "an X-Forwarded-For header",
    Claim.PROXY_V1: "a PROXY protocol header (version 1)",
    Claim.PROXY_V2: "a PROXY protocol header (version 2)",
}
BALANCERS = {
    Balancer.FORWARD: "a forwarding load balancer",
    Balancer.ECMP: "a load balancer that forwards to several nodes",
    Balancer.PROXY: "a proxying load balancer",
    Balancer.PROXY_FORWARDED_FOR: "a proxying load balancer with X-Forwarded-For",
    Balancer.PROXY_V1: "a proxying load balancer with PROXY protocol version 1",
    Balancer.PROXY_V2: "a proxying load balancer with PROXY protocol version 2",
}


def requirement(path: Path, accept: frozenset[AddressClass], told: Claim, spread: Spread) -> str:
    """The requirement of a check on this path."""
    claims = f", and claims another address in {HEADERS[path.claim]}," if path.claim is not Claim.NOTHING else ""
    socket = " from one socket" if path.one_socket else ""
    over = f"over {path.protocol.value} and {path.family.value}"
    sentence = f"{WHO[path.client.name]} that dials {_what(path)} {over}{socket}{claims} {_outcome(path, accept)}"
    if told is not Claim.NOTHING:
        sentence += f", and the backend is told the client's own in {HEADERS[told]}"
    if spread is Spread.ONE:
        sentence += ", by one and the same backend every time"
    return sentence[0].upper() + sentence[1:] + "."


def _what(path: Path) -> str:
    if path.service is None:
        return "a pod's own address"
    node = path.entry.role.value.replace("-", " ") if path.entry.role else ""
    own = path.entry.role is not None and path.entry.role is path.client.role
    whose = "its own node's" if own else f"the {node}'s"
    entry = {
        EntryKind.CLUSTER_IP: "the ClusterIP",
        EntryKind.VIP: "the VIP",
        EntryKind.NODE_PORT: f"{whose} nodePort",
        EntryKind.SECOND_ADDRESS: f"the nodePort at a second address of the {node}",
        EntryKind.EXTERNAL_IP: f"an externalIP (the {node}'s address)",
    }[path.entry.kind]
    port = {
        Port.MAIN: "",
        Port.NAMED: " at a port whose targetPort is a name",
        Port.SAME: " at a port whose targetPort is the same number",
        Port.HTTP: " at its HTTP port",
    }[path.port]
    return f"{entry}{port} of {_service(path.service)}"


def _service(service: Service) -> str:
    named = {ServiceType.CLUSTER_IP: "a ClusterIP", ServiceType.NODE_PORT: "a NodePort"}
    name = f"{named.get(service.type, 'a LoadBalancer')} service"
    if service.balancer is not Balancer.DEFAULT:
        name += f" behind {BALANCERS[service.balancer]}"
    traits = []
    if service.is_external:
        traits.append(f"externalTrafficPolicy {service.policy.value if service.policy else 'unset'}")
    if service.internal:
        traits.append(f"internalTrafficPolicy {service.internal.value}")
    backends = {
        Backends.HOST_NETWORK: "a host-network backend",
        Backends.NOT_READY: "a backend that is not ready",
        Backends.PAIR: "two backends",
        Backends.CONTROL_PLANE: "its only backend on a control plane's node",
    }
    if service.backends is not Backends.POD:
        traits.append(backends[service.backends])
    if service.families:
        traits.append(f"{service.families.value} only")
    if service.old_form:
        traits.append(f"the old annotations {service.old_form.value}")
    if service.publish_not_ready:
        traits.append("publishNotReadyAddresses")
    if service.affinity:
        traits.append("sessionAffinity ClientIP")
    if service.ranges:
        traits.append(f"loadBalancerSourceRanges of {' and '.join(service.ranges)} only")
    if service.several_ports:
        traits.append("several ports")
    return name + (f" ({', '.join(traits)})" if traits else "")


def _outcome(path: Path, accept: frozenset[AddressClass]) -> str:
    if accept == frozenset(AddressClass):
        return "is answered or not: what is seen is recorded"
    if accept <= NO_ANSWER:
        return "gets no answer"
    if accept == {AddressClass.CLIENT, AddressClass.NODE}:
        return "is answered"
    host = path.client.vantage is Vantage.NODE
    return {
        AddressClass.CLIENT: "is seen with its own node's address" if host else "is seen with its own address",
        AddressClass.NODE: "is seen with another node's address" if host else "is seen with a node's address",
        AddressClass.HAIRPIN: "is seen with its node's address",
        AddressClass.LOAD_BALANCER: "is seen with the load balancer's address",
    }[min(accept)]
