"""The API server that breaks use: it passes everything on but a port that a refused Service requested."""

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.broken.lying_api import relayed

SERVICES = "/api/v1/namespaces/esipp-test/services"


class _Api(BaseHTTPRequestHandler):
    """An API server that has a Service with the name ``taken``."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(409 if body["metadata"]["name"] == "taken" else 201)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Api) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        with relayed(server.server_address[1]) as port:
            yield port
        server.shutdown()


def created(port: int, name: str, health_port: int, path: str = SERVICES) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    body = {"metadata": {"name": name}, "spec": {"healthCheckNodePort": health_port}}
    connection.request("POST", path, json.dumps(body))
    answer = connection.getresponse()
    said = answer.status, answer.read().decode()
    connection.close()
    return said


def test_a_port_is_kept_only_if_the_service_that_requested_it_was_refused(port: int) -> None:
    assert created(port, "one", 30001) == (201, "{}")
    assert created(port, "two", 30001) == (201, "{}"), "whether it is free is for the API server to say"
    assert created(port, "taken", 30002) == (409, "{}")
    status, said = created(port, "three", 30002)
    assert (status, "30002: provided port is already allocated" in said) == (500, True)
    assert created(port, "three", 30003) == (201, "{}")
    assert created(port, "three", 30002, "/api/v1/namespaces/esipp-test/pods") == (201, "{}")
