"""Whose load balancer serves Services that name no class, while a load balancer is broken; without a cluster."""

from types import SimpleNamespace
from typing import Any

import pytest

from esipp.cluster.client import ApiError
from tests.broken import balancing

OWN = ("--default", "reference-ecmp")


class Api:
    """An API server that has MetalLB's controller, or has not; ``log`` is what was done."""

    def __init__(self, log: list[str], *, there: bool = True) -> None:
        self.log, self.there, self.replicas = log, there, 1

    def request(self, method: str, path: str) -> dict[str, Any]:
        if not self.there:
            raise ApiError(404, "NotFound", "not found", f"{method} {path}")
        return {"spec": {"replicas": self.replicas}, "status": {"readyReplicas": self.replicas}}

    def patch(self, path: str, body: dict[str, Any], how: str) -> None:
        self.replicas = body["spec"]["replicas"]
        self.log.append(f"MetalLB {self.replicas}")

    def list(self, path: str, **_: str) -> list[str]:
        return ["pod"] * self.replicas


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done, in order; the reference load balancer is started by nobody."""
    done: list[str] = []
    given: list[str] = []

    def restart(_: object, words: tuple[str, ...] | list[str]) -> None:
        given[:] = words
        done.append(f"balancer {' '.join(words)}".strip())

    monkeypatch.setattr(balancing, "access", lambda: SimpleNamespace(ask=lambda *words: done.append(words[-1])))
    monkeypatch.setattr(balancing.loadbalancer, "restart", restart)
    monkeypatch.setattr(balancing.loadbalancer, "options", lambda _: list(given))
    monkeypatch.setattr(balancing.loadbalancer, "addresses", lambda _: ["172.18.0.6", "fc00::6"])
    monkeypatch.setattr(balancing.loadbalancer, "image_of", lambda _: "lb:1")
    monkeypatch.setattr(balancing, "docker", lambda _, *words: done.append(" ".join(words[-5:])))
    monkeypatch.setattr(balancing.returning, "take_away", lambda _: done.append("nodes answer by themselves"))
    return done


def nodes(api: Api) -> Any:
    return SimpleNamespace(cluster=api)


def test_metallb_rests_while_the_reference_is_the_clusters_own(log: list[str]) -> None:
    with balancing.own_balancer(nodes(Api(log)), OWN), balancing.fault("slow")(nodes(Api(log))):
        log.append("run")
    assert log == [
        "MetalLB 0",
        "balancer --default reference-ecmp",
        "balancer --default reference-ecmp --fault slow",
        "run",
        "balancer --default reference-ecmp",
        "balancer",
        "MetalLB 1",
    ]


def test_all_is_as_before_whatever_happens(log: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt), balancing.own_balancer(nodes(Api(log)), OWN):
        raise KeyboardInterrupt
    assert log[-2:] == ["balancer", "MetalLB 1"]


def test_nothing_is_changed_where_the_lanes_own_one_serves(log: list[str]) -> None:
    with balancing.own_balancer(nodes(Api(log)), ()):
        pass
    assert log == []


def test_a_lane_without_metallb_has_nothing_that_could_rest(log: list[str]) -> None:
    with balancing.own_balancer(nodes(Api(log, there=False)), OWN):
        pass
    assert log == ["balancer --default reference-ecmp", "balancer"]


def test_a_pool_elsewhere_has_a_route_for_as_long(log: list[str]) -> None:
    with balancing.own_balancer(nodes(Api(log)), (*OWN, "--only-pool", balancing.PUBLIC)):
        pass
    assert log[2] == "route replace 192.88.99.0/24 via 172.18.0.6"
    assert log[-2:] == ["192.88.99.0/24", "MetalLB 1"], "deleted"


def test_nodes_answer_by_themselves_again(log: list[str]) -> None:
    with balancing.own_balancer(nodes(Api(log)), balancing.HOSTNAME_FORWARDER):
        pass
    assert log[-2:] == ["nodes answer by themselves", "MetalLB 1"]
