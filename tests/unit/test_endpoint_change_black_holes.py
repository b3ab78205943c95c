"""When a black hole ends, what of it is the balancer's, and what a node steadily says."""

from dataclasses import replace

import pytest

from esipp.checks.check import Status
from esipp.checks.endpoint_change import Kind, What
from esipp.checks.model import Balancer
from esipp.judging.timeline import RESOLUTION, Decision, Losses, Sample, Stream, in_flight, lasting
from esipp.scenarios.endpoint_change.evidence import (
    BalancerEvidence,
    Change,
    Timeline,
    Traffic,
    black_hole,
    phases,
    timeline,
)
from esipp.scenarios.endpoint_change.judge import Judge
from tests.unit.endpoint_change_world import FAMILY, World
from tests.unit.test_endpoint_change_judge import check

DOWN = 1
"""The change of the world that is a black hole: a closed pod on node a."""


def lose(stream: Stream, *moments: float) -> None:
    for moment in moments:
        number = next(n for n, sample in enumerate(stream.samples) if sample.started >= moment)
        sample = stream.samples[number]
        stream.samples[number] = Sample(sample.seq, sample.started, sample.started + 0.9, "timeout")


@pytest.mark.parametrize("tells", [True, False])
def test_a_stray_loss_long_after_the_balancer_steered_is_no_black_hole(tells: bool) -> None:
    clean = World(tells=tells).judge().lines[DOWN]
    result = World(tells=tells).result()
    steered = World().judge().lines[DOWN].traffic[FAMILY].decision
    assert steered is not None
    lose(result.seen.vip[FAMILY], steered + 2.2)
    judge = Judge(result)
    line = judge.lines[DOWN]
    assert black_hole(line, FAMILY) == black_hole(clean, FAMILY)
    assert phases(line, FAMILY) == phases(clean, FAMILY)
    assert line.traffic[FAMILY].losses.stray == 1
    assert "1 stray" in judge.decide(check(What.BLACK_HOLE)).observed
    assert judge.decide(check(What.STEERS)).status is Status.PASS


def test_a_balancer_that_decides_and_does_not_steer_is_seen() -> None:
    result = World().result()
    line = Judge(result).lines[DOWN]
    decided = line.traffic[FAMILY].decision
    assert decided is not None
    lose(result.seen.vip[FAMILY], *(decided + 0.06 * n for n in range(1, int((line.until - decided) / 0.06))))
    judge = Judge(result)
    assert judge.decide(check(What.STEERS)).status is Status.FAIL
    assert judge.decide(check(What.BLACK_HOLE)).status is Status.FAIL
    assert judge.lines[DOWN].traffic[FAMILY].losses.stray == 0


def test_what_is_lost_while_the_balancer_has_no_node_at_all_is_not_lost_by_the_one_that_went() -> None:
    result = World(elsewhere=True).result()
    number = next(n for n, each in enumerate(result.changes) if each.kind is Kind.ELSEWHERE and not each.up)
    decided = Judge(result).lines[number].traffic[FAMILY].decision
    assert decided is not None
    for node in ("b", "c"):  # the others take until two seconds later
        known = [each for each in result.seen.decisions if each.node != node or abs(each.at - decided) > 3.0]
        result = replace(result, seen=replace(result.seen, decisions=known))
    came = Decision(decided + 2.0, "c", True)
    seen = replace(result.seen, decisions=[*result.seen.decisions, came])
    lose(seen.vip[FAMILY], *(decided + 0.02 * n for n in range(1, 103)))
    line = Judge(replace(result, seen=seen)).lines[number]
    assert line.traffic[FAMILY].at == pytest.approx(decided, abs=0.1)
    assert line.traffic[FAMILY].losses.stray == 0
    dead = Judge(result).lines[number]  # nobody came: then it is the balancer's
    assert dead.traffic[FAMILY].at == pytest.approx(decided + 2.04, abs=0.1)


def test_losses_count_after_the_limit_where_they_go_on() -> None:
    assert lasting([1.0, 2.0, 5.0], 2.5) == 2.0
    assert lasting([5.0, 7.0], 2.5) is None
    assert lasting([1.0, 5.0, 5.2, 5.4, 9.0], 2.5) == 5.4
    assert lasting([1.0, 3.0, 3.8, 4.6, 5.4, 6.2, 7.0], 2.5) == 7.0
    assert lasting([1.0, 3.0, 3.8, 4.6, 5.4], 2.5) == 1.0


def test_a_gap_counts_only_in_the_hole_itself() -> None:
    result = World().result()
    stream = result.seen.vip[FAMILY]
    line = Judge(result).lines[DOWN]
    answered_503, end = line.health[FAMILY], line.traffic[FAMILY].losses.end
    assert answered_503 is not None
    assert end is not None
    stream.samples[:] = [sample for sample in stream.samples if not end + 0.5 < sample.started < end + 1.5]
    stream.freeze()
    assert Judge(result).resolution(line, FAMILY) == RESOLUTION
    stream.samples[:] = [
        sample for sample in stream.samples if not answered_503 + 0.2 < sample.started < answered_503 + 0.6
    ]
    stream.freeze()
    assert Judge(result).resolution(line, FAMILY) == pytest.approx(0.4, abs=0.05)


def test_a_hole_begins_when_there_is_somebody_to_steer_to() -> None:
    change = Change(0, Kind.ELSEWHERE, False, "a", "a1", 9.0)
    losses = Losses(timed_out=3, first=10.0, last=12.0, end=12.0)
    traffic = {FAMILY: Traffic(True, 12.0, True, losses)}
    line = Timeline(change, 15.0, health={FAMILY: 10.0}, traffic=traffic, other={FAMILY: 11.5})
    assert black_hole(line, FAMILY) == 0.5
    nobody = Timeline(change, 15.0, health={FAMILY: 10.0}, traffic=traffic, other={FAMILY: None})
    assert black_hole(nobody, FAMILY) is None


