"""Connections that NAT made one: to the backend both come from the same address and port. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from esipp.model import Path, Vantage
from esipp.observation import Observation, Outcome
from esipp.topology import IPAddress, Topology, backends_of, parse_address


class Ports:
    """Which ports of which addresses each pod saw, and whose connections came from them."""

    def __init__(self, observations: Iterable[Sequence[Observation]]) -> None:
        self._seen: dict[tuple[str, int], set[tuple[str, IPAddress, IPAddress]]] = defaultdict(set)
        for made in observations:
            for each in made:
                if each.outcome is not Outcome.ANSWERED or not (
                    each.echo and each.source and each.seen and each.backend
                ):
                    continue
                entry = (each.backend, parse_address(each.seen[0]), parse_address(each.source[0]))
                for _, seen in each.port_pairs:
                    if seen:
                        self._seen[str(each.echo.get("protocol")), seen].add(entry)

    def collided(self, path: Path, lost: Observation, topology: Topology) -> bool:
        """Whether another's connection came from the very address and port that NAT may have given to each of these.

        That is an address of a node, of a host process its own node's, with the port that the client itself had, and at
        a pod that it may have met. One of the two is a process of that node: between others a node's NAT sees to it.
        """
        if lost.source is None or lost.outcome is not Outcome.TIMEOUT:
            return False
        stand = topology.stands.get(path.client.name)
        host = path.client.vantage is Vantage.NODE
        if host:
            may = set(stand.addresses) if stand else set()
        else:
            may = {address for node in topology.nodes.values() for address in node.addresses}
        own, pods = parse_address(lost.source[0]), backends_of(path.service)
        return all(
            any(
                pod in pods and at in may and whose != own and (host or whose == at)
                for pod, at, whose in self._seen.get((path.protocol.value.lower(), port), ())
            )
            for port, _ in lost.port_pairs
        )
