"""What honest health checks would say: for testing their judge, never a stand-in for Kubernetes."""

import copy
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from esipp.checks.check import Check, Feature, Status, Verdict, is_about
from esipp.checks.health import (
    About,
    Answer,
    HealthAnswer,
    HealthScenario,
    Place,
    Question,
)
from esipp.checks.model import Family, Outcome
from esipp.checks.timing import GIVES_UP, Bound
from esipp.judging.observation import Observation
from esipp.judging.timeline import Sample, Stream
from esipp.scenarios.health.evidence import Fact, Followed, HealthEvidence, Leaving, Node, Round
from esipp.scenarios.health.objects import service_name
from suites.health_checks.checks import CHECKS as ALL
from suites.health_checks.checks import NODES
from tests.unit.verdicts import judge_with
from tests.unit.world import FINE

NAMESPACE = "esipp-test"
CHECKS = tuple(check for check in ALL if isinstance(check.subject, (HealthAnswer, HealthScenario)))
FEATURES = {name: Feature(True, "made up") for check in CHECKS for name in check.features}
BY_ID = {check.id: check for check in CHECKS}
SAMPLES = 20
SOON = 0.003
BOUNDS, PORT = (30000, 32767), 30123
NODE_NAMES = [f"{place.value} {family.value}" for place in NODES for family in Family]

QUESTIONS = {check.subject.question: check for check in CHECKS if is_about(check, HealthAnswer)}
TRUTHS = [
    check.subject.question for check in CHECKS if is_about(check, HealthAnswer) and check.subject.about is About.TRUTH
]
TRIALS = [check for check in CHECKS if is_about(check, HealthScenario)]


def say(pods: int, name: str, *, status: int | None = None, count: int = SAMPLES, **also: Any) -> Answer:
    """kube-proxy's answer; ``also`` overrides members of the document."""
    document = {"service": {"namespace": NAMESPACE, "name": name}, "localEndpoints": pods, "serviceProxyHealthy": True}
    headers = {"content-type": "application/json", "x-load-balancing-endpoint-weight": str(pods)}
    code = (200 if pods else 503) if status is None else status
    return Answer(Outcome.ANSWERED, code, headers, json.dumps(document | also), count, took=(SOON,) * count)


def honest(question: Question, **also: Any) -> Answer:
    """What is to be said to a question."""
    return say(question.local_pods, service_name(question.situation), **also)


def no_answer(outcome: Outcome, count: int = SAMPLES) -> Answer:
    return Answer(outcome, count=count, took=(2.0,) * count)


def dialled(
    outcome: Outcome, count: int = SAMPLES, connected: float | None = None, by: Place | None = None
) -> Observation:
    """What came of dialling a nodePort; ``by`` is where the pod is that answered."""
    echo = {"pod": "backend", "node": f"the {by.value}"} if by else None
    return Observation("nodePort", 0, outcome, count=count, connected=connected, echo=echo)


SILENCE = dialled(Outcome.TIMEOUT)


def served(by: Place, count: int = SAMPLES) -> Observation:
    return dialled(Outcome.ANSWERED, count, by=by)


def life() -> dict[str, Fact]:
    """What each step shows on an API server that keeps the rules."""
    invalid = (422, "Invalid", "Service is invalid: spec.healthCheckNodePort: Invalid value: 30123: no")
    taken = (500, "InternalError", "failed to allocate requested HealthCheck NodePort 30123: already allocated")
    everywhere = {name: Counter({"this service": 1}) for name in NODE_NAMES}
    nowhere = {name: Counter({"refused": 1}) for name in NODE_NAMES}
    kept = Fact("edited", {"life-1": PORT}, wanted=PORT)
    return {
        "allocated": Fact("", {"life-1": PORT}, bounds=BOUNDS),
        "unique": Fact("", {"a/one": PORT, "b/two": PORT + 1}, others=frozenset({PORT + 2})),
        "not-with-cluster": Fact("", {"life-cluster": None}),
        "not-for-nodeport": Fact("", {"life-nodeport": None}),
        "refused-with-cluster": Fact("", refused=invalid),
        "refused-for-nodeport": Fact("", refused=invalid),
        "chosen": Fact("", {"life-chosen": PORT}, wanted=PORT, listeners=everywhere, began=5.0, seconds=0.4),
        "immutable": Fact("", refused=invalid),
        "kept-on-update": kept,
        "kept-on-patch": kept,
        "kept-on-apply": kept,
        "kept": replace(kept, listeners=everywhere),
        "collision": Fact("", refused=taken),
        "collision-words": Fact("", refused=taken),
        "freed-by-policy": Fact("", {"life-chosen": None}, listeners=nowhere),
        "claimable": Fact("", {"life-heir": PORT}, wanted=PORT, listeners=everywhere, began=9.0, seconds=0.4),
        "freed-by-type": Fact("", {"life-2": None}, listeners=nowhere),
        "freed-by-deletion": Fact("deleted", listeners=nowhere),
    }


