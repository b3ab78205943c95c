"""Balancers, nodes and health checks that lie: each must be red in the right check, and only there."""

import re
from dataclasses import replace
from typing import Any

import pytest

from esipp.checks.check import Check, Level, Status
from esipp.checks.endpoint_change import (
    EXPECTED,
    FORWARDED,
    SPREADS,
    WEIGHED,
    EndpointChange,
    EndpointChangeCheck,
    Kind,
    What,
)
from esipp.checks.known_differences import PROXIED, REHASHED
from esipp.checks.model import Balancer, Family
from esipp.checks.timing import AS_STARTED, BY_USER, Checking, Promise, Threshold
from esipp.judging.frame import Decision
from esipp.judging.statistics import power
from esipp.judging.timeline import Sample
from esipp.scenarios.endpoint_change import judge as judging
from esipp.scenarios.endpoint_change.evidence import (
    FOR_POWER,
    LEAST_P,
    LEAST_POWER,
    UNEVEN,
    Counted,
    Health,
    Moved,
    Result,
)
from esipp.scenarios.endpoint_change.health_probes import observe
from esipp.scenarios.endpoint_change.judge import Judge
from esipp.scenarios.endpoint_change.run import CONNECTIONS
from esipp.scenarios.endpoint_change.sections import summary
from suites.convergence.checks import CHECKS
from tests.unit.endpoint_change_world import CLIENT, EVERY, FAMILY, LAG, NODE_ADDRESS, World
from tests.unit.recorded_world import summary_lines

AT_VIP = (What.STEERS, What.PLACE, What.SOURCE, What.BLACK_HOLE, What.NO_LOSS, What.TIMES_UP, What.TIMES_DOWN)
AT_NODES = (What.HEALTH, What.PATH, What.PLACE, What.SOURCE)


def check(what: What, family: Family | None = FAMILY, balancer: Balancer = Balancer.ECMP) -> EndpointChangeCheck:
    subject = EndpointChange(balancer, what, family)
    return Check(
        id="x",
        requirement="",
        level=Level.CORE,
        suite="convergence",
        references=(),
        subject=subject,
        expected=EXPECTED[what],
    )


def red(judge: Judge) -> set[str]:
    found = set()
    for family, whats in ((FAMILY, AT_VIP), (None, AT_NODES)):
        for what in whats:
            decision = judge.decide(check(what, family))
            assert decision.status is not Status.ERROR, decision
            if decision.status is Status.FAIL:
                found.add(what.value if family else f"nodes {what.value}")
    return found


def test_an_honest_world_is_green() -> None:
    assert red(World().judge()) == set()


def test_a_balancer_of_one_node_at_a_time_is_green() -> None:
    assert red(World(balancer=Balancer.DEFAULT).judge()) == set()


