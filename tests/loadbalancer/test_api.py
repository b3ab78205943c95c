"""Lists, watches and patches against an API server that lies, ends, restarts and forgets."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from esipp.base.json import Json
from images.loadbalancer.balancer import api
from images.loadbalancer.balancer.api import Api, Follower, StatusWriter
from tests.loadbalancer.objects import service_object

PATIENCE = 10.0
PATH = "/api/v1/services"


class FakeApi:
    """Serves one list and its watches; what a watch sends is a script, one a watch."""

    def __init__(self, port: int = 0, items: Iterable[Json] = ()) -> None:
        self.items = list(items)
        self.watches: list[list[Json]] = []
        self.seen: list[tuple[str, str, Json | None]] = []
        self.tokens: set[str] = set()
        self.refuse: dict[str, int] = {}
        self.followers: list[Follower] = []
        self.open = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.tokens.add(self.headers.get("Authorization", ""))
                fake.seen.append(("GET", self.path, None))
                if "watch=1" in self.path:
                    self._watch()
                else:
                    self._answer(200, {"items": fake.items, "metadata": {"resourceVersion": "7"}})

            def _watch(self) -> None:
                self.send_response(200)
                self.end_headers()
                script = fake.watches.pop(0) if fake.watches else None
                for event in script or []:
                    self.wfile.write(json.dumps(event).encode() + b"\n")
                    self.wfile.flush()
                if script is None:
                    fake.open.set()
                    fake.closing.wait(PATIENCE)

            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Content-Type"] == "application/merge-patch+json"
                fake.seen.append(("PATCH", self.path, body))
                status = fake.refuse.pop(self.path, 200)
                self._answer(status, {"message": "no"} if status != 200 else {})

            def _answer(self, status: int, document: Any) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass

        self.closing = threading.Event()
        self.server = Quiet(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    made = FakeApi()
    yield made
    for follower in made.followers:
        follower.close()
    made.close()


@pytest.fixture(autouse=True)
def _haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(api, "LONGEST_PAUSE", 0.05)


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.005)


def follow(fake: FakeApi) -> list[tuple[str, list[str]]]:
    heard: list[tuple[str, list[str]]] = []
    client = Api(f"http://127.0.0.1:{fake.port}", None, None)
    follower = Follower(
        client, PATH, lambda what, items: heard.append((what, [item["metadata"]["name"] for item in items]))
    )
    fake.followers.append(follower)
    follower.start()
    return heard


def event(what: str, name: str, version: str) -> Json:
    document = service_object(name)
    document["metadata"]["resourceVersion"] = version
    return {"type": what, "object": document}


def test_a_list_and_then_what_changes(fake: FakeApi) -> None:
    fake.items = [service_object("old")]
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "20"}}}
    fake.watches = [[event("ADDED", "a", "8"), event("MODIFIED", "a", "9"), event("DELETED", "old", "10"), bookmark]]
    heard = follow(fake)
    until(lambda: fake.open.is_set())
    assert heard == [("all", ["old"]), ("changed", ["a"]), ("changed", ["a"]), ("gone", ["old"])]
    watched = [path for _, path, _ in fake.seen if "watch" in path]
    assert [path.rpartition("resourceVersion=")[2] for path in watched] == ["7", "20"]  # a watch that ends goes on


@pytest.mark.parametrize(
    "trouble",
    [
        {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}},
        {"type": "ERROR", "object": {"code": 500, "message": "etcd leader changed"}},
        {"type": "NONSENSE"},
    ],
)
def test_after_trouble_everything_is_listed_again(fake: FakeApi, trouble: Json) -> None:
    fake.watches = [[event("ADDED", "a", "8"), trouble]]
    heard = follow(fake)
    until(lambda: fake.open.is_set())
    assert heard == [("all", []), ("changed", ["a"]), ("all", [])]


def test_a_server_that_restarts_is_listed_again_and_nothing_is_lost_meanwhile(
    fake: FakeApi, capfd: pytest.CaptureFixture[str]
) -> None:
    fake.items = [service_object("a")]
    heard = follow(fake)
    until(lambda: fake.open.is_set())
    fake.close()
    until(lambda: "again in" in capfd.readouterr().err)
    assert heard == [("all", ["a"])]
    later = FakeApi(fake.port, [service_object("b")])
    until(lambda: later.open.is_set())
    assert heard[-1] == ("all", ["b"])
    later.close()


def test_the_token_is_read_for_every_request(fake: FakeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    client = Api(f"http://127.0.0.1:{fake.port}", None, token)
    for text in ("one", "two\n"):
        token.write_text(text)
        client.ask("GET", PATH)
    assert fake.tokens == {"Bearer one", "Bearer two"}


def test_statuses_are_patched_until_it_works_or_the_service_is_gone(
    fake: FakeApi, capfd: pytest.CaptureFixture[str]
) -> None:
    def path(name: str) -> str:
        return f"/api/v1/namespaces/test/services/{name}/status"

    fake.refuse = {path("busy"): 500, path("gone"): 404}
    writer = StatusWriter(Api(f"http://127.0.0.1:{fake.port}", None, None))
    writer.write(("test", "web"), [{"ip": "192.0.2.9", "ipMode": "VIP"}])
    writer.write(("test", "web"), [{"ip": "192.0.2.10", "ipMode": "VIP"}])  # only the newest wish counts
    for name in ("busy", "gone", "last"):
        writer.write(("test", name), [])
    writer.start()
    until(lambda: len(fake.seen) == 5)
    patched = [(name.split("/")[6], body["status"]["loadBalancer"]["ingress"]) for _, name, body in fake.seen if body]
    assert patched[0] == ("web", [{"ip": "192.0.2.10", "ipMode": "VIP"}])
    assert sorted(name for name, _ in patched) == ["busy", "busy", "gone", "last", "web"]
    assert all(ingress is None for _, ingress in patched[1:])
    assert "status of test/busy: 500" in capfd.readouterr().err
