"""Nodes that are cordoned for a while: only where the user allows what disturbs others; always taken back.

The annotation on the node says which run did it, so that ``esipp clean`` can undo what a killed run left.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from esipp.cluster import Cluster
from esipp.errors import HarnessError
from esipp.health.asking import Asker, read_all
from esipp.health.model import Answer, Place, Situation
from esipp.health.props import service_name
from esipp.health.seen import Node
from esipp.namespaces import owner

Json = dict[str, Any]

CORDONED_BY = "esipp.dev/cordoned-by"
COUNT, SPACING = 40, 0.05
"""Two seconds of answers: the service proxy has been told of the change by then."""


Guard = Callable[[], AbstractContextManager[None]]


@contextmanager
def cordoned(cluster: Cluster, nodes: list[str], guard: Guard = nullcontext) -> Iterator[None]:
    """These nodes take no pods meanwhile; the guard is around what takes that back.

    Raises:
        HarnessError: some of them still take none. All were tried.
    """
    try:
        for node in nodes:
            _mark(cluster, node, owner(), cordon=True)
        yield
    except BaseException as broken:
        try:
            _take_back(cluster, nodes, guard)
        except HarnessError as left:
            if isinstance(broken, Exception):
                raise
            broken.add_note(left.sentence)  # an interrupt stays one
        raise
    _take_back(cluster, nodes, guard)


def _take_back(cluster: Cluster, nodes: list[str], guard: Guard) -> None:
    left = {}
    with guard():
        for node in nodes:
            try:
                uncordon(cluster, node)
            except Exception as broken:  # whatever it is, the others are to take pods again
                left[node] = str(broken)
    if left:
        node, why = next(iter(left.items()))
        hint = f"esipp clean --context {cluster.context} takes that back"
        raise HarnessError(f"Still cordoned: {', '.join(left)}; {hint}. {node}: {why}", hint)


def left_cordoned(cluster: Cluster) -> Mapping[str, str]:
    """The nodes that runs have cordoned, with the run's owner (``host/pid``)."""
    annotated = {n["metadata"]["name"]: n["metadata"].get("annotations") or {} for n in cluster.list("/api/v1/nodes")}
    return {name: notes[CORDONED_BY] for name, notes in annotated.items() if CORDONED_BY in notes}


def uncordon(cluster: Cluster, node: str) -> None:
    """Undo what a killed run left."""
    _mark(cluster, node, None, cordon=False)


def _mark(cluster: Cluster, node: str, by: str | None, *, cordon: bool) -> None:
    body: Json = {"metadata": {"annotations": {CORDONED_BY: by}}, "spec": {"unschedulable": True if cordon else None}}
    cluster.patch(f"/api/v1/nodes/{node}", body, "merge-patch")


def ask_cordoned(asker: Asker, guard: Guard) -> dict[Node, tuple[Answer, ...]]:
    """Cordon the endpoint node and the bare node, and ask their health checks meanwhile."""
    port = asker.stage.services[service_name(Situation.ONE_POD)]["spec"]["healthCheckNodePort"]
    places = (Place.ENDPOINT_NODE, Place.BARE_NODE)
    with cordoned(asker.stage.cluster, [asker.places[place] for place in places], guard):
        asked = asker.on_nodes(port, only=places, count=COUNT, spacing=SPACING)
        return {node: read_all(future.result(timeout=30)) for node, future in asked.items()}
