"""The listeners, the connections and the loop over them."""

from __future__ import annotations

import errno
import json
import select
import signal
import socket
import time
from collections import OrderedDict, deque
from functools import partial

TYPE_CHECKING = False  # as typing has it; importing typing itself would cost a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from images.echoserver import proxy_protocol, sctp
    from images.echoserver.admission import Admission
    from images.echoserver.documents import VERSION, Documents, unmapped
    from images.echoserver.http1 import REASONS, HttpError, Request, reply
    from images.echoserver.linelog import Log
    from images.echoserver.sockets import bound, destination
else:  # in the image these files lie side by side and are no package
    import proxy_protocol
    import sctp
    from admission import Admission
    from documents import VERSION, Documents, unmapped
    from http1 import REASONS, HttpError, Request, reply
    from linelog import Log
    from sockets import bound, destination

EXCHANGE_SECONDS = 12.0  # a connection lives no longer unless it is kept; clients have ten seconds of patience
KEEP = b"keep "  # before a nonce: the connection is kept after the answer
BULK = b"bulk "  # before a size and a nonce: so many bytes that follow are sent back after the answer
COUNT = b"count "  # before a datagram's nonce: it is counted and not answered
KEEP_SECONDS = 1200.0  # that a kept connection may be without a request
MAX_TCP_BYTES = 1024
MAX_HEAD_BYTES = 8192
MAX_BULK = 1 << 28
MAX_DATAGRAM = 65535
MAX_SENDERS, MAX_RUNS = 1024, 24  # of counted datagrams; the oldest are forgotten
MAX_DISCARD = 1 << 20  # bytes of an unwanted body that are taken so that the client reads our answer
MAX_CONNECTIONS = 8192
EVENTS_AT_ONCE = MAX_CONNECTIONS  # all there can be, so that none is left when times are looked at
MAX_KEPT = MAX_CONNECTIONS // 2  # kept connections do not shut out all others


