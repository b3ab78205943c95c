"""Whose word the bound of the cluster's own load balancer is; how a time is held against one."""

import pytest

from esipp.checks.timing import Blur, Bound, Held, hold, needed, promise_of
from esipp.judging.controls import Counts, Vantage, by_chance, excused
from esipp.judging.timeline import Sample, Stream
from esipp.loadbalancers.profiles.loading import all_profiles

PROFILES = {each.name: each for each in all_profiles()}


def bound_of(*names: str, named: bool = False, bound: float | None = None) -> Bound | None:
    return promise_of([PROFILES[name] for name in names], sure=named, bound=bound).bound


def test_the_user_goes_before_any_profile() -> None:
    assert bound_of("aks", named=True, bound=7.5) == Bound(7.5, "--bound")


def test_a_profile_that_was_named_gives_its_bound_and_says_so() -> None:
    found = bound_of("aks", named=True)
    assert found is not None
    assert found.seconds > 0
    assert "aks" in found.source


def test_a_balancer_without_health_checks_promises_nothing() -> None:
    assert bound_of("metallb-l2", named=True) is None
    assert bound_of() is None
    assert bound_of("metallb-l2") is None


@pytest.mark.parametrize(
    ("seconds", "blur", "held"),
    [
        (2.9, Blur(0.1), Held.WITHIN),
        (3.1, Blur(0.1), Held.OVER),
        (2.9, Blur(0.3), Held.UNKNOWN),
        (3.1, Blur(0.3), Held.UNKNOWN),
        (2.5, Blur(0.3), Held.WITHIN),
        (3.4, Blur(0.3), Held.OVER),
        (3.77, Blur(0.1, 0.3), Held.UNKNOWN),
        (9.0, Blur(0.1, 0.3), Held.OVER),
        (0.0, Blur(3.1), Held.UNKNOWN),
    ],
)
def test_a_time_is_held_against_a_bound_as_well_as_it_was_measured(seconds: float, blur: Blur, held: Held) -> None:
    assert needed(3.0) == pytest.approx(0.2)
    assert hold(seconds, 3.0, blur) is held


def control(*lost: int, late: tuple[int, ...] = ()) -> Stream:
    made = [
        Sample(
            n,
            n / 10,
            n / 10 + (3.0 if n in lost else 1.5 if n in late else 0.01),
            "timeout" if n in lost else "answered",
        )
        for n in range(300)
    ]
    return Stream("listener", 0.1, made)


def test_trouble_is_ours_only_where_every_nodes_control_shares_it() -> None:
    everywhere = Vantage({"a": control(100, 101), "b": control(99, 102), "c": control(late=(99, 103))})
    assert "a: 2 of 41 lost, b: 2 of 41 lost, c: 1.5 s late" in everywhere.ours(10.0, 10.0)
    assert everywhere.cut(10.0, 10.0) == ""
    assert everywhere.ours(20.0, 20.0) == ""
    single = Vantage({"a": control(100), "b": control(99), "c": control(101)})
    assert single.ours(10.0, 10.0) == "", "single packets get lost on any way"
    one = Vantage({"a": control(100, 101), "b": control(), "c": control()})
    assert one.ours(10.0, 10.0) == ""
    assert "(2 on a), but none to b, c" in one.cut(10.0, 10.0)


def test_a_way_that_is_always_slow_is_not_slower_than_usual() -> None:
    far = Stream("far", 0.1, [Sample(n, n / 10, n / 10 + 0.2, "answered") for n in range(300)])
    assert Vantage({"a": far}).slow(10.0, 12.0) == pytest.approx(0.0)
    assert Vantage({"a": control(late=(100, 101)), "b": control()}).slow(10.0, 12.0) < 0.1
    assert Vantage({"a": control(late=(100, 101))}).slow(10.0, 12.0) == pytest.approx(1.49)


def test_a_node_that_loses_far_more_than_the_others_is_no_measure_of_the_way() -> None:
    cut = Vantage({"a": control(*range(0, 300, 3)), "b": control(), "c": control()})
    assert cut.counts([(0.0, 30.0)]) == Counts(0, 600)
    even = Vantage({"a": control(50), "b": control(150, 151), "c": control(250)})
    assert even.counts([(0.0, 30.0)]) == Counts(4, 900)


def test_losses_are_held_against_what_the_way_loses() -> None:
    assert excused(Counts(1, 420), Counts(0, 900)) == "", "where the control lost nothing every loss counts"
    assert "3 of 420" in excused(Counts(3, 420), Counts(8, 900))
    assert excused(Counts(30, 420), Counts(8, 900)) == ""
    assert by_chance(Counts(0, 420), Counts(8, 900)) == 1.0
