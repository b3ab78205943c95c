"""How long runs wait while something changes under traffic."""

from dataclasses import fields, replace

import pytest

from esipp.scenarios.timeouts import TIMEOUTS, Timeouts


@pytest.mark.parametrize(("answering", "seconds"), [(5.0, 30.0), (300.0, 300.0)])
def test_a_first_answer_may_take_as_long_as_the_load_balancer_takes_and_never_less(
    answering: float, seconds: float
) -> None:
    made = TIMEOUTS.answering(answering)
    assert made.first_pod == replace(TIMEOUTS.first_pod, seconds=seconds)
    assert made.ways_settled == replace(TIMEOUTS.ways_settled, seconds=seconds)
    others = [each.name for each in fields(Timeouts) if each.name not in ("first_pod", "ways_settled")]
    assert all(getattr(made, name) == getattr(TIMEOUTS, name) for name in others)
