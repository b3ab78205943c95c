"""What samples can show: of one path, and of all of a run."""

import pytest

from esipp.checks.power import missed, most_unseen, say_run, say_share


def test_the_rule_of_three() -> None:
    for samples in (20, 200, 10_000):
        assert most_unseen(samples) == pytest.approx(3 / samples, rel=0.1)
        assert missed(samples, most_unseen(samples)) == pytest.approx(0.05)


def test_a_defect_of_one_percent_is_missed_in_200_connections_once_in_seven_or_eight_runs() -> None:
    assert missed(200) == pytest.approx(0.134, abs=0.001)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, "less than 0.1 %"), (0.0149, "1.5 %"), (0.134, "13 %"), (0.99, "99 %"), (0.996, "more than 99 %")],
)
def test_no_share_is_reported_as_nothing_or_all(share: float, expected: str) -> None:
    assert say_share(share) == expected


def test_a_run_says_what_it_can_miss() -> None:
    assert say_run([]) == say_run([0]) == ""
    assert say_run([200]) == (
        "1 path was dialled by 200 connections. A defect that hits 1 % of the connections of one path is missed "
        "with a chance of 13 %."
    )
    assert say_run([200] * 1204) == (
        "1,204 paths were dialled by 200 connections each. A defect that hits 1 % of the connections of one path is "
        "missed with a chance of 13 %, one that hits two paths with 1.8 %, three with 0.24 %."
    )
    assert say_run([200, 20]).startswith("2 paths were dialled by 20 connections or more each. ")
    assert "82 %, one that hits two paths with 67 %" in say_run([200, 20])
