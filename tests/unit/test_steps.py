"""How an event is done: in which order, how often, and what is undone whatever breaks it off."""

import pytest

from esipp.base.errors import HarnessError
from esipp.judging.timeline import Sample, Stream, cut
from esipp.scenarios.events import Steps


def steps(times: int = 1, broken: str = "") -> Steps[list[str]]:
    def step(name: str, notes: list[str]) -> None:
        notes.append(name)
        if name == broken:
            raise HarnessError("The machine stopped.")

    return Steps(
        lambda notes: step("do", notes), lambda notes: step("prove", notes), lambda notes: step("undo", notes),
        lambda notes: step("settle", notes), times,
    )  # fmt: skip


def test_an_event_is_done_proven_undone_and_settled_each_time() -> None:
    notes: list[str] = []
    steps(times=2).perform(notes)
    assert notes == ["do", "prove", "undo", "settle"] * 2


def test_an_event_ends_once_another_time_would_show_nothing_new() -> None:
    notes: list[str] = []
    steps(times=5).perform(notes, enough=lambda: len(notes) >= 8)
    assert notes.count("do") == 2


@pytest.mark.parametrize("broken", ["do", "prove"])
def test_an_event_is_undone_whatever_broke_it_off(broken: str) -> None:
    notes: list[str] = []
    with pytest.raises(HarnessError):
        steps(broken=broken).perform(notes)
    assert notes[-1] == "undo"


def test_a_stream_is_cut_where_changes_begin() -> None:
    def probe(started: float, took: float, outcome: str) -> Sample:
        return Sample(0, started, started + took, outcome)

    before, lost = probe(1.0, 0.1, "answered"), probe(1.9, 0.9, "timeout")
    slow, refused = probe(1.8, 0.4, "answered"), probe(1.95, 0.1, "refused")
    stream = Stream("a", 0.1, [before, slow, lost, refused, probe(2.5, 0.1, "answered")])
    stream.freeze()
    first, second = cut(stream, [0.5, 2.0], 3.0)
    assert (first.until, first.samples, first.under_way) == (2.0, [before, lost, refused], [slow])
    assert [sample.started for sample in second.samples] == [2.5]
    first, _ = cut(stream, [0.5, 2.0], 3.0, responds=lambda sample: sample.outcome != "timeout")
    assert first.under_way == [slow, refused], "who responded knew one of the two rules"
