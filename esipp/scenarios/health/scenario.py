"""Registration of the health check scenarios."""

from collections.abc import Mapping

from esipp.checks.health import About, HealthAnswerCheck, HealthScenarioCheck
from esipp.checks.rights import GATES, rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import Event, Touches
from esipp.scenarios.health.evidence import Seen
from esipp.scenarios.health.judge import judge


def _lacks(check: HealthAnswerCheck | HealthScenarioCheck, seen: Seen, then: RunThen) -> str:
    if then.asked(check):
        return ""
    if isinstance(check, HealthAnswerCheck):
        key = check.question.key
        if key in seen.obstacles or (key in seen.answers and (check.about is not About.TRUTH or key in seen.served)):
            return ""
        return f"the health check {key} was not probed"
    shown: Mapping[str, object] = {
        "lifecycle": seen.life, "terminating": seen.leaving, "placement": seen.rounds, "stable": seen.stable,
        "cordoned": seen.cordoned,
    }  # fmt: skip
    tried = check.trial in seen.trouble or check.trial in seen.broken or shown.get(check.trial)
    return "" if tried else f"the scenario {check.trial} did not run"


SCENARIO = Scenario(
    name="health",
    suite="health_checks",
    record="health_checks",
    checks=(HealthAnswerCheck, HealthScenarioCheck),
    evidence=Seen,
    judge=judge,
    lacks=_lacks,
    phases=(
        Typical("settle health checks", (HealthAnswerCheck,), base=1),
        Typical("ask health checks", (HealthAnswerCheck,), base=2, check=0.006),
        Typical(
            "trials",
            (HealthScenarioCheck,),
            events=(
                Event("lifecycle", 18),
                Event("terminating", 8, measures=True),
                Event("placement", 82, measures=True, of=("placement", "stable")),
            ),
        ),
        Typical("cordon", (HealthScenarioCheck,), events=(Event("cordoned", 3, Touches.NODE),)),
    ),
    rights=(*GATES, *rights("get patch update", "services")),
)
