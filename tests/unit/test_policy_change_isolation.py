"""Steady services while neighbours change: the source IP judge's word holds, if the neighbours really changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from esipp.base.clock import Clock
from esipp.checks.check import Feature, Status, is_about
from esipp.checks.model import AddressClass, Family, Path, Role
from esipp.checks.policy_change import (
    Isolated,
    IsolatedConnections,
    IsolatedHealth,
    PolicyChange,
)
from esipp.judging.observation import Irregular, Observation
from esipp.judging.timeline import Sample, Stream
from esipp.scenarios.policy_change.changes import read_kept, read_port
from esipp.scenarios.policy_change.evidence import Neighbour, PolicyAction, PolicyChangeEvidence, Window
from esipp.scenarios.policy_change.isolation import CHANGES
from esipp.scenarios.policy_change.objects import NEIGHBOURS, objects
from esipp.scenarios.policy_change.sections import summary
from esipp.testbed.objects import Ground
from suites.compatibility.isolation import CHECKS
from tests.unit.policy_change_world import CLUSTER, LOCAL, World, frozen
from tests.unit.recorded_world import summary_lines
from tests.unit.verdicts import judge_with
from tests.unit.world import FEATURES as CELL_FEATURES
from tests.unit.world import NODES, ROLES, show, topology

STEADY = [check for check in CHECKS if is_about(check, Isolated)]
TOGETHER = [check for check in CHECKS if is_about(check, IsolatedConnections)]
HEALTH = [check for check in CHECKS if is_about(check, IsolatedHealth)]
FEATURES = {name: Feature(True, "made up") for check in CHECKS for name in check.features} | CELL_FEATURES
STARTS = (10.0, 11.0, 18.5)
"""By the client's clock, which is two seconds ahead: the last is after all changes."""

SAMPLES = len(STARTS)


def healthy() -> dict[str, list[Observation]]:
    shown: dict[Path, AddressClass] = {}
    for check in STEADY:
        for control in check.subject.on_path.controls:
            shown.setdefault(control.path, AddressClass.CLIENT)
    for check in sorted(STEADY, key=lambda check: check.level):  # extended checks are the narrower ones and win
        shown[check.subject.on_path.path] = min(check.subject.on_path.accept)
    return {path.key: [at(show(path, what, seq), seq) for seq in range(SAMPLES)] for path, what in shown.items()}


def at(made: Observation, seq: int) -> Observation:
    port = 40000 + seq
    source = (made.source[0], port) if made.source else None
    return replace(made, seq=seq, started=STARTS[seq], source=source)


