"""Power, losses beside a control, gaps around a moment, and times without moves."""

import math
from dataclasses import replace

import pytest

from esipp.judging.statistics import family_wise, family_wise_words, least_share, more_lost_p, power
from esipp.judging.timeline import Sample, Stream
from esipp.scenarios.endpoint_change.evidence import LEAST_CONTROL, Rest, at_rest, serves, windows
from esipp.scenarios.endpoint_change.judge import Judge
from tests.unit.endpoint_change_world import FAMILY, World


@pytest.mark.parametrize(
    ("trials", "share", "expected"), [(420, 0.6, 0.773), (420, 0.55, 0.092), (2463, 0.55, 0.952), (5, 0.9, 0.0)]
)
def test_the_power_is_exact(trials: int, share: float, expected: float) -> None:
    assert power(trials, 0.001, share) == pytest.approx(expected, abs=0.001)


def test_losses_beside_a_control_are_fishers() -> None:
    assert more_lost_p(3, 100, 0, 100) == pytest.approx(100 * 99 * 98 / (200 * 199 * 198))
    assert more_lost_p(0, 100, 5, 100) == more_lost_p(0, 100, 0, 0) == 1.0
    assert more_lost_p(26, 2600, 26, 2600) == pytest.approx(0.56, abs=0.02)


def test_a_run_with_several_tests_says_how_often_it_accuses_the_innocent() -> None:
    assert family_wise(6, 0.001) == pytest.approx(0.006)
    assert family_wise(2000, 0.001) == 1.0
    assert "6 balance tests at 0.001 each" in family_wise_words(6, 0.001)
    assert "at most 0.60%" in family_wise_words(6, 0.001)


def test_the_least_loss_that_is_seen_is_reported() -> None:
    assert least_share(1, 2600, 0.95) == pytest.approx(1 - 0.05 ** (1 / 2600), rel=0.001)
    still = Rest(2600, 0, 2600, 0)
    assert still.least_blamed == 7
    assert Rest(2600, 7, 2600, 0).blames
    assert not Rest(2600, 6, 2600, 0).blames
    assert "a loss of 0.45% or more is detected with a probability of 95%" in still.sees
    assert "cannot be distinguished from the control's" in Rest(2600, 0, LEAST_CONTROL - 1, 0).sees


def test_losses_without_a_control_stay_open() -> None:
    still = Rest(2600, 52, 10, 0)
    assert still.open
    assert not still.blames


GAPS = {
    (1.0, 1.0): 0.5,  # a probe began at that moment: those on both sides of it
    (1.2, 1.3): 0.5,
    (0.2, 0.2): 0.8,  # nothing was asked before the first one
    (1.6, 3.0): 1.5,  # nor after the last one
    (1.0, 1.5): 0.5,
}


@pytest.mark.parametrize("around", GAPS)
def test_the_gap_around_a_moment_reaches_beyond_it(around: tuple[float, float]) -> None:
    stream = Stream("s", 0.5, [Sample(n, at, at + 0.01, "answered") for n, at in enumerate((1.0, 1.5))])
    stream.freeze()
    assert stream.gap_around(*around) == pytest.approx(GAPS[around])
    assert Stream("empty", 0.5).gap_around(1.0, 2.0) == math.inf


def test_nothing_is_at_rest_while_a_deleted_pod_ends() -> None:
    judge = World().judge()
    result = judge.result
    found = windows(judge.lines, result.seen.marks, [])
    graceful = next(line for line in judge.lines if line.change.graceful)
    gone = graceful.change.cause + 5.1
    assert not any(since < gone and until > graceful.change.cause for since, until in found)
    for since, until in found:
        assert until > since
        causes = [line.change.cause for line in judge.lines]
        assert not any(since <= cause < until for cause in causes)
    unknown = [mark for mark in result.seen.marks if mark.what not in ("gone", "slice-gone")]
    cut = windows(judge.lines, unknown, [])
    assert all(until <= graceful.change.cause for _, until in cut), "nobody saw that pod go"


def test_a_node_serves_by_its_moves() -> None:
    changes = World().changes
    assert serves("a", 0.0, changes), "its first move takes its pod away"
    assert not serves("b", 0.0, changes)
    assert serves("b", changes[0].cause, changes)
    assert not serves("nobody", 99.0, changes)


def test_the_control_is_asked_at_nodes_that_serve() -> None:
    judge: Judge = World().judge()
    found = windows(judge.lines, judge.result.seen.marks, [])
    still = at_rest(judge.result.seen, FAMILY, judge.result.changes, found)
    assert still.control_lost == 0
    dead = replace(judge.result.seen, ports={**judge.result.seen.ports})
    for stream in dead.ports.values():
        stream.samples[:] = [each._replace(outcome="timeout", pod="", node="") for each in stream.samples]
    lost = at_rest(dead, FAMILY, judge.result.changes, found)
    assert lost.control_lost == lost.control_asked == still.control_asked > 0
