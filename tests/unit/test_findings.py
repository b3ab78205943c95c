"""What is a finding about one data plane is known there, a failure anywhere else, and hides nothing beside it."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.checks.catalog import all_checks
from esipp.checks.check import Status, Verdict
from esipp.checks.expiry import Sight, by_claim, sights
from esipp.checks.health import About, Place, Question, Situation
from esipp.checks.model import Family
from esipp.checks.reference import titles
from esipp.scenarios.health.evidence import Followed, HealthEvidence
from esipp.scenarios.health.objects import _situations, service_name
from esipp.testbed.manifests import TCP
from esipp.testbed.objects import Ground
from suites.clients import OUTSIDE_1
from suites.known_differences.cilium import COUNTED_TWICE
from tests.unit import health_world as health
from tests.unit import interoperability_world as interop
from tests.unit.verdicts import judge_with

BOTH = {"kubernetes": "v1.36.3", "service-proxy": "cilium", "families.services": "IPv4, IPv6"}
OTHERS = (
    BOTH | {"families.services": "IPv4"},
    BOTH | {"service-proxy": "kube-proxy"},
)
BY_ID = {check.id: check for check in all_checks()}
HERE = Question(Situation.ONE_POD, Place.ENDPOINT_NODE, OUTSIDE_1, Family.IPV4)
BARE = replace(HERE, place=Place.BARE_NODE)


def said(check: str, seen: HealthEvidence, facts: Mapping[str, str] = BOTH) -> Verdict:
    return judge_with(health.BY_ID[check], seen, health.FEATURES, facts)


def counting(question: Question, pods: int) -> HealthEvidence:
    """The healthy world, where one question is answered with another count."""
    return health.answering(question, health.say(pods, service_name(question.situation), status=200))


@pytest.mark.parametrize("part", [About.COUNT, About.WEIGHT])
def test_a_pod_that_is_counted_for_each_family_is_known_of_cilium(part: About) -> None:
    check = health.about(HERE, part)
    verdict = said(check, counting(HERE, 2))
    assert verdict.status is Status.KNOWN
    assert verdict.reason.startswith("a finding: ")
    assert "getLocalEndpointCount" in titles(verdict.references)
    assert [said(check, counting(HERE, 2), facts).status for facts in OTHERS] == [Status.FAIL, Status.FAIL]


@pytest.mark.parametrize("part", [About.COUNT, About.WEIGHT])
def test_a_pod_counts_once_for_each_port_and_family_under_cilium(part: About) -> None:
    several = replace(HERE, situation=Situation.SEVERAL_PORTS)
    check = health.about(several, part)
    assert several.targets == 3
    assert said(check, counting(several, 6)).status is Status.KNOWN
    assert [said(check, counting(several, wrong)).status for wrong in (2, 3, 4, 8)] == [Status.FAIL] * 4
    assert said(check, counting(several, 6), OTHERS[1]).status is Status.FAIL


def test_the_ports_of_the_service_with_several_are_as_many_as_is_said() -> None:
    several = _situations(cast(Ground, SimpleNamespace(run="r")))[Situation.SEVERAL_PORTS]["spec"]["ports"]
    targets = {({"tcp": TCP}.get(port["targetPort"], port["targetPort"]), port["protocol"]) for port in several}
    assert len(targets) == replace(HERE, situation=Situation.SEVERAL_PORTS).targets


@pytest.mark.parametrize("pods", [0, 3, 4])
def test_another_count_is_no_finding(pods: int) -> None:
    assert said(health.about(HERE, About.COUNT), counting(HERE, pods)).status is Status.FAIL


def test_now_and_then_is_no_finding() -> None:
    seen = health.answering(HERE, health.honest(HERE), *counting(HERE, 2).answers[HERE.key])
    assert said(health.about(HERE, About.COUNT), seen).status is Status.FLAKY


def test_nodes_without_pods_count_none() -> None:
    assert said(health.about(BARE, About.COUNT), counting(BARE, 1)).status is Status.FAIL


def doubled(number: int, wrong: int = 2) -> Any:
    """A round of the placement trial, one pod on the endpoint node, of which each node's count is so much too high."""
    usual = health.played(number)
    there = Followed(None, f"localEndpoints {wrong}")
    counts = {node: there if node[0] is Place.ENDPOINT_NODE else followed for node, followed in usual.count.items()}
    return replace(usual, truth={Place.ENDPOINT_NODE: 1}, count=counts)


@pytest.mark.parametrize(("wrong", "status"), [(2, Status.KNOWN), (3, Status.FAIL)])
def test_pods_that_move_are_counted_twice_wherever_they_are(wrong: int, status: Status) -> None:
    seen = health.healthy()
    seen.rounds = [doubled(number, wrong) for number in range(1, 21)]
    checks = [
        check.id for check in health.TRIALS if (check.subject.scenario, check.subject.claim) == ("placement", "count")
    ]
    found = {said(check, seen).status for check in checks}
    assert status in found
    assert found <= {status, Status.PASS}  # of nodes that never have any


def test_documents_of_neighbours_and_of_many_are_known_as_well() -> None:
    seen = interop.seen()
    assert seen.neighbours
    assert seen.many
    home = (Place.ENDPOINT_NODE, Family.IPV4)
    seen.neighbours.answers[home] = [interop.say(2, "neighbour-a", count=100)]
    for name, nodes in seen.many.answers.items():
        for node in [node for node in nodes if node[0] is Place.ENDPOINT_NODE]:
            nodes[node] = [interop.say(2, name, count=2)]
    checks = (
        "interop.neighbours.document.ipv4.endpoint-node",
        "interop.many.loadbalancer-local.document.endpoint-node",
    )
    for facts, status in ((BOTH, Status.KNOWN), (OTHERS[0], Status.FAIL)):
        for check in checks:
            assert judge_with(interop.CHECKS[check], seen, interop.FEATURES, facts).status is status


# ---------------------------------------------------------------------------------------------- what is no longer so
def expired(facts: Mapping[str, str], statuses: Mapping[str, Status], known: Mapping[str, Any]) -> list[Sight]:
    """What a run on such a cluster says of all that is claimed; ``known`` has reason and reference of known checks."""
    verdicts = {}
    for check, status in statuses.items():
        why = known.get(check, {"reason": "", "references": ()})
        verdicts[check] = Verdict(
            check, BY_ID[check].level, status, "", "", why["reason"], references=why["references"]
        )
    return [each for each in sights(by_claim(BY_ID.values()), facts, verdicts) if each.expired]


def test_a_finding_that_is_no_longer_seen_is_reported() -> None:
    ids = [check.id for check in BY_ID.values() if COUNTED_TWICE in check.differences]
    assert ids
    passed = dict.fromkeys(ids, Status.PASS)
    [gone] = [each for each in expired(BOTH, passed, {}) if each.claim.reason == COUNTED_TWICE.reason]
    assert gone.asked == len(ids)
    assert "service-proxy cilium" in gone.sentence
    known = {ids[0]: {"reason": COUNTED_TWICE.reason, "references": COUNTED_TWICE.references}}
    assert expired(BOTH, passed | {ids[0]: Status.KNOWN}, known) == []
    assert expired(OTHERS[1], passed, {}) == []
    assert expired(BOTH, {}, {}) == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [(Status.PASS, 1), (Status.FAIL, 1), (Status.UNSUPPORTED, 0), (Status.INCONCLUSIVE, 0)],
)
def test_checks_that_could_not_be_asked_tell_nothing(status: Status, expected: int) -> None:
    assert len(expired(BOTH, {health.about(HERE, About.COUNT): status}, {})) == expected