class Connection:
    """One TCP connection: reads a request, answers, is closed; a raw one that asks to be kept is answered on."""

    __slots__ = (
        "discards", "expires", "fd", "kept", "kind", "lingering", "mirrored", "out", "peer", "proxied", "received",
        "server", "sock", "unproxied",
    )  # fmt: skip

    def __init__(self, server: Server, kind: str, sock: socket.socket, peer: tuple[Any, ...]) -> None:
        self.server, self.kind, self.sock, self.peer = server, kind, sock, peer
        self.fd = sock.fileno()
        self.expires = time.monotonic() + EXCHANGE_SECONDS
        self.received = b""
        self.unproxied = kind != "control"  # what comes next may be a PROXY protocol header
        self.proxied: dict[str, Any] | None = None
        self.out = b""
        self.kept = False
        self.mirrored = 0  # bytes that are still to come, and to be sent back
        self.lingering = False
        self.discards = MAX_DISCARD

    def ready(self, _mask: int) -> None:
        """Go on as far as the socket allows."""
        try:
            if self.out:
                self._send()
                if self.kept and self.fd >= 0 and not self.mirrored:
                    self._raw()  # what had arrived meanwhile
                return
            data = self.sock.recv(1 << 17 if self.mirrored else 16384)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:  # also a half-closed client: what it has sent was no request
            self.close()
        elif self.lingering:
            self.discards -= len(data)
            if self.discards < 0:
                self.close()
        elif self.mirrored:
            self._mirror(data)
        else:
            self.received += data
            if self.unproxied and not self._proxy_header():
                return
            if self.kind == "tcp":
                self._raw()
            else:
                self._http()

    def _proxy_header(self) -> bool:
        """Take PROXY protocol headers off, and keep the first; say whether the request can be looked at.

        The first is the proxy's own; what a client claims to the proxy comes after it.
        """
        while True:
            try:
                taken = proxy_protocol.take(self.received)
            except proxy_protocol.ProxyError:
                if self.kind == "tcp":
                    self.close()
                else:
                    self._refuse(400)
                return False
            if taken is None:
                return False
            said, size = taken
            if not size:
                self.unproxied = False
                return True
            self.proxied = self.proxied or said
            self.received = self.received[size:]

    def _refuse(self, status: int, head: bool = False) -> None:
        self.out = reply(status, f"{status} {REASONS[status]}\n", head=head)
        self.lingering = True
        self._send()

    def _raw(self) -> None:
        while not self.out:
            line, newline, rest = self.received.partition(b"\n")
            kept = line.startswith(KEEP)
            size, asked = bulk(line.removeprefix(KEEP).removesuffix(b"\r"))
            nonce = self.server.admission.nonce(asked) if newline else None
            if nonce is None:
                if newline or len(self.received) > MAX_TCP_BYTES:
                    self.close()
                return
            self.received = b"" if size else rest
            local = self.sock.getsockname()
            document = self.server.exchange("tcp", nonce.decode(), self.peer, local, proxied=self.proxied)
            self.out = document.encode() + b"\n"
            if size:
                self.mirrored = size
                self._mirror(rest)
                return
            if kept:
                self.server.keep(self)
            self.kept = kept
            self._send()
            if not self.kept or self.fd < 0:
                return

    def _mirror(self, data: bytes) -> None:
        """Send bytes back; nothing more is read before they are sent, and the last ones end the connection."""
        self.out += data[: self.mirrored]
        self.mirrored -= min(len(data), self.mirrored)
        self.server.keep(self)
        self.kept = self.mirrored > 0
        self._send()

    def _http(self) -> None:
        self.received = self.received.lstrip(b"\r\n")
        ends = [(at, size) for end, size in ((b"\n\r\n", 3), (b"\n\n", 2)) if (at := self.received.find(end)) >= 0]
        at, size = min(ends, default=(len(self.received), 0))
        head_only = False
        try:
            if at > MAX_HEAD_BYTES:
                raise HttpError(431)
            if not ends:
                return
            request = Request(self.received[:at].removesuffix(b"\r"))
            head_only = request.method == "HEAD"
            body = self.received[at + size :]
            if self.kind == "control":
                if len(body) < request.length:
                    return
                self.out = self.server.control(request, body[: request.length])
            else:
                self.out = self.server.http(request, self.peer, self.sock, self.proxied)
            # Closing over unread data resets the connection, and the reset can overtake the answer.
            self.lingering = request.length > len(body) or "transfer-encoding" in request.headers
        except HttpError as error:
            self._refuse(error.status, head_only)
            return
        self._send()

    def _send(self) -> None:
        try:
            # More is to come: the end. So the kernel sends both in one packet instead of two.
            self.out = self.out[self.sock.send(self.out, 0 if self.kept else socket.MSG_MORE) :]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self.out:
            self.server.watch(self, select.EPOLLOUT)
        elif self.kept:
            self.server.watch(self, select.EPOLLIN)
        elif self.lingering:
            self.server.watch(self, select.EPOLLIN)
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self.close()
        else:
            self.close()

    def close(self) -> None:
        """Forget the connection."""
        if self.fd >= 0:
            self.server.forget(self)
            self.fd = -1
            self.sock.close()


def bulk(line: bytes) -> tuple[int, bytes]:
    """The size of a transfer, 0 for any other request, and what asks for it."""
    if not line.startswith(BULK):
        return 0, line
    size, _, asked = line.removeprefix(BULK).partition(b" ")
    digits = size.isdigit() and len(size) < 12
    return (int(size), asked) if digits and 0 < int(size) <= MAX_BULK else (0, b"")


