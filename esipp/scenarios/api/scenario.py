"""Registration of the scenario of requests to the API server."""

from esipp.checks.api import ApiCheck, Requests
from esipp.checks.check import checks_about
from esipp.checks.rights import rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.scenarios.api.judge import ApiEvidence, decide
from esipp.scenarios.api.sections import section


def _lacks(check: ApiCheck, seen: ApiEvidence, then: RunThen) -> str:
    """Whether the requests of a check differ; a ledger has them only as text, in the checks of its run."""
    chain = check.subject.part
    known = {each.id for each in checks_about(Requests, then.today) if each.subject.part == chain}
    made = {recorded.asked for identity, recorded in then.checks.items() if identity in known}
    tried = chain in seen.answers or chain in seen.trouble or chain in seen.broken
    return "" if tried and made == {check.asked} else f"its requests were not sent, or others were ({chain})"


SCENARIO = Scenario(
    name="api",
    suite="compatibility",
    record="compatibility",
    subjects=(Requests,),
    evidence=ApiEvidence,
    decide=decide,
    lacks=_lacks,
    section=section,
    phases=(Typical("edit Services", base=1, check=0.08),),
    rights=rights("get patch update", "services"),
)
