"""What the balancer needs to know of Service and Node objects, read from the API's own JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str]  # namespace and name
FAMILIES = ("IPv4", "IPv6")
CLASS_PREFIX = "esipp.dev/"
EXCLUDED = "node.kubernetes.io/exclude-from-external-load-balancers"
KUBE_PROXY_PORT = 10256  # kube-proxy's own health, what a balancer asks under externalTrafficPolicy Cluster


class Mode(Enum):
    """How a class steers; the value ends ``spec.loadBalancerClass``."""

    FORWARD = "reference-forward"
    ECMP = "reference-ecmp"
    NAT = "reference-nat"
    LEADER = "reference-leader"
    NODES = "reference-nodes"
    PROXY = "reference-proxy"
    PROXY_XFF = "reference-proxy-xff"
    PROXY_V1 = "reference-proxy-v1"
    PROXY_V2 = "reference-proxy-v2"

    @property
    def forwards(self) -> bool:
        """Whether packets go on, and clients speak with pods; otherwise connections end here."""
        return self in (Mode.FORWARD, Mode.ECMP, Mode.NAT, Mode.LEADER, Mode.NODES)

    @property
    def unchanged(self) -> bool:
        """Whether packets keep their destination, so that nodes have to know the VIP."""
        return self.forwards and self is not Mode.NAT

    @property
    def has_vips(self) -> bool:
        """Whether its VIPs are its own; otherwise they are addresses of nodes."""
        return self is not Mode.NODES

    @property
    def ip_mode(self) -> str:
        """What the Service's status says of it."""
        return "VIP" if self.forwards else "Proxy"


@dataclass(frozen=True)
class Port:
    """One port of a Service."""

    protocol: str
    port: int
    node_port: int
    http: bool


@dataclass(frozen=True)
class Service:
    """A Service that asks for this balancer."""

    uid: str
    namespace: str
    name: str
    mode: Mode
    families: tuple[str, ...]
    local: bool
    check_port: int
    ports: tuple[Port, ...]
    created: str
    named: bool = True  # it names its class; else it is ours by default

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True)
class Node:
    """A node, as far as a balancer sees it."""

    name: str
    addresses: tuple[tuple[str, str], ...]  # family, InternalIP: the first one of each
    pod_networks: tuple[str, ...]
    target: bool  # neither excluded by its label nor being deleted
    external: tuple[str, ...] = ()  # ExternalIPs
    stays: bool = True  # it is not being deleted

    def serves(self, mode: Mode) -> bool:
        """Whether it may serve Services of a class; the label counts for load balancers that have VIPs of their own."""
        return self.target if mode.has_vips else self.stays

    def address(self, family: str) -> str | None:
        """Its InternalIP of a family."""
        return dict(self.addresses).get(family)


def family_of(address: str) -> str:
    """The family of an address or a network, in the API's words."""
    return "IPv6" if ":" in address else "IPv4"


def key_of(document: Json) -> Key:
    """Namespace and name of any object; nodes have no namespace."""
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]


def service_of(document: Json, default: Mode | None = None) -> Service | None:
    """Read a Service; None where it does not ask for this balancer.

    One that names no class is of the ``default`` one, and nobody's where there is none.
    """
    spec, meta = document.get("spec", {}), document["metadata"]
    wanted = spec.get("loadBalancerClass") or (CLASS_PREFIX + default.value if default else "")
    modes = {CLASS_PREFIX + mode.value: mode for mode in Mode}
    if spec.get("type") != "LoadBalancer" or wanted not in modes or meta.get("deletionTimestamp"):
        return None
    local = spec.get("externalTrafficPolicy") == "Local"
    by_endpoints = local and modes[wanted] is not Mode.LEADER
    ports = tuple(
        Port(p.get("protocol", "TCP"), p["port"], p.get("nodePort", 0), p.get("appProtocol") == "http")
        for p in spec.get("ports", [])
    )
    return Service(
        uid=meta.get("uid", ""),
        namespace=meta["namespace"],
        name=meta["name"],
        mode=modes[wanted],
        families=tuple(spec.get("ipFamilies") or ["IPv4"]),
        local=local,
        check_port=spec.get("healthCheckNodePort", 0) if by_endpoints else KUBE_PROXY_PORT,
        ports=ports,
        created=meta.get("creationTimestamp") or "",
        named=bool(spec.get("loadBalancerClass")),
    )


def ingress_of(document: Json) -> list[Json]:
    """What a Service's status says of load balancers."""
    return (document.get("status", {}).get("loadBalancer") or {}).get("ingress") or []


def vips_of(document: Json) -> list[str]:
    """The addresses in a Service's status."""
    return [entry["ip"] for entry in ingress_of(document) if entry.get("ip")]


def node_of(document: Json) -> Node:
    """Read a Node."""
    meta, spec = document["metadata"], document.get("spec", {})
    addresses: dict[str, str] = {}
    found = document.get("status", {}).get("addresses", [])
    external = tuple(entry["address"] for entry in found if entry.get("type") == "ExternalIP")
    for entry in found:
        if entry.get("type") == "InternalIP":
            addresses.setdefault(family_of(entry["address"]), entry["address"])
    networks = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    stays = not meta.get("deletionTimestamp")
    target = EXCLUDED not in (meta.get("labels") or {}) and stays
    return Node(meta["name"], tuple(sorted(addresses.items())), tuple(networks), target, external, stays)


def ingress_for(mode: Mode, vips: Sequence[str]) -> list[Json]:
    """What a Service's status is to say."""
    return [{"ip": vip, "ipMode": mode.ip_mode} for vip in vips]
