"""What stands between clients and pods explains a failure, and nothing else: a mesh's proxy, a policy that denies."""

import pytest

from esipp.checks.api import Requests
from esipp.checks.catalog import all_checks
from esipp.checks.check import ENVIRONMENT, Check, Status, is_about
from esipp.checks.health import About, HealthAnswer, HealthScenario
from esipp.checks.model import AddressClass
from esipp.judging.frame import Decision, Known, give_verdict
from esipp.judging.observation import Observation
from esipp.scenarios.continuity import objects
from esipp.testbed import integrity
from esipp.testbed.agents import daemon_set
from esipp.testbed.integrity import Cast
from esipp.testbed.manifests import NO_SIDECAR, echo_pod
from tests.unit.verdicts import judge
from tests.unit.world import CHECKS, FEATURES, NODES, ROLES, SAMPLES, by_id, changed_evidence, show

CAST = Cast(ROLES, {node: f"agent-{node}" for node in NODES})
POD = echo_pod("backend", "run", "node", "image", raw=False)
CELL = by_id("clusterip.tcp.ipv4.pod-on-other-node-to-clusterip")
WHY = "something injected the container istio-proxy into our pod backend"


def of(shown: AddressClass) -> list[Observation]:
    return [show(CELL.subject.path, shown, seq) for seq in range(SAMPLES)]


FACTS = {f"{ENVIRONMENT}sidecars": WHY}


def test_a_pod_as_we_made_it_has_no_other_container() -> None:
    assert integrity.injected(POD) == []


@pytest.mark.parametrize("part", ["containers", "initContainers"])
def test_what_somebody_put_into_it_is_named(part: str) -> None:
    spec = POD["spec"] | {part: [*POD["spec"].get(part, []), {"name": "istio-proxy"}]}
    assert integrity.injected({"spec": spec}) == ["istio-proxy"]


def test_meshes_are_asked_to_leave_every_pod_alone() -> None:
    deployment = objects.deployment("run", "image", ["a", "b"], 5)
    template = daemon_set("run", "image", ["a"], raw=False)["spec"]["template"]
    for about in (POD["metadata"], template["metadata"], deployment["spec"]["template"]["metadata"]):
        assert NO_SIDECAR.items() <= about["labels"].items()
        assert NO_SIDECAR.items() <= about["annotations"].items()


def test_it_hears_of_the_paths_that_need_that_pod() -> None:
    listener = by_id("nodeport.local.tcp.ipv4.outside-1-to-bare-node").subject.controls[0].path
    found = integrity.doubts([CELL.subject.path, listener], {"backend": ["istio-init", "istio-proxy"]}, CAST)
    assert set(found) == {CELL.subject.path.key}
    assert "istio-init, istio-proxy into our pod backend" in found[CELL.subject.path.key]


def test_a_check_that_fails_is_undecided_and_one_that_holds_holds() -> None:
    doubts = {CELL.subject.path.key: WHY}
    assert judge(CELL, changed_evidence({}, doubts=doubts)).status is Status.PASS
    wrong = changed_evidence({CELL.subject.path.key: of(AddressClass.OTHER)}, doubts=doubts)
    result = judge(CELL, wrong)
    assert result.status is Status.INCONCLUSIVE
    assert result.reason.startswith(WHY)
    elsewhere = changed_evidence({CELL.subject.path.key: of(AddressClass.OTHER)}, doubts={"another.path": WHY})
    assert judge(CELL, elsewhere).status is Status.FAIL


def test_a_path_that_was_in_two_windows_has_twice_the_probes() -> None:
    own = of(AddressClass.CLIENT)
    twice = changed_evidence({CELL.subject.path.key: [*own, *own]}, windows={CELL.subject.path.key: 2})
    assert "probes were made" not in judge(CELL, twice).reason
    assert "probes were made" in judge(CELL, changed_evidence({CELL.subject.path.key: [*own, *own]})).reason


# ------------------------------------------------------------------------------------------ checks that are no paths
def verdict(check: Check, status: Status, facts: dict[str, str]) -> Status:
    return give_verdict(check, Known(facts, FEATURES), lambda: Decision(status, "this", "that")).status


def test_checks_through_pods_are_undecided_where_they_fail_and_only_there() -> None:
    check = next(check for check in all_checks() if check.suite == "continuity" and check.level.value == "core")
    assert verdict(check, Status.FAIL, FACTS) is Status.INCONCLUSIVE
    assert verdict(check, Status.FLAKY, FACTS) is Status.INCONCLUSIVE
    assert verdict(check, Status.PASS, FACTS) is Status.PASS
    assert verdict(check, Status.FAIL, {}) is Status.FAIL


def test_what_nodes_and_the_api_server_say_rests_on_no_pod() -> None:
    for check in all_checks():
        if isinstance(check.subject, Requests | HealthScenario) or (
            is_about(check, HealthAnswer) and check.subject.about is not About.TRUTH
        ):
            assert not check.subject.through_pods, check.id
    assert all(path_check.subject.through_pods for path_check in CHECKS)
