"""The reference load balancer's view against the cluster's own nodes; and what breaks while moves are made."""

from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.base.waiting import Budget
from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Family
from esipp.cluster.client import ApiError, UnreachableError
from esipp.judging.topology import EXCLUDED, Node
from esipp.scenarios.endpoint_change import objects
from esipp.scenarios.endpoint_change.reported_state import ReferenceState, Standing
from esipp.scenarios.endpoint_change.run import Gathering
from esipp.scenarios.timeouts import Timeouts
from suites.convergence.checks import CHECKS
from tests.unit.test_endpoint_change_run import LiveWorld, driven

BOTH = {Family.IPV4: "192.0.2.1", Family.IPV6: "2001:db8::1"}
NODES = [
    Node("a", BOTH, frozenset()),
    Node("b", BOTH, frozenset()),
    Node("out", BOTH, frozenset(), marks=frozenset({EXCLUDED})),
    Node("down", BOTH, frozenset(), usable=False),
    Node("single", {Family.IPV4: "192.0.2.3"}, frozenset()),
]


def should(nodes: list[str]) -> Any:
    services = [
        {
            "namespace": "ns",
            "name": name,
            "nodes": [{"node": node, "family": "IPv4", "healthy": True} for node in nodes],
        }
        for name in (objects.service_name(Balancer.ECMP), objects.cluster_service_name(Balancer.ECMP))
    ]
    reference: Any = SimpleNamespace(view=lambda: {"services": services, "settings": {}}, container="made-up")
    word = ReferenceState(reference, "ns", NODES)
    observing = SimpleNamespace(vip=dict.fromkeys(Family))
    word.look({Balancer.ECMP: Standing(frozenset({"a"}), frozenset(observing.vip))})
    return word.views(Balancer.ECMP)


@pytest.mark.parametrize("nodes", [["a", "b"], ["a"], []])
def test_the_view_of_a_cluster_service_is_held_against_the_clusters_nodes(nodes: list[str]) -> None:
    view = should(nodes)[What.VIEW_CLUSTER]
    assert view.should == {"a", "b"}
    assert view.healthy == set(nodes)


@pytest.mark.parametrize(("default", "seen"), [("reference-ecmp", {"a"}), (None, None)])
def test_a_view_has_as_long_as_the_checks_take_and_the_default_class_one_if_it_is_this_balancer(
    default: str | None, seen: set[str] | None
) -> None:
    looks: list[None] = []

    def view() -> Any:
        looks.append(None)
        nodes = ["a", "b"] if len(looks) < 5 else ["a"]  # each look asks of two Services; the third has b out
        names = {objects.service_name(Balancer.DEFAULT): nodes, objects.cluster_service_name(Balancer.DEFAULT): ["a"]}
        return {
            "services": [
                {
                    "namespace": "ns",
                    "name": name,
                    "nodes": [{"node": node, "family": "IPv4", "healthy": True} for node in of],
                }
                for name, of in names.items()
            ]
        }

    reference: Any = SimpleNamespace(view=view, container="made-up")
    settings: Any = {"period": 5.0, "unhealthy": 2} | ({"default": default} if default else {})
    word = ReferenceState(reference, "ns", [NODES[0]])
    word._reports.settings = settings
    observing = SimpleNamespace(vip=dict.fromkeys(Family))
    word.look({Balancer.DEFAULT: Standing(frozenset({"a"}), frozenset(observing.vip))})
    found = word.views(Balancer.DEFAULT)
    assert (found[What.VIEW_LOCAL].healthy if found else None) == seen


@pytest.mark.parametrize("left", [{}, {"IPv4": ["192.0.2.77", "192.0.2.78"]}])
def test_vips_of_a_deleted_service_are_asked_for_until_they_are_gone(
    left: dict[str, list[str]],
) -> None:
    timeouts = Timeouts(vips_released=Budget("made up", 0.2, need=1, spacing=0.01))
    looks: list[Any] = []

    def view() -> Any:
        looks.append(None)
        vips = {"IPv4": ["192.0.2.77"], "IPv6": ["2001:db8::77"]} if len(looks) == 1 else left
        gone = (
            [] if not vips else [{"namespace": "ns", "name": objects.cluster_service_name(Balancer.ECMP), "vips": vips}]
        )
        another = {"namespace": "other", "name": objects.cluster_service_name(Balancer.ECMP), "vips": {"IPv4": ["x"]}}
        return {"services": [*gone, another]}

    reference: Any = SimpleNamespace(view=view, container="made-up")
    word = ReferenceState(reference, "ns", NODES, timeouts=timeouts)
    word.look_again([Balancer.ECMP])
    assert word.views(Balancer.ECMP)[What.FREED].healthy == frozenset(vip for vips in left.values() for vip in vips)
    assert len(looks) >= 2


def test_only_the_cluster_services_that_are_there_are_deleted() -> None:
    deleted: list[str] = []
    asked: list[Any] = []
    cluster = SimpleNamespace(delete=deleted.append)
    testbed: Any = SimpleNamespace(
        cluster=cluster, namespace="ns", services={objects.cluster_service_name(Balancer.PROXY): {}}
    )
    word: Any = SimpleNamespace(look_again=lambda balancers: asked.extend(balancers))
    nothing: Any = None
    Gathering(testbed, nothing, "image", [], 1, 7, False, word)._let_go([Balancer.ECMP, Balancer.PROXY])
    assert deleted == [f"/api/v1/namespaces/ns/services/{objects.cluster_service_name(Balancer.PROXY)}"]
    assert asked == [Balancer.PROXY]


@pytest.mark.parametrize("broken", [ApiError(403, "Forbidden", "no", "DELETE x"), UnreachableError("away")])
def test_a_service_that_cannot_be_deleted_is_reported_in_a_sentence(broken: Exception) -> None:
    def refuse(_path: str) -> None:
        raise broken

    services = {objects.cluster_service_name(Balancer.ECMP): {}}
    testbed: Any = SimpleNamespace(cluster=SimpleNamespace(delete=refuse), namespace="ns", services=services)
    nothing: Any = None
    with pytest.raises(HarnessError, match="did not delete a Service") as raised:
        Gathering(testbed, nothing, "image", [], 1, 7, False)._let_go([Balancer.ECMP])
    assert raised.value.hint


def test_what_the_api_server_refuses_is_reported_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_more: Any) -> None:
        raise ApiError(403, "Forbidden", "no", "PATCH pod")

    world = LiveWorld()
    monkeypatch.setattr(world, "patch", refuse)
    with pytest.raises(HarnessError, match="403") as raised, driven(world, 1):
        pass
    assert raised.value.hint


def test_checks_of_nodes_say_which_family_is_asked() -> None:
    at_ports = [check for check in CHECKS if check.subject.what in (What.PATH, What.PATH_PROMPT)]
    assert len(at_ports) == 6
    assert all("first family" in check.requirement for check in at_ports)
