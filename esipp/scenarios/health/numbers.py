"""What programs read of health checks: their part of report.json, and the durations that ``esipp diff`` compares."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from typing_extensions import TypedDict

from esipp.base.schema import Count, note
from esipp.checks.health import parts_of
from esipp.judging.scenario import Durations, Numbers
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.health.evidence import HealthEvidence, follow_times

WEIGHT = "x-load-balancing-endpoint-weight"


class Given(TypedDict):
    """Equal answers to a question."""

    outcome: str
    status: int | None
    count: Annotated[int, note("how many answers were such")]
    weight: Annotated[str | None, note(f"the header {WEIGHT}: the number of local endpoints")]


class Asked(TypedDict):
    """A question to a health check."""

    question: str
    situation: str
    family: str
    client: str
    place: str
    otherwise: Annotated[str, note("another method or path")]
    answers: list[Given]


class Rounds(TypedDict):
    """Rounds of randomly placed pods: how long each node's health check took to follow."""

    rounds: Count
    answers: Count
    never: Count
    p50: float | None
    p95: float | None
    max: float | None


class Health(TypedDict):
    """Each question to a health check with its answers, and how fast the nodes followed pods placed at random."""

    questions: list[Asked]
    rounds: Rounds


def _numbers(run: RecordedRun) -> Health:
    seen = run.evidence_of(HealthEvidence) or HealthEvidence()
    questions = []
    for key, answers in seen.answers.items():
        given: list[Given] = []
        for each in answers:
            weight = {name.lower(): value for name, value in each.headers.items()}.get(WEIGHT)
            given.append({"outcome": each.outcome, "status": each.status, "count": each.count, "weight": weight})
        situation, family, client, place, otherwise = parts_of(key)
        asked: Asked = {
            "question": key,
            "situation": situation,
            "family": family,
            "client": client,
            "place": place,
            "otherwise": otherwise,
            "answers": given,
        }
        questions.append(asked)
    of = follow_times(seen.rounds)
    times = Rounds(rounds=len(seen.rounds), answers=of.answers, never=of.never, p50=of.p50, p95=of.p95, max=of.most)
    return {"questions": questions, "rounds": times}


def _durations(run: RecordedRun) -> Iterator[tuple[str, Sequence[float]]]:
    for played in (run.evidence_of(HealthEvidence) or HealthEvidence()).rounds:
        took = [each.seconds for each in played.status.values() if each.seconds is not None]
        if took:
            yield "every node", [max(took)]


NUMBERS = Numbers("health", Health, _numbers)
DURATIONS = Durations(
    "health checks following endpoint changes",
    "from the change of pods until the last node's health check shows it; one value per round",
    _durations,
)
