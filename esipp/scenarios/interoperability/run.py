"""The run of the interoperability scenarios; their paths are in the judged window of all paths."""

from dataclasses import replace

from esipp.checks.interoperability import MANY_SERVICES, Interoperability
from esipp.checks.model import Family
from esipp.judging.topology import Node
from esipp.scenarios.context import Context, kept, perform, spare
from esipp.scenarios.health.probes import Asker
from esipp.scenarios.interoperability import dns as names
from esipp.scenarios.interoperability import isolation as neighbours
from esipp.scenarios.interoperability import scale as many
from esipp.scenarios.interoperability.evidence import InteroperabilityEvidence
from esipp.scenarios.interoperability.scenario import CREATION


def observe(context: Context) -> InteroperabilityEvidence:
    """The evidence of the scenarios: isolation and DNS in parallel with the creation of many Services; scale last."""
    run, testbed, topology = context.run, context.testbed, context.topology
    checks = context.asked(Interoperability)
    trials = {check.subject.scenario for check in checks}
    asker, seen = Asker(replace(testbed, nodes=_nodes(context)), context.clients), InteroperabilityEvidence()
    context.gathered = lambda: seen
    many_services = many.Trial(asker, topology)

    def beside() -> None:
        with kept("neighbours", run, seen):
            seen.neighbours = neighbours.Trial(asker, topology, context.timeouts).perform()

    def named() -> None:
        with kept("names", run, seen):
            asked = [check for check in checks if check.subject.scenario == "names"]
            seen.names = names.Trial(asker, topology, asked).perform()

    def prepared() -> None:
        with kept("many", run, seen):
            many_services.prepare()

    def looked_at() -> None:
        with kept("many", run, seen):
            seen.many = many_services.perform()

    first = {"neighbours": beside, "names": named, "many": prepared}
    acts = {CREATION if trial == "many" else trial: act for trial, act in first.items() if trial in trials}
    with run.phase("inter-operation", ", ".join(sorted(trials))):
        perform(run, "inter-operation", acts, asker.stop)
    if "many" in trials and "many" not in seen.trouble | seen.broken:
        with run.phase("many services", f"{MANY_SERVICES} at once"):
            perform(run, "many services", {"many": looked_at}, asker.stop)
    spare(testbed, seen, trials)
    return seen


def _nodes(context: Context) -> dict[str, Node]:
    """The nodes, with addresses only in the families that Services have here."""
    families = [family for family in Family if context.features[f"family.{family.value.lower()}"].present]
    return {
        name: replace(node, internal={family: node.internal[family] for family in families if family in node.internal})
        for name, node in context.topology.nodes.items()
    }
