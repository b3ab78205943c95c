"""Probes every node at a port where none may listen, and at a control port where all must."""

from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading
from esipp.checks.health import Answer
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.probes import Asker

FOLLOWED = Budget("every node to listen for a later Service", 20.0, need=3, spacing=0.1)
"""kube-proxy gets Services in the order of their creation: a node that listens for the last one knows all before it."""


def listen(asker: Asker, silent: int, control: int) -> Json:
    """What every node says at both ports, once all of them listen at the second; or as it is when they never do."""

    def look() -> Reading:
        said = _words(asker.everywhere(control))
        return Reading(all(words in ("200", "503") for words in said.values()), str(said))

    asker.stop.converge(look, FOLLOWED)
    return {"silent": _words(asker.everywhere(silent)), "control": _words(asker.everywhere(control))}


def _words(answers: dict[Node, Answer]) -> dict[str, str]:
    return {f"{place.value} {family.value}": answer.words for (place, family), answer in answers.items()}