def neighbour(first: float) -> Neighbour:
    changes = [
        PolicyAction(n, CLUSTER if n % 2 else LOCAL, first + 1.6 * n, 0.0, "", 0) for n in range(1, CHANGES // 2 + 1)
    ]
    changes = [replace(change, policy=change.to.value) for change in changes]
    bare = [Sample(n, n, n + 0.1, outcome) for n, outcome in enumerate(("timeout", "answered", "timeout"))]
    port = [Sample(n, n, n + 0.1, outcome) for n, outcome in enumerate(("200", "200", "refused"))]
    return Neighbour(changes, CLUSTER.value, frozen(Stream("bare", 1, bare)), {0: frozen(Stream("port", 1, port))})


def window(**observations: list[Observation]) -> Window:
    from esipp.scenarios.paths.evidence import Evidence

    evidence = Evidence(observations=healthy() | observations, topology=topology(), features=FEATURES, samples=SAMPLES)
    clocks = {name: Clock(2.0, 0.001) for name in topology().stands}
    health = {(check.subject.place, check.subject.family): {check.expected: 24} for check in HEALTH}
    neighbours = {name: neighbour(7.0 + n) for n, name in enumerate(NEIGHBOURS)}
    paths = [path for check in STEADY for path in check.subject.paths]
    return Window(evidence, paths, clocks, neighbours, health)


def statuses(made: Window) -> dict[str, Status]:
    seen = PolicyChangeEvidence(window=made)
    return {check.id: judge_with(check, seen, FEATURES, {}).status for check in (*STEADY, *TOGETHER, *HEALTH)}


def test_where_nothing_is_disturbed_everything_passes() -> None:
    assert set(statuses(window()).values()) == {Status.PASS}


def test_one_answer_by_a_masqueraded_source_is_found_and_reported_by_the_change_before_it() -> None:
    check = next(r for r in STEADY if r.id == "beside.nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    path = check.subject.on_path.path
    made = healthy()[path.key]
    made[1] = at(show(path, AddressClass.NODE), 1)
    reasons = {
        check.id: judge_with(check, PolicyChangeEvidence(window=window(**{path.key: made})), FEATURES, {})
        for check in STEADY
    }
    assert {name: verdict.status for name, verdict in reasons.items() if verdict.status is not Status.PASS} == {
        check.id: Status.FLAKY
    }
    assert "0.40 s after neighbour-loadbalancer changed to Cluster" in reasons[check.id].reason


EIGHT = 8
"""Connections that an observation stands for."""


def late(key: str, made: list[Observation]) -> list[Observation]:
    """Each after a repeated SYN, in several seconds."""
    begins = [10.0 + (len(key) % 3) + 0.9 * n for n in range(EIGHT)]
    irregular = tuple(Irregular(begin, begin + 1.05, begin + 1.1, 1, 0) for begin in begins)
    return [replace(each, irregular=irregular) for each in made]


@pytest.mark.parametrize("without_a_service_too", [False, True])
def test_syns_that_are_dropped_while_neighbours_change_are_found_although_all_are_answered(
    without_a_service_too: bool,
) -> None:
    whole = {key: [replace(each, count=EIGHT) for each in made] for key, made in healthy().items()}
    hit = [key for key in whole if key.startswith("nodeport.local.tcp.ipv4.") and "endpoint-node" in key]
    hit += [key for key in whole if without_a_service_too and ".ipv4." in key and "listener" in key]
    seen = PolicyChangeEvidence(window=window(**whole | {key: late(key, whole[key]) for key in hit}))
    verdicts = {check.id: judge_with(check, seen, FEATURES, {}).status for check in TOGETHER}
    wrong = {name: said for name, said in verdicts.items() if said is not Status.PASS}
    assert wrong == ({} if without_a_service_too else {"beside.connections.nodeport.tcp.ipv4.late": Status.FAIL})


def test_an_answer_where_none_is_due_is_found() -> None:
    check = next(r for r in STEADY if r.id == "beside.nodeport.local.tcp.ipv6.outside-2-to-bare-node")
    path = check.subject.on_path.path
    made = [at(show(path, AddressClass.NODE), seq) for seq in range(SAMPLES)]
    wrong = {name: said for name, said in statuses(window(**{path.key: made})).items() if said is not Status.PASS}
    assert wrong == {check.id: Status.FAIL}


def test_a_health_check_that_says_otherwise_once_is_found() -> None:
    made = window()
    made.health[Role.BARE_NODE, Family.IPV4] = {"503": 23, "200": 1}
    made.health[Role.ENDPOINT_NODE, Family.IPV6] = {"503": 24}
    wrong = {name: said for name, said in statuses(made).items() if said is not Status.PASS}
    assert wrong == {"beside.health.ipv4.bare-node": Status.FLAKY, "beside.health.ipv6.endpoint-node": Status.FAIL}


def _fewer(made: Window) -> None:
    for each in made.neighbours.values():
        del each.changes[2:]
        each.policy = LOCAL.value


def _late(made: Window) -> None:
    """On a busy machine changes may come when the last connections were made already."""
    for each in made.neighbours.values():
        each.changes[2:] = [replace(change, cause=change.cause + 20) for change in each.changes[2:]]


def _refused(made: Window) -> None:
    each = made.neighbours["neighbour-nodeport"]
    each.changes[2] = replace(each.changes[2], policy="Local")


def _back(made: Window) -> None:
    made.neighbours["neighbour-nodeport"].policy = "Local"


def _silent(made: Window) -> None:
    stream = made.neighbours["neighbour-nodeport"].bare
    assert stream is not None
    stream.samples[1] = stream.samples[1]._replace(outcome="timeout")


def _open(made: Window) -> None:
    stream = made.neighbours["neighbour-loadbalancer"].health[0]
    stream.samples[2] = stream.samples[2]._replace(outcome="200")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_fewer, "only 4 policy changes"),
        (_late, "only 4 policy changes"),
        (_refused, "did not accept policy change 3 of neighbour-nodeport to Cluster"),
        (_back, "has Local after its last policy change"),
        (_silent, "the node without local endpoints never answered"),
        (_open, "did not open and close"),
    ],
)
def test_without_proof_that_neighbours_changed_nothing_is_said(spoil: Callable[[Window], None], why: str) -> None:
    made = window()
    spoil(made)
    assert why in made.doubt()
    assert set(statuses(made).values()) == {Status.INCONCLUSIVE}


