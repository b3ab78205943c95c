"""The moves' checks, what they need on the testbed, our watches, and the filter of the captures."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.checks.check import Level
from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Role
from esipp.cluster.client import Cluster, UnreachableError
from esipp.judging.timeline import Mark
from esipp.scenarios.changing_pods import MOVES_LABEL, Watching
from esipp.scenarios.endpoint_change import objects
from esipp.scenarios.endpoint_change.health_probes import StrangersScope
from esipp.testbed.objects import Ground
from suites.convergence.checks import CHECKS

ROLES = {Role.ENDPOINT_NODE: "a", Role.BARE_NODE: "b", Role.OTHER_NODE: "c"}


def test_every_balancer_has_the_checks_of_each_family_and_of_its_nodes() -> None:
    of_default = [check for check in CHECKS if check.subject.balancer is Balancer.DEFAULT]
    assert len(of_default) == 2 * 8 + 7 + 3
    assert all(("packets" in check.features) is (check.subject.what is What.THRESHOLD) for check in CHECKS)
    assert all("load-balancer" in check.features for check in of_default)
    proxy = {check.id: check for check in CHECKS if check.subject.balancer is Balancer.PROXY}
    assert proxy["convergence.reference-proxy.ipv4.source"].level is Level.EXTENDED
    assert proxy["convergence.reference-proxy.nodes.source"].level is Level.CORE
    assert "load-balancer.reference-proxy" in proxy["convergence.reference-proxy.balancer.health-view-local"].features


def test_what_the_clusters_own_balancer_does_is_judged() -> None:
    levels = {check.subject.what: check.level for check in CHECKS if check.subject.balancer is Balancer.DEFAULT}
    assert {what for what, level in levels.items() if level is Level.RECORD} == {What.TIMES_UP, What.TIMES_DOWN}
    assert levels[What.BLACK_HOLE] is Level.CORE, "the design's central figure"
    assert levels[What.NO_LOSS] is levels[What.BALANCE] is Level.EXTENDED


def test_only_what_is_asked_stands_on_the_testbed() -> None:
    ground = Ground("r1", "image", {}, ROLES, {})
    checks: list[Any] = [
        check for check in CHECKS if check.subject.balancer is Balancer.ECMP and check.subject.what is What.STEERS
    ]
    scenario_objects = objects.objects(checks, ground)
    assert [each["metadata"]["name"] for each in scenario_objects.services] == ["moves-reference-ecmp"]
    assert scenario_objects.services[0]["spec"]["loadBalancerClass"] == "esipp.dev/reference-ecmp"
    assert [pod["spec"]["nodeName"] for pod in scenario_objects.pods] == ["a", "b", "c"]
    pod = scenario_objects.pods[0]
    assert pod["spec"]["readinessGates"]
    assert "serve:7" in pod["spec"]["containers"][0]["args"]
    assert pod["spec"]["terminationGracePeriodSeconds"] > 7
    slow = objects.objects(checks, replace(ground, steering=70.0)).pods[0]["spec"]
    assert "serve:74" in slow["containers"][0]["args"], "a pod serves on for as long as a slow balancer needs"
    assert slow["terminationGracePeriodSeconds"] > 74
    both = objects.objects([check for check in CHECKS if check.subject.balancer is Balancer.ECMP], ground)
    assert both.announced == {"moves-reference-ecmp", "moves-reference-ecmp-cluster"}


def test_on_two_nodes_there_are_two_slots() -> None:
    assert objects.slots_of(ROLES | {Role.OTHER_NODE: "b"}) == ["a", "b"]


class FakeCluster:
    """Watches that yield what they are given, and then end."""

    def __init__(self, pods: list[tuple[str, Any]], slices: list[tuple[str, Any]]) -> None:
        self._given = {"pods": pods, "endpointslices": slices}
        self.over = threading.Semaphore(0)
        self.waits: set[bool] = set()

    def watch(self, collection: str, *, waits: bool, **_query: Any) -> Iterator[tuple[str, Any]]:
        self.waits.add(waits)
        yield from self._given[collection.rpartition("/")[2]]
        self.over.release()


def pod(ready: bool, deleting: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "labels": {MOVES_LABEL: "default"}}
    if deleting:
        metadata["deletionTimestamp"] = "now"
    return {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": str(ready)}]}}


def endpoints(*ready: bool, service: str = "moves-default") -> dict[str, Any]:
    return {
        "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv6",
        "endpoints": [{"conditions": {"ready": each}, "targetRef": {"name": "p"}} for each in ready],
    }


def watched(
    pods: list[tuple[str, Any]], slices: list[tuple[str, Any]], beside: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    fake: Any = FakeCluster(pods, slices)
    watching = Watching(fake, "ns", {"default": "moves-default"}, beside=beside)
    assert fake.over.acquire(timeout=5)
    assert fake.over.acquire(timeout=5)
    marks: list[Mark] = watching.marks["moves-default"]
    return [(mark.what, mark.family) for mark in marks]


def test_a_pods_changes_are_marked_once_each() -> None:
    events = [("ADDED", pod(False)), ("MODIFIED", pod(True)), ("MODIFIED", pod(True)), ("MODIFIED", pod(True, True))]
    marks = watched([*events, ("MODIFIED", pod(False, True)), ("DELETED", pod(False, True))], [])
    assert [what for what, _ in marks] == ["ready", "deleting", "unready", "gone"]


@pytest.mark.parametrize(("patient", "expected"), [(False, "Our own pod p is being evicted"), (True, "")])
@pytest.mark.parametrize("kind", ["MODIFIED", "DELETED"])
def test_what_others_do_to_a_pod_spoils_what_was_seen(kind: str, patient: bool, expected: str) -> None:
    gone = pod(False, True)
    gone["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True"})
    fake: Any = FakeCluster([("ADDED", pod(True)), (kind, gone)], [])
    watching = Watching(fake, "ns", {"default": "moves-default"}, patient=patient)
    assert fake.over.acquire(timeout=5)
    assert fake.over.acquire(timeout=5)
    assert watching.harmed == expected
    with pytest.raises(HarnessError, match=expected) if expected else contextlib.nullcontext():
        watching.check()
    watching.stop()


@pytest.mark.parametrize("patient", [False, True])
def test_only_a_patient_watch_waits_for_an_api_server_that_is_away(patient: bool) -> None:
    fake: Any = FakeCluster([], [])
    Watching(fake, "ns", {}, patient=patient).stop()
    assert fake.over.acquire(timeout=5)
    assert fake.over.acquire(timeout=5)
    assert fake.waits == {patient}


def test_an_api_server_that_is_away_ends_a_watch_that_does_not_wait() -> None:
    answers: list[Any] = [UnreachableError("away"), {"items": []}]

    def request(*_what: str, **_more: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    cluster = Cluster.__new__(Cluster)
    cluster.request = request
    assert next(cluster.watch("/api/v1/pods", budget=60.0))[0] == "EMPTY"
    answers.append(UnreachableError("away"))
    with pytest.raises(UnreachableError):
        next(cluster.watch("/api/v1/pods", budget=60.0, waits=False))


def test_an_endpoints_changes_are_marked_and_other_services_are_not() -> None:
    events = [("ADDED", endpoints()), ("MODIFIED", endpoints(True)), ("MODIFIED", endpoints(False))]
    marks = watched([], [*events, ("MODIFIED", endpoints()), ("ADDED", endpoints(True, service="other"))])
    assert marks == [("slice-ready", "IPv6"), ("slice-unready", "IPv6"), ("slice-gone", "IPv6")]


def test_of_services_over_the_same_pods_only_what_they_lose_is_marked_and_as_theirs() -> None:
    events = [("ADDED", endpoints(True, service="other")), ("MODIFIED", endpoints(False, service="other"))]
    assert watched([], events, {"other": "moves-default"}) == [("slice-unready-beside", "IPv6")]
    assert watched([], [events[0], ("DELETED", endpoints(service="other"))], {"other": "moves-default"}) == [
        ("slice-unready-beside", "IPv6")
    ]


def test_an_endpoint_that_is_removed_at_once_is_unready_too() -> None:
    marks = watched([], [("ADDED", endpoints(True)), ("DELETED", endpoints(True))])
    assert [what for what, _ in marks] == ["slice-ready", "slice-unready", "slice-gone"]


def test_our_own_health_checks_are_left_out_of_the_captures() -> None:
    scope = StrangersScope([("TCP", 32000)], ours={"192.0.2.9", "2001:db8::9"})
    assert scope.expression().endswith(" and not (host 192.0.2.9 or host 2001:db8::9)")
    assert "port 32000" in scope.expression()
