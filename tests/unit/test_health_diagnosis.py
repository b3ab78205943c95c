"""Where to look first when a health check has another status than it must have, or none."""

import pytest

from esipp.checks.check import Status, is_about
from esipp.checks.health import About, Answer, HealthAnswer
from esipp.checks.model import Outcome
from esipp.judging.scenario import where_to_look
from tests.unit.health_world import BY_ID, SAMPLES, answering, no_answer, say, verdict

CHECK = BY_ID["healthcheck.one-pod.ipv4.outside-1-to-bare-node.status"]


def _look(*answers: Answer) -> str:
    assert is_about(CHECK, HealthAnswer)
    said = verdict(CHECK, answering(CHECK.subject.question, *answers))
    return where_to_look(CHECK, said)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([say(0, "x", status=200)], "always says 200"),
        ([say(0, "x", status=200, count=1), say(0, "x", count=SAMPLES - 1)], "always says 200"),
        ([no_answer(Outcome.REFUSED)], "nothing listens at the node's health-check node port in this IP family"),
        ([no_answer(Outcome.TIMEOUT)], "does not answer in time"),
        ([say(0, "x", count=1), no_answer(Outcome.TIMEOUT, SAMPLES - 1)], "does not answer in time"),
        ([say(0, "x", status=500)], "another process answers"),
        ([say(0, "x")], ""),
    ],
)
def test_a_status_names_its_place(answers: list[Answer], words: str) -> None:
    look = _look(*answers)
    assert words in look
    assert bool(look) is bool(words)


def test_other_parts_of_an_answer_have_what_trips_them() -> None:
    check = next(each for each in BY_ID.values() if is_about(each, HealthAnswer) and each.subject.about is About.WEIGHT)
    question = check.subject.question
    said = verdict(check, answering(question, say(question.local_pods + 1, "x")))
    assert said.status is Status.FAIL
    assert where_to_look(check, said) == check.fails_if
