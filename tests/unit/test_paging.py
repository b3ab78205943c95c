"""Lists in pages: every object once, as of one moment, however many answers that takes; and each answer is counted."""

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from esipp.base.json import Json
from esipp.cluster.client import Cluster
from esipp.cluster.errors import ApiError
from esipp.cluster.paging import PAGE, listed

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
)
"""As etcd3's store says it (k8s.io/apiserver, pkg/storage/etcd3/errors.go), up to its last sentence."""


class Server:
    """Nodes in pages, as an API server answers; its tokens expire as often as the test wants."""

    def __init__(self, count: int, expires: int = 0, status: int = 410) -> None:
        self.names = [f"node-{number:04}" for number in range(count)]
        self.expires, self.status = expires, status
        self.asked: list[dict[str, str]] = []

    def answer(self, query: Mapping[str, str]) -> tuple[int, Json]:
        self.asked.append(dict(query))
        begin = int(query.get("continue", "t0")[1:])
        if begin and self.expires:
            self.expires -= 1
            self.names.append(f"late-{self.expires}")
            metadata = {"continue": "inconsistent"}
            reason = {410: "Expired", 500: "InternalError"}[self.status]
            status = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
            return self.status, {**status, "message": TOO_OLD, "reason": reason, "code": self.status}
        end = begin + int(query.get("limit", len(self.names)))
        left = len(self.names) - end
        more = {"continue": f"t{end}", "remainingItemCount": left} if left > 0 else {}
        items = [{"metadata": {"name": name}} for name in self.names[begin:end]]
        return 200, {"kind": "NodeList", "metadata": {"resourceVersion": "7", **more}, "items": items or None}

    def ask(self, query: Mapping[str, str]) -> Json:
        code, document = self.answer(query)
        if code != 200:
            raise ApiError(code, document["reason"], document["message"], "GET /api/v1/nodes")
        return document


def names(items: list[Json]) -> list[str]:
    return [item["metadata"]["name"] for item in items]


@pytest.mark.parametrize(("count", "answers"), [(0, 1), (1, 1), (PAGE, 1), (PAGE + 1, 2), (3 * PAGE, 3)])
def test_every_object_comes_once(count: int, answers: int) -> None:
    server = Server(count)
    assert names(listed(server.ask, {"labelSelector": "a=b"})) == server.names
    assert len(server.asked) == answers
    assert all((each["limit"], each["labelSelector"]) == (str(PAGE), "a=b") for each in server.asked)


def test_a_server_that_knows_no_pages_is_asked_once() -> None:
    whole = {"metadata": {}, "items": [{"metadata": {"name": str(number)}} for number in range(3 * PAGE)]}
    asked: list[Mapping[str, str]] = []

    def ask(query: Mapping[str, str]) -> Json:
        asked.append(query)
        return whole

    assert len(listed(ask, {})) == 3 * PAGE
    assert len(asked) == 1


@pytest.mark.parametrize(("expires", "answers"), [(1, 5), (2, 5)])
def test_a_list_that_has_become_too_old_begins_anew_and_at_last_is_asked_for_whole(expires: int, answers: int) -> None:
    server = Server(2 * PAGE + 1, expires)
    found = names(listed(server.ask, {"labelSelector": "a=b"}))
    assert found == server.names, "what came meanwhile, too, and nothing twice"
    assert len(server.asked) == answers
    assert ("limit" in server.asked[-1]) is (expires == 1)
    assert all(each["labelSelector"] == "a=b" for each in server.asked)
    assert not any(each.get("continue") == "inconsistent" for each in server.asked)


def test_another_refusal_is_reported() -> None:
    with pytest.raises(ApiError, match="InternalError"):
        listed(Server(PAGE + 1, expires=1, status=500).ask, {})


def test_a_refusal_of_the_first_page_is_no_expired_token() -> None:
    def ask(_query: Mapping[str, str]) -> Json:
        raise ApiError(410, "Expired", "too old resource version", "GET /api/v1/nodes")

    with pytest.raises(ApiError, match="too old resource version"):
        listed(ask, {})


def test_so_many_are_enough() -> None:
    server = Server(4 * PAGE)
    assert len(listed(server.ask, {}, most=PAGE + 1)) == 2 * PAGE
    assert len(server.asked) == 2


# ------------------------------------------------------------------------------------------------------- over the wire
@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Server, Cluster]]:
    """A server that is asked over HTTP, and the cluster that asks it."""
    server = Server(2 * PAGE + 1, expires=1)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            where = urlsplit(self.path)
            version = 200, {"gitVersion": "v1.36.0"}
            code, document = version if where.path == "/version" else server.answer(dict(parse_qsl(where.query)))
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "home", "context": {"cluster": "c", "user": "u"}}
    where = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{http.server_port}"}}
    document = {"apiVersion": "v1", "kind": "Config", "clusters": [where], "contexts": [context], "users": []}
    kubeconfig.write_text(json.dumps({**document, "users": [{"name": "u", "user": {}}]}))
    try:
        yield server, Cluster("home", str(kubeconfig))
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def test_a_cluster_lists_in_pages_and_counts_every_answer(nodes: tuple[Server, Cluster]) -> None:
    server, cluster = nodes
    assert names(cluster.list("/api/v1/nodes", labelSelector="a=b")) == server.names
    assert cluster.calls.counts() == {"list nodes": len(server.asked), "get /version": 1}
    assert len(server.asked) == 5, "two before it was too old, three after that"
