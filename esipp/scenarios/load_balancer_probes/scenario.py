"""Registration of the comparison of load balancers with their profiles."""

from esipp.judging.scenario import Scenario, Typical
from esipp.scenarios.load_balancer_probes.evidence import ProbeEvidence
from esipp.scenarios.load_balancer_probes.judge import decide
from esipp.scenarios.load_balancer_probes.sections import section
from esipp.scenarios.load_balancer_probes.subject import ProfileFigure

SCENARIO = Scenario(
    name="load_balancer_probes",
    suite="health_checks",
    order=1,
    record="load_balancer_probes",
    subjects=(ProfileFigure,),
    evidence=ProbeEvidence,
    decide=decide,
    section=section,
    phases=(Typical("load balancer probes", base=9),),
)
