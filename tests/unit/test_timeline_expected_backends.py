"""When a pod may answer, by what our watch saw of it and of the Services that it is behind."""

import math

import pytest

from esipp.judging.timeline import LATE, SLACK, STALE, UNREADY_BESIDE, Mark, Sample, Stream, misplaced, spans_of_marks

NODES = {"a": "n"}
READY, LOST = Mark(10.0, "ready", "a"), Mark(20.0, "unready", "a")
SAYS_503 = Stream("n", 0.1, [Sample(0, 20.4, 20.4, "503")])


def asked(at: float, *marks: Mark, local: bool = True, checked: bool = True) -> bool:
    """Whether the pod may answer what was asked then."""
    health = [{"n": SAYS_503}] if checked else []
    return not misplaced(
        Sample(0, at, at, "answered", "a", "n"), spans_of_marks([READY, *marks], NODES, health), local=local
    )


@pytest.mark.parametrize(
    ("local", "checked", "until"), [(True, True, 20.4 + SLACK), (True, False, 20 + STALE), (False, True, 20 + STALE)]
)
def test_a_pod_answers_until_its_node_says_503(local: bool, checked: bool, until: float) -> None:
    assert asked(until, LOST, local=local, checked=checked)
    assert not asked(math.nextafter(until, math.inf), LOST, local=local, checked=checked)


def test_a_service_whose_endpoints_lose_it_later_has_its_own_time() -> None:
    late = Mark(21.7, UNREADY_BESIDE, "a", "IPv6")
    assert asked(late.at + LATE, LOST, late)
    assert not asked(late.at + LATE + 0.01, LOST, late)
    sooner = Mark(20.1, UNREADY_BESIDE, "a", "IPv4")
    assert asked(late.at + LATE, LOST, sooner, late), "the last one"


def test_of_a_pod_that_is_ready_it_says_nothing() -> None:
    beside = Mark(15.0, UNREADY_BESIDE, "a", "IPv6")
    assert asked(1000.0, beside)
    assert not asked(30.0, beside, LOST)
