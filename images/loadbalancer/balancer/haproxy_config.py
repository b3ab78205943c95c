"""HAProxy's configuration, rendered from what is to be served; pure.

A Service's first TCP port in a family is a backend whose servers are checked; its other ports' servers track these. So
every node has one health a Service and family, as the forwarding classes have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .faults import FORGED, HANGS
from .objects import Mode, Node, Port, Service
from .settings import Settings

NEVER = 1_000_000
HEADER = {Mode.PROXY_V1: " send-proxy", Mode.PROXY_V2: " send-proxy-v2"}
DRAIN_SECONDS = 900  # for what is open when HAProxy is loaded anew: no connection of a run ends by that
MOST_CONNECTIONS = 6000  # each takes two descriptors, of which some machines allow a process 20,000


@dataclass(frozen=True)
class Proxied:
    """One Service in one family: its VIPs, and the nodes that may serve it."""

    service: Service
    family: str
    vips: tuple[str, ...]
    nodes: tuple[Node, ...]

    @property
    def ports(self) -> list[Port]:
        """The ports that HAProxy can serve."""
        return [port for port in self.service.ports if port.protocol == "TCP" and port.node_port]

    def backend(self, port: Port) -> str:
        """The name of a port's backend: neither a namespace nor a Service has a dot in its name."""
        return f"{self.service.namespace}.{self.service.name}.{self.family}.{port.port}"

    @property
    def checking(self) -> str:
        """The name of the backend whose servers are checked."""
        return self.backend(self.ports[0])


def proxied(vips: Mapping[Service, Mapping[str, Sequence[str]]], nodes: Mapping[str, Node]) -> list[Proxied]:
    """What is to be served, in a steady order; nothing without a TCP port, a VIP or a health check."""
    found = []
    for service in sorted(vips, key=lambda service: service.key):
        for family, of in sorted(vips[service].items()):
            able = (n for n in sorted(nodes.values(), key=lambda n: n.name) if n.target and n.address(family))
            one = Proxied(service, family, tuple(of), tuple(able))
            if one.ports and service.check_port:
                found.append(one)
    return found


def render(served: Sequence[Proxied], own: Mapping[str, str], settings: Settings) -> str:
    """The whole configuration file."""
    return "\n".join([*_head(settings), *(line for one in served for line in _service(one, own, settings))]) + "\n"


def stats_socket(state: Path) -> Path:
    """Where HAProxy answers questions."""
    return state / "stats.sock"


def log_socket(state: Path) -> Path:
    """Where HAProxy tells what it decides."""
    return state / "log.sock"


def state_file(state: Path) -> Path:
    """Where a new worker finds what the old one knew of the nodes."""
    return state / "servers.state"


def _head(settings: Settings) -> list[str]:
    state = settings.state
    return [
        "global",
        f"    log {log_socket(state)} len 2048 format raw local0 info",
        f"    stats socket {stats_socket(state)} mode 600 level admin expose-fd listeners",
        f"    server-state-file {state_file(state)}",
        f"    hard-stop-after {DRAIN_SECONDS}s",
        f"    maxconn {MOST_CONNECTIONS}",
        "defaults",
        "    mode tcp",
        "    load-server-state-from-file global",
        "    timeout connect 5s",
        "    timeout client 60s",
        "    timeout server 60s",
        f"    timeout check {_milliseconds(settings.timeout)}",
        "    balance roundrobin",
        "    http-reuse never",
    ]


def _service(one: Proxied, own: Mapping[str, str], settings: Settings) -> Iterator[str]:
    faults = settings.faults
    for port in one.ports:
        name = one.backend(port)
        http = one.service.mode is Mode.PROXY_XFF and port.http
        yield f"frontend {name}"
        yield from (f"    bind {_host(vip)}:{port.port}" for vip in one.vips)
        if faults.hangs:
            yield f"    tcp-request connection silent-drop if {{ rand({HANGS}) eq 0 }}"
        if http:
            yield "    mode http"
        if faults.forges_proxy_header and one.service.mode in HEADER:
            yield f"    tcp-request connection set-src str({FORGED[one.family]})"
        yield f"    default_backend {name}"
        yield f"backend {name}"
        if http:
            yield "    mode http"
            yield "    option httpclose"
            if faults.forwarded_for == "true":
                yield "    option forwardfor"
            elif faults.forwarded_for == "forged":
                yield f"    http-request set-header X-Forwarded-For {FORGED[one.family]}"
        if one.family in own:
            yield f"    source {_host(own[one.family])}"
        checks = name == one.checking and not faults.no_checks
        if checks:
            yield from _check(settings)
        header = "" if faults.drops_proxy_header else HEADER.get(one.service.mode, "")
        shares = faults.shares(node.name for node in one.nodes)
        for node in one.nodes:
            address = _host(node.address(one.family) or "")
            how = f"check port {one.service.check_port}" if checks else f"track {one.checking}/{node.name}"
            how = "" if faults.no_checks else f" {how}"
            how += f" weight {shares[node.name]}" if shares[node.name] > 1 else ""
            yield f"    server {node.name} {address}:{port.node_port}{how}{header}"


def _check(settings: Settings) -> Iterator[str]:
    fall = NEVER if settings.faults.never_down else settings.unhealthy
    inter = _milliseconds(settings.faults.period(settings.period))
    yield "    log global"
    yield "    option log-health-checks"
    yield "    option httpchk"
    yield f"    http-check send meth GET uri {settings.faults.path} ver HTTP/1.1 hdr Host esipp-reference"
    yield "    http-check expect status 200"
    yield f"    default-server inter {inter} rise {settings.healthy} fall {fall}"


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
