"""Response times of two runs: the test, its correction, what it is made from."""

import random
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esipp.base.errors import ExitCode
from esipp.checks.check import Status
from esipp.checks.health import Place
from esipp.checks.model import Balancer, Family
from esipp.checks.policy_change import At
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.diff import compare
from esipp.report.comparing.times import (
    ALPHA,
    LEAST,
    PROBES,
    Compared,
    Times,
    compare_samples,
    compare_times,
    correct,
    samples,
)
from esipp.scenarios.continuity import numbers as continuity
from esipp.scenarios.endpoint_change import numbers as endpoint_change
from esipp.scenarios.endpoint_change.evidence import Moved
from esipp.scenarios.endpoint_change.judge import Judge
from esipp.scenarios.health import numbers as health
from esipp.scenarios.health.evidence import Followed, Round
from esipp.scenarios.health.evidence import HealthEvidence as Health
from esipp.scenarios.policy_change import numbers as policy_change
from tests.unit import drawings_world, policy_change_world
from tests.unit.comparing_world import path_check, probe, run_of, said
from tests.unit.endpoint_change_world import World

CONVERGENCE, POLICY_CHANGES = endpoint_change.DURATIONS.name, policy_change.DURATIONS.name
GAPS, HEALTH = continuity.DURATIONS.name, health.DURATIONS.name
SAMPLES = st.lists(st.floats(0.001, 10), min_size=LEAST, max_size=20)


def by_hand(old: list[float], new: list[float]) -> float:
    """The U statistic of the new samples, by counting pairs."""
    return sum((two > one) + 0.5 * (two == one) for one in old for two in new)


def test_the_p_value_is_that_of_the_exact_test() -> None:
    # all 70 ways to deal eight values to two samples are equally likely; two of them keep the samples wholly apart
    assert compare_samples("", "", [1, 2, 3, 4], [5, 6, 7, 8]).p == pytest.approx(2 / 70)


@given(SAMPLES, st.floats(-5, 5))
def test_the_shift_is_found_and_lies_in_its_interval(old: list[float], shift: float) -> None:
    found = compare_samples("", "", old, [each + shift for each in old])
    assert found.shift == pytest.approx(shift, abs=1e-9)
    assert found.low - 1e-9 <= shift <= found.high + 1e-9


@given(SAMPLES, SAMPLES)
def test_the_other_way_round_the_shift_is_the_opposite(old: list[float], new: list[float]) -> None:
    there, back = compare_samples("", "", old, new), compare_samples("", "", new, old)
    assert there.p == pytest.approx(back.p)
    assert (there.low, there.shift, there.high) == pytest.approx((-back.high, -back.shift, -back.low))
    half = len(old) * len(new) / 2
    assert (by_hand(old, new) - half) * there.shift >= -1e-9 or there.p > ALPHA


def test_the_interval_covers_the_true_shift_about_as_often_as_it_says() -> None:
    dice = random.Random(7)
    held = 0
    for _ in range(300):
        old = [dice.lognormvariate(0, 1) for _ in range(12)]
        new = [dice.lognormvariate(0, 1) + 0.5 for _ in range(15)]
        found = compare_samples("", "", old, new)
        held += found.low <= 0.5 <= found.high
    assert 0.91 <= held / 300 <= 0.99


def test_constant_samples_do_not_differ() -> None:
    assert compare_samples("", "", [0.0] * 9, [0.0] * 9).p == 1


def test_few_samples_are_not_tested() -> None:
    found = correct([compare_samples("", "", [1.0] * (LEAST - 1), [9.0] * 50)])
    assert not found[0].enough
    assert not found[0].differs


def of_p(p: float) -> Compared:
    made = compare_samples("", "", [1.0] * LEAST, [1.0] * LEAST)
    return Compared(made.of, made.what, made.old, made.new, p, p)


def test_holm_corrects_as_in_the_textbook() -> None:
    adjusted = [each.adjusted for each in correct([of_p(p) for p in (0.01, 0.04, 0.03, 0.005)])]
    assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_correction_never_makes_anything_more_significant(ps: list[float]) -> None:
    found = correct([of_p(p) for p in ps])
    assert [each.p for each in found] == ps
    assert all(1 >= each.adjusted >= each.p for each in found)
    ranked = sorted(found, key=lambda each: each.p)
    assert all(one.adjusted <= two.adjusted for one, two in pairwise(ranked))


