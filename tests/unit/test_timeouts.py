"""How long the scenarios of a run wait."""

from dataclasses import fields, replace
from typing import Any

import pytest

from esipp.base.waiting import Budget, longer
from esipp.ledger.run import Run, Settings
from esipp.scenarios.context import Context
from esipp.scenarios.timeouts import SLOWER, TIMEOUTS, Timeouts


@pytest.mark.parametrize(("answering", "seconds"), [(5.0, 30.0), (300.0, 300.0)])
def test_a_first_answer_may_take_as_long_as_the_load_balancer_takes_and_never_less(
    answering: float, seconds: float
) -> None:
    made = TIMEOUTS.answering(answering)
    assert made.first_pod == replace(TIMEOUTS.first_pod, seconds=seconds)
    assert made.ways_settled == replace(TIMEOUTS.ways_settled, seconds=seconds)
    others = [each.name for each in fields(Timeouts) if each.name not in ("first_pod", "ways_settled")]
    assert all(getattr(made, name) == getattr(TIMEOUTS, name) for name in others)


def test_a_slow_cluster_gets_more_time_for_what_is_ours_and_no_more_for_what_checks_limit() -> None:
    settings = Settings("kind-test", timeout_factor=3.0)
    nothing: Any = None
    made = Context(Run(settings), nothing, nothing).timeouts
    assert made.pods_ready.seconds == 360.0
    for each in fields(Timeouts):
        usual = getattr(TIMEOUTS, each.name)
        assert getattr(made, each.name) == (longer(usual, 3.0) if each.name in SLOWER else usual)
    assert all(isinstance(getattr(TIMEOUTS, name), Budget | float) for name in SLOWER)
    for limited in (
        "port_followed",
        "round_followed",
        "services_closed",
        "policy_followed",
        "change_shown",
        "sources_stable",
        "vips_released",
    ):
        assert limited not in SLOWER, "what is later has failed a check, or is judged by other sources"
    assert "--timeout-factor 3" in settings.repeat