LIES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "ignores health checks": (
        {"ignores_health": True},
        {"steers", "black-hole", "no-loss-on-graceful-deletion"},
    ),
    "ten times too slow": (
        {"period": 10.0, "reported_period": 1.0},
        {"steers", "black-hole", "no-loss-on-graceful-deletion"},
    ),
    "keeps a node that was removed": ({"keeps": "a"}, {"steers", "black-hole"}),
    "a bare node forwards": ({"forwards": "c"}, {"nodes only-allowed-pods"}),
    "the source is lost": ({"loses_source": "b"}, {"source", "nodes source"}),
    "the terminating pod is cut off": ({"drops_terminating": True}, {"no-loss-on-graceful-deletion"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_red_in_the_right_checks_and_only_there(lie: str) -> None:
    how, expected = LIES[lie]
    assert red(World(**how).judge()) == expected


@pytest.mark.parametrize(
    ("lie", "what", "late"),
    [
        ("ten times too slow", What.STEERS, False),  # requests are lost at rest, too
        ("ten times too slow", What.BLACK_HOLE, True),
        ("the source is lost", What.SOURCE, False),
        ("the terminating pod is cut off", What.NO_LOSS, False),
    ],
)
def test_only_what_a_busy_machine_explains_is_called_late(lie: str, what: What, late: bool) -> None:
    decision = World(**LIES[lie][0]).judge().decide(check(what))
    assert (decision.status, decision.late) == (Status.FAIL, late)


HEALTH_LIES: dict[str, Any] = {
    "always 200": lambda _node, _truth: "200",
    "stuck at 200": lambda node, truth: "200" if node == "a" else truth,
    "503 with local pods": lambda node, truth: "503" if node == "b" else truth,
}


@pytest.mark.parametrize("lie", HEALTH_LIES)
@pytest.mark.parametrize("balancer", [Balancer.DEFAULT, Balancer.ECMP])
def test_a_health_check_that_lies_is_red_as_such(lie: str, balancer: Balancer) -> None:
    found = red(World(balancer=balancer, health=HEALTH_LIES[lie]).judge())
    assert found == {"nodes health-follows"}


def test_a_pod_that_goes_on_serving_unready_is_forbidden() -> None:
    assert {"nodes only-allowed-pods", "nodes path-follows"} <= red(World(serves_unready="a").judge())


def test_the_bound_is_reported_with_who_says_it_and_what_else_is_known() -> None:
    said = World().judge().decide(check(What.BLACK_HOLE)).observed
    assert f"bound 3.00 s from {AS_STARTED}; reported: N=2, period 1.00 s; packets: N=unknown" in said
    seen = observe(World().arrivals(), World().judge().lines)
    said = Judge(replace(World().result(), observed=seen)).decide(check(What.BLACK_HOLE)).observed
    assert "packets: N=2, period 1.00 s" in said


def test_what_packets_show_is_no_bound() -> None:
    world = World(tells=False)
    seen = observe(world.arrivals(), world.judge().lines)
    assert seen.checking == Checking(pytest.approx(1.0), 2)
    assert seen.sources == ("192.0.2.20",)
    assert (
        Judge(replace(world.result(), observed=seen, promise=Promise(1.0, "--bound")))
        .decide(check(What.BLACK_HOLE))
        .status
        is Status.FAIL
    )


def own(what: What, family: Family | None = FAMILY) -> EndpointChangeCheck:
    return check(what, family, Balancer.DEFAULT)


OWN_WORDS: dict[str, tuple[dict[str, Any], Promise, Status]] = {
    "it keeps what the profile says": ({}, Promise(3.0, "profile x"), Status.PASS),
    "it says 30 s of itself, and the profile 3 s": (
        {"period": 3.0, "reported_period": 10.0}, Promise(3.0, "profile x"), Status.FAIL
    ),
    "it is as slow as packets show, and the user says 3 s": (
        {"period": 3.0, "tells": False}, Promise(3.0, BY_USER), Status.FAIL
    ),
    "it is slow, and the user allows it": (
        {"period": 1.2, "reported_period": 0.5}, Promise(20.0, BY_USER), Status.PASS
    ),
    "nobody promises anything": ({"period": 3.0, "tells": False}, Promise(), Status.RECORDED),
}  # fmt: skip


@pytest.mark.parametrize("case", OWN_WORDS)
def test_the_accused_does_not_set_its_own_bound(case: str) -> None:
    """The bound was the balancer's own word, or the longest that packets showed: so it was always kept."""
    how, promise, status = OWN_WORDS[case]
    decision = World(balancer=Balancer.DEFAULT, promise=promise, **how).judge().decide(own(What.BLACK_HOLE))
    assert decision.status is status
    assert (promise.words if promise.seconds else "--bound SECONDS") in decision.observed + decision.reason


def test_what_nobody_promises_of_the_clusters_own_is_recorded_with_what_was_measured() -> None:
    judge = World(balancer=Balancer.DEFAULT, ignores_health=True, tells=False, promise=Promise()).judge()
    for what in (What.BLACK_HOLE, What.NO_LOSS, What.BALANCE):
        decision = judge.decide(own(what))
        assert decision.status is Status.RECORDED
        assert decision.reason.startswith("nothing is required")
    assert "after the node's 503" in judge.decide(own(What.BLACK_HOLE)).observed
    assert judge.decide(own(What.STEERS)).status is Status.FAIL, "that is asked of every load balancer"


NEW_NODES: dict[str, tuple[bool, bool | None, Status]] = {
    "it is not known, and it is seen to use one at a time": (False, None, Status.PASS),
    "its profile says that it uses all": (False, True, Status.FAIL),
    "it is not known, and it is seen to use several": (True, None, Status.FAIL),
    "its profile says one at a time": (False, False, Status.PASS),
}


@pytest.mark.parametrize("case", NEW_NODES)
def test_a_balancer_that_spreads_has_to_use_a_new_node(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the cluster's own did was never asked."""
    monkeypatch.setattr(judging, "ENOUGH", 3.0)
    several, reported, status = NEW_NODES[case]
    promise = Promise(3.0, "x", reported, True, True)
    world = World(Balancer.ECMP if several else Balancer.DEFAULT, promise=promise)
    result = replace(world.result(), balancer=Balancer.DEFAULT)
    if several:
        stream = result.seen.vip[FAMILY]
        stream.samples[:] = [each._replace(pod="b1", node="b") if each.pod == "c1" else each for each in stream.samples]
    judge = Judge(replace(result, seen=replace(result.seen, spreads=reported is True)))
    decision = judge.decide(own(What.STEERS))
    assert (decision.status, decision.late) == (status, status is Status.FAIL)


def test_the_only_node_has_to_be_used_by_whatever_balancer() -> None:
    promise = Promise(None, "x", False, True, True)
    judge = World(Balancer.DEFAULT, elsewhere=True, promise=promise).judge()
    assert [line.change.number for line in judge.lines if line.change.up and judge._alone(line)] == [4]
    due = [line.change.number for line in judge.lines if line.change.up and judge._must_steer(line, FAMILY)]
    assert due == [4]


def paused(result: Result, since: float, seconds: float) -> Result:
    """The same, where this machine sent nothing through the VIP for so long."""
    stream = result.seen.vip[FAMILY]
    stream.samples[:] = [each for each in stream.samples if not since < each.started < since + seconds]
    stream.freeze()
    return result


GAPS: dict[str, tuple[float, float, Status]] = {
    "well below the bound": (6.0, 0.8, Status.PASS),
    "well above it": (0.7, 0.8, Status.FAIL),
    "within what is not known": (1.8, 0.9, Status.INCONCLUSIVE),
    "just above, and known well enough": (1.7, 0.0, Status.FAIL),
}


@pytest.mark.parametrize("case", GAPS)
def test_our_own_gap_is_no_part_of_the_bound(case: str) -> None:
    """A gap of ours was added to the bound: a busy machine made it wider, in silence."""
    bound, gap, status = GAPS[case]
    result = replace(World().result(), promise=Promise(bound, BY_USER, True, True, True))
    if gap:
        for line, _ in Judge(result).holes(FAMILY):
            began = line.health[FAMILY]
            assert began is not None
            result = paused(result, began + 0.2, gap)
    decision = Judge(result).decide(check(What.BLACK_HOLE))
    assert decision.status is status, decision
    assert "are needed" in decision.sees
    if status is Status.INCONCLUSIVE:
        assert re.search(r"is 0\.9\d s, but a bound of 1\.80 s needs 0\.12 s or better", decision.reason)


def test_one_gap_costs_one_move_and_not_the_check() -> None:
    result = World().result()
    line, _ = Judge(result).holes(FAMILY)[0]
    began = line.health[FAMILY]
    assert began is not None
    decision = Judge(paused(result, began + 0.2, 1.4)).decide(check(What.BLACK_HOLE))
    assert decision.status is Status.PASS
    assert "are too uncertain" in decision.sees


@pytest.mark.parametrize("late", ["a", "b"])
def test_a_proxy_that_is_late_each_time_is_red_and_follows_all_the_same(late: str) -> None:
    """Nothing but 12 to 19 seconds bounded a node's own lag."""
    judge = World(late=late).judge()
    for what in (What.HEALTH_PROMPT, What.PATH_PROMPT):
        decision = judge.decide(check(what, None))
        assert decision.status is Status.FAIL, decision
        assert f"node {late}" in decision.reason or f", {late})" in decision.reason
        assert World().judge().decide(check(what, None)).status is Status.PASS
    assert "the nodes took p50" in World().judge().decide(check(What.HEALTH, None)).observed


def test_one_wrong_health_check_costs_the_moves_that_it_concerns() -> None:
    """It made what the balancer did with all other moves undecided."""
    wrong = lambda node, truth: "503" if node == "c" else truth  # noqa: E731 - shorter than a function
    judge = World(health=wrong).judge()
    steers = judge.decide(check(What.STEERS))
    assert steers.status is Status.PASS
    assert "not judged: the health check of c is wrong from change 4 on" in steers.observed
    slow = World(health=wrong, period=4.0, reported_period=1.0).judge()
    assert slow.decide(check(What.BLACK_HOLE)).status is Status.FAIL, "a move before that"
    broken = World(health=lambda _node, _truth: "200").judge().decide(check(What.STEERS))
    assert broken.status is Status.INCONCLUSIVE
    assert "say nothing about the load balancer" in broken.reason


AT_REST: dict[str, tuple[dict[str, Any], Status]] = {
    "nothing is lost": ({}, Status.PASS),
    "one of fifty at the VIP alone": ({"loses_at_vip": 0.02}, Status.FAIL),
    "as many on the whole way": ({"loses_anywhere": 0.02}, Status.PASS),
}


@pytest.mark.parametrize("case", AT_REST)
def test_losses_at_rest_are_held_against_a_control(case: str) -> None:
    """Isolated ones were strays, whatever their number; and three of 420 failed with no control at all."""
    how, status = AT_REST[case]
    judge = World(**how).judge()
    decision = judge.decide(check(What.STEERS))
    still = judge.rest(FAMILY)
    assert still.asked > 100
    assert still.control_asked > 100
    assert still.blames is (status is Status.FAIL)
    assert still.words in decision.observed
    if status is Status.FAIL:
        assert decision.status is Status.FAIL
        assert "the control lost fewer" in decision.reason
    elif not how:
        assert decision.status is Status.PASS


def test_failures_are_counted_until_the_decision() -> None:
    world = World(fall=3)
    assert set(observe(world.arrivals(), world.judge().lines).failures) == {3}


def threshold(fall: int, said: Threshold, **more: Any) -> Decision:
    """The decision on a load balancer that leaves nodes after so many failed health checks."""
    world = World(fall=fall)
    result = replace(world.result(), threshold=said)
    observed = replace(observe(world.arrivals(), result.timelines()), **more)
    return Judge(result.with_observed(observed)).decide(check(What.THRESHOLD, None))


@pytest.mark.parametrize(
    ("fall", "counts", "status"),
    [
        (1, (2,), Status.PASS),
        (2, (2,), Status.PASS),
        (3, (2,), Status.PASS),
        (4, (2,), Status.FAIL),
        (1, (3,), Status.FAIL),
        (1, (1, 5), Status.PASS),
        (4, (1, 5), Status.PASS),
        (3, (1, 5), Status.FAIL),
    ],
)  # fmt: skip
def test_the_failed_checks_until_a_node_is_left_are_those_of_the_profile(
    fall: int, counts: tuple[int, ...], status: Status
) -> None:
    decision = threshold(fall, Threshold(counts, "its profile", ""))
    assert decision.status is status
    assert decision.observed == f"4 x after {fall} failed health checks"
    assert decision.reason == f"its profile says {' or '.join(map(str, counts))}; packets show {fall}"


def test_one_removal_that_took_longer_is_no_other_threshold() -> None:
    assert threshold(2, Threshold((2,), "its profile", ""), failures=(2, 2, 5, 2)).status is Status.PASS
    assert threshold(2, Threshold((2,), "its profile", ""), failures=(2, 5, 5, 5)).status is Status.FAIL


def test_a_threshold_that_nobody_promises_is_recorded_and_too_few_removals_decide_nothing() -> None:
    detected = threshold(4, Threshold((2,), "a", "a was only detected"))
    assert (detected.status, detected.reason) == (
        Status.RECORDED,
        "nothing is required: a was only detected; a says 2; packets show 4",
    )
    assert threshold(4, Threshold()).reason == "nothing is required: the run did not record what the profile says"
    few = threshold(2, Threshold((2,), "its profile", ""), failures=(2, 2))
    assert few.status is Status.INCONCLUSIVE
    assert few.reason == "packets show 2 removals of nodes with failed health checks; 3 are needed"


@pytest.mark.parametrize(("healthy", "status"), [("ab", Status.PASS), ("a", Status.FAIL), ("abc", Status.FAIL)])
def test_the_health_view_must_be_exact(healthy: str, status: Status) -> None:
    result = replace(World().result(), views={What.VIEW_LOCAL: Health(frozenset(healthy), frozenset("ab"))})
    assert Judge(result).decide(check(What.VIEW_LOCAL, None)).status is status


def test_a_balancer_that_knows_no_node_has_no_view() -> None:
    result = replace(World().result(), views={What.VIEW_CLUSTER: Health(frozenset(), frozenset())})
    assert Judge(result).decide(check(What.VIEW_CLUSTER, None)).status is Status.FAIL


def test_a_vip_that_stays_is_reported() -> None:
    for left, status in ((frozenset[str](), Status.PASS), (frozenset({"192.0.2.77"}), Status.FAIL)):
        result = replace(World().result(), views={What.FREED: Health(left, frozenset())})
        decision = Judge(result).decide(check(What.FREED, None))
        assert decision.status is status
        assert ("192.0.2.77" in decision.observed) is bool(left)
    assert World().judge().decide(check(What.FREED, None)).status is Status.INCONCLUSIVE


def test_what_was_cut_short_does_not_pass_and_still_fails() -> None:
    judge = Judge(replace(World().result(), planned=10))
    for what, family in ((What.STEERS, FAMILY), (What.SOURCE, FAMILY), (What.HEALTH, None), (What.PATH, None)):
        decision = judge.decide(check(what, family))
        assert (decision.status, decision.reason) == (Status.INCONCLUSIVE, "only 8 of 10 endpoint changes were made")
    assert "reference-ecmp: only 8 of 10 endpoint changes were made" in "\n".join(lines_of(judge))
    cut = Judge(replace(World(ignores_health=True).result(), planned=10))
    assert cut.decide(check(What.STEERS)).status is Status.FAIL
    assert Judge(replace(World().result(), planned=8)).decide(check(What.STEERS)).status is Status.PASS


SPLITS: dict[str, tuple[dict[str, int], dict[str, int], Status, str]] = {
    "equal": ({"a": 1310, "b": 1290}, {"a": 2, "b": 1}, Status.PASS, ""),
    "equal, of too few": ({"a": 205, "b": 195}, {"a": 2, "b": 1}, Status.INCONCLUSIVE, ""),
    "58:42": ({"a": 1508, "b": 1092}, {"a": 2, "b": 1}, Status.FAIL, ""),
    "62:38, which was called weighed": ({"a": 1612, "b": 988}, {"a": 2, "b": 1}, Status.FAIL, ""),
    "by the weights that were reported": ({"a": 1733, "b": 867}, {"a": 2, "b": 1}, Status.FAIL, WEIGHED),
    "by weights that no node reported": ({"a": 1733, "b": 867}, {}, Status.FAIL, ""),
    "by weights that one node reported": ({"a": 1733, "b": 867}, {"a": 2}, Status.FAIL, ""),
    "against the weights": ({"a": 867, "b": 1733}, {"a": 2, "b": 1}, Status.FAIL, ""),
    "unequal by equal weights": ({"a": 1733, "b": 867}, {"a": 1, "b": 1}, Status.FAIL, ""),
    "one node alone": ({"a": 2600}, {"a": 2, "b": 1}, Status.FAIL, ""),
    "unequal, of few": ({"a": 400, "b": 20}, {}, Status.FAIL, ""),
}


@pytest.mark.parametrize("case", SPLITS)
def test_balance_is_per_node(case: str) -> None:
    nodes, weights, status, seen = SPLITS[case]
    result = replace(World().result(), counted={FAMILY: Counted(nodes, {"a": 2, "b": 1}, weights=weights)})
    decision = Judge(result).decide(check(What.BALANCE))
    assert (decision.status, decision.evidence) == (status, seen)
    assert decision.late or status is Status.INCONCLUSIVE, "nodes that answer late get less"
    assert status is not Status.INCONCLUSIVE or decision.reason == (
        "400 connections are too few: a power of 0.95 at 55:45 needs 2463"
    )
    assert "the power to detect a split of 55:45 is" in decision.sees


def test_so_many_connections_are_made_as_the_power_needs() -> None:
    assert power(CONNECTIONS, LEAST_P, UNEVEN) > LEAST_POWER > power(420, LEAST_P, UNEVEN)
    assert all(power(FOR_POWER + more, LEAST_P, UNEVEN) >= LEAST_POWER for more in range(CONNECTIONS - FOR_POWER))
    assert power(FOR_POWER - 1, LEAST_P, UNEVEN) < LEAST_POWER
    assert power(420, LEAST_P, 0.6) == pytest.approx(0.77, abs=0.01)


CONTROLS: dict[str, tuple[int, int, int, Status]] = {
    "nothing is lost": (0, 2600, 0, Status.PASS),
    "one in fifty": (52, 2600, 0, Status.FAIL),
    "a few, and none of the control": (12, 2600, 0, Status.FAIL),
    "as many as of the control": (26, 2600, 26, Status.PASS),
    "two": (2, 2600, 0, Status.PASS),
}


@pytest.mark.parametrize("case", CONTROLS)
def test_a_removed_node_that_gets_one_connection_in_fifty_is_found_when_no_pod_moves(case: str) -> None:
    lost, control, control_lost, status = CONTROLS[case]
    split = {"a": 1300, "b": 1300 - lost}
    counted = Counted(split, {"a": 2, "b": 1}, lost, control=control, control_lost=control_lost)
    decision = Judge(replace(World().result(), counted={FAMILY: counted})).decide(check(What.STEERS))
    assert decision.status is status
    assert f"{lost} of " in decision.observed
    assert f"the control at nodePorts lost {control_lost} of " in decision.observed


def test_what_could_not_be_asked_is_not_judged() -> None:
    nothing = Result(Balancer.ECMP, World().seen(), obstacle="no VIP came")
    assert Judge(nothing).decide(check(What.STEERS)).status is Status.INCONCLUSIVE
    assert World().judge().decide(check(What.STEERS, Family.IPV6)).status is Status.INCONCLUSIVE
    assert World().judge().decide(check(What.BALANCE)).status is Status.INCONCLUSIVE


def with_errors(*at: float, health: str = "") -> Result:
    result = World().result()
    stream = result.seen.health[FAMILY][health] if health else result.seen.vip[FAMILY]
    for each in at:
        number = next(n for n, sample in enumerate(stream.samples) if sample.started >= each)
        stream.samples[number] = stream.samples[number]._replace(outcome="error", pod="", node="", source="")
    return result


def test_trouble_of_our_own_is_no_failure_of_the_product() -> None:
    cause = World().changes[1].cause
    assert Judge(with_errors(cause + 0.5)).decide(check(What.STEERS)).status is Status.ERROR
    assert Judge(with_errors(2.1, 2.2, 2.3, 2.4)).decide(check(What.STEERS)).status is Status.ERROR
    assert Judge(with_errors(cause + 0.5, health="a")).decide(check(What.BLACK_HOLE)).status is Status.ERROR


def test_a_machine_that_was_too_busy_to_ask_decides_nothing() -> None:
    decision = Judge(paused(World().result(), 4.0, 4.0)).decide(check(What.STEERS))
    assert decision.status is Status.INCONCLUSIVE
    assert "this machine sent no probe for 4.0 s" in decision.reason


@pytest.mark.parametrize("what", [What.STEERS, What.BLACK_HOLE, What.SOURCE])
def test_one_trouble_where_nothing_is_decided_is_none(what: What) -> None:
    assert Judge(with_errors(4.0)).decide(check(what)).status is Status.PASS


@pytest.mark.parametrize(("late", "seen"), [(0.0, REHASHED), (1.0, "")])
def test_what_breaks_while_routes_change_is_distinguished_from_what_a_node_drops(late: float, seen: str) -> None:
    world = World()
    result = world.result()
    down = next(line for line in Judge(result).lines if line.change.graceful)
    moment = (down.traffic[FAMILY].decision or 0.0) + late
    samples = result.seen.vip[FAMILY].samples
    at = min(range(len(samples)), key=lambda n: abs(samples[n].started - moment))
    samples[at] = samples[at]._replace(outcome="reset", pod="", node="", source="")
    decision = Judge(result).decide(check(What.NO_LOSS))
    assert (decision.status, decision.evidence) == (Status.FAIL, seen)


@pytest.mark.parametrize(("outcome", "late"), [("timeout", True), ("reset", False)])
def test_a_single_request_without_an_answer_after_its_node_was_left_is_late(outcome: str, late: bool) -> None:
    result = World().result()
    down = next(line for line in Judge(result).lines if line.change.graceful)
    moment = (down.traffic[FAMILY].at or 0.0) + 2.5
    samples = result.seen.vip[FAMILY].samples
    at = min(range(len(samples)), key=lambda n: abs(samples[n].started - moment))
    samples[at] = samples[at]._replace(outcome=outcome, pod="", node="", source="")
    decision = Judge(result).decide(check(What.NO_LOSS))
    assert (decision.status, decision.late) == (Status.FAIL, late)


def test_of_requests_lost_while_a_pod_served_its_last_it_is_reported_when_its_node_said_so() -> None:
    """A node that is late to say 503 leaves the balancer no time; one that says so at once has dropped them itself."""
    decision = World(drops_terminating=True).judge().decide(check(What.NO_LOSS))
    times = re.findall(r"change \d+ \(the node said 503 after (\d+\.\d) s\)", decision.reason)
    assert times
    assert all(float(seconds) < 1.0 for seconds in times)


def test_a_source_in_another_form_is_the_same() -> None:
    result = World().result()
    stream = result.seen.vip[FAMILY]
    stream.samples[0] = Sample(0, 2.0, 2.1, "answered", "a1", "a", f"::ffff:{CLIENT}")
    assert Judge(result).decide(check(What.SOURCE)).status is Status.PASS


def proxied(sources: list[str], **more: Any) -> Decision:
    """What is said where the cluster's own load balancer shows these sources in turns."""
    result = replace(World(balancer=Balancer.DEFAULT).result(), **more)
    stream = result.seen.vip[FAMILY]
    stream.samples[:] = [
        each._replace(source=sources[n % len(sources)]) if each.answered else each
        for n, each in enumerate(stream.samples)
    ]
    return Judge(result).decide(own(What.SOURCE))


STRANGERS = [f"198.51.100.{n}" for n in range(1, 200)]

PROXIES: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "one address of its own": (["198.51.100.7"], {}, PROXIED),
    "a few": (STRANGERS[:3], {}, PROXIED),
    "more than a load balancer has": (STRANGERS, {}, ""),
    "more, where --provider says that it is a proxy": (STRANGERS, {"proxy": True}, PROXIED),
    "a node's": ([NODE_ADDRESS], {}, ""),
    "a node's, where --provider says that it is a proxy": ([NODE_ADDRESS], {"proxy": True}, ""),
    "its own, and the client's in every other answer": (["198.51.100.7", CLIENT], {}, ""),
}


@pytest.mark.parametrize("case", PROXIES)
def test_a_source_that_a_proxy_of_the_clusters_own_rewrites_is_known_by_what_was_seen(case: str) -> None:
    """Any source at all was taken for a proxy's, where one announced itself."""
    shown, more, seen = PROXIES[case]
    decision = proxied(shown, others=frozenset({NODE_ADDRESS, CLIENT}), **more)
    assert (decision.status, decision.evidence) == (Status.FAIL, seen)
    assert decision.foreign is (NODE_ADDRESS not in shown)


@pytest.mark.parametrize(
    ("outcome", "source", "node", "seen"),
    [
        ("refused", NODE_ADDRESS, "a", FORWARDED),
        ("timeout", NODE_ADDRESS, "a", ""),
        ("refused", "198.51.100.7", "a", ""),
        ("refused", NODE_ADDRESS, "b", ""),
    ],
    ids=["as kube-proxy does", "the node still drops", "not a node's address", "it answers by itself"],
)
@pytest.mark.parametrize(
    ("after", "away", "known"),
    [(LAG / 2, 0.0, True), (LAG / 2, 0.5, False), (2.0, 0.0, False)],
    ids=["then", "at another moment", "once it has answered"],
)
def test_a_nodes_source_is_known_while_another_one_neither_drops_nor_translates(
    outcome: str, source: str, node: str, seen: str, after: float, away: float, known: bool
) -> None:
    """Seen on the first run of kind-masquerading: a node that was to serve the VIP masqueraded what came to it."""
    result = replace(World(balancer=Balancer.DEFAULT).result(), others=frozenset({NODE_ADDRESS, CLIENT}))
    up = next(change for change in result.changes if change.up)
    assert up.node == "b"
    for samples, when, made in (
        (result.seen.ports["b"].samples, after + away, {"outcome": outcome, "pod": "", "node": "", "source": ""}),
        (result.seen.vip[FAMILY].samples, after, {"outcome": "answered", "node": node, "source": source}),
    ):
        at = min(range(len(samples)), key=lambda n: abs(samples[n].started - up.cause - when))
        samples[at] = samples[at]._replace(**made, started=up.cause + when)
    decision = Judge(result).decide(own(What.SOURCE))
    assert (decision.status, decision.evidence) == (Status.FAIL, seen if known else "")


def test_only_of_the_clusters_own_a_proxys_source_may_be_known() -> None:
    """Of a class of the reference's own it is a fault: that one has promised to leave it."""
    for balancer in SPREADS:
        decided = World(balancer=balancer, loses_source="b").judge().decide(check(What.SOURCE, FAMILY, balancer))
        assert (decided.status, decided.evidence) == (Status.FAIL, "")
    path_checks = [
        path_check for path_check in CHECKS if path_check.subject.what is What.SOURCE and path_check.subject.family
    ]
    for path_check in path_checks:
        proxied = any(each.covers == PROXIED for each in path_check.differences)
        assert proxied is (path_check.subject.balancer is Balancer.DEFAULT)
    assert {each.covers for path_check in path_checks for each in path_check.differences} == {PROXIED, FORWARDED}
    assert {path_check.subject.own_service for path_check in path_checks} == {"moves-default", ""}


def lines_of(judge: Judge) -> list[str]:
    return summary_lines(summary, Moved({judge.result.balancer: judge.result}))


def test_the_section_tells_phases_bound_seed_and_the_worst_event() -> None:
    text = "\n".join(lines_of(World().judge()))
    for part in ("--seed 7", "trigger to traffic", "bound 3.00 s kept", "the worst event", "call: pod", "N=2"):
        assert part in text
    assert "EXCEEDED" in "\n".join(lines_of(World(period=3.0).judge()))


def test_the_section_tells_how_often_we_really_asked() -> None:
    result = World().result()
    del result.seen.vip[FAMILY].samples[1::2]
    text = " ".join("\n".join(lines_of(Judge(result))).split())
    assert "one request every 40 ms (p95 40 ms), one health check of the suite every 20 ms (p95 20 ms)" in text


def test_a_move_elsewhere_is_counted_once_and_reported_as_the_one_that_went() -> None:
    result = World(elsewhere=True).result()
    lost = sum(not sample.answered for sample in result.seen.vip[FAMILY].samples if sample.started > EVERY)
    text = "\n".join(lines_of(Judge(result)))
    assert f": {lost} lost, 0 refused" in text
    line = next(line for line, _ in Judge(result).holes(FAMILY) if line.change.kind is Kind.ELSEWHERE)
    assert line.traffic[FAMILY].losses.count > 0
    for change in result.changes:  # of the two halves alone
        if change.kind is Kind.ELSEWHERE:
            continue
        stream = result.seen.vip[FAMILY]
        for number, sample in enumerate(stream.samples):
            if change.cause <= sample.started < result.ends[change.number] and not sample.answered:
                stream.samples[number] = sample._replace(outcome="answered", pod="b1", node="b", source=CLIENT)
    text = "\n".join(lines_of(Judge(result)))
    assert "call: pod a1 on node a elsewhere (endpoint change 4)" in text
