"""What any scenario reads from streams of probes: steady runs, trouble of our own, sources, times against bounds."""

import pytest

from esipp.checks.timing import Blur, Measured, compare
from esipp.judging.timeline import Sample, first_run, last_run, prober_failed, probing_paused, sources
from esipp.judging.topology import parse_address

RIGHT, WRONG, NONE = "r", "w", "."
FITS = {RIGHT: True, WRONG: False, NONE: None}


def stream(outcomes: str, spacing: float = 0.1) -> list[Sample]:
    """Probes at this spacing from 0 on; a blank is a moment without a probe."""
    return [Sample(n, n * spacing, n * spacing, each) for n, each in enumerate(outcomes) if each != " "]


RUNS: dict[str, tuple[str, bool, float | None]] = {
    "right all the time": ("r" * 20, True, 0.0),
    "right after a wrong one": ("rrwrrrrrrr", True, 0.3),
    "wrong at the end": ("rrrrrrrrrw", True, None),
    "never answered": ("." * 20, True, None),
    "a few lost": ("rrr" + "." * 5 + "rrr", True, 0.0),
    "lost for too long": ("rrr" + "." * 11 + "rrr", True, 1.4),
    "lost for too long, without a word on pauses": ("rrr" + "." * 11 + "rrr", False, 1.4),
    "lost at the end for too long": ("rrr" + "." * 12, False, None),
    "no probe for too long": ("rrr" + " " * 11 + "rrr", True, 1.4),
    "no probe for too long, where only lost ones count": ("rrr" + " " * 11 + "rrr", False, 0.0),
}


@pytest.mark.parametrize("case", RUNS)
def test_the_last_run_of_right_answers(case: str) -> None:
    outcomes, pauses, since = RUNS[case]
    found = last_run(stream(outcomes), len(outcomes) * 0.1, lambda sample: FITS[sample.outcome], pauses=pauses)
    assert (found and found.since) == (since if since is None else pytest.approx(since))


def test_a_run_lasts_by_its_seconds_and_its_probes() -> None:
    samples = stream("wrrrrrr")
    found = last_run(samples, 0.7, lambda sample: FITS[sample.outcome])
    assert found is not None
    assert found.lasts(0.55, 6)
    assert not found.lasts(0.55, 7)
    assert not found.lasts(0.65, 6)
    assert first_run(stream("rrwrrrr"), lambda sample: FITS[sample.outcome], 0.25, 4) == pytest.approx(0.3)
    assert first_run(stream("rrwrr"), lambda sample: FITS[sample.outcome], 0.25, 4) is None


def test_a_few_errors_of_ours_matter_only_where_one_probe_decides() -> None:
    samples = [Sample(n, float(n), n + 0.1, "error" if n < 3 else "answered") for n in range(9)]
    assert not prober_failed(samples)
    assert prober_failed(samples, most=2) == "the prober itself failed in 3 of 9 probes"
    assert prober_failed(samples, [(1.5, 2.5)], name="x").endswith("3 of 9 probes (x)")
    assert not prober_failed(samples, [(3.5, 4.5)])


def test_a_pause_of_ours_proves_nothing() -> None:
    assert not probing_paused(stream("rr", 3.0))
    assert "no probe for 3.1 s (x)" in probing_paused(stream("rr", 3.1), "x")
    assert not probing_paused(stream("rr", 6.0), spacing=3.0), "a rare stream is no busy machine"
    assert "no probe for 6.1 s" in probing_paused(stream("rr", 6.1), spacing=3.0)


def test_sources_are_counted_by_what_is_right_for_each_answer() -> None:
    one, other = parse_address("192.0.2.1"), parse_address("192.0.2.2")
    seen = [
        ("192.0.2.1", [one]),
        ("192.0.2.2", [one]),
        ("192.0.2.2", [one, other]),
        ("", [one]),
        ("192.0.2.1", [other]),
    ]
    found = sources((Sample(n, n, n, "answered", source=source), right) for n, (source, right) in enumerate(seen))
    assert found.words == "the right source in 2 of 4 answers"
    assert found.fault == "wrong sources: 192.0.2.1 x1, 192.0.2.2 x1"
    assert found.first is not None
    assert found.first.seq == 1


def test_times_decide_as_far_as_they_are_known() -> None:
    sure, over, dim = Measured(1.0, Blur(0.1)), Measured(4.0, Blur(0.1)), Measured(2.9, Blur(1.0))
    found = compare([("a", sure), ("b", over), ("c", dim), ("d", Measured(4.0, Blur(0.1), "a doubt"))], 3.0)
    assert [[name for name, _ in each] for each in (found.within, found.over, found.unknown)] == [
        ["a"],
        ["b"],
        ["c", "d"],
    ]
    assert found.kept == {"kept": 1, "broken": 1}
    vague = found.vague(3.0, 0.0)
    assert vague is not None
    assert vague.too_coarse(3.0) == "a doubt"
    few = compare([("a", sure), ("c", dim)], 3.0)
    assert few.vague(3.0, 0.5) is None
    assert few.vague(3.0, 0.6) is dim
    assert "0.20 s or better" in dim.too_coarse(3.0)
