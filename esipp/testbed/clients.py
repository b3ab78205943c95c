"""The clients: a prober at every place that the selected checks dial from, and the topology of their addresses."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations

from esipp.base.errors import HarnessError
from esipp.checks.model import BACKENDS, Client, Family, Vantage
from esipp.judging.client_addresses import Owners, behind_nat
from esipp.judging.topology import IPAddress, Node, Stand, Topology, family_of, parse_address, without_shared
from esipp.probing import vantages
from esipp.probing.prober import Prober
from esipp.probing.vantages import Outside
from esipp.testbed.testbed import Testbed


@dataclass
class Clients:
    """The running probers by client name, and one in every agent for the list of its node's addresses.

    ``proxies`` are the addresses from which load balancers connect, if these are not their VIPs.
    """

    testbed: Testbed
    outside: Outside | None
    proxies: Mapping[str, Iterable[str]] = field(default_factory=dict)
    probers: dict[str, Prober] = field(default_factory=dict)
    agents: dict[str, Prober] = field(default_factory=dict)
    _started: list[Prober] = field(default_factory=list)
    _clients: Sequence[Client] = ()
    _seen_by: dict[str, frozenset[IPAddress]] = field(default_factory=dict)

    def start(self, clients: Iterable[Client]) -> Topology:
        """Start all probers in parallel and return the topology, with the owner of each address.

        Raises:
            HarnessError: a prober does not start.
        """
        wanted = self._clients = sorted(set(clients), key=lambda client: client.name)
        with ThreadPoolExecutor(max_workers=12) as pool:
            agents = {node: pool.submit(self._agent, node) for node in self.testbed.agents}
            own = {client: pool.submit(self._at, client) for client in wanted if client.vantage is not Vantage.NODE}
        for node, started in agents.items():
            self.agents[node] = started.result()
        for client, started in own.items():
            self.probers[client.name] = started.result()
        for client in wanted:
            if client.vantage is Vantage.NODE:
                self.probers[client.name] = self.agents[self._node_of(client)]
        return self._topology(wanted)

    def close(self) -> None:
        """End every started prober."""
        with ThreadPoolExecutor(max_workers=12) as pool:
            list(pool.map(Prober.close, self._started))

    def addresses(self, client: str) -> frozenset[IPAddress]:
        """The addresses that the cluster sees for a client; available after ``start``."""
        return self._seen_by[client]

    def another(self, client: str, name: str) -> Prober:
        """Start another prober at an outside client's place; the caller closes it.

        Raises:
            HarnessError: it cannot start, now or at ``hello``.
        """
        assert self.outside is not None
        return self.outside.prober(client, f"{client} ({name})")

    def agent(self, node: str) -> Prober:
        """The prober in a node's agent: another one if the last one ended, as where the node's kubelet was away.

        Raises:
            KeyError: there is no agent on the node.
        """
        if self.agents[node].ended:
            self.agents[node] = self._agent(node)
        return self.agents[node]

    def renew(self) -> None:
        """Start another prober in each pod whose last one ended.

        Each is a ``kubectl exec``, which ends with the API server or the kubelet that it goes through.
        """
        for node in self.agents:
            self.agent(node)
        for client in self._clients:
            if client.vantage is Vantage.NODE:
                self.probers[client.name] = self.agents[self._node_of(client)]
            elif client.vantage is Vantage.POD and self.probers[client.name].ended:
                self.probers[client.name] = self._in_pod(client.name)

    def start_again(self, nodes: Collection[str]) -> None:
        """Start another prober in each pod on these nodes: the way to the last one may be dead without a word."""
        for node in self.agents.keys() & set(nodes):
            self.agents[node] = self._agent(node)
        for client in self._clients:
            if client.vantage is Vantage.OUTSIDE:
                continue
            node = self._node_of(client) if client.role else self.testbed.pods[client.name].node
            if node in nodes:
                of_agent = client.vantage is Vantage.NODE
                self.probers[client.name] = self.agents[node] if of_agent else self._in_pod(client.name)

    def on_agent(self, node: str, command: Sequence[str] = ()) -> list[str]:
        """The command line that runs a command in the agent of a node."""
        return self.exec_command(self.testbed.agents[node], command)

    def exec_command(self, pod: str, command: Sequence[str]) -> list[str]:
        """The command line that runs a command in one of esipp's pods."""
        start = self.testbed.cluster.kubectl
        return [*start, "exec", "-i", "-n", self.testbed.namespace, pod, "--", *command]

    def _at(self, client: Client) -> Prober:
        if client.vantage is Vantage.POD:
            return self._in_pod(client.name)
        assert self.outside is not None
        return self._keep(self.outside.prober(client.name))

    def _in_pod(self, pod: str) -> Prober:
        return self._keep(Prober(pod, self.exec_command(pod, vantages.IN_IMAGE)))

    def _agent(self, node: str) -> Prober:
        return self._keep(Prober(f"the agent on {node}", self.on_agent(node, vantages.IN_IMAGE)))

    def _keep(self, prober: Prober) -> Prober:
        """Register a prober for ``close``."""
        self._started.append(prober)
        return prober

    def _node_of(self, client: Client) -> str:
        assert client.role is not None
        return self.testbed.roles[client.role]

    def _topology(self, clients: Iterable[Client]) -> Topology:
        nodes = dict(self.testbed.nodes)
        for name, agent in self.agents.items():
            own = frozenset(parse_address(address) for address in agent.hello()["addresses"])
            nodes[name] = replace(nodes[name], addresses=nodes[name].addresses | own)
        nodes = without_shared(nodes)
        self.testbed.second_addresses |= {name: second_addresses(node) for name, node in nodes.items()}
        found = self.outside.check(Owners(nodes, self.testbed.pods, self.testbed.vips).of) if self.outside else []
        stands = {}
        for client in clients:
            addresses = frozenset(parse_address(a) for a in self.probers[client.name].hello()["addresses"])
            if client.vantage is Vantage.OUTSIDE and any(each.client == client.name for each in found):
                outer = frozenset(each.seen for each in found if each.client == client.name and each.seen)
                only_vips = frozenset(e.family for e in found if e.client == client.name and not e.at_nodes)
                stands[client.name] = Stand(client, outer, None, behind_nat(found, client.name, addresses), only_vips)
                continue
            if client.vantage is Vantage.NODE:
                addresses = nodes[self._node_of(client)].addresses
            if not addresses:
                raise HarnessError(f"The client {client.name} has no address.", "check that its network is up.")
            node = self._node_of(client) if client.role else None
            stands[client.name] = Stand(client, addresses, node)
        tell_apart(stands.values())
        self._seen_by = {name: stand.addresses for name, stand in stands.items()}
        backends = sorted(frozenset().union(*BACKENDS.values()))
        return Topology(
            nodes=nodes,
            roles=self.testbed.roles,
            stands=stands,
            backends={name: self.testbed.pods[name] for name in backends if name in self.testbed.pods},
            balancers=vip_owners(self.testbed.vips) | _own(self.proxies),
        )


