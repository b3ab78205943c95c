"""The document: what the echo server tells a client of an exchange."""

from __future__ import annotations

import json
import socket
import time

TYPE_CHECKING = False  # as typing has it, without importing typing
if TYPE_CHECKING:
    from typing import Any

VERSION = "0.2.0"
SCHEMA = 1
LEFT_OUT_FIRST = ("pod_ips", "pod_ip", "namespace", "node", "pod")  # where a document must fit into one packet


def unmapped(sockaddr: tuple[Any, ...]) -> tuple[str, str, str | None, str]:
    """Of a socket address: its address in its own family, as the socket saw it, its scope, its family."""
    address: str = sockaddr[0]
    if len(sockaddr) == 2:
        return address, address, None, "ipv4"
    if address.startswith("::ffff:") and "." in address:
        return address[7:], address, None, "ipv4"
    if not sockaddr[3]:
        return address, address, None, "ipv6"
    try:
        scope = socket.if_indextoname(sockaddr[3])
    except OSError:  # the interface is gone
        scope = str(sockaddr[3])
    return address, f"{address}%{scope}", scope, "ipv6"


class Documents:
    """Makes documents, all of one server."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.pod = environment.get("POD_NAME") or None
        self.node = environment.get("NODE_NAME") or None
        ips = environment.get("POD_IPS") or ""
        identity = {
            "pod": self.pod,
            "namespace": environment.get("POD_NAMESPACE") or None,
            "node": self.node,
            "pod_ip": environment.get("POD_IP") or None,
            "pod_ips": ips.split(",") if ips else None,
        }
        # JSON of what never changes is written once; it was most of the cost of an exchange.
        self._identities = [_members(identity)]
        for key in LEFT_OUT_FIRST:
            del identity[key]
            self._identities.append(_members(identity))

    def make(self, protocol: str, nonce: str | None, peer: tuple[Any, ...], local: tuple[Any, ...],
             forwarded: list[str] | None = None, proxied: dict[str, Any] | None = None,
             room: int = 1 << 20) -> str:  # fmt: skip
        """The document of one exchange, its nonce already checked; who the server is is left out for want of room."""
        address, raw, scope, family = unmapped(peer)
        local_address, local_raw, local_scope, _ = unmapped(local)
        # Only an interface's name can have letters that JSON writes otherwise.
        raw = f'"{raw}"' if scope is None else json.dumps(raw)
        local_raw = f'"{local_raw}"' if local_scope is None else json.dumps(local_raw)
        head = (
            f'{{"schema": {SCHEMA}, "version": "{VERSION}", "nonce": {_text(nonce)}, "protocol": "{protocol}", '
            f'"family": "{family}", "peer_address": "{address}", "peer_address_raw": {raw}, '
            f'"peer_scope": {"null" if scope is None else json.dumps(scope)}, "peer_port": {peer[1]}, '
            f'"local_address": "{local_address}", "local_address_raw": {local_raw}, "local_port": {local[1]}, '
        )
        tail = (
            f'"time": {time.time()!r}, "x_forwarded_for": {"null" if forwarded is None else json.dumps(forwarded)}, '
            f'"proxy_protocol": {"null" if proxied is None else json.dumps(proxied)}}}'
        )
        left = room - len(head) - len(tail)
        return head + next((text for text in self._identities if len(text) <= left), "") + tail


def _members(fields: dict[str, Any]) -> str:
    return json.dumps(fields)[1:-1] + ", " if fields else ""


def _text(nonce: str | None) -> str:
    return "null" if nonce is None else f'"{nonce}"'
