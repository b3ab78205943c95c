"""The reference load balancer's view against the cluster's own nodes; and what breaks while moves are made."""

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.cluster import ApiError
from esipp.errors import HarnessError
from esipp.model import Balancer, Family
from esipp.moves import scene
from esipp.moves.gather import Gathering
from esipp.moves.rows import What
from esipp.moves.told import EXCLUDED, ReferenceWord
from esipp.topology import MARKS, Node
from suites.convergence.cells import CELLS
from tests.unit.test_moves_drive import LiveWorld, driven

BOTH = {Family.IPV4: "192.0.2.1", Family.IPV6: "2001:db8::1"}
NODES = [
    Node("a", BOTH, frozenset()),
    Node("b", BOTH, frozenset()),
    Node("out", BOTH, frozenset(), marks=frozenset({EXCLUDED})),
    Node("down", BOTH, frozenset(), usable=False),
    Node("single", {Family.IPV4: "192.0.2.3"}, frozenset()),
]


def should(told: list[str]) -> Any:
    services = [
        {"namespace": "ns", "name": name, "nodes": [{"node": node, "healthy": True} for node in told]}
        for name in (scene.service_name(Balancer.ECMP), scene.cluster_service_name(Balancer.ECMP))
    ]
    reference: Any = SimpleNamespace(view=lambda: {"services": services})
    word = ReferenceWord(reference, "ns", NODES)
    observing = SimpleNamespace(vip=dict.fromkeys(Family))
    driver: Any = SimpleNamespace(counted={Family.IPV4: 1}, open_nodes={"a"}, observing=observing)
    word.look({Balancer.ECMP: driver})
    return word.views(Balancer.ECMP)


@pytest.mark.parametrize("told", [["a", "b"], ["a"], []])
def test_the_view_of_a_cluster_service_is_held_against_the_clusters_nodes(told: list[str]) -> None:
    view = should(told)[What.VIEW_CLUSTER]
    assert view.should == {"a", "b"}
    assert view.healthy == set(told)
    assert EXCLUDED in MARKS


def test_what_the_api_server_refuses_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_more: Any) -> None:
        raise ApiError(403, "Forbidden", "no", "PATCH pod")

    world = LiveWorld()
    monkeypatch.setattr(world, "patch", refuse)
    with pytest.raises(HarnessError, match="403") as raised, driven(world, 1):
        pass
    assert raised.value.hint


def test_the_first_driver_that_breaks_ends_all() -> None:
    nothing: Any = None
    gathering = Gathering(nothing, nothing, "image", [], 1, 7, False)

    def breaks() -> None:
        raise HarnessError("broken", "mend it")

    ended = threading.Event()

    def waits() -> None:
        if gathering._stopped.wait(5.0):
            ended.set()

    drivers: Any = {Balancer.DEFAULT: SimpleNamespace(drive=waits), Balancer.ECMP: SimpleNamespace(drive=breaks)}
    began = time.monotonic()
    with pytest.raises(HarnessError, match="broken"):
        gathering._drive(drivers)
    assert time.monotonic() - began < 3.0
    assert ended.is_set()


def test_rows_of_nodes_say_which_family_is_asked() -> None:
    at_ports = [row for row in CELLS if ".nodes." in row.id and row.what is not What.HEALTH]
    assert len(at_ports) == 9
    assert all("first family only" in row.requirement for row in at_ports)
