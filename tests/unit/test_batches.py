"""Load balancers in batches: which stand at the same time, and what cannot be asked at all."""

import pytest

from esipp.checks.check import Check, is_about
from esipp.checks.path import OnPath
from esipp.scenarios.health.objects import local_service
from esipp.testbed.batches import ALL_AT_ONCE, balanced, batches, quota_of
from tests.unit.world import CHECKS as ALL_CHECKS

CHECKS: list[Check] = list(ALL_CHECKS)
OWN = balanced(path for path_check in ALL_CHECKS for path in path_check.subject.paths)
AT_VIP = local_service("health-at-vip", "run", {}, balancer=None)
NOBODYS = local_service("health-nobodys", "run", {})


def test_any_number_is_made_at_once() -> None:
    assert batches(CHECKS, {}, None) == ALL_AT_ONCE
    assert batches(CHECKS, {}, len(OWN)) == ALL_AT_ONCE
    assert not ALL_AT_ONCE.limited


@pytest.mark.parametrize("most", [2, 3, 8, 20])
def test_every_check_finds_all_that_it_needs_in_its_one_window(most: int) -> None:
    made = batches(CHECKS, {}, most)
    assert made.limited
    assert all(len(names) <= most for names in made.windows)
    assert frozenset().union(*made.windows) == OWN
    assert sum(map(len, made.windows)) == len(OWN), "each Service stands once"
    for path_check in ALL_CHECKS:
        assert balanced(path_check.subject.paths) <= made.windows[made.window_of(path_check)], path_check.id
    assert not made.too_many


def test_windows_are_as_few_as_their_number_lets_them_be() -> None:
    assert len(batches(CHECKS, {}, 8).windows) == -(-len(OWN) // 8)


def test_what_needs_more_than_may_be_there_says_so() -> None:
    made = batches(CHECKS, {}, 1)
    together = {
        path_check.id: balanced(path_check.subject.paths)
        for path_check in ALL_CHECKS
        if len(balanced(path_check.subject.paths)) > 1
    }
    assert together
    for names in together.values():
        assert names <= made.too_many.keys()
    assert all("2 load balancers at the same time, but the limit is 1" in why for why in made.too_many.values())
    assert all(len(names) <= 1 for names in made.windows)


def test_each_suite_has_its_own_one_after_the_other() -> None:
    objects = {"health": [AT_VIP, NOBODYS], "continuity": [AT_VIP | {"metadata": {"name": "c"}}]}
    made = batches(CHECKS, objects, 2)
    assert made.scenarios == {"health": frozenset({"health-at-vip"}), "continuity": frozenset({"c"})}
    assert made.at_once == 2
    few: list[Check] = [
        path_check
        for path_check in ALL_CHECKS
        if is_about(path_check, OnPath) and not balanced(path_check.subject.paths)
    ][:3]
    assert batches(few, objects, 2) == ALL_AT_ONCE, "all of them are no more than two"
    too_few = batches(CHECKS, {"continuity": [AT_VIP, AT_VIP | {"metadata": {"name": "c"}}]}, 1)
    assert {"health-at-vip", "c"} <= too_few.too_many.keys()
    assert too_few.scenarios == {"continuity": frozenset()}


@pytest.mark.parametrize(
    ("refusal", "most"),
    [
        ("exceeded quota: few, requested: services.loadbalancers=1, used: services.loadbalancers=8, limited: "
         "services.loadbalancers=8", 8),
        ("exceeded quota: few, requested: services=1,services.loadbalancers=1, used: services=9,services.loadbalancers"
         "=2, limited: services=9,services.loadbalancers=2", 2),
        ("exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2", None),
        ("exceeded quota: few, requested: services.loadbalancers=1, limited: services.nodeports=2", None),
        ('admission webhook "x" denied the request: no load balancers here', None),
    ],
)  # fmt: skip
def test_a_quota_says_how_many_it_lets_be_there(refusal: str, most: int | None) -> None:
    assert quota_of(refusal) == most
