"""Integrity of esipp's pods and of the nodes since set-up, and the paths that a change affects.

An evicted pod, or a node that an autoscaler removed, is not a defect of the product. Only the paths that need the pod
or node cannot be judged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.checks.model import Client, EntryKind, Path, Role, Vantage, backends_of
from esipp.cluster.pods import HARMED, changed, harm
from esipp.testbed.manifests import CONTAINER, SECOND_CONTAINER

NodeState = tuple[str, str, str]
"""The condition Ready of a node: status, time of the last transition, message."""


@dataclass(frozen=True)
class Cast:
    """The pods and nodes of the names in a path.

    Args:
        roles: the node of each role.
        agents: the agent of each node.
        nodes: the node of each pod of esipp.
    """

    roles: Mapping[Role, str] = field(default_factory=dict)
    agents: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)

    def pod_of(self, client: Client) -> str:
        """The pod that a client in the cluster dials from; empty for one outside."""
        if client.vantage is Vantage.POD:
            return client.name
        return self.agents.get(self.node_of(client), "") if client.vantage is Vantage.NODE else ""

    def node_of(self, client: Client) -> str:
        """The node of a client in the cluster; empty for one outside."""
        return self.roles.get(client.role, "") if client.role else self.nodes.get(client.name, "")

    def pods(self, path: Path) -> list[str]:
        """The pods that a path needs: those of its client and its listener, and its backends."""
        if path.entry.kind is EntryKind.NODE_LISTENER:
            behind = {self.agents.get(self._dialled(path), "")}
        else:
            behind = set(backends_of(path.service))
        return [name for name in (self.pod_of(path.client), *sorted(behind)) if name]

    def on(self, path: Path) -> list[str]:
        """The nodes that a path needs: those of its pods, and the dialled node."""
        found = [
            self.node_of(path.client),
            self._dialled(path),
            *(self.nodes.get(each, "") for each in self.pods(path)),
        ]
        return [name for name in dict.fromkeys(found) if name]

    def _dialled(self, path: Path) -> str:
        return self.roles.get(path.entry.role, "") if path.entry.role else ""


@dataclass(frozen=True)
class Harm:
    """What happened to pods, nodes and outside clients, one sentence each, by name; empty if nothing changed."""

    pods: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.pods or self.nodes or self.clients)

    @property
    def sentences(self) -> list[str]:
        """All sentences."""
        return [*self.pods.values(), *self.nodes.values(), *self.clients.values()]

    def of(self, path: Path, cast: Cast) -> str:
        """Why a path cannot be judged; empty if nothing that it needs was harmed.

        A load balancer may forward to any node, also to one that is lost.
        """
        if path.client.name in self.clients:
            return self.clients[path.client.name]
        for name in cast.pods(path):
            if name in self.pods:
                return self.pods[name]
        for name in [*cast.on(path), *(self.nodes if path.entry.kind is EntryKind.VIP else ())]:
            if name in self.nodes:
                return self.nodes[name]
        return ""

    def obstacles(self, paths: Iterable[Path], cast: Cast) -> dict[str, str]:
        """The paths that cannot be judged, by key, with the reason."""
        return {path.key: why for path in paths if (why := self.of(path, cast))}

    def with_lost(self, lost: Mapping[Client, str], cast: Cast) -> "Harm":
        """Add clients whose probers are gone.

        If the pod of such a client is unchanged, its node counts as lost, because it is unknown what happened there.

        Args:
            lost: why the prober of a client is gone.
            cast: the pods and nodes of the clients.
        """
        nodes, clients = dict(self.nodes), dict(self.clients)
        for client, why in lost.items():
            if client.vantage is Vantage.OUTSIDE:
                clients.setdefault(client.name, why)
            elif cast.pod_of(client) not in self.pods:
                nodes.setdefault(cast.node_of(client), f"on node {cast.node_of(client)}: {why}")
        return Harm(self.pods, nodes, clients)

    def among(self, pods: Iterable[str], nodes: Iterable[str]) -> "Harm":
        """The harm to these pods and nodes only."""
        pods, nodes = set(pods), set(nodes)
        return Harm(
            {name: why for name, why in self.pods.items() if name in pods},
            {name: why for name, why in self.nodes.items() if name in nodes},
            self.clients,
        )

    def without(self, known: "Harm") -> "Harm":
        """The harm that is not known already."""
        return Harm(
            {name: why for name, why in self.pods.items() if name not in known.pods},
            {name: why for name, why in self.nodes.items() if name not in known.nodes},
            {name: why for name, why in self.clients.items() if name not in known.clients},
        )

    def raise_first(self) -> None:
        """Raise the first sentence, if there is one.

        Raises:
            HarnessError: something was harmed.
        """
        for sentence in self.sentences:
            said = sentence[:1].upper() + sentence[1:]
            raise HarnessError(f"{said}: esipp cannot judge what it observed meanwhile.", HARMED)


def node_states(raw: Iterable[Json]) -> dict[str, NodeState]:
    """The state of each node, as the API server lists them."""
    found = {}
    for item in raw:
        held = {each["type"]: each for each in item.get("status", {}).get("conditions") or []}
        ready = held.get("Ready", {})
        message = str(ready.get("message") or ready.get("reason") or "")
        found[item["metadata"]["name"]] = (
            str(ready.get("status", "Unknown")), str(ready.get("lastTransitionTime") or ""), message,
        )  # fmt: skip
    return found


def compare(
    pods: Iterable[Json],
    known: Mapping[str, tuple[str, int, str]],
    nodes: Mapping[str, str],
    states: Mapping[str, NodeState],
    before: Mapping[str, NodeState],
) -> Harm:
    """Compare esipp's pods and the nodes with their earlier state.

    Args:
        pods: all pods of the run, also those that a suite creates and deletes.
        known: the pods that must be the same, with their earlier identity.
        nodes: the nodes of these pods, by pod.
        states: the nodes now.
        before: the nodes earlier; a node that was not Ready then is ignored.
    """
    lost = dict(_lost_nodes(states, before))
    now = {item["metadata"]["name"]: item for item in pods}
    harmed = {}
    for name, then in known.items():
        state = changed(now[name], then) if name in now else "is gone"
        if state:
            harmed[name] = _say(name, nodes.get(name, ""), state, lost, states)
    for name, item in now.items():
        if name not in known and (state := harm(item)):
            harmed[name] = _say(name, str(item["spec"].get("nodeName") or ""), state, lost, states)
    return Harm(harmed, lost)


def _lost_nodes(states: Mapping[str, NodeState], before: Mapping[str, NodeState]) -> Iterable[tuple[str, str]]:
    for name, (was, since, _) in before.items():
        if was != "True":
            continue
        if name not in states:
            yield name, f"node {name} was removed from the cluster"
            continue
        is_ready, now_since, message = states[name]
        if is_ready != "True":
            yield name, f"node {name} is no longer Ready" + (f" ({message})" if message else "")
        elif since and now_since != since:
            yield name, f"node {name} was temporarily not Ready (Ready since {now_since})"


def _say(name: str, node: str, state: str, lost: Mapping[str, str], states: Mapping[str, NodeState]) -> str:
    where = f" on node {node}" if node else ""
    if node in lost:
        return f"our pod {name}{where} {state}, and {lost[node]}"
    since = states[node][1] if node in states else ""
    return f"our pod {name}{where} {state}" + (f"; its node has been Ready since {since}" if since else "")


# -------------------------------------------------------------------------------------------------- injected containers
def injected(pod: Mapping[str, Any]) -> list[str]:
    """The containers of a pod that esipp did not define."""
    spec = pod["spec"]
    names = (each["name"] for part in ("initContainers", "containers") for each in spec.get(part) or ())
    return [name for name in names if name not in (CONTAINER, SECOND_CONTAINER)]


def doubts(paths: Iterable[Path], added: Mapping[str, list[str]], cast: Cast) -> dict[str, str]:
    """The paths whose client, listener or backend has an injected container, by key, with a sentence.

    A container that only writes logs changes nothing. So this only explains deviations.

    Args:
        paths: the dialled paths.
        added: the injected containers, by pod.
        cast: the pods of a path.
    """
    found = {}
    for path in paths:
        names = [f"{', '.join(added[pod])} into our pod {pod}" for pod in cast.pods(path) if pod in added]
        if names:
            found[path.key] = (
                f"something injected the container {' and '.join(dict.fromkeys(names))}, which may answer, dial or "
                "rewrite for the pod; exempt namespaces with the label app.kubernetes.io/managed-by=esipp"
            )
    return found