# ------------------------------------------------------------------------------------------------- from a run
def probed(took: list[float], family: str = "IPv4", service: str = "nodeport.local") -> RecordedRun:
    checks = [path_check(f"{service}.{family}.{number}", service, family) for number in range(len(took))]
    run = run_of([said(check.id, Status.PASS) for check in checks], checks=checks)
    run.probes = {check.id: [probe(seconds)] for check, seconds in zip(checks, took, strict=True)}
    return run


def joined(*runs: RecordedRun) -> RecordedRun:
    first = runs[0]
    for other in runs[1:]:
        first.checks += other.checks
        first.verdicts |= other.verdicts
        first.probes |= other.probes
    return first


def by_way(times: Times) -> dict[str, Compared]:
    return {each.what: each for each in times.compared if each.of == PROBES}


def test_a_slower_machine_is_no_difference_between_services() -> None:
    took = [0.010 + number / 1000 for number in range(20)]
    times = compare_times(probed(took), probed([9 * each for each in took]))
    (found,) = times.compared
    assert found.p == pytest.approx(1)
    assert times.probes == pytest.approx((0.019, 0.171))


def test_one_service_that_got_slower_is_found_among_others() -> None:
    took = [0.010 + number / 1000 for number in range(12)]
    old, new = (
        joined(probed(took), probed(took, "IPv6"), probed([slower * each for each in took], service="clusterip"))
        for slower in (1, 8)
    )
    found = by_way(compare_times(old, new))
    assert [way for way, each in found.items() if each.differs] == ["clusterip endpoint-node, TCP, IPv4"]
    assert found["clusterip endpoint-node, TCP, IPv4"].shift > 0
    diff = compare(old, new)
    assert len(diff.later) == 1
    assert diff.exit_code is ExitCode.CONFORMANT


def test_only_answered_probes_that_are_given_singly_count() -> None:
    run = probed([0.01])
    path = run.checks[0].path
    run.probes[path] += [probe(20.0, times=198), probe(5.0, outcome="timeout"), probe(0.01)]
    times = compare_times(run, run)
    assert times.probes == pytest.approx((0.01, 0.01))
    assert [len(each.old.samples) for each in times.compared] == [1]


def test_every_suite_that_measures_is_read() -> None:
    run = run_of()
    nodes = zip((Place.ENDPOINT_NODE, Place.BARE_NODE, Place.OTHER_NODE), (0.2, 0.7, None), strict=True)
    status = {(place, Family.IPV4): Followed(seconds) for place, seconds in nodes}
    run.judged["health_checks"] = Health(rounds=[Round(0, "", {}, status, {}), Round(1, "", {}, {}, {})])
    run.judged |= drawings_world.continuity()
    result = World(Balancer.ECMP).result()
    run.judged["convergence"] = Moved({Balancer.ECMP: result})
    found = samples(run)
    moved = {name for name in found if name[0] == CONVERGENCE}
    assert len(moved) == len([each for each in Judge(result).times if each.of.samples]) > 8
    assert {name: found[name] for name in found if name not in moved} == {
        (HEALTH, "every node"): [0.7],
        (GAPS, "quiet"): [0.0, 0.0],
        (GAPS, "deleted"): [pytest.approx(4.0)] * 2,
    }


def test_a_policy_change_lasts_until_the_last_path_shows_it_for_good() -> None:
    run = run_of()
    run.judged["flips"] = policy_change_world.World(silent={At.ENDPOINT_NODE: 1.0}).seen()
    assert {name: seconds[0] for name, seconds in samples(run).items()} == {
        (POLICY_CHANGES, "to Cluster"): pytest.approx(1.03),
        (POLICY_CHANGES, "to Local"): pytest.approx(1.03),
    }


def test_other_commands_do_not_load_what_the_test_needs() -> None:
    loaded = "sys.exit('scipy' in sys.modules or 'numpy' in sys.modules)"
    code = f"import sys, esipp.app.cli, esipp.report.comparing.diff; {loaded}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
