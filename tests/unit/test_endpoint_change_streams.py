"""Samples, streams, plans, statistics, places."""

import math
from collections import Counter

import pytest

from esipp.checks.check import Feature, Status
from esipp.checks.endpoint_change import AFTER_503, Kind
from esipp.checks.expiry import binds, claims_of
from esipp.checks.model import Family
from esipp.checks.reference import titles
from esipp.judging.frame import Decision, Known, give_verdict
from esipp.judging.statistics import Distribution, binomial_p
from esipp.judging.timeline import LATE, Sample, Span, Stream, count_losses, read_health, read_request
from esipp.scenarios.endpoint_change.evidence import BalancerEvidence, Change, timeline
from esipp.scenarios.endpoint_change.expected_backends import Paths, with_evidence, wrong_places
from esipp.scenarios.endpoint_change.judge import say_places
from esipp.scenarios.endpoint_change.run import LEAST, last_open, plan
from suites.convergence.checks import CHECKS


def ok(seq: int, at: float, pod: str = "p", node: str = "n") -> Sample:
    return Sample(seq, at, at + 0.001, "answered", pod, node, "192.0.2.9")


def lost(seq: int, at: float) -> Sample:
    return Sample(seq, at, at + 0.9, "timeout")


def test_a_view_is_in_order_of_start_whatever_came_first() -> None:
    stream = Stream("s", 0.02, [ok(1, 1.02), ok(2, 1.04), lost(0, 1.0)])
    assert [sample.seq for sample in stream.view(1.0, 2.0)] == [0, 1, 2]
    stream.freeze()
    assert [sample.seq for sample in stream.view(1.0, 1.04)] == [0, 1]


def test_what_has_no_result_for_long_stands_as_pending_while_results_come() -> None:
    stream = Stream("s", 0.02, [ok(0, 1.0), ok(3, 1.06)])
    assert [(s.seq, s.outcome) for s in stream.view(0.9, 9.0, now=1.36)] == [
        (0, "answered"), (1, "pending"), (2, "pending"), (3, "answered"), (4, "pending"), (5, "pending"),
    ]  # fmt: skip


def test_what_a_stream_shows_is_known_by_the_last_probes_however_far_a_busy_machine_sends_them_apart() -> None:
    every_20_ms = Stream("s", 0.02, [lost(0, 9.0), *(ok(n, 9.0 + n / 50) for n in range(1, 50))])
    assert every_20_ms.shows("answered", 10.0)
    assert not Stream("s", 0.02, [*every_20_ms.samples[:-9], lost(41, 9.82)]).shows("answered", 10.0)
    every_110_ms = Stream("s", 0.02, [lost(0, 9.2), *(ok(n, 9.2 + n * 0.11) for n in range(1, 8))])
    assert every_110_ms.shows("answered", 10.0)
    assert not Stream("s", 0.02, every_110_ms.samples[:-2]).shows("answered", 9.8), "one of the last six was lost"
    assert not every_110_ms.shows("answered", 19.0), "that was long ago"
    assert not Stream("s", 0.02, every_110_ms.samples[3:]).shows("answered", 10.0), "too few"


def test_what_is_young_is_not_pending() -> None:
    stream = Stream("s", 0.02, [ok(0, 1.0)])
    assert [sample.seq for sample in stream.view(0.9, 9.0, now=1.2)] == [0]


def test_stretches_are_run_lengths() -> None:
    stream = Stream("s", 0.02, [ok(0, 1.0), ok(1, 1.02), lost(2, 1.04), ok(3, 1.06)])
    stream.freeze()
    assert [(each.probes, each.outcome) for each in stream.stretches()] == [
        (2, "answered"),
        (1, "timeout"),
        (1, "answered"),
    ]


def test_the_longest_gap_is_reported() -> None:
    stream = Stream("s", 0.02, [ok(0, 1.0), ok(1, 1.02), ok(2, 1.52)])
    assert stream.longest_gap() == pytest.approx(0.5)


def test_losses_and_the_longest_outage() -> None:
    run = [ok(0, 0.0), lost(1, 1.0), lost(2, 2.0), ok(3, 3.0), lost(4, 4.0)._replace(outcome="refused"), ok(5, 5.0)]
    losses = count_losses(run, 9.0)
    assert (losses.timed_out, losses.refused, losses.first, losses.last, losses.outage) == (2, 1, 1.0, 4.0, 2.0)
    assert count_losses(run[:3], 9.0).outage == pytest.approx(1.9)


