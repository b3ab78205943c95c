"""What programs read of continuity: its part of report.json, and the durations that ``esipp diff`` compares."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from typing_extensions import TypedDict

from esipp.base.clock import between
from esipp.base.schema import Count, note
from esipp.checks.timing import CheckingNumbers
from esipp.judging.scenario import Durations, Numbers
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.continuity.judge import Judge
from esipp.scenarios.continuity.windows import ways


class ContinuitySettings(TypedDict):
    """How it was measured; durations are seconds."""

    spacing: float
    timeout: float
    serves: Annotated[int, note("how long terminating pods keep serving")]
    checking: CheckingNumbers
    trouble: str


class Window(TypedDict):
    """A disruption."""

    phase: str
    seconds: float
    words: str
    trouble: str
    unsettled: str


class Way(TypedDict):
    """The requests of one way in and family in one phase."""

    phase: str
    way: str
    family: str
    requests: Count
    lost: Count
    late: Count
    gap: Annotated[float, note("longest time without an answer")]
    broken: Annotated[int, note("established connections that broke")]
    wrong: int


class Continuity(TypedDict):
    """The disruptions under steady traffic, and the numbers of each way in."""

    settings: ContinuitySettings | None
    windows: list[Window]
    ways: list[Way]


def _numbers(run: RecordedRun) -> Continuity:
    judge = run.analysed(ContinuityEvidence, Judge)
    if judge is None:
        return {"settings": None, "windows": [], "ways": []}
    seen = judge.seen
    return {
        "settings": {
            "spacing": seen.spacing,
            "timeout": seen.timeout,
            "serves": int(seen.serves),
            "checking": seen.checking.numbers,
            "trouble": seen.trouble,
        },
        "windows": [
            {
                "phase": each.phase.value,
                "seconds": between(each.began, each.until),
                "words": each.words,
                "trouble": each.trouble,
                "unsettled": each.unsettled,
            }
            for each in seen.windows
        ],
        "ways": [
            {
                "phase": each.phase,
                "way": each.way,
                "family": each.family,
                "requests": each.requests,
                "lost": each.lost,
                "late": each.late,
                "gap": round(each.longest, 4),
                "broken": each.broken,
                "wrong": each.wrong_count,
            }
            for each in ways(judge)
        ],
    }


def _durations(run: RecordedRun) -> Iterator[tuple[str, Sequence[float]]]:
    judge = run.analysed(ContinuityEvidence, Judge)
    for way in ways(judge) if judge else ():
        yield way.phase, [way.longest]


NUMBERS = Numbers("continuity", Continuity, _numbers)
DURATIONS = Durations("longest gaps in steady traffic", "by phase; one value for each way in and family", _durations)
