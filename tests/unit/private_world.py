"""A private API server: TLS by a name that only its proxy knows; the proxy writes down what it is asked to connect."""

import json
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

NAME = "api.internal.example"
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}


@dataclass
class Private:
    """The server's address, the proxy's, the certificate that both clients trust; who was asked to connect where."""

    server: str
    proxy: str
    certificate: Path
    asked: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    impersonated: list[list[tuple[str, str]]] = field(default_factory=list)
    user: dict[str, Any] = field(default_factory=dict)

    def kubeconfig(self, folder: Path, **cluster: str) -> Path:
        """A kubeconfig with one context, ``home``, and these at its cluster's entry; ``user`` at its user's."""
        entry = {"server": self.server, "certificate-authority": str(self.certificate), **cluster}
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {key.replace("_", "-"): each for key, each in entry.items()}}],
            "users": [{"name": "u", "user": {"token": "0123456789abcdef", **self.user}}],
            "contexts": [{"name": "home", "context": {"cluster": "c", "user": "u"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(found))
        return path


class _Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Tls"

    def do_GET(self) -> None:
        self.server.impersonated.append(sorted(each for each in self.headers.items() if "Impersonate" in each[0]))
        body = json.dumps(VERSION).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class _Tls(ThreadingHTTPServer):
    """Handshakes are each connection's own matter: one that fails is no trouble of ours."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Api)
        self.context = context
        self.impersonated: list[list[tuple[str, str]]] = []

    def finish_request(self, request: Any, client_address: Any) -> None:
        with self.context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def _proxy(private: Private) -> ThreadingHTTPServer:
    class Connecting(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            private.asked.append(self.path)
            private.accounts.append(self.headers.get("Proxy-Authorization", ""))
            if self.path not in (private.server.removeprefix("https://"), f"{NAME}:443"):
                self.send_error(502)
                return
            port = int(private.server.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=10) as there:
                self.send_response(200)
                self.end_headers()
                _shovel(self.connection, there)
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Connecting)
    made.daemon_threads = True
    return made


def _shovel(one: socket.socket, other: socket.socket) -> None:
    """Hand on what comes from either until one of them ends."""
    while True:
        ready, _, _ = select.select([one, other], [], [], 30)
        for each in ready:
            try:
                data = each.recv(65536)
            except OSError:
                return
            if not data:
                return
            (other if each is one else one).sendall(data)
        if not ready:
            return


@contextmanager
def private_server(folder: Path) -> Iterator[Private]:
    """A server and a proxy, for as long as this lasts."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", f"/CN={NAME}"),
            *("-addext", f"subjectAltName=DNS:{NAME}"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    api = _Tls(context)
    private = Private(f"https://127.0.0.1:{api.server_address[1]}", "", certificate, impersonated=api.impersonated)
    proxy = _proxy(private)
    private.proxy = f"http://127.0.0.1:{proxy.server_address[1]}"
    for each in (api, proxy):
        threading.Thread(target=each.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield private
    finally:
        for each in (api, proxy):
            each.shutdown()
            each.server_close()