def vip_owners(vips: Mapping[str, Mapping[Family, str]]) -> dict[str, frozenset[IPAddress]]:
    """The addresses of load balancers, by Service."""
    return {name: frozenset(parse_address(each) for each in given.values()) for name, given in vips.items()}


def _own(proxies: Mapping[str, Iterable[str]]) -> dict[str, frozenset[IPAddress]]:
    return {name: frozenset(parse_address(each) for each in own) for name, own in proxies.items()}


def second_addresses(node: Node) -> dict[Family, str]:
    """The address of a node that is closest to its InternalIP, for each family; an ExternalIP is none of them.

    Closest means the longest common prefix, because an outside client can reach addresses in the same network. An
    address that shares less than a quarter of its bits belongs to another network (of a pod bridge or a tunnel).
    """
    found = {}
    for family, internal in node.internal.items():
        own = parse_address(internal)
        bits, known = own.max_prefixlen, {own, *map(parse_address, node.external.values())}
        near = [
            (bits - (int(own) ^ int(each)).bit_length(), str(each))
            for each in node.addresses
            if family_of(each) is family and each not in known and not each.is_link_local and not each.is_loopback
        ]
        if near and max(near)[0] >= bits // 4:
            found[family] = max(near)[1]
    return found


def tell_apart(stands: Iterable[Stand]) -> None:
    """Check that no two outside clients share an address, so that backends can distinguish them.

    Raises:
        HarnessError: two clients share an address.
    """
    outside = [stand for stand in stands if stand.client.vantage is Vantage.OUTSIDE]
    for one, other in combinations(outside, 2):
        shared = sorted(str(address) for address in one.addresses & other.addresses)
        if shared:
            raise HarnessError(
                f"The clients {one.client.name} and {other.client.name} share the address {shared[0]}.",
                "they need different addresses; --without vantage.outside.two-addresses leaves out the second client.",
            )