def listeners(late_at: float | None = None) -> dict[Node, Stream]:
    """The nodes' control listeners, asked for a hundred seconds; all late by a second at some time."""
    made = {}
    for node in ((place, family) for place in NODES for family in Family):
        slow = [1.0 if late_at is not None and abs(n / 5 - late_at) < 0.5 else 0.0 for n in range(500)]
        stream = Stream(
            "listener", 0.2, [Sample(n, n / 5, n / 5 + 0.003 + late, "answered") for n, late in enumerate(slow)]
        )
        stream.freeze()
        made[node] = stream
    return made


def played(number: int = 1, **nodes: Followed) -> Round:
    """A round that every node followed; ``nodes`` overrides by the place's name, in both families."""
    fine = Followed(0.2, "503", {"right": 10})
    every = {(p, f): nodes.get(p.name.lower(), fine) for p in NODES for f in Family}
    return Round(number, "made ready placed-bare-node-0", {Place.BARE_NODE: 1}, every, every, began=4.0 * number)


def healthy() -> HealthEvidence:
    """Everything as it must be; a copy that a test may change."""
    return HealthEvidence(**{name: copy.copy(value) for name, value in vars(_healthy()).items()})


@cache
def _healthy() -> HealthEvidence:
    seen = HealthEvidence(gives_up=Bound(GIVES_UP, "the default"))
    for question in QUESTIONS:
        seen.answers[question.key] = (honest(question),)
        seen.services[question.situation] = (NAMESPACE, service_name(question.situation))
    seen.nodes = {place: f"the {place.value}" for place in NODES}
    seen.served = {q.key: (served(q.place) if q.local_pods else SILENCE,) for q in TRUTHS}
    for place in NODES:
        for family in Family:
            answer = say(int(place is Place.ENDPOINT_NODE), "health-one-pod", count=500)
            seen.stable[place, family] = (answer,)
            seen.cordoned[place, family] = (answer,)
            for check in QUESTIONS:
                seen.reached[check.client.name, place, family] = True
                seen.listened[check.client.name, place, family] = (SOON,) * SAMPLES
    seen.changes = 7
    seen.rounds = [played(number) for number in range(1, 21)]
    seen.controls = listeners()
    for family in Family:
        left = say(0, "health-terminating", count=60)
        seen.leaving[family] = Leaving((left,), {"served by the leaving pod": 60}, 0)
    seen.life = life()
    return seen


def verdict(check: Check, seen: HealthEvidence) -> Verdict:
    return judge_with(check, seen, FEATURES, {"kubernetes": "v1.36.0"})


def differing(seen: HealthEvidence, checks: Iterable[Check] = CHECKS) -> dict[str, Status]:
    """The checks that do not hold."""
    found = {check.id: verdict(check, seen).status for check in checks}
    return {name: status for name, status in found.items() if status not in FINE}


def answering(question: Question, *answers: Answer) -> HealthEvidence:
    """The healthy world, where one question is answered otherwise."""
    seen = healthy()
    seen.answers[question.key] = answers
    return seen


def about(question: Question, part: About) -> str:
    """The id of the check about a part of the answer, or about the times of all answers of the node."""
    if part is About.TIME:
        return f"healthcheck.in-time.{question.family.value.lower()}.{question.place.value}"
    return f"healthcheck.{question.key}.{part.value}"


def halved(answer: Answer) -> Answer:
    half = answer.count // 2
    return replace(answer, count=half, took=answer.took[:half])
