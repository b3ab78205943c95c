"""Outside clients that are not the nodes' neighbours: one in another subnet behind a router, and one behind NAT.

Both are containers on the nodes' docker network that dial from another address, which only they hold. It is from the
ranges for benchmarks (RFC 2544, RFC 5180), which nobody routes.

- *Behind a router*: the container sends everything to the network's gateway, which is the machine of the docker engine.
  That machine gets a route to the one address for the run, so that nodes and load balancers answer as they answer
  anybody who is not their neighbour. The route has a smaller MTU than the nodes' network, as tunnels on the way to real
  clients have.
- *Behind NAT*: the container rewrites its own packets to its address on the docker network. Nobody else needs to know.

Both need ``ip`` and ``iptables``, which the nodes' image has. Short-lived containers of that image run them: in the
client's network namespace, and in that of the engine.
"""

import ipaddress
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.base.client_places import BEHIND_NAT, BEHIND_ROUTER
from esipp.base.json import Json

PROTOCOL = 198
"""The number by which our routes are known (``ip route``: proto)."""

SMALL_MTU = 1300
"""Bytes of the largest packet on the way back to a client behind a router: 1,280, the least of IPv6, and a little."""

FORWARDING = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
"""Settings of the client behind a router. A router ignores the gateway's redirects to a shorter way."""

RANGES = {
    BEHIND_ROUTER: {4: "198.18.0.0", 6: "2001:2::"},
    BEHIND_NAT: {4: "198.19.0.0", 6: "2001:2:0:1::"},
}


@dataclass(frozen=True)
class Link:
    """A container's address on the nodes' docker network in one IP family.

    Args:
        address: of the container.
        subnet: of the network.
        gateway: the engine's machine; empty if the network has none.
    """

    address: str
    subnet: str
    gateway: str = ""

    @property
    def version(self) -> int:
        """4 or 6."""
        return ipaddress.ip_address(self.address).version


def own_addresses(client: str, run: str) -> dict[int, str]:
    """The addresses from which a client dials, by IP version; they differ between runs."""
    number = 1 + zlib.crc32(run.encode()) % 0xFFFD
    return {version: str(ipaddress.ip_address(first) + number) for version, first in RANGES[client].items()}


def links(container: Json, network: str) -> list[Link]:
    """The links of a container, as docker describes it."""
    there = ((container.get("NetworkSettings") or {}).get("Networks") or {}).get(network) or {}
    named = (("IPAddress", "IPPrefixLen", "Gateway"), ("GlobalIPv6Address", "GlobalIPv6PrefixLen", "IPv6Gateway"))
    found = []
    for address, length, gateway in named:
        if own := there.get(address):
            subnet = ipaddress.ip_interface(f"{own}/{there[length]}").network
            found.append(Link(own, str(subnet), there.get(gateway) or ""))
    return found


def inside(client: str, own: Mapping[int, str], attached: Iterable[Link]) -> str:
    """The script that makes a container dial from its other addresses; it runs in the container's network namespace."""
    lines = ["set -e"]
    for link in attached:
        address, six = own[link.version], link.version == 6
        ip, first = ("ip -6", " metric 1") if six else ("ip", "")
        # Without nodad the kernel looks for duplicates, and until then no route may have the address as its source.
        lines.append(f"{ip} address add {address}/{'128' if six else '32'} dev lo{' nodad' if six else ''}")
        if client == BEHIND_NAT:
            tables = "ip6tables" if six else "iptables"
            lines.append(f"{ip} route replace {link.subnet} dev eth0 src {address}{first}")
            lines.append(
                f"{tables} --wait -t nat -A POSTROUTING --source {address} --jump SNAT --to-source {link.address}"
            )
        else:
            lines.append(f"{ip} route replace {link.gateway} dev eth0 src {address}{first}")
            lines.append(f"{ip} route replace {link.subnet} via {link.gateway} dev eth0 src {address}{first}")
        if link.gateway:
            lines.append(f"{ip} route replace default via {link.gateway} dev eth0 src {address}{first}")
    return "\n".join(lines)


def way_back(own: Mapping[int, str], attached: Iterable[Link]) -> str:
    """The script that routes a client's addresses to its container; it runs in the engine's network namespace."""
    routes = [
        f"{_ip(link.version)} add {own[link.version]} via {link.address} proto {PROTOCOL} mtu lock {SMALL_MTU}"
        for link in attached
    ]
    return "\n".join(["set -e", *routes])


def no_way_back(own: Iterable[str]) -> str:
    """The script that removes these routes; one that is gone does no harm."""
    removed = [f"{_ip(ipaddress.ip_address(each).version)} del {each} proto {PROTOCOL} || true" for each in own]
    return "\n".join(removed)


def _ip(version: int) -> str:
    return "ip -6 route" if version == 6 else "ip route"


def tool(image: str, namespace: str, script: str) -> Sequence[str]:
    """The arguments of docker that run a script in a network namespace: ``host`` or ``container:NAME``."""
    rights = ("--user", "0", "--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW")
    safe = ("--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/run")
    return ("run", "--rm", "--network", namespace, *rights, *safe, "--entrypoint", "sh", image, "-c", script)
