"""Balancers, nodes and health checks that lie: each must be red in the right row, and only there."""

import re
from dataclasses import replace
from typing import Any

import pytest

from esipp.model import Balancer, Family
from esipp.moves.checks import Checking, observe
from esipp.moves.judging import Counted, Health, Judge, Result
from esipp.moves.plan import Kind
from esipp.moves.rows import PROXIED, REHASHED, SPREADS, WEIGHED, MoveRow, What
from esipp.moves.samples import Sample
from esipp.moves.scene import service_name
from esipp.moves.telling import section
from esipp.rows import Level, Status
from suites.convergence.cells import CELLS
from tests.unit.moves_world import CLIENT, EVERY, FAMILY, World

AT_VIP = (What.STEERS, What.PLACE, What.SOURCE, What.BLACK_HOLE, What.NO_LOSS, What.TIMES_UP, What.TIMES_DOWN)
AT_NODES = (What.HEALTH, What.PATH, What.PLACE, What.SOURCE)


def row(what: What, family: Family | None = FAMILY, balancer: Balancer = Balancer.ECMP) -> MoveRow:
    return MoveRow(
        id="x", requirement="", level=Level.CORE, suite="convergence", references=(), balancer=balancer, what=what,
        family=family,
    )  # fmt: skip


def red(judge: Judge) -> set[str]:
    found = set()
    for family, whats in ((FAMILY, AT_VIP), (None, AT_NODES)):
        for what in whats:
            decision = judge.decide(row(what, family))
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
        {"period": 10.0, "told_period": 1.0},
        {"steers", "black-hole", "no-loss-on-graceful-deletion"},
    ),
    "keeps a node that was removed": ({"keeps": "a"}, {"steers", "black-hole"}),
    "a bare node forwards": ({"forwards": "c"}, {"nodes only-allowed-pods"}),
    "the source is lost": ({"loses_source": "b"}, {"source", "nodes source"}),
    "the terminating pod is cut off": ({"drops_terminating": True}, {"no-loss-on-graceful-deletion"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_red_in_the_right_rows_and_only_there(lie: str) -> None:
    how, expected = LIES[lie]
    assert red(World(**how).judge()) == expected


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


def test_the_bound_is_told_with_what_it_rests_on() -> None:
    said = World().judge().decide(row(What.BLACK_HOLE)).observed
    assert "bound 3.00 s, N=2, period 1.00 s, as the balancer tells (observed: N=unknown, period unknown)" in said
    seen = observe(World().arrivals(), World().judge().lines)
    said = Judge(replace(World().result(), observed=seen)).decide(row(What.BLACK_HOLE)).observed
    assert "(observed: N=2, period 1.00 s)" in said


def test_without_health_checks_there_is_no_bound() -> None:
    decision = World(tells=False).judge().decide(row(What.BLACK_HOLE))
    assert decision.status is Status.FAIL
    assert "no bound" in decision.reason


def test_the_bound_may_rest_on_what_packets_show() -> None:
    world = World(tells=False)
    judge = world.judge()
    seen = observe(world.arrivals(), judge.lines)
    assert seen.checking == Checking(pytest.approx(1.0), 2)
    assert seen.sources == ("192.0.2.20",)
    assert Judge(replace(world.result(), observed=seen)).decide(row(What.BLACK_HOLE)).status is Status.PASS


def test_failures_are_counted_until_the_decision() -> None:
    world = World(fall=3)
    assert set(observe(world.arrivals(), world.judge().lines).failures) == {3}


@pytest.mark.parametrize(("healthy", "status"), [("ab", Status.PASS), ("a", Status.FAIL), ("abc", Status.FAIL)])
def test_the_health_view_must_be_exact(healthy: str, status: Status) -> None:
    result = replace(World().result(), views={What.VIEW_LOCAL: Health(frozenset(healthy), frozenset("ab"))})
    assert Judge(result).decide(row(What.VIEW_LOCAL, None)).status is status


def test_a_balancer_that_knows_no_node_has_no_view() -> None:
    result = replace(World().result(), views={What.VIEW_CLUSTER: Health(frozenset(), frozenset())})
    assert Judge(result).decide(row(What.VIEW_CLUSTER, None)).status is Status.FAIL


def test_a_vip_that_stays_is_told() -> None:
    for left, status in ((frozenset[str](), Status.PASS), (frozenset({"192.0.2.77"}), Status.FAIL)):
        result = replace(World().result(), views={What.FREED: Health(left, frozenset())})
        decision = Judge(result).decide(row(What.FREED, None))
        assert decision.status is status
        assert ("192.0.2.77" in decision.observed) is bool(left)
    assert World().judge().decide(row(What.FREED, None)).status is Status.INCONCLUSIVE


def test_what_was_cut_short_does_not_pass_and_still_fails() -> None:
    judge = Judge(replace(World().result(), planned=10))
    for what, family in ((What.STEERS, FAMILY), (What.SOURCE, FAMILY), (What.HEALTH, None), (What.PATH, None)):
        decision = judge.decide(row(what, family))
        assert (decision.status, decision.reason) == (Status.INCONCLUSIVE, "8 of 10 moves were made")
    assert "reference-ecmp: 8 of 10 moves were made" in section([judge], 7, 5, 0.001)
    cut = Judge(replace(World(ignores_health=True).result(), planned=10))
    assert cut.decide(row(What.STEERS)).status is Status.FAIL
    assert Judge(replace(World().result(), planned=8)).decide(row(What.STEERS)).status is Status.PASS


@pytest.mark.parametrize(
    ("nodes", "status"),
    [({"a": 205, "b": 195}, Status.PASS), ({"a": 267, "b": 133}, Status.FAIL), ({"a": 400}, Status.FAIL)],
)
def test_balance_is_per_node(nodes: dict[str, int], status: Status) -> None:
    result = replace(World().result(), counted={FAMILY: Counted(nodes, {"a": 2, "b": 1})})
    decision = Judge(result).decide(row(What.BALANCE))
    assert decision.status is status
    assert (decision.seen == WEIGHED) is (nodes == {"a": 267, "b": 133})
    assert "by the weight header it would be 267:133" in decision.observed


@pytest.mark.parametrize(("lost", "status"), [(0, Status.PASS), (2, Status.PASS), (3, Status.FAIL), (9, Status.FAIL)])
def test_a_removed_node_that_gets_one_connection_in_fifty_is_found_when_no_pod_moves(lost: int, status: Status) -> None:
    counted = Counted({"a": 205, "b": 215 - lost}, {"a": 2, "b": 1}, lost)
    decision = Judge(replace(World().result(), counted={FAMILY: counted})).decide(row(What.STEERS))
    assert decision.status is status
    assert (f"; {lost} of 420 connections lost while no pod moved" in decision.observed) is (lost > 0)
    assert ("long after the moves" in decision.reason) is (status is Status.FAIL)


def test_what_could_not_be_asked_is_not_judged() -> None:
    nothing = Result(Balancer.ECMP, World().seen(), obstacle="no VIP came")
    assert Judge(nothing).decide(row(What.STEERS)).status is Status.INCONCLUSIVE
    assert World().judge().decide(row(What.STEERS, Family.IPV6)).status is Status.INCONCLUSIVE
    assert World().judge().decide(row(What.BALANCE)).status is Status.INCONCLUSIVE


def with_errors(*at: float, health: str = "") -> Result:
    result = World().result()
    stream = result.seen.health[FAMILY][health] if health else result.seen.vip[FAMILY]
    for each in at:
        number = next(n for n, sample in enumerate(stream.samples) if sample.started >= each)
        stream.samples[number] = stream.samples[number]._replace(outcome="error", pod="", node="", source="")
    return result


def test_trouble_of_our_own_is_no_failure_of_the_product() -> None:
    cause = World().changes[1].cause
    assert Judge(with_errors(cause + 0.5)).decide(row(What.STEERS)).status is Status.ERROR
    assert Judge(with_errors(2.1, 2.2, 2.3, 2.4)).decide(row(What.STEERS)).status is Status.ERROR
    assert Judge(with_errors(cause + 0.5, health="a")).decide(row(What.BLACK_HOLE)).status is Status.ERROR
    result = World().result()
    del result.seen.vip[FAMILY].samples[100:300]
    assert Judge(result).decide(row(What.STEERS)).status is Status.ERROR


@pytest.mark.parametrize("what", [What.STEERS, What.BLACK_HOLE, What.SOURCE])
def test_one_trouble_where_nothing_is_decided_is_none(what: What) -> None:
    assert Judge(with_errors(4.0)).decide(row(what)).status is Status.PASS


@pytest.mark.parametrize(("late", "seen"), [(0.0, REHASHED), (1.0, "")])
def test_what_breaks_while_routes_change_is_told_apart_from_what_a_node_drops(late: float, seen: str) -> None:
    world = World()
    result = world.result()
    down = next(line for line in Judge(result).lines if line.change.graceful)
    moment = (down.traffic[FAMILY].decision or 0.0) + late
    samples = result.seen.vip[FAMILY].samples
    at = min(range(len(samples)), key=lambda n: abs(samples[n].started - moment))
    samples[at] = samples[at]._replace(outcome="reset", pod="", node="", source="")
    decision = Judge(result).decide(row(What.NO_LOSS))
    assert (decision.status, decision.seen) == (Status.FAIL, seen)


def test_of_requests_lost_while_a_pod_served_its_last_it_is_told_when_its_node_said_so() -> None:
    """A node that is late to say 503 leaves the balancer no time; one that says so at once has dropped them itself."""
    decision = World(drops_terminating=True).judge().decide(row(What.NO_LOSS))
    told = re.findall(r"move \d+ \(its node said 503 after (\d+\.\d) s\)", decision.reason)
    assert told
    assert all(float(seconds) < 1.0 for seconds in told)


def test_a_source_in_another_form_is_the_same() -> None:
    result = World().result()
    stream = result.seen.vip[FAMILY]
    stream.samples[0] = Sample(0, 2.0, 2.1, "answered", "a1", "a", f"::ffff:{CLIENT}")
    assert Judge(result).decide(row(What.SOURCE)).status is Status.PASS


def test_a_source_that_a_proxy_of_the_clusters_own_rewrites_is_known_for_what_it_is() -> None:
    """Of a class of the reference's own it is a fault: that one has promised to leave it."""
    shown = {balancer: World(balancer=balancer, loses_source="b").judge() for balancer in SPREADS}
    told = {balancer: judge.decide(row(What.SOURCE, FAMILY, balancer)) for balancer, judge in shown.items()}
    own = World(balancer=Balancer.DEFAULT, loses_source="b").judge().decide(row(What.SOURCE, FAMILY, Balancer.DEFAULT))
    assert {each.status for each in told.values()} == {own.status} == {Status.FAIL}
    assert {each.seen for each in told.values()} == {""}
    assert own.seen == "", "some answers showed the client's own address"
    assert own.foreign
    stranger = World(balancer=Balancer.DEFAULT).result()
    stream = stranger.seen.vip[FAMILY]
    stream.samples[:] = [each._replace(source="203.0.113.1") for each in stream.samples]
    decided = Judge(stranger).decide(row(What.SOURCE, FAMILY, Balancer.DEFAULT))
    assert (decided.seen, decided.foreign) == (PROXIED, True)
    of_a_node = replace(stranger, others=frozenset({"203.0.113.1"}))
    decided = Judge(of_a_node).decide(row(What.SOURCE, FAMILY, Balancer.DEFAULT))
    assert (decided.status, decided.seen, decided.foreign) == (Status.FAIL, "", False)
    assert row(What.SOURCE, FAMILY, Balancer.DEFAULT).own_service == service_name(Balancer.DEFAULT)
    cells = [cell for cell in CELLS if cell.what is What.SOURCE and cell.family]
    assert all(bool(cell.differences) is (cell.balancer is Balancer.DEFAULT) for cell in cells)
    assert {each.seen for cell in cells for each in cell.differences} == {PROXIED}


def test_the_section_tells_phases_bound_seed_and_the_worst_event() -> None:
    text = "\n".join(section([World().judge()], 7, 30, 0.001))
    for part in ("--seed 7", "trigger to traffic", "bound 3.00 s kept", "the worst event", "cause: pod", "N=2"):
        assert part in text
    assert "BROKEN" in "\n".join(section([World(period=3.0).judge()], 7, 30, 0.001))


def test_the_section_tells_how_often_we_really_asked() -> None:
    result = World().result()
    del result.seen.vip[FAMILY].samples[1::2]
    text = " ".join("\n".join(section([Judge(result)], 7, 30, 0.001)).split())
    assert "a request of ours each 40 ms (p95 40 ms), a health check of ours each 20 ms (p95 20 ms)" in text


def test_a_move_elsewhere_is_counted_once_and_told_as_the_one_that_went() -> None:
    result = World(elsewhere=True).result()
    lost = sum(not sample.answered for sample in result.seen.vip[FAMILY].samples if sample.started > EVERY)
    text = "\n".join(section([Judge(result)], 7, 30, 0.001))
    assert f": {lost} lost, 0 refused" in text
    hole = next(each for each in Judge(result).holes(FAMILY) if each.line.change.kind is Kind.ELSEWHERE)
    assert hole.line.traffic[FAMILY].losses.count > 0
    for change in result.changes:  # of the two halves alone
        if change.kind is Kind.ELSEWHERE:
            continue
        stream = result.seen.vip[FAMILY]
        for number, sample in enumerate(stream.samples):
            if change.cause <= sample.started < result.ends[change.number] and not sample.answered:
                stream.samples[number] = sample._replace(outcome="answered", pod="b1", node="b", source=CLIENT)
    text = "\n".join(section([Judge(result)], 7, 30, 0.001))
    assert "cause: pod a1 on node a elsewhere (move 4)" in text
