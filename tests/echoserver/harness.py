"""Starts the echo server and the prober as processes, and servers that lie, for the tests beside this file."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

IMAGE = Path(__file__).parents[2] / "images" / "echoserver"
PATIENCE = 20.0  # seconds that an event may take on a busy machine
LOOPBACK = {"ipv4": "127.0.0.1", "ipv6": "::1"}
Line = dict[str, Any]


class Process:
    """A process that writes JSON lines; every line is kept, and can be waited for."""

    def __init__(self, command: Sequence[str], env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env
        )
        self.raw: list[str] = []
        self.lines: list[Line] = []
        self.changed = threading.Condition()
        self.ended = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            text = line.decode().rstrip("\n")
            try:
                parsed = json.loads(text)
            except ValueError:
                parsed = {"not json": text}
            with self.changed:
                self.raw.append(text)
                self.lines.append(parsed)
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait_for(self, wanted: Callable[[Line], bool], since: int = 0) -> Line:
        """The first line that is wanted, once it is there."""
        end = time.monotonic() + PATIENCE
        with self.changed:
            while True:
                for line in self.lines[since:]:
                    if wanted(line):
                        return line
                since = len(self.lines)
                assert not self.ended, f"the process ended: {self.raw[-5:]}"
                assert self.changed.wait(end - time.monotonic()), f"no such line: {self.raw[-5:]}"

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.reader.join(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def memory_kib(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


class EchoServer(Process):
    """An echo server on free ports; ready once constructed."""

    def __init__(self, *arguments: str, prefix: Sequence[str] = (), env: dict[str, str] | None = None) -> None:
        free = [word for name in ("http", "tcp", "udp", "control") for word in (f"--{name}", "0")]
        command = [*prefix, sys.executable, "-B", str(IMAGE / "echoserver.py"), *free, *arguments]
        super().__init__(command, {"PATH": os.environ["PATH"], **(env or {})})
        try:
            first = self.wait_for(lambda _: True)
            assert first.get("event") == "listening", first
        except BaseException:
            self.stop()
            raise
        self.listening = first
        names = ("http", "tcp", "udp", "sctp", "control")
        self.ports: dict[str, int] = {name: first[name] for name in names if first[name] is not None}

    def documents(self) -> list[Line]:
        return [line for line in self.lines if line.get("schema") == 1]

    def check(self) -> None:
        """Still alive, serving, and without an error of its own."""
        for protocol in ("tcp", "http", "udp"):
            nonce = f"check-{protocol}-{time.monotonic_ns()}"
            assert ask(self, protocol, "ipv4", nonce)[0]["nonce"] == nonce
        assert [line for line in self.lines if "not json" in line or line.get("event") == "error"] == []


class Prober(Process):
    """A prober; ready once constructed."""

    def __init__(self, *arguments: str, prefix: Sequence[str] = (), env: dict[str, str] | None = None) -> None:
        command = [*prefix, sys.executable, "-B", str(IMAGE / "prober.py"), *arguments]
        super().__init__(command, {"PATH": os.environ["PATH"], **(env or {})})
        try:
            self.about = self.wait_for(lambda line: line.get("event") == "ready")
        except BaseException:
            self.stop()
            raise
        self.given = 0

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Line) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def give(self, protocol: str, host: str, port: int, **more: Any) -> str:
        """Send a job, return its id."""
        self.given += 1
        name = str(more.pop("id", f"job{self.given}"))
        self.send({"id": name, "protocol": protocol, "host": host, "port": port, "timeout": PATIENCE, **more})
        return name

    def take(self, name: str) -> list[Line]:
        """The results of a job, once it is done."""
        done = self.wait_for(lambda line: line.get("id") == name and ("done" in line or "error" in line))
        assert done.get("done"), done
        results = [line for line in self.lines if line.get("id") == name and "outcome" in line]
        assert len(results) == done["probes"]
        return results

    def probe(self, protocol: str, host: str, port: int, **more: Any) -> Line:
        """The result of a job of one probe."""
        (result,) = self.take(self.give(protocol, host, port, **more))
        return result


def connect(family: str, port: int, source: str | None = None) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if family == "ipv6" else socket.AF_INET)
    sock.settimeout(PATIENCE)
    if source:
        sock.bind((source, 0))
    try:
        sock.connect((LOOPBACK[family], port))
    except OSError:
        sock.close()
        raise
    return sock


def read_all(sock: socket.socket) -> bytes:
    """All until the other side closes; a reset counts as closing."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := sock.recv(65536):
            data += more
    return data


