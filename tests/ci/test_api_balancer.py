"""What stands in for Envoy before several API servers: it serves with one of them away."""

import re
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ci import lane_file
from ci.hermetic.api_balancer import envoy
from ci.polling import until
from tests.tools import needs_tool

# As kind writes it (pkg/cluster/internal/loadbalancer/config.go), in part.
CDS = """
resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: kube_apiservers
  load_assignment:
    cluster_name: kube_apiservers
    endpoints:
    - lb_endpoints:
      - endpoint:
          address:
            socket_address:
              address: HOST
              port_value: PORT
      - endpoint:
          address:
            socket_address:
              address: HOST2
              port_value: PORT
"""


def cds(one: str, other: str, port: int) -> str:
    """kind's file about two API servers."""
    return CDS.replace("HOST2", other).replace("HOST", one).replace("PORT", str(port))


def test_kinds_configuration_names_the_servers() -> None:
    made = envoy.config(
        CDS.replace("HOST2", "b-control-plane2").replace("HOST", "b-control-plane").replace("PORT", "6443")
    )
    assert "bind :::6443 v4v6" in made
    assert re.findall(r"^    server (.*)", made, re.MULTILINE) == [
        "b-control-plane b-control-plane:6443", "b-control-plane2 b-control-plane2:6443",
    ]  # fmt: skip


def test_it_waits_as_long_as_kind_has_named_none() -> None:
    assert envoy.config("resources: []") == ""


def test_only_a_cluster_with_several_control_planes_has_one() -> None:
    assert lane_file.load("kind-iptables").control_planes == 1
    assert lane_file.load("kind-2-control-planes").control_planes == 2


@contextmanager
def api_server(host: str, port: int, certificate: Path) -> Iterator[None]:
    """It answers each request with its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(host.encode())

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((host, port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(port: int) -> str:
    """Who answers; empty if nobody does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
    try:
        connection.request("GET", "/version")
        return connection.getresponse().read().decode()
    except OSError:
        return ""
    finally:
        connection.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as own:
        return int(own.getsockname()[1])


@contextmanager
def haproxy(config: Path) -> Iterator[None]:
    process = subprocess.Popen(["haproxy", "-db", "-f", config], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@needs_tool("haproxy", "openssl")
def test_every_request_is_answered_while_one_of_two_is_away(tmp_path: Path) -> None:
    certificate, port, own = tmp_path / "server.pem", free_port(), free_port()
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-subj", "/CN=a", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "only.pem")
    subprocess.run([*command, *files], check=True, capture_output=True)
    certificate.write_text((tmp_path / "key.pem").read_text() + (tmp_path / "only.pem").read_text())
    text = envoy.config(cds("127.0.0.1", "127.0.0.2", port))
    config = tmp_path / "haproxy.cfg"
    config.write_text(text.replace(f"bind :::{port} v4v6", f"bind 127.0.0.1:{own}"))
    with api_server("127.0.0.1", port, certificate), haproxy(config):
        with api_server("127.0.0.2", port, certificate):
            assert until(lambda: bool(ask(own)), 10), "HAProxy does not serve"
            assert {ask(own) for _ in range(10)} == {"127.0.0.1", "127.0.0.2"}
        assert {ask(own) for _ in range(10)} == {"127.0.0.1"}, "a request was lost before health checks noticed"
