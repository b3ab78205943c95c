"""The balancer: from what the API and the checks say, to what VIPs there are and where each one leads.

Everything here runs in one event loop. API watches, status patches, HAProxy and the admin endpoint have threads of
their own and hand over to it.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from . import VERSION
from .checks import Check, Checker, Target
from .decisions import Decisions
from .faults import STALE_SHARE, WANDER_SECONDS
from .naming import hostname
from .objects import (
    Json,
    Key,
    Mode,
    Node,
    Port,
    Service,
    family_of,
    ingress_for,
    ingress_of,
    key_of,
    node_of,
    service_of,
    vips_of,
)
from .pools import Pools
from .settings import Settings
from .thresholds import Health


class Routes(Protocol):
    """What the balancer asks of the kernel."""

    def own_addresses(self) -> dict[str, str]:
        """The primary address of each family."""

    def assign(self, vips: set[str]) -> None:
        """Have these VIPs and no others."""

    def steer(self, vip: str, via: Mapping[str, int]) -> None:
        """Send a VIP's packets to these nodes, by their weights."""

    def translate(self, vip: str, ports: Sequence[Port], via: Mapping[str, int]) -> None:
        """Send what comes for a VIP's ports to nodePorts of these nodes, by their weights."""

    def forget(self, vip: str) -> None:
        """Steer a VIP no more."""

    def reach_pods(self, networks: Mapping[str, str]) -> None:
        """Route pod networks by way of their nodes."""


class Proxies(Protocol):
    """What the balancer asks of the proxies."""

    def serve(self, vips: Mapping[Service, Mapping[str, Sequence[str]]], nodes: Mapping[str, Node]) -> None:
        """Serve these Services on these VIPs, by way of these nodes."""

    def health(self, target: Target) -> Health | None:
        """How the proxy finds a node."""


class Writer(Protocol):
    """Whoever writes statuses."""

    def write(self, key: Key, ingress: list[Json]) -> None:
        """Ask for a Service's ingress to be this."""


