"""Registration of the scenario of every node."""

from esipp.judging.scenario import Scenario, Typical
from esipp.scenarios.every_node.evidence import EveryNodeEvidence
from esipp.scenarios.every_node.judge import decide
from esipp.scenarios.every_node.sections import section, summary
from esipp.scenarios.every_node.subject import EveryNode

SCENARIO = Scenario(
    name="every_node",
    suite="nodes",
    record="every_node",
    subjects=(EveryNode,),
    evidence=EveryNodeEvidence,
    decide=decide,
    section=section,
    summary=summary,
    phases=(Typical("every node", base=22),),
)
