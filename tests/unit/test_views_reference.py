"""The reference load balancer's view, in the form that all have; and what the convergence suite makes of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Family
from esipp.judging.health_view import State, Unavailable, Why
from esipp.loadbalancers.views.reference import ReferenceView
from esipp.scenarios.endpoint_change import objects
from esipp.scenarios.endpoint_change.reported_state import ReferenceState, Standing
from tests.unit.views_world import KIND, asked, places


def each(name: str, family: str, healthy: bool, last: Any) -> dict[str, Any]:
    return {"node": name, "family": family, "healthy": healthy, "since": 1.0, "last": last, "steered": healthy}


NODES = [
    each("worker", "IPv4", True, {"status": 200, "error": None, "at": 2.0}),
    each("worker", "IPv6", False, {"status": None, "error": "timed out", "at": 2.0}),
    each("worker2", "IPv4", True, None),
]


def reference(name: str = "web", more: tuple[dict[str, Any], ...] = ()) -> Any:
    services = [{"namespace": "shop", "name": name, "class": "reference-ecmp", "vips": {}, "nodes": [*NODES, *more]}]
    return SimpleNamespace(view=lambda: {"services": services}, container="made-up")


def test_it_has_the_form_of_all_views() -> None:
    view = ReferenceView(places(KIND), reference())
    found = view.ask(asked())
    assert found.states == {"worker": State.UNHEALTHY, "worker2": State.HEALTHY}
    assert [member.reason for member in found.members] == ["HTTP 200", "timed out", "not checked yet"]
    with pytest.raises(Unavailable) as raised:
        view.ask(asked(name="shop/other"))
    assert raised.value.why is Why.NOT_FOUND


def silent() -> None:
    raise HarnessError("It does not answer.", "docker logs it")


def test_one_that_is_silent_is_no_failure() -> None:
    view = ReferenceView(places(KIND), SimpleNamespace(view=silent, container="made-up"))
    with pytest.raises(Unavailable, match="does not answer"):
        view.ask(asked())


STANDING = Standing(frozenset({"worker2"}), frozenset({Family.IPV4}))


def looked(of: Any) -> ReferenceState:
    word = ReferenceState(of, "shop", KIND)
    word._look({Balancer.ECMP: STANDING})
    return word


def test_the_moves_read_the_same_view_and_tell_the_share_of_nodes() -> None:
    word = looked(reference(objects.service_name(Balancer.ECMP)))
    assert word.views(Balancer.ECMP)[What.VIEW_LOCAL].healthy == {"worker2"}
    (head, cluster, local) = word.lines({})
    assert head == "the load balancer's health view (reference-ecmp):"
    assert f"Cluster: 0 of {len(KIND)} (0 %) of the nodes healthy, expected" in cluster
    assert local.endswith(f"Local: 1 of {len(KIND)} (33 %) of the nodes healthy, as expected")
    assert ReferenceState(reference(), "shop", KIND).lines({}) == []


def test_a_node_that_is_none_of_the_cluster_is_not_overlooked() -> None:
    gone = each("gone", "IPv4", True, None)
    view = looked(reference(objects.service_name(Balancer.ECMP), (gone,))).views(Balancer.ECMP)[What.VIEW_LOCAL]
    assert view.healthy == {"worker2", "gone IPv4"} != view.should


def test_the_moves_say_that_it_is_silent() -> None:
    with pytest.raises(HarnessError, match="does not answer"):
        looked(SimpleNamespace(view=silent, container="made-up"))