def choose(mode: Mode, service: Key, good: set[str], stale: set[str], before: Mapping[str, int]) -> dict[str, int]:
    """Weights of the nodes to steer to; pure.

    The forwarder to one node stays with the one it has; otherwise it chooses by a hash, so that Services spread.
    """
    if mode is Mode.FORWARD:
        stay = sorted(good & set(before))
        if stay or not good:
            return {stay[0]: 1} if stay else {}
        return {min(good, key=lambda node: zlib.crc32("/".join((*service, node)).encode())): 1}
    if stale and good:
        share = max(1, STALE_SHARE // len(good))
        return {**dict.fromkeys(good, share), **dict.fromkeys(stale, 1)}
    return dict.fromkeys(good, 1)


class Balancer:
    """Holds what is known and what was done, and makes the second follow from the first."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        parts: tuple[Routes, Proxies, Writer],
        decisions: Decisions,
    ) -> None:
        self._settings, self._loop, self._faults = settings, loop, settings.faults
        self._routes, self._proxies, self._writer = parts
        self._decisions = decisions
        self._pools = Pools(settings.pools)
        timing, thresholds = (settings.period, settings.timeout), (settings.healthy, settings.unhealthy)
        weighed = self._reweighed if settings.weigh else None
        self._checker = Checker(loop, timing, thresholds, self._faults, self._turned, weighed)
        self._documents: dict[str, dict[Key, Json]] = {}  # kind -> objects; a kind is missing until it was listed
        self._services: dict[Key, Service] = {}
        self._nodes: dict[str, Node] = {}
        self._vips: dict[str, dict[str, list[str]]] = {}  # uid -> family -> VIPs
        self._steered: dict[tuple[str, str], dict[str, int]] = {}  # uid and family -> nodes with weights
        self._leader: str | None = None  # the node that has all VIPs of the class with one leader
        self._known: dict[str, Service] = {}  # uid -> Service, also of one that is gone until its VIPs are
        self._due = self._ready = False
        if self._faults.wanders:
            loop.call_later(WANDER_SECONDS, self._wander)
        self.names: dict[str, list[str]] = {}
        """Of each hostname that is announced the VIPs; replaced as a whole, for readers in other threads."""

    # What the API says

    def sink(self, kind: str, what: str, documents: list[Json]) -> None:
        """Take in what a watch says, from its thread."""
        self._loop.call_soon_threadsafe(self._take, kind, what, documents)

    def _take(self, kind: str, what: str, documents: list[Json]) -> None:
        if what == "all":
            self._documents[kind] = {key_of(document): document for document in documents}
        elif what == "gone":
            for document in documents:
                self._documents[kind].pop(key_of(document), None)
        else:
            self._documents[kind].update((key_of(document), document) for document in documents)
        if len(self._documents) == 2 and not self._due:
            self._due = True  # what comes at once is dealt with at once
            self._loop.call_soon(self._reconcile)

    def _reconcile(self) -> None:
        self._due = False
        self._nodes = {node.name: node for node in map(node_of, self._documents["nodes"].values())}
        default = self._settings.default
        found = [(service_of(document, default), document) for document in self._documents["services"].values()]
        self._services = {service.key: service for service, _ in found if service}
        wanted = {service.uid: service for service in self._services.values()}
        self._free(wanted)
        # Oldest first, and what stands in a status before all: it survives a restart.
        asking = sorted(((s, d) for s, d in found if s), key=lambda pair: (pair[0].created, pair[0].key))
        for service, document in asking:
            self._claim(service, document)
        for service, _ in asking:
            self._allocate(service)
        self._set_checks()
        vips = {vip for uid in self._vips for vip in self._all(uid)}
        # A VIP leads somewhere before it is there, and is there before it is announced.
        for service in self._known.values():
            self._steer(service, "the service's nodes")
        self._routes.assign(vips)
        self._routes.reach_pods(self._pod_networks())
        proxied = {s: self._vips[uid] for uid, s in self._known.items() if not s.mode.forwards}
        self._proxies.serve(proxied, self._nodes)
        named = [service for service in self._services.values() if self._has_hostname(service)]
        self.names = {hostname(service.key): self._all(service.uid) for service in named}
        for asked, document in found:
            self._tell(asked, document)
        if not self._ready:
            self._ready = True
            print(f"ready: {len(self._nodes)} nodes, {len(self._services)} services", flush=True)

    # VIPs

    def _free(self, wanted: Mapping[str, Service]) -> None:
        """Let go of what is not asked for any more: a Service, a class, a family."""
        for uid, service in list(self._known.items()):
            asked = wanted.get(uid)
            if asked is None and self._faults.keeps_vips:
                continue
            for family, vips in list(self._vips[uid].items()):
                kept: list[str] = []
                if asked and family in asked.families and asked.mode.forwards == service.mode.forwards:
                    kept = vips[: self._number(asked)]
                for vip in vips[len(kept) :]:
                    self._routes.forget(vip)
                    self._pools.free(vip)
                    self._decisions.add("vip", service, family, vip=vip, why="freed")
                if kept:
                    self._vips[uid][family] = kept
                else:
                    del self._vips[uid][family]
                    self._steered.pop((uid, family), None)
            if asked is None:
                del self._known[uid], self._vips[uid]
                for family in service.families:
                    self._steered.pop((uid, family), None)

    def _claim(self, service: Service, document: Json) -> None:
        mine = self._vips.setdefault(service.uid, {})
        self._known[service.uid] = service
        for address in vips_of(document):
            family = family_of(address)
            asked = family in service.families and len(mine.get(family, ())) < self._number(service)
            if asked and (vip := self._pools.claim(address)):
                mine.setdefault(family, []).append(vip)
                self._decisions.add("vip", service, family, vip=vip, why="kept: it stands in the status")

    def _allocate(self, service: Service) -> None:
        mine = self._vips[service.uid]
        for family in service.families:
            while len(mine.get(family, ())) < self._number(service) and (vip := self._pools.take(family)):
                mine.setdefault(family, []).append(vip)
                self._decisions.add("vip", service, family, vip=vip, why="assigned")
                self._steered.pop((service.uid, family), None)  # it leads nowhere yet

    def _tell(self, service: Service | None, document: Json) -> None:
        """Have a Service's status say what is so."""
        if service:
            vips = self._announced(service)
            wanted = ingress_for(service.mode, vips)
            if vips and self._has_hostname(service):
                wanted = [{"hostname": hostname(service.key)}]
            if ingress_of(document) != wanted:
                self._writer.write(service.key, wanted)
        elif self._was_announced(document) and not self._faults.keeps_vips:
            self._writer.write(key_of(document), [])  # it asked once, and asks no more

    def _has_hostname(self, service: Service) -> bool:
        """Whether its VIPs are announced by a name: those of Services that name no class may be."""
        return self._settings.hostnames and not service.named

    def _number(self, service: Service) -> int:
        """How many VIPs of each family a Service gets."""
        if not service.mode.has_vips:
            return 0
        return 1 if service.named else self._settings.addresses

    def _announced(self, service: Service) -> list[str]:
        """What a Service's status is to name, in the order of its families: its VIPs, or addresses of its nodes.

        As k3s' ServiceLB: ExternalIPs if any of these nodes has one, and InternalIPs otherwise.
        """
        found: list[str] = []
        for family in service.families:
            found += self._vips[service.uid].get(family, ())
        if not service.mode.has_vips:
            used = [(f, name) for f in service.families for name in self._steered.get((service.uid, f), ())]
            nodes = [(family, self._nodes[name]) for family, name in used if self._has(name, family)]
            external = [a for family, node in nodes for a in node.external if family_of(a) == family]
            internal = [a for family, node in nodes if (a := node.address(family))]
            found = sorted(external or internal, key=lambda a: (service.families.index(family_of(a)), a))
        return found

    def _families(self, service: Service) -> list[str]:
        """The families in which it serves a Service."""
        return list(self._vips[service.uid]) if service.mode.has_vips else list(service.families)

    def _lacks_ports(self) -> set[str]:
        """The uids of Services that get no node, as an older one has one of their ports there."""
        taken, lacking = set[tuple[str, int]](), set[str]()
        on_nodes = (each for each in self._services.values() if not each.mode.has_vips)
        for service in sorted(on_nodes, key=lambda each: (each.created, each.key)):
            ports = {(port.protocol, port.port) for port in service.ports}
            if ports & taken:
                lacking.add(service.uid)
            else:
                taken |= ports
        return lacking

    def _all(self, uid: str) -> list[str]:
        """A Service's VIPs of all families."""
        return [vip for vips in self._vips[uid].values() for vip in vips]

    def _was_announced(self, document: Json) -> bool:
        """Whether what a Service's status says is from here."""
        own = hostname(key_of(document))
        found = vips_of(document)
        if self._settings.default is Mode.NODES:
            of_nodes = {a for node in self._nodes.values() for a in (*node.external, *dict(node.addresses).values())}
            if of_nodes & set(found):
                return True
        return any(map(self._pools.has, found)) or {"hostname": own} in ingress_of(document)

    # Health and steering

    def _set_checks(self) -> None:
        targets = {}
        for service in self._known.values():
            if service.mode.forwards and service.check_port:
                for family in self._families(service):
                    for node in self._nodes.values():
                        if node.serves(service.mode) and (address := node.address(family)):
                            targets[Target(service.key, service.uid, family, node.name)] = (address, service.check_port)
        self._checker.set_targets(targets)

    def _turned(self, check: Check) -> None:
        """A check turned a node: say so and steer."""
        target, health = check.target, check.health
        service = self._known.get(target.uid)
        if service:
            why = f"{health.last}, {health.healthy_after if health.healthy else health.unhealthy_after} in a row"
            what = {"node": target.node, "healthy": health.healthy, "why": why}
            self._decisions.add("health", service, target.family, at=health.since, **what)
            turned = "healthy" if health.healthy else "unhealthy"
            why = f"{target.node} became {turned}"
            if service.mode is Mode.LEADER:  # there is one for all
                for each in self._known.values():
                    if each.mode is Mode.LEADER:
                        self._steer(each, why)
                return
            self._steer(service, why, target.family)
            document = self._documents["services"].get(service.key)
            if document and not service.mode.has_vips:
                self._tell(service, document)

    def _reweighed(self, check: Check) -> None:
        """A node asks for another share."""
        target = check.target
        service = self._known.get(target.uid)
        if service:
            self._steer(service, f"{target.node} weighs {check.weight}", target.family)

    def _steer(self, service: Service, why: str, only: str | None = None) -> None:
        if not service.mode.forwards:
            return
        for family in self._families(service):
            if only not in (None, family):
                continue
            vips = self._vips[service.uid].get(family, [])
            fit = (node for node in self._nodes.values() if node.serves(service.mode))
            candidates = {node.name for node in fit if node.address(family)}
            healthy = {name for name in candidates if self._is_healthy(Target(service.key, service.uid, family, name))}
            if service.mode is Mode.LEADER:
                healthy = self._elected(candidates)
            elif not service.mode.has_vips and service.uid in self._lacks_ports():
                candidates = healthy = set()
            before = self._steered.get((service.uid, family))
            known = {name: weight for name, weight in (before or {}).items() if self._has(name, family)}
            opened = self._settings.fail_open and not healthy
            good, stale = self._faults.steer(candidates, candidates if opened else healthy, known, self._loop.time())
            after = choose(service.mode, service.key, good, stale, known)
            if service.mode in (Mode.ECMP, Mode.NAT):
                after = self._weighted(service, family, after)
            via = {address: w for name, w in after.items() if (address := self._nodes[name].address(family))}
            if after == before:
                if not service.mode.unchanged:
                    self._lead(service, vips, via)  # its ports may have changed
                continue
            if before and self._faults.gap:
                self._lead(service, vips, {})
                self._loop.call_later(self._faults.gap, self._lead_anew, service, family, vips)
            else:
                self._lead(service, vips, via)
            self._steered[(service.uid, family)] = after
            self._decisions.add(
                "steer", service, family, nodes=sorted(after), why=f"{why}; none is healthy" if opened else why
            )

    def _lead(self, service: Service, vips: Sequence[str], via: Mapping[str, int]) -> None:
        """Have the kernel send the packets of VIPs there."""
        for number, vip in enumerate(vips):
            to = {} if number and self._faults.one_address else via
            if service.mode.unchanged:
                self._routes.steer(vip, to)
            else:
                self._routes.translate(vip, service.ports, to)

    def _lead_anew(self, service: Service, family: str, vips: Sequence[str]) -> None:
        """After a gap: send the packets of VIPs where they are to go by now, if they are still there."""
        if self._vips.get(service.uid, {}).get(family) == vips:
            steered = self._steered[(service.uid, family)]
            via = {address: w for name, w in steered.items() if (address := self._nodes[name].address(family))}
            self._lead(service, vips, via)

    def _wander(self) -> None:
        """Go on with every VIP, and again in a while."""
        for service in self._known.values():
            self._steer(service, "it wanders")
        self._loop.call_later(WANDER_SECONDS, self._wander)

    def _elected(self, candidates: set[str]) -> set[str]:
        """The node that has all VIPs: always the same one, until its health checks fail."""
        alive = {check.target.node for check in self._checker.checks.values() if check.health.healthy} & candidates
        if self._leader not in alive:
            self._leader = min(alive, default=None)
        return {self._leader} if self._leader else set()

    def _weighted(self, service: Service, family: str, steered: Mapping[str, int]) -> dict[str, int]:
        """The same nodes, by what their health checks ask for and what a fault prefers."""
        shares = self._faults.shares(steered)
        checks = {name: self._checker.weight(Target(service.key, service.uid, family, name)) for name in steered}
        return {name: weight * shares[name] * checks[name] for name, weight in steered.items()}

    def _has(self, name: str, family: str) -> bool:
        return name in self._nodes and self._nodes[name].address(family) is not None

    def _is_healthy(self, target: Target) -> bool:
        health = self._checker.health(target)
        return health is not None and health.healthy

    def _pod_networks(self) -> dict[str, str]:
        pairs = [(net, node.address(family_of(net))) for node in self._nodes.values() for net in node.pod_networks]
        return {network: address for network, address in pairs if address}

    # The admin view

    def view(self) -> Json:
        """The whole state, for the admin endpoint; to be called in the loop."""
        services = [self._view(service) for service in sorted(self._known.values(), key=lambda s: s.key)]
        return {
            "balancer": "esipp-reference",
            "version": VERSION,
            "time": time.time(),
            "monotonic": time.monotonic(),
            "addresses": self._routes.own_addresses(),
            "settings": self._settings.as_json(),
            "faults": sorted(self._faults.names),
            "services": services,
        }

    def _view(self, service: Service) -> Json:
        nodes = []
        for family in self._families(service):
            steered = self._steered.get((service.uid, family), {})
            for node in sorted(self._nodes.values(), key=lambda node: node.name):
                target = Target(service.key, service.uid, family, node.name)
                part = self._checker if service.mode.forwards else self._proxies
                health = part.health(target)
                if health is None:
                    continue
                last = health.last
                nodes.append(
                    {
                        "node": node.name,
                        "family": family,
                        "healthy": health.healthy,
                        "since": health.since,
                        "last": {"status": last.status, "error": last.error, "at": last.at} if last else None,
                        "steered": node.name in steered if service.mode.forwards else health.healthy,
                    }
                )
        named: dict[str, Any] = {"namespace": service.namespace, "name": service.name, "class": service.mode.value}
        vips = {family: list(of) for family, of in self._vips[service.uid].items()}
        if not service.mode.has_vips:
            told = self._announced(service)
            vips = {family: [a for a in told if family_of(a) == family] for family in service.families}
        return {**named, "vips": vips, "nodes": nodes}

    def close(self) -> None:
        """Check nothing any more."""
        self._checker.close()
