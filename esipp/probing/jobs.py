"""Jobs of probers, and the parsing of their results (images/echoserver/README.md)."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from esipp.base.echo_token import ECHOED, TOKEN
from esipp.checks.model import Claim, Family, Path, Port, Vantage
from esipp.checks.observation import Irregular, Observation, Outcome
from esipp.checks.stream import MTU
from esipp.judging.link_owners import ANSWERED_WITHIN, LinkAnswer

CLAIMED = "203.0.113.7"
"""The address that a client claims in a forged header; it is reserved for documentation (RFC 5737)."""

NODE_PORTS = (30000, 32767)
"""The default range of nodePorts (``--service-node-port-range`` of the API server)."""


@dataclass(frozen=True)
class Job:
    """A job: ``count`` probes, each on its own connection from its own source port, except for lasting jobs.

    Args:
        key: the subject of the observations, such as a path's key.
        protocol: ``tcp``, ``http``, ``udp`` or ``sctp``: a request to an echo server. ``get``: one plain HTTP request
            to any server; the results contain the whole answer as ``response``. ``lasting``: exchanges with the raw TCP
            port of an echo server over one connection, or a new one if it is lost. ``bulk``: ``size`` bytes
            to the raw TCP port of an echo server, which come back. ``resolve``: a DNS lookup. ``neighbour``: no
            probes, but a result for each link address to which the client's frames to ``host`` go (ARP, NDP).
            ``who-has``: questions to all hosts of the client's link who has ``host``; the results have all link
            addresses that answer within the timeout.
        host: a literal address; for ``resolve`` the name.
        port: 0 for ``resolve``, ``neighbour`` and ``who-has``.
        timeout: timeout of a probe in seconds.
        spacing: seconds from start to start; at least 0.005 for ``lasting``.
        parallel: maximum number of probes of this job in flight; 0 for no limit.
        brief: whether equal results are combined, with their count.
        one_socket: whether all datagrams, or SCTP packets, come from one source port.
        one_way: whether datagrams are counted by the backend and not answered; implies ``one_socket``.
        size: bytes of a datagram and its answer, or of a transfer; 0 for no more than needed, ``MTU`` for datagrams
            that fill a packet of the route's MTU.
        ports: the first and the last source port, taken in turn; any if None.
        headers: headers of an HTTP request (``http`` or ``get``).
        preamble: bytes to send first.
        url: path of an HTTP request.
        method: method of a ``get``: ``GET`` or ``HEAD``.
        family: address family of the addresses for ``resolve``.
        wide: a number with which source ports from 1,024 up begin; None for those that the kernel gives out.
        on_a_node: whether the client is a process of a node; then it leaves out the default range of nodePorts, at
            which a service proxy may take answers for requests.
        link_local: whether the client dials from the link-local address of the interface by which it reaches the
            host; IPv6 only.
        linger: seconds for which an answered probe listens on for answers that come twice (UDP, SCTP).
    """

    key: str
    protocol: str
    host: str
    port: int
    count: int
    timeout: float
    spacing: float = 0.0
    parallel: int = 0
    brief: bool = False
    one_socket: bool = False
    one_way: bool = False
    size: int = 0
    ports: tuple[int, int] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    preamble: bytes = b""
    url: str = "/"
    method: str = "GET"
    family: Family = Family.IPV4
    wide: int | None = None
    on_a_node: bool = False
    linger: float = 0.0
    link_local: bool = False

    def order(self, identity: str) -> dict[str, Any]:
        """The job in the prober's protocol."""
        order: dict[str, Any] = {
            "id": identity,
            "protocol": self.protocol,
            "host": self.host,
            "count": self.count,
        }
        if self.protocol == "neighbour":
            return order
        order |= {"spacing": self.spacing, "timeout": self.timeout}
        if self.protocol == "resolve":
            order["family"] = self.family.value.lower()
        elif self.protocol != "who-has":
            order["port"] = self.port
        if self.parallel:
            order["parallel"] = self.parallel
        if self.brief:
            order["brief"] = True
        if self.one_socket:
            order["one_socket"] = True
        if self.one_way:
            order["one_way"] = True
        if self.ports:
            order["source_port"] = list(self.ports)
        if self.size:
            order["size"] = "mtu" if self.size == MTU else self.size
        if self.protocol == "get":
            order["method"] = self.method
        if self.protocol in ("http", "get"):
            order |= {"path": self.url, "headers": dict(self.headers)}
        if self.protocol in ECHOED:
            order["token"] = TOKEN
        if self.wide is not None:
            order["wide"] = self.wide
            if self.on_a_node:
                order["spare"] = NODE_PORTS
        if self.linger and self.protocol in ("udp", "sctp"):
            order["linger"] = self.linger
        if self.link_local:
            order["source_address"] = "link-local"
        if self.preamble:
            order["preamble"] = self.preamble.hex()
        return order