def test_traffic_is_not_steered_while_young_requests_may_still_be_lost() -> None:
    """Every other request goes to the node that is gone; those of the last moments have no result yet."""
    change = Change(0, Kind.CLOSED, False, "n", "p", 1.0)
    seq = range(100)
    results = [ok(n, n * 0.02, "q", "m") if n % 2 else ok(n, n * 0.02) for n in seq if n < 50 or n % 2]
    stream = Stream("s", 0.02, results)
    seen = BalancerEvidence({Family.IPV4: stream}, {"n": stream}, {})
    line = timeline(change, 1.98, seen, now=1.99)
    assert line.traffic[Family.IPV4].used
    assert not line.traffic[Family.IPV4].steady
    assert line.traffic[Family.IPV4].losses.timed_out > 15


def test_results_of_the_prober_on_our_clock() -> None:
    line = {"seq": 7, "started": 1.0, "ended": 2.0, "outcome": "answered"}
    echo = {"pod": "p", "node": "n", "peer_address": "192.0.2.9"}
    assert read_request(line | {"echo": echo}, lambda at: at + 5) == Sample(
        7, 6.0, 7.0, "answered", "p", "n", "192.0.2.9"
    )
    assert read_health(line | {"response": {"status": 503}}, lambda at: at).outcome == "503"
    assert read_health(line | {"outcome": "refused", "response": None}, lambda at: at).outcome == "refused"


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_a_plan_has_so_many_moves_and_never_leaves_the_service_without_a_pod(seed: int, slots: int) -> None:
    steps = plan(f"{seed}", slots, 30)
    is_open = {0}
    for step in steps:
        assert step.up not in is_open
        assert step.down is None or step.down in is_open
        is_open |= {step.up} if step.up is not None else set()
        is_open -= {step.down} if step.down is not None else set()
        assert is_open
    assert {last_open(steps)} == is_open
    assert sum(step.up is not None for step in steps) == sum(step.down is not None for step in steps) == 30


@pytest.mark.parametrize("moves", [4, 5, 20])
def test_every_way_down_comes(moves: int) -> None:
    """A short run has a check for each of them too, whatever the seed."""
    for seed in range(300):
        kinds = Counter(step.kind for step in plan(f"{seed}", 3, moves))
        assert kinds >= Counter(LEAST), seed


@pytest.mark.parametrize("moves", [1, 3, 5, 6, 30])
def test_the_first_move_takes_the_only_open_pod_away(moves: int) -> None:
    for seed in range(200):
        first = plan(f"{seed}", 3, moves)[0]
        assert (first.kind, first.down) == (Kind.ELSEWHERE, 0), seed
        assert first.up in (1, 2), seed


def test_a_plan_is_the_seeds_and_has_all_kinds() -> None:
    assert plan("7", 3, 30) == plan("7", 3, 30) != plan("8", 3, 30)
    kinds = Counter(step.kind for seed in range(10) for step in plan(f"{seed}", 3, 30))
    assert all(kinds[kind] > 20 for kind in Kind)


def test_nothing_can_move_on_one_node() -> None:
    with pytest.raises(ValueError, match="at least two nodes"):
        plan("7", 1, 30)


def test_quantiles_are_samples() -> None:
    of = Distribution.of([3.0, 1.0, 2.0, 4.0])
    assert (of.quantile(0.5), of.quantile(0.95)) == (2.0, 4.0)


@pytest.mark.parametrize(
    ("hits", "trials", "p"), [(5, 10, 1.0), (0, 10, 2 / 1024), (1, 10, 22 / 1024), (10, 10, 2 / 1024)]
)
def test_the_binomial_test_is_exact(hits: int, trials: int, p: float) -> None:
    assert binomial_p(hits, trials, 0.5) == pytest.approx(p)


def test_a_pod_may_answer_while_it_is_ready_and_nobody_else_ever() -> None:
    allowed = {"p": [Span(1.0, 2.0, 2.0)], "q": [Span(-math.inf)]}
    stream = Stream("s", 0.02, [ok(0, 0.5), ok(1, 1.5), ok(2, 2.5), ok(3, 1.5, "x"), ok(4, 1.5, "q"), lost(5, 9)])
    assert [each.sample.seq for each in wrong_places(stream, allowed)] == [0, 2, 3]
    found = wrong_places(stream, allowed, node="m")
    assert {each.why for each in found if each.sample.seq in (1, 4)} == {"node m forwarded it to a pod on node n"}
    assert not any(each.late for each in found if each.sample.seq in (1, 4)), "that is another matter"