def test_the_other_node_is_known_by_its_own_word() -> None:
    line = next(line for line in World(elsewhere=True).judge().lines if line.change.kind is Kind.ELSEWHERE)
    assert not line.other
    result = World(elsewhere=True).result()
    for node in ("b", "c"):
        stream = result.seen.health[FAMILY][node]
        stream.samples[:] = [each._replace(outcome="503") if each.started < 33.0 else each for each in stream.samples]
    down = next(line for line in Judge(result).lines if line.change.kind is Kind.ELSEWHERE and not line.change.up)
    assert down.other[FAMILY] == pytest.approx(33.0, abs=0.03)


# ------------------------------------------------------------------------------------------- what a node steadily says
def moved(up: bool, health: list[str], path: list[str]) -> Timeline:
    """A change at 1.0, and outcomes each 20 ms from 0.9 on; an answer at the path is the node's own."""
    change = Change(0, Kind.OPENED if up else Kind.CLOSED, up, "n", "p", 1.0)

    def stream(outcomes: list[str], pod: str) -> Stream:
        made = Stream("s", 0.02)
        for seq, outcome in enumerate(outcomes):
            started = 0.9 + seq * 0.02
            ended = started + (0.9 if outcome in ("timeout", "in flight") else 0.001)
            outcome = {"in flight": "answered" if pod else "200"}.get(outcome, outcome)
            who = (pod, "n", "s") if outcome == "answered" else ("", "", "")
            made.add(Sample(seq, started, ended, outcome, *who))
        made.freeze()
        return made

    checks = stream(health, "")
    seen = BalancerEvidence({FAMILY: Stream("VIP", 0.02)}, {"n": stream(path, "p")}, {FAMILY: {"n": checks}})
    return timeline(change, 0.9 + 0.02 * len(health), seen)


@pytest.mark.parametrize("last", ["timeout", "pending"])
def test_one_probe_without_an_answer_at_the_end_is_no_change(last: str) -> None:
    line = moved(True, ["503"] * 10 + ["200"] * 50 + [last], ["timeout"] * 10 + ["answered"] * 50 + [last])
    assert (line.health[FAMILY], line.path) == (pytest.approx(1.1), pytest.approx(1.1))


def test_a_reply_breaks_what_was_steady_and_so_does_a_long_silence() -> None:
    line = moved(True, ["503"] * 10 + ["200"] * 109 + ["503"], ["timeout"] * 10 + ["answered"] * 50 + ["timeout"] * 60)
    assert (line.health[FAMILY], line.path) == (None, None)


def test_silence_is_what_a_path_that_went_down_says() -> None:
    line = moved(False, ["200"] * 10 + ["503"] * 50, ["answered"] * 10 + ["timeout"] * 50)
    assert (line.health[FAMILY], line.path) == (pytest.approx(1.1), pytest.approx(1.1))
    assert moved(False, ["200"] * 10 + ["503"] * 51, ["answered"] * 10 + ["timeout"] * 50 + ["answered"]).path is None


def test_what_is_in_flight_when_the_next_move_begins_is_not_the_last_ones() -> None:
    line = moved(
        False, ["200"] * 10 + ["503"] * 50 + ["in flight"], ["answered"] * 10 + ["timeout"] * 50 + ["in flight"]
    )
    assert (line.health[FAMILY], line.path) == (pytest.approx(1.1), pytest.approx(1.1))
    assert in_flight(Sample(0, 0.99, 1.89, "timeout"), 1.0)
    assert not in_flight(Sample(0, 0.5, 1.4, "timeout"), 1.0)  # was lost long before
    assert in_flight(Sample(0, 0.5, 1.4, "reset"), 1.0)
    result = World().result()
    lose(result.seen.vip[FAMILY], Judge(result).lines[3].until - 0.015)
    assert Judge(result).lines[3].change.graceful
    assert Judge(result).lines[3].traffic[FAMILY].losses.count == 0
    assert Judge(result).lines[4].traffic[FAMILY].losses.count == 1


def test_a_balancer_of_one_node_at_a_time_that_moved_on_lost_nothing_later_by_the_node_it_left() -> None:
    result = World(balancer=Balancer.DEFAULT, tells=False).result()
    seen = result.seen
    line = Judge(result).lines[DOWN]
    assert line.traffic[FAMILY].steady
    end = line.until - 0.2  # the pod of the node that it moved to ends
    lose(seen.vip[FAMILY], end, end + 0.02, end + 0.04, end + 0.06)
    later = Judge(result).lines[DOWN].traffic[FAMILY]
    assert later.steady
    assert later.at == line.traffic[FAMILY].at


def test_a_balancer_that_is_seen_to_take_turns_uses_every_node_that_it_took() -> None:
    """The cluster's own may be one of one node at a time, of which only the last request tells, or spread them."""
    result = World().result()
    unknown = Judge(replace(result, balancer=Balancer.DEFAULT, seen=replace(result.seen, spreads=False)))
    used = {line.change.number: line.traffic[FAMILY].used for line in Judge(result).lines if not line.change.up}
    assert used == {line.change.number: line.traffic[FAMILY].used for line in unknown.lines if not line.change.up}
    assert any(used.values())
    assert unknown.decide(check(What.STEERS, FAMILY, Balancer.DEFAULT)).status is Status.PASS
