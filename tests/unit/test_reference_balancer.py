"""The client of the reference load balancer, against one that answers, lies, ends and forgets."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.checks.model import Family
from esipp.loadbalancers import reference
from esipp.loadbalancers.reference import Reference, find

PATIENCE = 10.0


class FakeAdmin:
    """Serves a given view and stream, line by line."""

    def __init__(self) -> None:
        self.status = 200
        self.view: str = json.dumps({"balancer": "esipp-reference", "services": []})
        self.lines: list[str] = ["", json.dumps({"seq": 4, "kind": "steer"}), "", json.dumps({"seq": 5, "kind": "vip"})]
        self.asked: list[str] = []
        self.end = threading.Event()  # of the stream
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.asked.append(self.path)
                self.close_connection = True
                self.send_response(fake.status)
                self.send_header("Connection", "close")
                if self.path == "/view":
                    self.end_headers()
                    self.wfile.write(fake.view.encode())
                    return
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for line in fake.lines:
                    data = f"{line}\n".encode()
                    self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                fake.end.wait(PATIENCE)
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()

    @property
    def balancer(self) -> Reference:
        return Reference("lb", {Family.IPV4: "127.0.0.1"}, self.server.server_address[1])


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAdmin]:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # is not used
    made = FakeAdmin()
    yield made
    made.end.set()
    made.server.shutdown()
    made.server.server_close()


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_its_view_is_what_it_says(fake: FakeAdmin) -> None:
    assert fake.balancer.view() == {"balancer": "esipp-reference", "services": []}


@pytest.mark.parametrize(("status", "view", "said"), [(500, "{}", "answers 500"), (200, "{", "does not answer")])
def test_a_view_that_is_none_is_our_trouble(fake: FakeAdmin, status: int, view: str, said: str) -> None:
    fake.status, fake.view = status, view
    with pytest.raises(HarnessError, match=said) as raised:
        fake.balancer.view()
    assert raised.value.hint == "docker logs lb"


def test_where_nobody_answers_that_is_said() -> None:
    nobody = Reference("lb", {Family.IPV4: "127.0.0.1"}, 1)
    for ask in (nobody.view, lambda: nobody.stream(0, print)):
        with pytest.raises(HarnessError, match="does not answer"):
            ask()


def test_decisions_come_until_it_is_closed_and_signs_of_life_do_not(fake: FakeAdmin) -> None:
    heard: list[dict[str, Any]] = []
    stream = fake.balancer.stream(3, heard.append)
    until(lambda: len(heard) == 2)
    stream.check()
    stream.close()
    assert fake.asked == ["/decisions?after=3"]
    assert [one["seq"] for one in heard] == [4, 5]


@pytest.mark.parametrize(
    ("line", "said"),
    [("{", "stopped reporting"), (json.dumps({"seq": 9, "kind": "lost", "lost": 4}), "dropped 4 decisions")],
)
def test_what_is_missed_is_known_by_check_and_close(fake: FakeAdmin, line: str, said: str) -> None:
    fake.lines = ["", line]
    stream = fake.balancer.stream(0, lambda _: None)
    stream._thread.join(PATIENCE)
    for tell in (stream.check, stream.close):
        with pytest.raises(HarnessError, match=said):
            tell()


def test_a_stream_that_ends_by_itself_is_trouble(fake: FakeAdmin) -> None:
    stream = fake.balancer.stream(0, lambda _: None)
    fake.end.set()
    stream._thread.join(PATIENCE)
    with pytest.raises(HarnessError, match="closed its stream"):
        stream.close()


def test_a_sink_that_fails_is_reported_too(fake: FakeAdmin) -> None:
    def sink(_: dict[str, Any]) -> None:
        raise ValueError("the sink's own")

    stream = fake.balancer.stream(0, sink)
    stream._thread.join(PATIENCE)
    with pytest.raises(HarnessError, match="the sink's own"):
        stream.check()
    with pytest.raises(HarnessError, match="the sink's own"):
        stream.close()


def test_a_stream_that_is_refused_never_begins(fake: FakeAdmin) -> None:
    fake.status = 404
    with pytest.raises(HarnessError, match="answers 404"):
        fake.balancer.stream(0, print)


def inspected(*networks: str, labels: dict[str, str] | None = None) -> str:
    own = {"IPAddress": "172.18.0.9", "GlobalIPv6Address": ""}
    result = {reference.ADMIN_LABEL: "9000"} if labels is None else labels
    document = {"NetworkSettings": {"Networks": dict.fromkeys(networks, own)}, "Config": {"Labels": result}}
    return json.dumps([document])


@pytest.mark.parametrize(
    ("names", "document", "found"),
    [
        ("lb\n", inspected("kind"), Reference("lb", {Family.IPV4: "172.18.0.9"}, 9000)),
        ("lb\n", inspected("other"), None),
        ("lb\n", inspected("kind", labels={}), None),
        ("", inspected("kind"), None),
        ("lb\n", "", None),
    ],
)
def test_it_is_found_by_its_labels_on_the_nodes_network(
    monkeypatch: pytest.MonkeyPatch, names: str, document: str, found: Reference | None
) -> None:
    asked: list[tuple[str, ...]] = []

    def docker(*arguments: str) -> str:
        asked.append(arguments)
        return names if arguments[0] == "ps" else document

    monkeypatch.setattr(reference, "_docker", docker)
    assert find("kind", "https://127.0.0.1:6443") == found
    assert "label=esipp.dev/balances=https://127.0.0.1:6443" in asked[0]


def test_without_docker_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert find("kind", "https://127.0.0.1:6443") is None
