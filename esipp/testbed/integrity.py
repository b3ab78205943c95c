"""What became of our own pods and of the nodes since they were arranged, and which paths that costs.

A pod that was evicted, or a node that an autoscaler removed, says nothing about the product. It costs the paths that
need it, and no others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.base.errors import HarnessError
from esipp.checks.model import Client, EntryKind, Path, Role, Vantage, backends_of
from esipp.cluster.pods import HARMED, changed, harm

Json = dict[str, Any]

NodeState = tuple[str, str, str]
"""Whether a node is Ready, since when, and the message of that condition."""


@dataclass(frozen=True)
class Cast:
    """Which pod and node stand behind the names in a path.

    Args:
        roles: the node of each role.
        agents: the agent of each node.
        nodes: the node of each pod of ours.
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
        """The node that a client in the cluster stands on; empty for one outside."""
        return self.roles.get(client.role, "") if client.role else self.nodes.get(client.name, "")

    def pods(self, path: Path) -> list[str]:
        """The pods that a path needs: its client's, its listener's, its backends."""
        if path.entry.kind is EntryKind.NODE_LISTENER:
            behind = {self.agents.get(self._dialled(path), "")}
        else:
            behind = set(backends_of(path.service))
        return [name for name in (self.pod_of(path.client), *sorted(behind)) if name]

    def on(self, path: Path) -> list[str]:
        """The nodes that a path needs: those of its pods, and the one whose address is dialled."""
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
    """What became of pods, nodes and clients outside: a sentence each, by name. Nothing where all is as it was."""

    pods: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    clients: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.pods or self.nodes or self.clients)

    @property
    def sentences(self) -> list[str]:
        """All of it."""
        return [*self.pods.values(), *self.nodes.values(), *self.clients.values()]

    def of(self, path: Path, cast: Cast) -> str:
        """Why a path cannot be judged; empty where it needs nothing that was harmed.

        A load balancer may send by way of any node, also by one that is lost.
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
        """The same, and clients whose probers are gone.

        Where the pod of such a client looks whole, nobody knows what happened on its node: the node counts as lost.

        Args:
            lost: why the prober of a client is gone.
            cast: where they stand.
        """
        nodes, clients = dict(self.nodes), dict(self.clients)
        for client, why in lost.items():
            if client.vantage is Vantage.OUTSIDE:
                clients.setdefault(client.name, why)
            elif cast.pod_of(client) not in self.pods:
                nodes.setdefault(cast.node_of(client), f"on node {cast.node_of(client)}: {why}")
        return Harm(self.pods, nodes, clients)

    def among(self, pods: Iterable[str], nodes: Iterable[str]) -> "Harm":
        """What became of these pods and nodes only."""
        pods, nodes = set(pods), set(nodes)
        return Harm(
            {name: why for name, why in self.pods.items() if name in pods},
            {name: why for name, why in self.nodes.items() if name in nodes},
            self.clients,
        )

    def without(self, known: "Harm") -> "Harm":
        """What is not known already."""
        return Harm(
            {name: why for name, why in self.pods.items() if name not in known.pods},
            {name: why for name, why in self.nodes.items() if name not in known.nodes},
            {name: why for name, why in self.clients.items() if name not in known.clients},
        )

    def raise_first(self) -> None:
        """Tell the first of it as what ends whoever asks.

        Raises:
            HarnessError: there is any.
        """
        for sentence in self.sentences:
            said = sentence[:1].upper() + sentence[1:]
            raise HarnessError(f"{said}: what was seen meanwhile cannot be judged.", HARMED)


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
    """Hold our pods and the nodes, as they are now, against what they were.

    Args:
        pods: all of ours, also those that come and go with a suite.
        known: those that must be the same, with their identity then.
        nodes: where those stand, by their names.
        states: the nodes now.
        before: the nodes then; one that was not Ready then is not looked at.
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
            yield name, f"node {name} is not Ready any more" + (f" ({message})" if message else "")
        elif since and now_since != since:
            yield name, f"node {name} was not Ready for a while (Ready since {now_since})"


def _say(name: str, node: str, state: str, lost: Mapping[str, str], states: Mapping[str, NodeState]) -> str:
    where = f" on node {node}" if node else ""
    if node in lost:
        return f"our own pod {name}{where} {state}, and {lost[node]}"
    since = states[node][1] if node in states else ""
    return f"our own pod {name}{where} {state}" + (f"; its node is Ready since {since}" if since else "")
