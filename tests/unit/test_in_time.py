"""A health port that hangs is noticed by the check of its time, and by no other; a busy machine is no hanging port."""

from dataclasses import replace

import pytest

from esipp.checks.check import Status
from esipp.checks.health import About, Place, Question, Situation
from esipp.checks.model import Family, Outcome
from esipp.checks.timing import Bound
from esipp.judging.controls import but_one
from esipp.judging.frame import OVERLOADED, run_queue
from esipp.judging.in_time import NOT_RECORDED, control_of
from esipp.judging.scenario import RunThen
from esipp.ledger.codec import judged, read_judged
from esipp.scenarios.every_node.evidence import HEALTH, LISTENER, PROXY, Dialled, EveryNodeEvidence
from esipp.scenarios.health.evidence import HealthEvidence
from esipp.scenarios.health.judge import SCENARIO
from suites.clients import OUTSIDE_1, POD_ON_OTHER_NODE
from tests.unit import every_node_world, health_world
from tests.unit.health_world import BY_ID, FEATURES, SAMPLES, SOON, about, answering, differing, healthy, honest
from tests.unit.verdicts import judge_with

QUESTION = Question(Situation.NO_PODS, Place.BARE_NODE, OUTSIDE_1, Family.IPV4)
CHECK = about(QUESTION, About.TIME)


def taking(*seconds: float, question: Question = QUESTION) -> HealthEvidence:
    """Some answers of one health port take so long, all others are prompt."""
    took = (*seconds, *(SOON,) * (SAMPLES - len(seconds)))
    return answering(question, replace(honest(question), took=took))


def slow(seen: HealthEvidence, *seconds: float) -> HealthEvidence:
    """The control listeners of all nodes took so long meanwhile."""
    return replace(seen, listened=dict.fromkeys(seen.listened, seconds))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (taking(*(6.0,) * SAMPLES), Status.FAIL),
        (taking(*(6.0,) * 5), Status.FLAKY),
        (taking(6.0, 6.0), Status.FLAKY),
        (taking(*(5.1,) * 5), Status.FLAKY),
    ],
    ids=["every answer", "five of twenty", "two of twenty", "just too late"],
)
def test_a_port_that_hangs_is_noticed_by_the_check_of_its_time_alone(seen: HealthEvidence, expected: Status) -> None:
    assert differing(seen) == {CHECK: expected}


@pytest.mark.parametrize(
    "seen",
    [
        taking(*(0.2,) * SAMPLES),
        taking(*(4.9,) * SAMPLES),
        taking(9.0),
        taking(*(6.0,) * SAMPLES, question=replace(QUESTION, client=POD_ON_OTHER_NODE)),
        slow(taking(), *(1.5,) * SAMPLES),
    ],
    ids=["200 ms", "just in time", "a single lost packet", "another client", "a slow machine and answers in time"],
)
def test_what_a_load_balancer_waits_for_is_no_fault(seen: HealthEvidence) -> None:
    assert differing(seen) == {}


@pytest.mark.parametrize(
    "seen",
    [
        slow(taking(*(6.0,) * 5), 1.2, 1.2),
        slow(taking(*(6.0,) * 5)),
        replace(taking(*(6.0,) * 5), gives_up=None),
        answering(QUESTION, replace(honest(QUESTION), took=())),
    ],
    ids=["all listeners late", "no listener", "an older ledger", "an older ledger's answers"],
)
def test_what_may_be_the_machine_or_was_not_measured_is_undecided(seen: HealthEvidence) -> None:
    assert differing(seen)[CHECK] is Status.INCONCLUSIVE


def test_listeners_that_are_late_at_one_node_excuse_nothing() -> None:
    seen = taking(*(6.0,) * 5)
    listened = {key: (9.0,) * 20 if key[1] is Place.BARE_NODE else took for key, took in seen.listened.items()}
    assert differing(replace(seen, listened=listened)) == {CHECK: Status.FLAKY}


def test_on_an_overloaded_machine_late_answers_prove_nothing() -> None:
    queue = run_queue("health")
    for tasks, expected in ((OVERLOADED, Status.INCONCLUSIVE), (OVERLOADED - 1.0, Status.FLAKY)):
        said = judge_with(BY_ID[CHECK], taking(*(6.0,) * 5), FEATURES, {queue: f"{tasks}"})
        assert said.status is expected


