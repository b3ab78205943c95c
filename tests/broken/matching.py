"""Parts of iptables rules: matches and targets."""

from esipp.base.json import Json
from esipp.probing.prober import FIRST_PORT, LAST_PORT

MASQUERADE = ("--jump", "MASQUERADE")
DROP = ("--jump", "DROP")
AT_THE_NODE = ("--match", "addrtype", "--dst-type", "LOCAL")
"""Packets to any address of the node itself."""

TAKEN = ("--sport", f"{FIRST_PORT}:{LAST_PORT}")
"""Source ports that other flows have, too: those of streams that take certain ones."""

SENT_ON_HERE = ("--match", "conntrack", "--ctstate", "DNAT")
"""Connections that this node itself sends on to a backend."""


def to_port(port: Json, number: int = 0) -> tuple[str, ...]:
    """What is sent to a port of a Service, or to another number by the same protocol."""
    return ("--protocol", port["protocol"].lower(), "--dport", str(number or port["port"]))


def came_by(port: Json, number: int, address: str = "") -> tuple[str, ...]:
    """Connections that were made to this port number, and to this address, before the node sent them elsewhere."""
    where = ("--ctorigdst", address) if address else ()
    return ("--protocol", port["protocol"].lower(), "--match", "conntrack", *where, "--ctorigdstport", str(number))


def hands_to(address: str, port: int) -> tuple[str, ...]:
    """Go to a backend instead."""
    host = f"[{address}]" if ":" in address else address
    return ("--jump", "DNAT", "--to-destination", f"{host}:{port}")


def vips(service: Json) -> list[str]:
    """The addresses that its load balancer gave a Service."""
    given = service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
    return [each["ip"] for each in given if each.get("ip")]
