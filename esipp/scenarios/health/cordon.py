"""Health checks of nodes that are cordoned for a while."""

from esipp.checks.disruption import Disruption, Proof
from esipp.checks.health import Answer, Place, Situation
from esipp.disruption.disruptor import Disruptor
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.objects import service_name
from esipp.scenarios.health.probes import Asker, read_all

COUNT, SPACING = 40, 0.05
"""Two seconds of answers: by then the service proxy knows of the change."""


def ask_cordoned(asker: Asker, disruptor: Disruptor) -> tuple[dict[Node, tuple[Answer, ...]], list[Proof]]:
    """Cordon the endpoint node and the node without local endpoints, and probe their health checks meanwhile."""
    port = asker.testbed.services[service_name(Situation.ONE_POD)]["spec"]["healthCheckNodePort"]
    places = (Place.ENDPOINT_NODE, Place.BARE_NODE)
    endpoint_node, bare_node = (asker.places[place] for place in places)
    answers: dict[Node, tuple[Answer, ...]] = {}
    proofs: list[Proof] = []

    def ask() -> None:
        asked = asker.on_nodes(port, only=places, count=COUNT, spacing=SPACING)
        answers.update({node: read_all(future.result(timeout=30)) for node, future in asked.items()})

    def and_the_other() -> None:
        proofs.append(disruptor.perform(Disruption.CORDON, bare_node, ask))

    proofs.append(disruptor.perform(Disruption.CORDON, endpoint_node, and_the_other))
    return answers, proofs
