"""The run of the interoperability scenarios; their paths are in the judged window of all paths."""

from dataclasses import replace

from esipp.checks.interoperability import MANY_SERVICES, Interoperability
from esipp.checks.model import Family
from esipp.judging.topology import Node
from esipp.scenarios.context import Context, kept, perform, spare
from esipp.scenarios.health.probes import Asker
from esipp.scenarios.interoperability import dns, isolation, scale
from esipp.scenarios.interoperability.evidence import InteroperabilityEvidence
from esipp.scenarios.interoperability.judge import CREATION


def observe(context: Context) -> InteroperabilityEvidence:
    """The evidence of the scenarios: isolation and DNS in parallel with the creation of many Services; scale last."""
    run, testbed, topology = context.run, context.testbed, context.topology
    checks = context.asked(Interoperability)
    scenarios = {check.subject.scenario for check in checks}
    asker, seen = (
        Asker(replace(testbed, nodes=_nodes(context)), context.clients, timeouts=context.timeouts),
        InteroperabilityEvidence(),
    )
    context.gathered = lambda: seen
    many_services = scale.Scale(asker, topology)

    def isolated() -> None:
        with kept("neighbours", run, seen):
            seen.neighbours = isolation.Isolation(asker, topology).perform()

    def named() -> None:
        with kept("names", run, seen):
            asked = [check for check in checks if check.subject.scenario == "names"]
            seen.names = dns.Lookups(asker, topology, asked).perform()

    def prepared() -> None:
        with kept("many", run, seen):
            many_services.prepare()

    def looked_at() -> None:
        with kept("many", run, seen):
            seen.many = many_services.perform()

    first = {"neighbours": isolated, "names": named, "many": prepared}
    acts = {
        CREATION if scenario == "many" else scenario: act for scenario, act in first.items() if scenario in scenarios
    }
    with run.phase("interoperability", ", ".join(sorted(scenarios))):
        perform(run, "interoperability", acts, asker.stop)
    if "many" in scenarios and "many" not in seen.trouble | seen.broken:
        with run.phase("many Services", f"{MANY_SERVICES} at once"):
            perform(run, "many Services", {"many": looked_at}, asker.stop)
    spare(testbed, seen, scenarios)
    return seen


def _nodes(context: Context) -> dict[str, Node]:
    """The nodes, with addresses only in the families that Services have here."""
    families = [family for family in Family if context.features[f"family.{family.value.lower()}"].present]
    return {
        name: replace(node, internal={family: node.internal[family] for family in families if family in node.internal})
        for name, node in context.topology.nodes.items()
    }