def test_health_checks_of_a_load_balancer_need_one_as_its_service_stands_waiting_for_a_vip() -> None:
    assert all("load-balancer" in check.features for check in HEALTH)


def test_a_window_that_broke_off_is_undecided() -> None:
    seen = PolicyChangeEvidence()
    seen.trouble["beside"] = "the API server went away"
    assert {judge_with(check, seen, FEATURES, {}).status for check in (*STEADY, *HEALTH)} == {Status.INCONCLUSIVE}
    assert {judge_with(check, PolicyChangeEvidence(), FEATURES, {}).status for check in (*STEADY, *HEALTH)} == {
        Status.INCONCLUSIVE
    }


# ------------------------------------------------------------------------------------------------ the testbed
def ground(**features: bool) -> Ground:
    found = {"vantage.outside": Feature(features.get("outside", True), "made up"), "load-balancer": Feature(True, "")}
    return Ground("r1", "image", {name: topology().nodes[name] for name in NODES}, ROLES, found)


def test_only_what_the_checks_need_stands_on_the_testbed() -> None:
    changes = [check for check in CHECKS if is_about(check, PolicyChange)]
    made = objects(list(CHECKS), ground())
    assert {each["metadata"]["name"] for each in made.services} == {
        *NEIGHBOURS, "policy-change-nodeport", "policy-change-loadbalancer", "policy-change-loadbalancer-ecmp",
    }  # fmt: skip
    assert made.announced == {"policy-change-loadbalancer", "policy-change-loadbalancer-ecmp"}
    classes = {each["metadata"]["name"]: each["spec"].get("loadBalancerClass") for each in made.services}
    assert {name: names for name, names in classes.items() if names} == {
        "policy-change-loadbalancer-ecmp": "esipp.dev/reference-ecmp"
    }
    node_port = [check for check in changes if check.subject.service.balancer is None]
    assert [each["metadata"]["name"] for each in objects(list(node_port), ground()).services] == [
        "policy-change-nodeport"
    ]
    assert {client.name for client in objects(list(STEADY), ground(outside=False)).clients} == {"host-on-other-node"}


# -------------------------------------------------------------------------------------------------- reading
def result(outcome: str, **more: Any) -> dict[str, Any]:
    return {"seq": 1, "started": 5.0, "ended": 5.1, "outcome": outcome, **more}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (result("refused"), "refused"),
        (result("timeout", connected=None), "timeout"),
        (result("timeout", connected=5.0), "accepted"),
        (result("answered", response={"status": 503, "body": "old text"}), "503"),
        (result("answered", response={"status": 200, "body": '{"service": {"namespace": "n", "name": "s"}}'}), "200"),
        (
            result("answered", response={"status": 200, "body": '{"service": {"namespace": "n", "name": "t"}}'}),
            "foreign",
        ),
        (result("answered", response={"status": 200, "body": "[]"}), "200"),
    ],
)
def test_an_answer_at_a_health_port_is_the_services_own_unless_it_names_another(
    document: dict[str, Any], said: str
) -> None:
    assert read_port("s", "n")(document, lambda at: at).outcome == said


def test_an_exchange_on_another_connection_is_not_the_one_that_was_kept() -> None:
    echo = {"pod": "backend", "node": "a", "peer_address": "192.0.2.9"}
    assert read_kept(result("answered", echo=echo, connection=0), lambda at: at).outcome == "answered"
    assert read_kept(result("answered", echo=echo, connection=1), lambda at: at).outcome == "reopened"


def test_the_section_tells_changes_times_losses_and_connections() -> None:
    seen = World().seen()
    seen.window = window()
    text = " ".join(" ".join(summary_lines(summary, seen)).split())
    assert "neighbour-nodeport 5 times" in text
    assert "nodeport IPv4 bare-node" in text
    assert "0 of 280" in text
    assert "1 of 1 kept" in text
    assert summary_lines(summary, PolicyChangeEvidence()) == []
