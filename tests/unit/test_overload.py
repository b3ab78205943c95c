"""What is late on an overloaded machine proves nothing; what is wrong there still does."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from esipp.base.cores import RunQueue
from esipp.checks.catalog import checks_of
from esipp.checks.check import Feature, Status
from esipp.judging.answers import Unchanged
from esipp.judging.frame import OVERLOADED, Decision, Known, give_verdict, run_queue

ID = "convergence.default.nodes.health-follows-promptly"
CHECK = next(check for check in checks_of("convergence") if check.id == ID)
LATE = Decision(Status.FAIL, CHECK.expected, "12.22 s", "1 of 10 changes took longer than 5 s", late=True)


def verdict(decided: Decision, queue: float | None, scenario: str = "endpoint_change") -> tuple[Status, str]:
    facts = {} if queue is None else {run_queue(scenario): f"{queue:.1f}"}
    features = dict.fromkeys(CHECK.features, Feature(True, ""))
    found = give_verdict(CHECK, Known(facts, features), lambda: decided, "endpoint_change")
    return found.status, found.reason


@pytest.mark.parametrize("status", [Status.FAIL, Status.FLAKY])
def test_what_is_late_on_an_overloaded_machine_is_undecided(status: Status) -> None:
    status, reason = verdict(replace(LATE, status=status), OVERLOADED)
    assert status is Status.INCONCLUSIVE
    assert "20 tasks for each core" in reason
    assert "took longer than 5 s" in reason


@pytest.mark.parametrize(
    ("decided", "queue", "scenario"),
    [
        (LATE, OVERLOADED - 0.1, "endpoint_change"),
        (LATE, None, "endpoint_change"),
        (LATE, 30.0, "continuity"),
        (replace(LATE, late=False), 30.0, "endpoint_change"),
        (replace(LATE, status=Status.PASS), 30.0, "endpoint_change"),
    ],
    ids=["not overloaded", "another machine", "another scenario", "wrong and not late", "in time"],
)
def test_everything_else_is_judged_there_as_well(decided: Decision, queue: float | None, scenario: str) -> None:
    assert verdict(decided, queue, scenario)[0] is decided.status


@pytest.mark.parametrize(
    ("answers", "late"),
    [({"503": 484, "timed out": 16}, True), ({"503": 460, "timed out": 40}, False), ({"503": 484, "200": 16}, False)],
    ids=["16 of 500 unanswered", "40 of 500 unanswered", "16 of 500 wrong"],
)
def test_of_one_health_check_few_answers_that_do_not_come_are_late(answers: dict[str, int], late: bool) -> None:
    assert Unchanged(answers, wanted="503", silent={"timed out"}).decide(CHECK).late is late


def test_tasks_that_wait_are_counted_while_it_is_open(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu 1 2 3\nprocs_running 48\nprocs_blocked 0\n")
    with RunQueue(stat) as queue:
        pass
    assert queue.per_core == 48 / (os.cpu_count() or 1)
    queue = RunQueue(stat)
    queue._seen = [2] * 89 + [60] * 11
    assert queue.per_core == 60 / (os.cpu_count() or 1), "one look of ten, and no longer half of them"
    queue._seen = [2] * 91 + [60] * 9
    assert queue.per_core == 2 / (os.cpu_count() or 1)
    with RunQueue() as real:
        pass
    assert real.per_core > 0, "at least this test runs"
