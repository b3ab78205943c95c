"""An API server that keeps the health-check node ports of Services that it refuses: a proxy before the real one."""

import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import yaml

from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from tests.broken.nodes import Nodes, Placed

HERE = "127.0.0.1"
UP = Budget("kubectl proxy answering", 20.0, need=1, spacing=0.1)
OF_ONE_HOP = ("connection", "transfer-encoding", "keep-alive", "host")
LEAKED = (
    "Internal error occurred: failed to allocate requested HealthCheck NodePort {}: provided port is already allocated"
)


class _Lying(BaseHTTPRequestHandler):
    """Passes everything on, but refuses a port that a Service requested which was refused."""

    protocol_version = "HTTP/1.1"
    upstream: ClassVar[int]
    kept: ClassVar[set[int]]

    def answer(self) -> None:
        """Answer one request."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        wanted = requested(self.command, self.path, body)
        if wanted in self.kept:
            self._refuse(wanted)
            return
        with closing(HTTPConnection(HERE, self.upstream)) as server:
            self._pass_on(server, body, wanted)

    def _pass_on(self, server: HTTPConnection, body: bytes, wanted: int) -> None:
        """Give the request to the API server, and its answer to the client."""
        passed = {name: value for name, value in self.headers.items() if name.lower() not in OF_ONE_HOP}
        server.request(self.command, self.path, body or None, passed)
        with server.getresponse() as answer:
            if wanted and answer.status == HTTPStatus.CONFLICT:
                self.kept.add(wanted)
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in (*OF_ONE_HOP, "content-length"):
                    self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with suppress(HTTPException):  # a watch that the server ends without its last chunk
                while part := answer.read1(65536):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                    self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _refuse(self, port: int) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500}
        said = json.dumps({**status, "message": LEAKED.format(port)}).encode()
        self.send_response(HTTPStatus.INTERNAL_SERVER_ERROR)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


def requested(method: str, path: str, body: bytes) -> int:
    """The health-check node port that a new Service requests; 0 if it is no such request."""
    if method != "POST" or not path.partition("?")[0].endswith("/services"):
        return 0
    spec: Json = json.loads(body).get("spec") or {}
    return int(spec.get("healthCheckNodePort") or 0)


@contextmanager
def relayed(upstream: int) -> Iterator[int]:
    """Lie about the API server that answers at a port of this machine; yields the port to ask instead."""
    methods = {f"do_{method}": _Lying.answer for method in ("GET", "POST", "PUT", "PATCH", "DELETE")}
    handler = type("Lying", (_Lying,), {**methods, "upstream": upstream, "kept": set()})
    with ThreadingHTTPServer((HERE, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def keeping_ports_of_refused_services(nodes: Nodes) -> Iterator[Placed]:
    """Runs of this process ask the lying API server, by $KUBECONFIG."""
    with socket.create_server((HERE, 0)) as free:
        port = free.getsockname()[1]
    command = [*nodes.cluster.kubectl, "proxy", f"--address={HERE}", f"--port={port}"]
    proxy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before = os.environ.get("KUBECONFIG")
    try:
        waited = converge(lambda: _answers(port), UP)
        assert waited.held, waited
        with relayed(port) as lying, tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kubeconfig"
            file.write_text(yaml.safe_dump(_kubeconfig(nodes.cluster.context, lying)), encoding="utf-8")
            os.environ["KUBECONFIG"] = str(file)
            yield Placed(time.time())
    finally:
        os.environ.pop("KUBECONFIG", None)
        if before is not None:
            os.environ["KUBECONFIG"] = before
        proxy.terminate()
        proxy.wait(timeout=20)


def _answers(port: int) -> Reading:
    with suppress(OSError), socket.create_connection((HERE, port), timeout=1.0):
        return Reading(True, "up")
    return Reading(False, "its port is not open yet")


def _kubeconfig(context: str, port: int) -> Json:
    name = "lying"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"http://{HERE}:{port}"}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": context, "context": {"cluster": name, "user": name}}],
        "current-context": context,
    }
