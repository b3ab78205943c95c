"""HAProxy's view, from its CSV; and HAProxy itself, where it is installed."""

import contextlib
import http.server
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.convergence import Budget, Reading, converge
from esipp.errors import HarnessError
from esipp.loadbalancers.views import view_for
from esipp.loadbalancers.views.haproxy import HAProxyView, read, state_of
from esipp.loadbalancers.views.model import Asked, State, Unavailable, View, Why
from tests.unit.views_world import KIND, RECORDED, asked, node, places

CSV = (RECORDED / "haproxy-show-stat.csv").read_text()
SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin"
SEEN = Budget("HAProxy turning a server", 30.0, need=1, spacing=0.05)


@contextlib.contextmanager
def answering(path: Path, text: str, questions: list[bytes]) -> Iterator[str]:
    """A stats socket that answers one question a connection, as HAProxy does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken, _ = listener.accept()
                    with taken:
                        questions.append(taken.recv(4096))
                        taken.sendall(text.encode())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield str(path)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_servers_at_our_node_ports_are_read_by_the_names_of_columns(tmp_path: Path) -> None:
    questions: list[bytes] = []
    with answering(tmp_path / "stats.sock", CSV, questions) as where:
        told = HAProxyView(places(KIND), where).ask(asked())
    assert questions == [b"show stat\n"]
    assert told.states == {"worker": State.HEALTHY, "worker2": State.UNHEALTHY, "worker3": State.HEALTHY}
    assert [each.word for each in told.members] == ["UP", "DOWN", "UP 1/2"]
    assert told.members[1].reason == "L7STS, HTTP status check returned code <503>, wrong, for 42 s"


def test_without_addresses_a_server_is_known_by_its_name_and_its_backends(tmp_path: Path) -> None:
    rows = [line.rsplit(",", 2)[0] + ",," for line in CSV.splitlines()[1:]]
    plain = "\n".join([CSV.splitlines()[0], *rows]) + "\n"
    with answering(tmp_path / "stats.sock", plain, []) as where:
        told = HAProxyView(places(KIND), where).ask(asked())
    assert [each.target.partition("/")[0] for each in told.members] == ["shop.web.IPv4.80"] * 3


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("UP", State.HEALTHY),
        ("UP 2/3", State.HEALTHY),
        ("DOWN 1/2", State.UNHEALTHY),
        ("MAINT (via shop.web.IPv4.80/worker)", State.UNHEALTHY),
        ("DRAIN", State.UNHEALTHY),
        ("NOLB", State.UNHEALTHY),
        ("no check", State.UNKNOWN),
        ("", State.UNKNOWN),
    ],
)
def test_the_words(word: str, state: State) -> None:
    assert state_of(word) is state


@pytest.mark.parametrize("text", ["", "Unknown command.\n", "<html></html>", "# a,b,c,\n1,2,3,\n"])
def test_what_is_no_csv_is_told(text: str) -> None:
    with pytest.raises(Unavailable) as raised:
        list(read(text))
    assert raised.value.why is Why.GARBLED


def test_rows_that_are_cut_short_are_left_out() -> None:
    assert len(list(read(CSV[: CSV.index("worker3") + 20]))) == 3


def test_nobody_there_is_told_without_the_password(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://ops:hunter2@127.0.0.1:{free.getsockname()[1]}/stats"
        for where in (str(tmp_path / "none.sock"), url):
            with pytest.raises(Unavailable, match="does not answer") as raised:
                HAProxyView(places(KIND), where).ask(asked())
            assert raised.value.why is Why.FAILED
            assert "hunter2" not in str(raised.value)


def test_a_service_that_it_does_not_serve_is_told(tmp_path: Path) -> None:
    other = Asked("shop/else", node_ports=frozenset({30000}))
    with answering(tmp_path / "stats.sock", CSV, []) as where, pytest.raises(Unavailable, match="30000") as raised:
        HAProxyView(places(KIND), where).ask(other)
    assert raised.value.why is Why.NOT_FOUND


# ------------------------------------------------------------------------------------------------------------ for real
@contextlib.contextmanager
def nodes_that_say(health: dict[str, int]) -> Iterator[int]:
    """Health checks of nodes on loopback addresses, at one port; their answers by address."""

    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(health[self.connection.getsockname()[0]])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health) as first:
        port = first.server_address[1]
        with http.server.ThreadingHTTPServer(("127.0.0.2", port), Health) as second:
            threads = [threading.Thread(target=each.serve_forever, daemon=True) for each in (first, second)]
            for each in threads:
                each.start()
            yield port
            for server in (first, second):
                server.shutdown()


@contextlib.contextmanager
def real_haproxy(folder: Path, port: int) -> Iterator[tuple[str, str]]:
    """HAProxy in front of both; its stats socket, and its stats page."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        page = free.getsockname()[1]
    config = folder / "haproxy.cfg"
    config.write_text(
        f"""global
    stats socket {folder}/stats.sock mode 600 level operator
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
    timeout check 5s
listen page
    bind 127.0.0.1:{page}
    stats enable
    stats uri /stats
    stats auth ops:made-up
backend web
    option httpchk GET /healthz
    default-server check inter 20ms rise 1 fall 2
    server n1 127.0.0.1:{port}
    server n2 127.0.0.2:{port}
"""
    )
    program = shutil.which("haproxy", path=SEARCHED) or ""
    with subprocess.Popen([program, "-db", "-f", str(config)], stderr=subprocess.DEVNULL) as process:
        try:
            yield f"{folder}/stats.sock", f"http://ops:made-up@127.0.0.1:{page}/stats"
        finally:
            process.kill()