class Counted:
    """The datagrams that are counted and not answered, by sender: the job of their nonces, its address and port."""

    def __init__(self) -> None:
        self.senders: OrderedDict[tuple[str, str, int], list[list[int]]] = OrderedDict()  # first and last of each run

    def add(self, nonce: str, address: str, port: int) -> None:
        """Count a datagram; its nonce ends with its number."""
        job, _, digits = nonce.rpartition(":")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
            return
        number = int(digits)
        runs = self.senders.setdefault((job, address, port), [])
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
            del runs[:-MAX_RUNS]
        self.senders.move_to_end((job, address, port))
        if len(self.senders) > MAX_SENDERS:
            self.senders.popitem(last=False)

    def report(self, job: str) -> list[dict[str, Any]]:
        """What arrived of a job."""
        return [
            {"address": address, "port": port, "arrived": runs}
            for (of, address, port), runs in self.senders.items()
            if of == job
        ]


class Server:
    """The listeners, the connections and the loop over them."""

    def __init__(self, options: dict[str, str], environment: dict[str, str]) -> None:
        self.options = options
        self.documents = Documents(environment)
        self.admission = Admission(environment.get("ESIPP_TOKEN") or "")
        self.counted = Counted()
        self.is_ready = True
        self.stop_at: float | None = None
        self.epoll = select.epoll()
        self.log = Log(self.epoll)
        self.handlers: dict[int, Callable[[int], object]] = {1: self.log.writable}
        self.open = 0
        self.oldest: deque[Connection] = deque()
        self.kept: OrderedDict[int, Connection] = OrderedDict()  # by descriptor, the longest idle first
        self.listeners: list[socket.socket] = []
        self.ports: dict[str, int | None] = {}
        self.waker, waking = socket.socketpair()
        self.waker.setblocking(False)
        waking.setblocking(False)
        signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        self.waking = waking
        self._on(self.waker, lambda _mask: self.waker.recv(64))
        # As PID 1 a process without a handler never sees the signal.
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGINT, lambda _number, _frame: self._stop_in(0.0))

    def _on(self, sock: socket.socket, handler: Callable[[int], object]) -> None:
        self.handlers[sock.fileno()] = handler
        self.epoll.register(sock.fileno(), select.EPOLLIN)

    def _terminate(self, _number: int, _frame: object) -> None:
        mode, _, seconds = self.options["on-sigterm"].partition(":")
        self._stop_in(float(seconds) if mode == "serve" else 0.0)

    def _stop_in(self, seconds: float) -> None:
        moment = time.monotonic() + seconds
        self.stop_at = moment if self.stop_at is None else min(moment, self.stop_at)

    def listen(self) -> None:
        """Open every listener, then say so."""
        for name in ("http", "tcp", "udp", "sctp", "control"):
            if self.options[name] == "off":
                self.ports[name] = None
                continue
            try:
                self._listen(name, int(self.options[name]))
            except OSError as error:
                raise SystemExit(f"cannot listen on {name} port {self.options[name]}: {error.strerror}") from None
        line = {
            "event": "listening",
            "version": VERSION,
            **self.ports,
            "pod": self.documents.pod,
            "node": self.documents.node,
        }
        self.log.write(json.dumps(line))

    def _listen(self, name: str, port: int) -> None:
        if name == "sctp":
            self._listen_sctp(port)
            return
        if name == "control":
            first = bound("127.0.0.1", port, socket.SOCK_STREAM)
            socks = [first]
            try:
                socks.append(bound("::1", first.getsockname()[1], socket.SOCK_STREAM))
            except OSError as error:
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    raise
        else:
            kind = socket.SOCK_DGRAM if name == "udp" else socket.SOCK_STREAM
            try:
                socks = [bound("::", port, kind)]
            except OSError as error:
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    raise
                socks = [bound("0.0.0.0", port, kind)]
        self.ports[name] = socks[0].getsockname()[1]
        for sock in socks:
            self.listeners.append(sock)
            if name == "udp":
                self._on(sock, partial(self._datagrams, sock))
            else:
                self._on(sock, partial(self._accept, name, sock))

    def _listen_sctp(self, port: int) -> None:
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                listener = sctp.Listener(family, port, self.exchange, self.admission)
            except OSError as error:
                if family == socket.AF_INET or error.errno != errno.EAFNOSUPPORT:
                    raise
                continue
            self.listeners.append(listener.sock)
            self._on(listener.sock, listener.ready)
        self.ports["sctp"] = port

    def _accept(self, kind: str, listener: socket.socket, _mask: int) -> None:
        for _ in range(64):
            try:
                sock, peer = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._drop_oldest()
                return  # the client is gone already, or the next turn has room
            if self.open >= MAX_CONNECTIONS:
                self._drop_oldest()
            sock.setblocking(False)
            connection = Connection(self, kind, sock, peer)
            self.open += 1
            self.oldest.append(connection)
            self.handlers[connection.fd] = connection.ready
            self.epoll.register(connection.fd, select.EPOLLIN)

    def _drop_oldest(self) -> None:
        while self.oldest:
            connection = self.oldest.popleft()
            if connection.fd >= 0 and not connection.kept:
                connection.close()
                return
        self._drop_idlest()

    def _drop_idlest(self) -> None:
        for connection in self.kept.values():
            connection.close()
            return

    def keep(self, connection: Connection) -> None:
        """Let the connection live on from now; it is in use."""
        connection.expires = time.monotonic() + KEEP_SECONDS
        if not connection.kept:
            if len(self.kept) >= MAX_KEPT:
                self._drop_idlest()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.kept[connection.fd] = connection
        self.kept.move_to_end(connection.fd)

    def watch(self, connection: Connection, mask: int) -> None:
        """Wait for this on the connection from now on."""
        self.epoll.modify(connection.fd, mask)

    def forget(self, connection: Connection) -> None:
        """Wait for the connection no more; closing it takes it out of the kernel's list."""
        self.handlers.pop(connection.fd, None)
        self.kept.pop(connection.fd, None)
        self.open -= 1

    def _datagrams(self, sock: socket.socket, _mask: int) -> None:
        for _ in range(256):
            try:
                data, ancillary, _flags, peer = sock.recvmsg(MAX_DATAGRAM, 256)
            except OSError:
                return
            counted = data.startswith(COUNT)
            asked, padded, padding = data.removeprefix(COUNT).removesuffix(b"\n").partition(b" ")
            nonce = None if padding.strip(b".") else self.admission.nonce(asked)
            if nonce is None:  # silence: a source may be forged, garbage gets no answer
                continue
            if counted:
                self.counted.add(nonce.decode(), unmapped(peer)[0], peer[1])
                continue
            reached = destination(ancillary, self.ports["udp"] or 0)
            if reached is None:
                continue
            local, control = reached
            document = self.exchange("udp", nonce.decode(), peer, local).encode()
            if padded:  # as large as the question; JSON may end with spaces
                document = document.ljust(len(data))
            try:
                sock.sendmsg([document], [control], 0, peer)
            except OSError:  # no way back, or reached by broadcast
                continue

    def exchange(self, protocol: str, nonce: str | None, peer: tuple[Any, ...], local: tuple[Any, ...],
                 **more: Any) -> str:  # fmt: skip
        """Make the document of one exchange, and log it."""
        document = self.documents.make(protocol, nonce, peer, local, **more)
        self.log.write(document)
        return document

    def http(self, request: Request, peer: tuple[Any, ...], sock: socket.socket,
             proxied: dict[str, Any] | None) -> bytes:  # fmt: skip
        """Answer a client's request."""
        if request.method not in ("GET", "HEAD"):
            raise HttpError(405)
        head = request.method == "HEAD"
        if request.path == "/healthz":
            return reply(200, "ok\n", head=head)
        if request.path == "/readyz":
            ready = self.is_ready and self.stop_at is None
            return reply(200, "ready\n", head=head) if ready else reply(503, "not ready\n", head=head)
        if request.path not in ("/", "/clientip", "/hostname", "/counted"):
            raise HttpError(404)
        asked = request.asked()
        if not self.admission.knows(asked or b""):
            if request.path != "/":
                raise HttpError(403)
            return reply(200, "ok\n", head=head)  # clouds check the health of HTTP ports by it
        if request.path == "/hostname":
            return reply(200, self.documents.pod or socket.gethostname(), head=head)
        nonce = None if asked is None else self.admission.nonce(asked)
        if asked is not None and nonce is None:
            raise HttpError(400)
        if request.path == "/counted":
            job = "" if nonce is None else nonce.decode()
            arrived = {"pod": self.documents.pod, "senders": self.counted.report(job)}
            return reply(200, json.dumps(arrived) + "\n", "application/json", head=head)
        forwarded = request.headers.get("x-forwarded-for")
        local = sock.getsockname()
        said = None if nonce is None else nonce.decode()
        document = self.exchange("http", said, peer, local, forwarded=forwarded, proxied=proxied)
        address, raw, scope, family = unmapped(peer)
        if request.path == "/clientip":  # no newline, as agnhost
            return reply(200, f"[{raw}]:{peer[1]}" if family == "ipv6" else f"{address}:{peer[1]}", head=head)
        accept = ",".join(request.headers.get("accept", [])).lower()
        if "text/plain" not in accept or "application/json" in accept:
            return reply(200, document + "\n", "application/json", head=head)
        # Nothing the client wrote is repeated here: whoever searches it for client_address finds one line, ours.
        lines = ["CLIENT VALUES:", f"client_address={address if scope is None else raw}", f"command={request.method}",
                 f"real path={request.path}", f"request_version={request.version[5:]}", "", "SERVER VALUES:",
                 f"server_version=esipp {VERSION}", f"pod={self.documents.pod or ''}",
                 f"node={self.documents.node or ''}"]  # fmt: skip
        return reply(200, "\n".join(lines) + "\n", head=head)

    def control(self, request: Request, body: bytes) -> bytes:
        """Answer a request of the pod itself."""
        if request.path != "/ready":
            raise HttpError(404)
        if request.method == "PUT":
            if body.strip() not in (b"true", b"false"):
                raise HttpError(400)
            self.is_ready = body.strip() == b"true"
        elif request.method not in ("GET", "HEAD"):
            raise HttpError(405)
        return reply(200, f"{str(self.is_ready).lower()}\n", head=request.method == "HEAD")

    def run(self) -> None:
        """Serve until stopped."""
        handlers, oldest, kept = self.handlers, self.oldest, self.kept
        looked = time.monotonic()
        while True:
            self.log.flush()
            # What had time until the sockets were looked at has had it: on a busy machine this process may stand still
            # for seconds, and requests that arrived meanwhile are answered first.
            while oldest and (oldest[0].kept or oldest[0].fd < 0 or oldest[0].expires <= looked):
                connection = oldest.popleft()
                if not connection.kept:
                    connection.close()
            while kept and (idlest := next(iter(kept.values()))).expires <= looked:
                idlest.close()
            looked = time.monotonic()
            if self.stop_at is not None and self.stop_at <= looked:
                break
            ends = [oldest[0].expires] if oldest else []
            if kept:
                ends.append(next(iter(kept.values())).expires)
            if self.stop_at is not None:
                ends.append(self.stop_at)
            for fd, mask in self.epoll.poll(max(0.0, min(ends) - looked) if ends else -1, EVENTS_AT_ONCE):
                if not (handler := handlers.get(fd)):
                    continue
                try:
                    handler(mask)
                except Exception as error:  # one client's oddity must not end the service of all others
                    self.log.write(json.dumps({"event": "error", "detail": repr(error)[:200]}))
                    if isinstance(failed := getattr(handler, "__self__", None), Connection):
                        failed.close()
        while kept:  # before the log is drained, which may take a second
            self._drop_idlest()
        for sock in self.listeners:
            sock.close()
        self.log.drain(1.0)