def answers(*moments: float, until: float = 9.0) -> Stream:
    """A nodePort asked each 0.1 s from 0 on, that is answered at these moments; what is lost has no answer."""
    samples = [
        ok(n, n / 10) if any(abs(n / 10 - at) < 0.01 for at in moments) else lost(n, n / 10)
        for n in range(int(until * 10))
    ]
    stream = Stream("nodePort of n", 0.1, samples)
    stream.freeze()
    return stream


def tenths(since: float, until: float) -> list[float]:
    return [n / 10 for n in range(int(since * 10), int(until * 10))]


def test_a_pod_that_answers_shortly_after_its_nodes_503_is_distinguished_from_one_that_goes_on() -> None:
    allowed = {"p": [Span(1.0, 2.0, 2.0)]}
    short = wrong_places(Stream("s", 0.02, [ok(0, 2.5), ok(1, 2.0 + LATE)]), allowed)
    assert [each.late for each in short] == [True, True]
    paths = {"n": Paths(answers(*tenths(1.0, 6.0)), answers(*tenths(1.0, 2.0)))}
    excused = with_evidence(short, paths)
    assert say_places(excused, 9).evidence == AFTER_503
    assert "in the other family" in say_places(excused, 9).reason
    assert say_places(excused, 9).late, "undecided where the machine is overloaded"
    for more in (ok(1, 2.1 + LATE), ok(1, 0.5), ok(1, 1.5, "x")):
        found = wrong_places(Stream("s", 0.02, [ok(0, 2.5), more]), allowed)
        said = say_places(with_evidence(found, paths), 9)
        assert (said.evidence, said.late) == ("", False)


WITNESSES = {
    "no path of the other family was asked": None,
    "the other family still led to the pod, too": Paths(answers(*tenths(1.0, 6.0)), answers(*tenths(1.0, 6.0))),
    "the answer's own family had stopped": Paths(answers(*tenths(1.0, 2.0)), answers(*tenths(1.0, 2.0))),
    "nobody asked the other family for a while": Paths(answers(*tenths(1.0, 6.0)), answers(until=1.0)),
}


@pytest.mark.parametrize("lie", WITNESSES)
def test_an_answer_after_the_503_is_excused_only_where_the_other_familys_rules_were_seen_to_be_gone(lie: str) -> None:
    """By the version alone each of these was excused for three seconds."""
    paths = WITNESSES[lie]
    late = wrong_places(Stream("s", 0.02, [ok(0, 2.5)]), {"p": [Span(1.0, 2.0, 2.0)]})
    assert say_places(with_evidence(late, {"n": paths} if paths else {}), 9).evidence == ""


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"kubernetes": "v1.32.13"}, Status.KNOWN),
        ({"kubernetes": "v1.36.3"}, Status.FAIL),
        ({"kubernetes": "v1.32.13", "families.services": "IPv4"}, Status.FAIL),
        ({"kubernetes": "v1.32.13", "service-proxy": "cilium"}, Status.FAIL),
    ],
)
def test_before_1_36_one_family_answered_for_both(facts: dict[str, str], status: Status) -> None:
    check = next(each for each in CHECKS if each.id == "convergence.reference-proxy.nodes.only-allowed-pods")
    decided = Decision(Status.FAIL, "", "", "", AFTER_503)
    dual = {"service-proxy": "kube-proxy", "families.services": "IPv4, IPv6"}
    dual["kube-proxy-version"] = facts["kubernetes"]
    features = {name: Feature(True, "") for name in check.features}
    assert give_verdict(check, Known(dual | facts, features), lambda: decided).status is status
    claim = next(each for each in claims_of(check) if "114702" in titles(each.references))
    assert not binds(claim), "a run may be lucky"


def test_a_time_is_known_once_no_probe_that_began_before_it_is_under_way() -> None:
    first, silent, late, after = (Sample(seq, 0.1 * seq, 0.1 * seq + 0.01, "answered") for seq in range(4))
    assert not Stream("x", 0.1).known_until(0.25)
    assert not Stream("x", 0.1, [first, silent, late]).known_until(0.25), "another one may have begun"
    assert not Stream("x", 0.1, [first, late, after]).known_until(0.25), "one has no result"
    assert Stream("x", 0.1, [first, late, after, silent]).known_until(0.25)