def test_the_bound_is_the_load_balancers() -> None:
    late = taking(*(1.5,) * 5)
    assert differing(late) == {}
    strict = replace(late, gives_up=Bound(1.0, "profile gke-rbs"))
    assert differing(strict) == {CHECK: Status.FLAKY}
    said = judge_with(BY_ID[CHECK], strict, FEATURES, {})
    assert said.reason == (
        "1 of 7 ports answered too late: no-pods at the bare-node: 5 of 20 requests had no answer within 1 s, "
        "slowest but one 1.50 s"
    )
    assert "bound 1 s (profile gke-rbs)" in said.observed


def test_silence_counts_if_the_client_waited_as_long_as_the_load_balancer() -> None:
    for waited, expected in ((10.0, Status.FLAKY), (2.0, Status.INCONCLUSIVE)):
        silence = replace(health_world.no_answer(Outcome.TIMEOUT, 5), took=(waited,) * 5)
        half = replace(honest(QUESTION), count=15, took=(SOON,) * 15)
        assert differing(answering(QUESTION, half, silence))[CHECK] is expected


def test_a_port_that_never_answers_is_for_the_check_of_its_status() -> None:
    silence = replace(health_world.no_answer(Outcome.TIMEOUT), took=(10.0,) * SAMPLES)
    found = differing(answering(QUESTION, silence))
    assert (found[CHECK], found[about(QUESTION, About.STATUS)]) == (Status.INCONCLUSIVE, Status.FAIL)
    filtered = every_node_world.changed(
        every_node_world.seen(),
        lambda row: row.service == PROXY,
        lambda _: (replace(every_node_world.SILENCE, took=(10.0,) * 20),),
    )
    assert set(red(filtered).values()) == {Status.INCONCLUSIVE}, "kube-proxy's port is filtered at every node"


def test_the_best_node_is_the_control_and_one_late_answer_of_it_is_chance() -> None:
    assert control_of([(0.1, 0.1, 9.0), (2.0, 3.0), ()]) == 0.1
    assert control_of([]) is None
    assert (but_one([3.0]), but_one([])) == (3.0, 0.0)


def test_older_evidence_is_read_and_leaves_only_the_times_undecided() -> None:
    data = judged("health_checks", healthy())["seen"]
    for field in ("gives_up", "listened"):
        del data[field]
    seen = read_judged("health_checks", data)
    found = differing(seen)
    assert set(found.values()) == {Status.INCONCLUSIVE}
    assert set(found) == {name for name in BY_ID if name.startswith("healthcheck.in-time.")}
    assert judge_with(BY_ID[CHECK], seen, FEATURES, {}).reason == NOT_RECORDED
    assert SCENARIO.lacks(BY_ID[CHECK], seen, RunThen(20)) == NOT_RECORDED, (
        "no verdict of a run that did not measure it"
    )
    assert SCENARIO.lacks(BY_ID[CHECK], healthy(), RunThen(20)) == ""


# ------------------------------------------------------------------------------------------------------- every node
def changed(service: str, took: tuple[float, ...], node: str = "node-5") -> EveryNodeEvidence:
    """One health port takes so long."""

    def hit(row: Dialled) -> bool:
        return (row.service, row.node, row.family) == (service, node, Family.IPV4)

    return every_node_world.changed(
        every_node_world.seen(), hit, lambda row: tuple(replace(each, took=took) for each in row.answers)
    )


def red(seen: EveryNodeEvidence) -> dict[str, Status]:
    fine = (Status.PASS, Status.RECORDED)
    return {name: said.status for name, said in every_node_world.verdicts(seen).items() if said.status not in fine}


@pytest.mark.parametrize(("service", "stem"), [(HEALTH, "health"), (PROXY, "proxy-health")])
def test_any_nodes_port_that_hangs_is_noticed(service: str, stem: str) -> None:
    check = f"nodes.{stem}.ipv4.in-time"
    assert red(changed(service, (6.0,) * 20)) == {check: Status.FAIL}
    assert red(changed(service, (*(6.0,) * 3, *(SOON,) * 17))) == {check: Status.FLAKY}
    assert red(changed(service, (0.2,) * 20)) == {}
    said = every_node_world.verdicts(changed(service, (6.0,) * 20))[check]
    assert said.reason.startswith("1 of 5 ports answered too late: node-5 (10.0.0.5): 20 of 20 requests had no answer")


def test_every_nodes_listeners_late_as_well_leave_it_undecided() -> None:
    late = every_node_world.changed(
        changed(HEALTH, (6.0,) * 20),
        lambda row: row.service == LISTENER,
        lambda row: tuple(replace(each, took=(1.2,) * 100) for each in row.answers),
    )
    assert red(late) == {"nodes.health.ipv4.in-time": Status.INCONCLUSIVE}
