"""A node that still says 200 while its only pod terminates: did the EndpointSlice change, so that it could know?"""

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.interrupt import Stop
from esipp.base.waiting import Budget
from esipp.checks.model import OUTSIDE, Family
from esipp.judging.frame import UNWRITTEN
from esipp.scenarios.health.terminating import Terminating
from esipp.scenarios.timeouts import TIMEOUTS
from tests.unit.health_world import say


def done(result: list[Any]) -> Future[list[Any]]:
    future: Future[list[Any]] = Future()
    future.set_result(result)
    return future


def answered(*_: object, **__: object) -> Future[list[Any]]:
    answer = say(1, "x", count=1)
    response = {"status": answer.status, "headers": dict(answer.headers), "body": answer.body}
    return done([{"outcome": answer.outcome.value, "response": response, "count": 1}])


@pytest.mark.parametrize(("versions", "trouble"), [(["7", "7"], UNWRITTEN), (["7", "8"], "")])
def test_a_node_is_blamed_for_its_200_only_if_the_endpoint_slices_changed(
    monkeypatch: pytest.MonkeyPatch, versions: list[str], trouble: str
) -> None:
    left = list(versions)

    def listed(*_: object, **__: object) -> list[Any]:
        return [{"metadata": {"name": "of-pods", "resourceVersion": left.pop(0)}}]

    cluster = SimpleNamespace(list=listed, delete=lambda *_, **__: None, exists=lambda _: True)
    spec = {"healthCheckNodePort": 30001, "ports": [{"nodePort": 30002}]}
    short = Budget("made up", 0.05, need=1, spacing=0.01)
    asker: Any = SimpleNamespace(
        testbed=SimpleNamespace(cluster=cluster, namespace="esipp", services={"health-terminating": {"spec": spec}}),
        stop=Stop(),
        timeouts=replace(TIMEOUTS, pod_serves=short, pod_leaves=short),
        families=[Family.IPV4],
        address=lambda *_: "203.0.113.1",
        get=answered,
        clients=SimpleNamespace(probers={OUTSIDE.name: SimpleNamespace(submit=lambda _: done([]))}),
    )
    monkeypatch.setattr(Terminating, "_disbelieved", lambda *_: "")
    window = Terminating(asker).perform()[Family.IPV4]
    assert {answer.words for answer in window.answers} == {"200"}
    assert (window.trouble, left) == (trouble, [])
