"""Who dials: a prober at every place the selected rows dial from, and the topology their addresses make."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations

from esipp.cluster import kubeconfig_arguments
from esipp.errors import HarnessError
from esipp.manifests import vips
from esipp.model import Client, Vantage
from esipp.probing import transports
from esipp.probing.outside import OutsideContainers
from esipp.probing.prober import Prober
from esipp.stage import BACKEND, Stage
from esipp.topology import Stand, Topology, by_family, parse_address, without_shared


@dataclass
class Clients:
    """The running probers by client name, and one on every agent's node for the list of its addresses."""

    stage: Stage
    outside_network: str | None
    probers: dict[str, Prober] = field(default_factory=dict)
    _agents: dict[str, Prober] = field(default_factory=dict)
    _started: list[Prober] = field(default_factory=list)
    _containers: OutsideContainers | None = None

    def start(self, clients: Iterable[Client]) -> Topology:
        """Start all probers side by side and return who owns which address.

        Raises:
            HarnessError: one does not start.
        """
        wanted = sorted(set(clients))
        if any(client.vantage is Vantage.OUTSIDE for client in wanted):
            assert self.outside_network is not None
            self._containers = OutsideContainers(
                self.stage.run, self.outside_network, self.stage.image, self.stage.cluster.server
            )
        with ThreadPoolExecutor(max_workers=8) as pool:
            agents = {name: pool.submit(self._in_pod, name) for name in self.stage.pods if name.startswith("agent-")}
            own = {client: pool.submit(self._at, client) for client in wanted if client.vantage is not Vantage.NODE}
        for name, started in agents.items():
            self._agents[self.stage.pods[name].node] = started.result()
        for client, started in own.items():
            self.probers[client.name] = started.result()
        for client in wanted:
            if client.vantage is Vantage.NODE:
                self.probers[client.name] = self._agents[self._node_of(client)]
        return self._topology(wanted)

    def close(self) -> None:
        """End every prober that was started, and remove the containers.

        Raises:
            HarnessError: a container could not be removed.
        """
        for prober in self._started:
            prober.close()
        if self._containers is not None:
            self._containers.remove()

    def _at(self, client: Client) -> Prober:
        if client.vantage is Vantage.POD:
            return self._in_pod(client.name)
        assert self._containers is not None
        return self._keep(client.name, transports.docker(self._containers.start(client.name)))

    def _in_pod(self, pod: str) -> Prober:
        cluster = self.stage.cluster
        arguments = kubeconfig_arguments(cluster.context, cluster.kubeconfig)
        return self._keep(pod, transports.kubectl(arguments, self.stage.namespace, pod))

    def _keep(self, name: str, command: list[str]) -> Prober:
        """Start a prober; whatever fails later, close() knows it."""
        prober = Prober(name, command)
        self._started.append(prober)
        return prober

    def _node_of(self, client: Client) -> str:
        assert client.role is not None
        return self.stage.roles[client.role]

    def _topology(self, clients: Iterable[Client]) -> Topology:
        nodes = dict(self.stage.nodes)
        for name, agent in self._agents.items():
            own = frozenset(parse_address(address) for address in agent.hello()["addresses"])
            nodes[name] = replace(nodes[name], addresses=nodes[name].addresses | own)
        nodes = without_shared(nodes)
        stands = {}
        for client in clients:
            addresses = frozenset(parse_address(a) for a in self.probers[client.name].hello()["addresses"])
            if client.vantage is Vantage.NODE:
                addresses = nodes[self._node_of(client)].addresses
            if not addresses:
                raise HarnessError(f"The client {client.name} has no address at all.", "is its network up?")
            node = self._node_of(client) if client.role else None
            stands[client.name] = Stand(client, addresses, node)
        tell_apart(stands.values())
        return Topology(
            nodes=nodes,
            roles=self.stage.roles,
            stands=stands,
            backends={BACKEND: self.stage.pods[BACKEND]},
            vips={name: by_family(vips(item.get("status", {}))) for name, item in self.stage.services.items()},
        )


def tell_apart(stands: Iterable[Stand]) -> None:
    """Make sure that no two clients outside share an address: else nobody could say that they were not mixed up.

    Raises:
        HarnessError: two do.
    """
    outside = [stand for stand in stands if stand.client.vantage is Vantage.OUTSIDE]
    for one, other in combinations(outside, 2):
        shared = sorted(str(address) for address in one.addresses & other.addresses)
        if shared:
            raise HarnessError(
                f"The clients {one.client.name} and {other.client.name} share the address {shared[0]}.",
                "they need different ones; --without vantage.outside.two-addresses leaves the second one out.",
            )