def job_on(path: Path, host: str, port: int, count: int, timeout: float) -> Job:
    """The job for a path, with the protocol of its port and the client's forged claim, if any."""
    http = path.port is Port.HTTP
    headers = {"X-Forwarded-For": CLAIMED} if path.claim is Claim.FORWARDED_FOR else {}
    return Job(
        path.key,
        "http" if http else path.protocol.value.lower(),
        host,
        port,
        count,
        timeout,
        one_socket=path.one_socket,
        headers=headers,
        preamble=_preamble(path.claim, path.family),
        on_a_node=path.client.vantage is Vantage.NODE,
    )


def _preamble(claim: Claim, family: Family) -> bytes:
    """A PROXY protocol header that claims another source (HAProxy, The PROXY protocol, 2.1 and 2.2)."""
    four = family is Family.IPV4
    source, destination = (CLAIMED, "192.0.2.1") if four else ("2001:db8::7", "2001:db8::1")
    if claim is Claim.PROXY_V1:
        return f"PROXY TCP{'4' if four else '6'} {source} {destination} 1111 80\r\n".encode()
    if claim is Claim.PROXY_V2:
        packed = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
        addresses = packed + (1111).to_bytes(2) + (80).to_bytes(2)
        kind = 0x11 if four else 0x21
        return b"\r\n\r\n\x00\r\nQUIT\n" + bytes([0x21, kind]) + len(addresses).to_bytes(2) + addresses
    return b""


def read_result(job: Job, message: dict[str, Any]) -> Observation:
    """Convert a result line of the prober to an observation; for a brief job, it represents many probes."""
    echo = message.get("echo")
    brief, ports = (
        bool(message.get("brief")),
        tuple((int(own or 0), other) for own, other in message.get("ports") or ()),
    )
    own_port, seen_port = ports[0] if ports else (message.get("source_port"), (echo or {}).get("peer_port"))
    source = (str(message["source_address"]), int(own_port or 0)) if message.get("source_address") else None
    moments = tuple((float(began), float(ended)) for began, ended in message.get("moments") or ())
    connected = message.get("connected")
    if brief and message.get("connected_count"):
        connected = message.get("started")
    return Observation(
        path=job.key,
        seq=int(message.get("seq") or 0),
        outcome=Outcome(cast(str, message["outcome"])),
        source=source,
        dialled=(job.host, job.port),
        seen=(str(echo.get("peer_address")), int(seen_port or 0)) if echo else None,
        echo=echo,
        started=float(message.get("started") or 0.0),
        connected=None if connected is None else float(connected),
        ended=float(message.get("ended") or 0.0),
        time=float(message.get("time") or 0.0),
        detail=str(message.get("detail") or ""),
        nonce=str(message.get("nonce") or ""),
        tag=message.get("tag"),
        count=int(message.get("count") or 1),
        ports=ports if brief else (),
        connection=int(message.get("connection") or 0),
        addresses=tuple(map(str, message.get("addresses") or ())),
        moments=moments if brief else (),
        irregular=tuple(Irregular(*each) for each in message.get("irregular") or ()),
    )


NOT_ON_LINK = "not on a link of this host"
"""What the prober says of a host that it reaches through a gateway, and so cannot ask from its own link."""


def who_has(host: str, count: int, spacing: float) -> Job:
    """The job that asks the client's link who has an address."""
    return Job(f"who has {host}", "who-has", host, 0, count, ANSWERED_WITHIN, spacing)


def read_who_has(line: Mapping[str, Any]) -> LinkAnswer:
    """The answers to a question, from a result line of the prober; at the prober's own time."""
    links = tuple(map(str, line.get("links") or ()))
    return LinkAnswer(float(line["started"]), Outcome(str(line["outcome"])), links, str(line.get("detail") or ""))
