"""The plan of events: who runs beside whom, on made-up events and on those of all scenarios."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from esipp.checks.catalog import all_checks, events_of
from esipp.checks.disruption import Disruption
from esipp.judging.durations import expected, planned_events, schedule
from esipp.judging.schedule import PlannedEvent, Touches, say_step, seconds_of, steps, touched_by

ONE, TWO = PlannedEvent("one", 5), PlannedEvent("two", 9)
LOADS, MEASURES = PlannedEvent("many", 20, loads=True), PlannedEvent("losses", 10, measures=True)
PROXY = (("proxy-stopped", "bare-node"),)
TAINTED = (("cordon", "endpoint-node"), ("taint", "endpoint-node"))
ON_NODE, ON_CLUSTER = PlannedEvent("drain", 7, Touches.NODE), PlannedEvent("api-server", 3, Touches.CLUSTER)


def names(*events: PlannedEvent) -> list[list[str]]:
    return [[event.name for event in step] for step in steps(events)]


def test_own_services_run_side_by_side() -> None:
    assert names(ONE, TWO) == [["one", "two"]]
    assert seconds_of([ONE, TWO]) == 9


@pytest.mark.parametrize("alone", [ON_NODE, ON_CLUSTER])
def test_what_touches_a_node_or_the_cluster_runs_alone_and_last(alone: PlannedEvent) -> None:
    assert names(alone, ONE, TWO) == [["one", "two"], [alone.name]]
    assert names(ON_NODE, ON_CLUSTER) == [["drain"], ["api-server"]]


def test_events_that_disrupt_the_same_share_it_and_nothing_else_does() -> None:
    on_node: Any = {"touches": Touches.NODE}
    lost, gone = (PlannedEvent(name, 5, disrupts=PROXY, **on_node) for name in ("lost", "gone"))
    tainted, cordoned = (PlannedEvent(*each, **on_node) for each in (("tainted", 9), ("cordoned", 45)))
    tainted, cordoned = replace(tainted, disrupts=TAINTED), replace(cordoned, disrupts=TAINTED[:1])
    other = PlannedEvent("other", 3, disrupts=(("proxy-stopped", "endpoint-node"),), **on_node)
    assert names(lost, ON_NODE, gone, ONE) == [["one"], ["lost", "gone"], ["drain"]]
    assert names(lost, tainted, cordoned, other) == [["lost"], ["tainted", "cordoned"], ["other"]]
    assert names(replace(lost, services="shop"), replace(gone, services="shop")) == [["lost"], ["gone"]]
    assert names(replace(tainted, disrupts=TAINTED[1:]), cordoned) == [["tainted"], ["cordoned"]], "in the same order"


def test_changes_of_the_same_services_come_one_after_the_other() -> None:
    events = [PlannedEvent(name, 1, services="shop") for name in ("delete", "scale", "flap")]
    assert names(*events, ONE) == [["delete", "one"], ["scale"], ["flap"]]


def test_what_loads_the_machine_is_not_beside_what_measures() -> None:
    assert names(LOADS, MEASURES) == [["many"], ["losses"]]
    assert names(LOADS, MEASURES, ONE, TWO) == [["many", "one", "two"], ["losses"]]
    assert names(PlannedEvent("window", loads=True, measures=True), LOADS) == [["window"], ["many"]]
    assert names(MEASURES, PlannedEvent("times", measures=True)) == [["losses", "times"]], "neither disturbs the other"


def test_nothing_is_lost_and_no_step_is_empty() -> None:
    every = [ONE, TWO, LOADS, MEASURES, ON_NODE, ON_CLUSTER]
    for count in range(len(every) + 1):
        for events in combinations(every, count):
            planned = steps(events)
            assert all(planned)
            assert sorted(event.name for step in planned for event in step) == sorted(e.name for e in events)


def test_steps_in_words() -> None:
    assert say_step((ONE, TWO)) == "one, two side by side"
    assert say_step((ONE,)) == "one"
    assert say_step((ON_NODE,)) == "drain alone (touches a node)"
    assert say_step((ON_NODE, ON_NODE)) == "drain, drain together (touches a node)"
    assert say_step((ON_CLUSTER,)) == "api-server alone (touches the whole cluster)"


def test_the_plan_of_all_checks() -> None:
    planned = {typical.phase: [say_step(step) for step in those] for typical, those in schedule(list(all_checks()))}
    assert planned["health scenarios"] == ["lifecycle, terminating, placement side by side"]
    assert planned["cordon"] == ["cordoned alone (touches a node)"]
    assert planned["interoperability"] == ["neighbours, names, creation of many Services side by side"]
    assert planned["continuity"][:2] == ["quiet", "rolling-update"]
    assert {each for each in planned["changes"] if "together" in each} == {
        "proxy-stopped, proxy-stopped-deleted together (touches a node)",
        "unwanted-node, cordoned together (touches a node)",
        "node-deleted, node-deleted-vip together (touches a node)",
        "address-added, address-added-local together (touches a node)",
        "node-restarted, node-restarted-endpoint, node-restarted-local, node-restarted-vip together (touches a node)",
        "node-readdressed, node-readdressed-endpoint, node-readdressed-ecmp together (touches a node)",
    }
    of_nodes = ("kubelet", "idle-kubelet", "conntrack-full", "conntrack-deleted")
    assert planned["continuity"][-9:] == [
        "api-server alone (touches the whole cluster)",
        "api-servers-in-turn alone (touches the whole cluster)",
        *(f"{name} alone (touches a node)" for name in of_nodes),
        "joined alone (touches the whole cluster)",
        *(f"{name} alone (touches a node)" for name in ("cut-off", "idle-left")),
    ]


def test_the_usual_seconds_follow_the_plan() -> None:
    checks = [check for check in all_checks() if check.id.startswith("healthcheck.")]
    assert expected(checks, 200, 30)["health scenarios"] == 82
    assert expected([check for check in checks if "lifecycle" in check.id], 200, 30)["health scenarios"] == 18


def test_an_event_touches_what_its_disruptions_affect() -> None:
    assert touched_by(()) is Touches.OWN_SERVICES
    assert touched_by((Disruption.DRAIN,)) is Touches.NODE
    assert touched_by((Disruption.DRAIN, Disruption.API_SERVER)) is Touches.CLUSTER
    for phase in ("continuity", "changes"):
        for name, planned in planned_events(phase).items():
            assert planned.touches is touched_by(events_of(phase)[name].disruptions)
    assert {planned.touches for planned in planned_events("continuity").values()} == set(Touches)