@pytest.mark.skipif(not shutil.which("haproxy", path=SEARCHED), reason="HAProxy is not installed")
def test_haproxy_itself_is_read_by_its_socket_and_by_its_page(tmp_path: Path) -> None:
    health = {"127.0.0.1": 200, "127.0.0.2": 200}
    nodes = [node("n1", "127.0.0.1"), node("n2", "127.0.0.2")]
    last: list[View] = []
    with nodes_that_say(health) as port, real_haproxy(tmp_path, port) as ways:
        service = Asked("shop/web", node_ports=frozenset({port}))

        def sees(where: str, wanted: set[str]) -> Reading:
            view = view_for("haproxy", nodes, where=where)
            assert view is not None
            try:
                last.append(view.ask(service))
            except Unavailable as early:
                return Reading(False, early.sentence)
            return Reading(last[-1].healthy == wanted, str(last[-1].states))

        for where in ways:
            for status, wanted in ((200, {"n1", "n2"}), (503, {"n1"})):
                health["127.0.0.2"] = status
                turned = converge(lambda of=(where, wanted): sees(*of), SEEN)  # type: ignore[misc]
                assert turned.held, str(turned)
            assert last[-1].members[1].reason.startswith("L7STS")
        with pytest.raises(Unavailable, match="401") as raised:
            HAProxyView(places(nodes), ways[1].replace("made-up", "wrong")).ask(service)
    assert raised.value.why is Why.LOGIN


# -------------------------------------------------------------------------------------------------- the reference's own
def test_the_reference_load_balancers_view_has_the_same_form() -> None:
    def each(name: str, family: str, healthy: bool, last: Any) -> dict[str, Any]:
        return {"node": name, "family": family, "healthy": healthy, "since": 1.0, "last": last, "steered": healthy}

    nodes = [
        each("worker", "IPv4", True, {"status": 200, "error": None, "at": 2.0}),
        each("worker", "IPv6", False, {"status": None, "error": "timed out", "at": 2.0}),
        each("worker2", "IPv4", True, None),
    ]
    services = [{"namespace": "shop", "name": "web", "class": "reference-ecmp", "vips": {}, "nodes": nodes}]
    reference: Any = SimpleNamespace(view=lambda: {"services": services}, container="made-up")
    view = view_for("reference", KIND, reference=reference)
    assert view is not None
    told = view.ask(asked())
    assert told.states == {"worker": State.UNHEALTHY, "worker2": State.HEALTHY}
    assert [member.reason for member in told.members] == ["HTTP 200", "timed out", "not checked yet"]
    with pytest.raises(Unavailable) as raised:
        view.ask(asked(name="shop/other"))
    assert raised.value.why is Why.NOT_FOUND


def test_a_reference_load_balancer_that_is_silent_is_no_failure() -> None:
    def silent() -> None:
        raise HarnessError("It does not answer.", "docker logs it")

    reference: Any = SimpleNamespace(view=silent, container="made-up")
    view = view_for("reference", KIND, reference=reference)
    assert view is not None
    with pytest.raises(Unavailable, match="does not answer"):
        view.ask(asked())
