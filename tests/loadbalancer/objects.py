"""Service and Node objects as the API has them, and a world in which a Balancer can be run without a cluster."""

import asyncio
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from esipp.base.json import Json
from images.loadbalancer.balancer.balancer import Balancer
from images.loadbalancer.balancer.decisions import Decisions
from images.loadbalancer.balancer.faults import Faults
from images.loadbalancer.balancer.objects import Port
from images.loadbalancer.balancer.settings import Settings

POOLS = ("192.0.2.10-192.0.2.13", "2001:db8::10-2001:db8::13")
OWN = {"IPv4": "192.0.2.1", "IPv6": "2001:db8::1"}


def settings(state: Path = Path("/nowhere"), faults: tuple[str, ...] = (), **changes: Any) -> Settings:
    given: Json = {
        "server": "http://127.0.0.1:1",
        "ca": None,
        "token": None,
        "pools": POOLS,
        "admin": 0,
        "interface": "eth0",
        "period": 0.02,
        "timeout": 0.5,
        "healthy": 1,
        "unhealthy": 2,
        "state": state,
        "faults": Faults(faults),
    }
    return Settings(**{**given, **changes})


def service_object(name: str = "web", mode: str = "reference-forward", **spec: Any) -> Json:
    whole: Json = {
        "type": "LoadBalancer",
        "loadBalancerClass": f"esipp.dev/{mode}",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 31000,
        "ipFamilies": ["IPv4"],
        "ports": [{"protocol": "TCP", "port": 80, "nodePort": 30080}],
    }
    meta = {"namespace": "test", "name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": {**meta, "resourceVersion": "1"}, "spec": {**whole, **spec}, "status": {"loadBalancer": {}}}


def with_status(document: Json, *vips: str) -> Json:
    ingress = [{"ip": vip, "ipMode": "VIP"} for vip in vips]
    return {**document, "status": {"loadBalancer": {"ingress": ingress}}}


def node_object(name: str, *addresses: str, external: Sequence[str] = (), **meta: Any) -> Json:
    found = [{"type": "Hostname", "address": name}, *({"type": "InternalIP", "address": a} for a in addresses)]
    found += [{"type": "ExternalIP", "address": a} for a in external]
    spec = {"podCIDRs": ["10.244.1.0/24"]}
    return {"metadata": {"name": name, "resourceVersion": "1", **meta}, "spec": spec, "status": {"addresses": found}}


class FakeKernel:
    """Remembers what it was asked for, in order."""

    def __init__(self) -> None:
        self.vips: set[str] = set()
        self.ways: dict[str, dict[str, int]] = {}
        self.log: list[tuple[str, Any]] = []
        self.pods: dict[str, str] = {}
        self.translated: dict[str, list[tuple[str, int, int]]] = {}

    def own_addresses(self) -> dict[str, str]:
        return OWN

    def assign(self, vips: set[str]) -> None:
        self.vips = set(vips)
        self.log.append(("assign", sorted(vips)))

    def steer(self, vip: str, via: Mapping[str, int]) -> None:
        self.ways[vip] = dict(via)
        self.log.append(("steer", vip))

    def translate(self, vip: str, ports: Sequence[Port], via: Mapping[str, int]) -> None:
        self.ways[vip] = dict(via)
        self.translated[vip] = [(port.protocol, port.port, port.node_port) for port in ports]
        self.log.append(("translate", vip))

    def forget(self, vip: str) -> None:
        self.ways.pop(vip, None)

    def reach_pods(self, networks: Mapping[str, str]) -> None:
        self.pods = dict(networks)


class FakeProxies:
    def __init__(self) -> None:
        self.served: dict[str, dict[str, list[str]]] = {}

    def serve(self, vips: Mapping[Any, Mapping[str, list[str]]], nodes: Mapping[str, Any]) -> None:
        self.served = {
            service.name: {family: list(of) for family, of in families.items()} for service, families in vips.items()
        }

    def health(self, target: Any) -> None:
        return None


class FakeWriter:
    def __init__(self) -> None:
        self.wrote: list[tuple[str, list[Json]]] = []

    def write(self, key: tuple[str, str], ingress: list[Json]) -> None:
        self.wrote.append((key[1], ingress))


def _close(balancer: Balancer, loop: asyncio.AbstractEventLoop) -> None:
    balancer.close()
    loop.close()


class World:
    """A Balancer in a loop of its own, and what it did."""

    def __init__(self, given: Settings) -> None:
        self.loop = asyncio.new_event_loop()
        self.kernel, self.proxies, self.writer, self.decisions = FakeKernel(), FakeProxies(), FakeWriter(), Decisions()
        self.balancer = Balancer(given, self.loop, (self.kernel, self.proxies, self.writer), self.decisions)
        # where a test fails before it closes this, no other is to be blamed
        self.close = weakref.finalize(self, _close, self.balancer, self.loop)

    def tell(self, kind: str, what: str, *documents: Json) -> None:
        """As a watch does; then let the loop deal with it."""
        self.balancer.sink(kind, what, list(documents))
        self.run()

    def run(self, seconds: float = 0.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.loop.run_until_complete(asyncio.sleep(0))

    def decided(self, kind: str) -> list[Json]:
        return [one for one in self.decisions.after(0, 0)[0] if one["kind"] == kind]
