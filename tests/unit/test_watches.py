"""A watch that ends, breaks or is too old: what happened meanwhile is reported all the same."""

import json
import math
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.cluster import client as module
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.scenarios.changing_pods import Watching

PODS = "/api/v1/namespaces/ns/pods"


def pod(name: str, version: int, uid: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}}


class Body:
    """A streamed answer: events, and then its end, or a failure."""

    def __init__(self, *events: tuple[str, Any], breaks: bool = False) -> None:
        self.events, self.breaks = events, breaks

    def stream(self, **_: Any) -> Iterator[bytes]:
        for kind, item in self.events:
            yield json.dumps({"type": kind, "object": item}).encode() + b"\n"
        if self.breaks:
            raise OSError("reset")

    def close(self) -> None:
        pass


def cluster_of(snapshots: list[Any], bodies: list[Any]) -> tuple[Any, list[Any]]:
    """A cluster that answers lists and watches in this order; and the versions that watches were opened at."""
    opened: list[Any] = []

    def request(*_what: str, **_more: Any) -> Any:
        return snapshots.pop(0)

    def send(_method: str, _path: str, _body: Any, query: dict[str, str], *_more: Any, **_also: Any) -> Any:
        opened.append(query["resourceVersion"])
        if not bodies:
            raise UnreachableError("no more")
        answer = bodies.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    made: Any = Cluster.__new__(Cluster)
    made.request, made._send = request, send
    made._dialect = SimpleNamespace(back=lambda _collection, item: item)
    return made, opened


def taken(made: Any, count: int) -> list[tuple[str, str]]:
    return [(kind, each["metadata"]["name"]) for kind, each in islice(made.watch(PODS, budget=math.inf), count)]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REOPEN_SECONDS", 0.0)


def snapshot(version: int, *items: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


def test_a_watch_that_the_server_ends_goes_on_where_it_ended() -> None:
    bodies = [Body(("ADDED", pod("b", 7))), Body(("DELETED", pod("a", 8)))]
    made, opened = cluster_of([snapshot(5, pod("a", 5))], bodies)
    assert taken(made, 3) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert opened == ["5", "7"]


@pytest.mark.parametrize(
    "end", [Body(breaks=True), Body(("ERROR", {"code": 410})), ApiError(410, "Expired", "too old", "GET")]
)
def test_what_was_deleted_while_a_watch_was_broken_is_reported(end: Any) -> None:
    made, _ = cluster_of([snapshot(5, pod("a", 5), pod("b", 5)), snapshot(9, pod("b", 9))], [end])
    assert taken(made, 4) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("ADDED", "b")]


def test_an_object_of_the_same_name_is_another_one() -> None:
    made, _ = cluster_of([snapshot(5, pod("a", 5)), snapshot(9, pod("a", 9, uid="2"))], [Body(breaks=True)])
    assert taken(made, 3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


def test_a_caller_who_watches_again_after_a_refusal_hears_of_deletions() -> None:
    known: dict[str, Any] = {}
    made, _ = cluster_of([snapshot(5, pod("a", 5)), snapshot(9)], [ApiError(500, "InternalError", "x", "GET")])
    watch = made.watch(PODS, budget=math.inf, known=known)
    assert next(watch)[0] == "ADDED"
    with pytest.raises(ApiError):
        next(watch)
    again = made.watch(PODS, budget=math.inf, known=known)
    assert [next(again)[0], next(again)[0]] == ["DELETED", "EMPTY"]


def test_the_watches_of_moving_pods_have_no_end() -> None:
    budgets: list[float] = []

    class Asked:
        def watch(self, _collection: str, *, budget: float, **_: Any) -> Iterator[Any]:
            budgets.append(budget)
            return iter(())

    anything: Any = Asked()
    watching = Watching(anything, "ns", {})
    for each in watching.threads:
        each.join(5)
    assert budgets == [math.inf, math.inf]
