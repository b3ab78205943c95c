"""Registration of the scenario of requests to the API server."""

from esipp.checks.api import ApiCheck
from esipp.checks.rights import rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.scenarios.api.judge import Seen, judge
from esipp.scenarios.api.sections import section


def _lacks(check: ApiCheck, seen: Seen, then: RunThen) -> str:
    """Whether the requests of a check differ; a ledger has them only as text, in the checks of its run."""
    known = {each.id for each in then.today if isinstance(each, ApiCheck) and each.trial == check.trial}
    made = {recorded.asked for identity, recorded in then.checks.items() if identity in known}
    tried = check.trial in seen.answers or check.trial in seen.trouble or check.trial in seen.broken
    return "" if tried and made == {check.asked} else f"its requests were not sent, or others were ({check.trial})"


SCENARIO = Scenario(
    name="api",
    suite="compatibility",
    record="compatibility",
    checks=(ApiCheck,),
    evidence=Seen,
    judge=judge,
    lacks=_lacks,
    section=section,
    phases=(Typical("edit services", base=1, check=0.08),),
    rights=rights("get patch update", "services"),
)