def exchange(family: str, port: int, *parts: bytes, shut: bool = False) -> bytes:
    """Send over a new TCP connection, return all that comes back."""
    with connect(family, port) as sock:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for part in parts:
                sock.sendall(part)
            if shut:
                sock.shutdown(socket.SHUT_WR)
        return read_all(sock)


class Response:
    """A parsed HTTP response."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        assert lines[0].startswith("HTTP/1.1 "), data[:200]
        self.status = int(lines[0].split(" ")[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.text = self.body.decode()


def http(port: int, path: str = "/", *headers: str, method: str = "GET", family: str = "ipv4") -> Response:
    lines = [f"{method} {path} HTTP/1.1", "Host: test", *headers, "", ""]
    return Response(exchange(family, port, "\r\n".join(lines).encode()))


def ask(server: EchoServer, protocol: str, family: str, nonce: str) -> tuple[Line, str, tuple[Any, ...]]:
    """One exchange: the document, its text, and the client's own socket address."""
    port = server.ports[protocol]
    if protocol == "udp":
        with socket.socket(socket.AF_INET6 if family == "ipv6" else socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE)
            sock.connect((LOOPBACK[family], port))
            sock.send(nonce.encode())
            text = sock.recv(65536).decode()
            return json.loads(text), text, sock.getsockname()
    with connect(family, port) as sock:
        if protocol == "tcp":
            sock.sendall(f"{nonce}\n".encode())
            text = read_all(sock).decode()
        else:
            sock.sendall(f"GET / HTTP/1.1\r\nHost: test\r\nX-Esipp-Nonce: {nonce}\r\n\r\n".encode())
            text = Response(read_all(sock)).text
        assert text.endswith("\n")
        return json.loads(text), text[:-1], sock.getsockname()


@contextlib.contextmanager
def tcp_server(serve: Callable[[socket.socket], object], family: str = "ipv4") -> Iterator[int]:
    """A TCP server that handles every connection as given; gives its port."""
    with socket.create_server(
        (LOOPBACK[family], 0), family=socket.AF_INET6 if family == "ipv6" else socket.AF_INET
    ) as s:

        def run() -> None:
            while True:
                try:
                    sock, _ = s.accept()
                except OSError:
                    return
                with sock, contextlib.suppress(OSError):
                    serve(sock)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield s.getsockname()[1]
        finally:
            s.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


@contextlib.contextmanager
def udp_server(serve: Callable[[socket.socket, bytes, Any], object], family: str = "ipv4") -> Iterator[int]:
    """A UDP server that handles every datagram as given; gives its port."""
    with socket.socket(socket.AF_INET6 if family == "ipv6" else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((LOOPBACK[family], 0))

        def run() -> None:
            while True:
                data, peer = sock.recvfrom(65536)
                if data == b"stop":
                    return
                serve(sock, data, peer)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            with socket.socket(sock.family, socket.SOCK_DGRAM) as other:
                other.sendto(b"stop", sock.getsockname())
            thread.join(PATIENCE)


def closed_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port that nobody listens on; a server of the test may, and no one else: other tests take ports beside us."""
    sock = socket.socket(socket.AF_INET6, kind)
    if kind == socket.SOCK_STREAM:  # a bound datagram socket would be one that listens
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        atexit.register(sock.close)  # held until then
    sock.bind(("::", 0))
    port: int = sock.getsockname()[1]
    if kind != socket.SOCK_STREAM:
        sock.close()
    return port


def document(nonce: str, **more: Any) -> Line:
    """A document as the echo server would send it."""
    return {"schema": 1, "nonce": nonce, "peer_address": "192.0.2.1", "peer_port": 1, **more}
