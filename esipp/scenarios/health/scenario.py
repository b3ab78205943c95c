"""Registration of the health check scenarios."""

from collections.abc import Mapping

from esipp.checks.health import About, HealthAnswer, HealthAnswerCheck, HealthScenario, HealthScenarioCheck
from esipp.checks.rights import GATES, rights
from esipp.judging.in_time import NOT_RECORDED
from esipp.judging.scenario import RunThen, Scenario, Typical, by_subject, name_fault
from esipp.judging.schedule import PlannedEvent, Touches
from esipp.scenarios.health.evidence import HealthEvidence
from esipp.scenarios.health.judge import decide_question, decide_trial, diagnose_answer
from esipp.scenarios.health.numbers import DURATIONS, NUMBERS
from esipp.scenarios.health.sections import section, summary


def _lacks_answer(check: HealthAnswerCheck, seen: HealthEvidence, then: RunThen) -> str:
    key, of_truth = check.subject.question.key, check.subject.about is About.TRUTH
    if check.subject.about is About.TIME and seen.gives_up is None:
        return NOT_RECORDED
    probed = key in seen.obstacles or (key in seen.answers and (not of_truth or key in seen.served))
    return "" if then.asked(check) or probed else f"the health check {key} was not probed"


def _lacks_scenario(check: HealthScenarioCheck, seen: HealthEvidence, then: RunThen) -> str:
    shown: Mapping[str, object] = {
        "lifecycle": seen.life, "terminating": seen.leaving, "placement": seen.rounds, "stable": seen.stable,
        "cordoned": seen.cordoned,
    }  # fmt: skip
    name = check.subject.scenario
    tried = name in seen.trouble or name in seen.broken or shown.get(name)
    return "" if then.asked(check) or tried else f"the scenario {name} did not run"


SCENARIO = Scenario(
    name="health",
    suite="health_checks",
    record="health_checks",
    subjects=(HealthAnswer, HealthScenario),
    evidence=HealthEvidence,
    decide=by_subject({HealthAnswer: decide_question, HealthScenario: decide_trial}),
    diagnose=by_subject({HealthAnswer: diagnose_answer, HealthScenario: name_fault}),
    lacks=by_subject({HealthAnswer: _lacks_answer, HealthScenario: _lacks_scenario}),
    section=section,
    summary=summary,
    numbers=NUMBERS,
    durations=DURATIONS,
    phases=(
        Typical("settle health checks", (HealthAnswer,), base=1),
        Typical("ask health checks", (HealthAnswer,), base=2, check=0.006),
        Typical(
            "health scenarios",
            (HealthScenario,),
            events=(
                PlannedEvent("lifecycle", 18),
                PlannedEvent("terminating", 8, measures=True),
                PlannedEvent("placement", 82, measures=True, of=("placement", "stable")),
            ),
        ),
        Typical("cordon", (HealthScenario,), events=(PlannedEvent("cordoned", 3, Touches.NODE),)),
    ),
    beside=True,
    rights=(*GATES, *rights("get patch update", "services")),
)
