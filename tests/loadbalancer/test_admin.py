"""The admin endpoint: the view, the stream of decisions, and readers that are too slow."""

import http.client
import json
from collections.abc import Iterator

import pytest

from images.loadbalancer.balancer.admin import Admin
from images.loadbalancer.balancer.decisions import Decisions
from images.loadbalancer.balancer.objects import service_of
from tests.loadbalancer.objects import service_object

SERVICE = service_of(service_object())
assert SERVICE is not None


@pytest.fixture
def decisions() -> Decisions:
    return Decisions(kept=5)


@pytest.fixture
def port(decisions: Decisions) -> Iterator[int]:
    admin = Admin(["127.0.0.1"], 0, lambda: {"balancer": "esipp-reference"}, decisions)
    admin.start()
    yield admin.ports[0]
    decisions.close()
    admin.close()


def note(decisions: Decisions, *nodes: str) -> None:
    assert SERVICE is not None
    decisions.add("steer", SERVICE, "IPv4", nodes=list(nodes), why="a test")


def ask(port: int, path: str, method: str = "GET") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    return connection.getresponse()


def lines(answer: http.client.HTTPResponse, count: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    while len(found) < count:
        if line := answer.readline().strip():
            found.append(json.loads(line))
    return found


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/view", "GET", 200), ("/", "GET", 404), ("/decisions?after=x", "GET", 400), ("/view", "PUT", 501)],
)
def test_it_is_read_only(port: int, path: str, method: str, status: int) -> None:
    with ask(port, path, method) as answer:
        assert answer.status == status
        body = answer.read()
    if status == 200:
        assert json.loads(body) == {"balancer": "esipp-reference"}


def test_a_decision_tells_what_when_and_of_whom(port: int, decisions: Decisions) -> None:
    note(decisions, "one", "two")
    with ask(port, "/decisions?after=0") as answer:
        (result,) = lines(answer, 1)
    assert abs(float(str(result.pop("time"))) - float(str(result.pop("monotonic")))) > 0
    assert result == {
        **{"seq": 1, "namespace": "test", "service": "web", "class": "reference-forward", "family": "IPv4"},
        **{"kind": "steer", "nodes": ["one", "two"], "why": "a test"},
    }


def test_the_stream_goes_on_from_a_number_and_ends_with_the_balancer(port: int, decisions: Decisions) -> None:
    note(decisions, "one")
    note(decisions, "two")
    with ask(port, "/decisions?after=1") as answer:
        assert lines(answer, 1)[0]["seq"] == 2
        note(decisions, "three")
        assert lines(answer, 1)[0]["nodes"] == ["three"]
        decisions.close()
        assert answer.read().strip() == b""


def test_a_reader_that_is_late_hears_how_much_it_lost(port: int, decisions: Decisions) -> None:
    for _ in range(9):
        note(decisions)
    with ask(port, "/decisions?after=1") as answer:
        result = lines(answer, 6)
    assert result[0] == {"seq": 4, "kind": "lost", "lost": 3}
    assert [one["seq"] for one in result[1:]] == [5, 6, 7, 8, 9]


def test_a_reader_that_asks_for_all_that_is_kept_has_lost_nothing(port: int, decisions: Decisions) -> None:
    for _ in range(9):
        note(decisions)
    with ask(port, "/decisions?after=0") as answer:
        assert [one["seq"] for one in lines(answer, 5)] == [5, 6, 7, 8, 9]
