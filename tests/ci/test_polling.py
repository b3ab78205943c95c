"""A wait for what set-up started."""

from ci.polling import until


def test_it_ends_when_it_is_done() -> None:
    answers = iter([False, False, True])
    assert until(lambda: next(answers), 60, 0.001)
    assert list(answers) == []


def test_what_is_never_done_ends_when_the_time_is_over() -> None:
    asked: list[int] = []
    assert not until(lambda: bool(asked.append(1)), 0.0, 0.0)
    assert len(asked) == 1
