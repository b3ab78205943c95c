"""Outside clients at any place: one interface for containers, this machine and hosts over ssh."""

import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from esipp.base.client_places import BEHIND_NAT, BEHIND_ROUTER, Kind, Place, keep_private, place_of
from esipp.base.errors import HarnessError
from esipp.checks.model import Family
from esipp.judging.client_addresses import (
    Answer,
    DiscoveredAddress,
    Finding,
    answers_of,
    checked,
    distinct_clients,
    find,
)
from esipp.judging.topology import IPAddress, family_of, parse_address
from esipp.probing import hosts, vantages
from esipp.probing.hosts import HostDescription
from esipp.probing.outside import OutsideContainers
from esipp.probing.prober import Job, Prober

IN_IMAGE = ("python3", "-B", "/esipp/prober.py")


def local(prober: Path) -> list[str]:
    """The command for a prober on this machine."""
    return [sys.executable, "-B", str(prober)]


def docker(container: str) -> list[str]:
    """The command for a prober in a container of the docker engine (DOCKER_HOST)."""
    return ["docker", "exec", "-i", container, *IN_IMAGE]


ASKS = 2
"""Connections to each listener; all connections of a client must show the same address."""

ASK_SECONDS = 8.0
"""Timeout of a connection to a listener: a lost SYN is sent again after one, three and seven seconds."""

LISTENERS_DIALLED = 3
"""How many control listeners are dialled, at most, to find out a client's address."""

ECHO_PORT = 8081
"""The TCP port of the echo server in each container, which is its main process."""

Listeners = Mapping[str, tuple[str, int]]
"""Address and port of listeners, by node; or by client, if they are outside."""


class Outside:
    """The outside clients of a run.

    Args:
        places: the places of the clients, in order (``--outside``).
        containers: the clients in containers.
        described: the descriptions of this machine and the hosts over ssh.
    """

    def __init__(
        self, places: tuple[Place, ...], containers: OutsideContainers, described: Mapping[Place, HostDescription]
    ) -> None:
        self._places, self._containers, self._described = places, containers, described
        self._neighbours: dict[str, list[str]] = {}
        self.whereabouts: list[DiscoveredAddress] = []

    def place(self, client: str) -> Place:
        """The place of a client."""
        return place_of(client, self._places)

    def start(self, client: str) -> list[str]:
        """Prepare a client and return its own addresses.

        Raises:
            HarnessError: docker could not start its container.
        """
        place = self.place(client)
        if place.kind is Kind.DOCKER:
            addresses = self._containers.start(client)
            if self.is_beside_nodes(client):
                self._neighbours[client] = addresses
            return addresses
        return sorted(str(address) for address in self._described[place].addresses)

    def is_beside_nodes(self, client: str) -> bool:
        """Whether a client is a container next to the nodes, so that nodes see the address of its interface."""
        return self.place(client).kind is Kind.DOCKER and client not in (BEHIND_ROUTER, BEHIND_NAT)

    def elsewhere(self, clients: Iterable[str]) -> list[str]:
        """The clients that are not beside the nodes: routers or NAT may be in between."""
        return [client for client in clients if not self.is_beside_nodes(client)]

    def on_other_ways(self) -> list[DiscoveredAddress]:
        """The addresses of this machine and of hosts, which may reach nodes and VIPs by different ways."""
        return [each for each in self.whereabouts if self.place(each.client).kind is not Kind.DOCKER]

    def prober(self, client: str, name: str = "") -> Prober:
        """Start a new prober at a client's place.

        Raises:
            HarnessError: it cannot start, now or at ``hello``.
        """
        place = self.place(client)
        if place.kind is Kind.DOCKER:
            return Prober(name or client, vantages.docker(self._containers.name_of(client)))
        return hosts.start(place, f"{name or client}, {place}")

    def learn(
        self, clients: Iterable[str], listeners: Mapping[Family, Listeners], owner: Callable[[IPAddress], str]
    ) -> list[DiscoveredAddress]:
        """Discover the addresses that nodes see for the clients that are not beside them, in parallel.

        The echo servers of the clients beside the nodes are asked, too: they are outside the cluster.

        Args:
            clients: all outside clients.
            listeners: the control listeners by family; only the first few are used.
            owner: returns the owner of an address, or an empty string.

        Raises:
            HarnessError: a prober does not start, or is gone.
        """
        wanted = self.elsewhere(clients)

        def ask(client: str) -> list[DiscoveredAddress]:
            if why := self._containers.broken.get(client):
                return [DiscoveredAddress(client, family, Finding.UNPROVEN, why) for family in listeners]
            prober = self.prober(client)
            try:
                prober.hello()
                answers = _ask(prober, {family: {**_first(listeners[family]), **self._echo_servers(family)}
                                        for family in listeners})  # fmt: skip
            finally:
                prober.close()
            return [
                find(client, family, list(_first(nodes)), answers[family], owner, self._given(client, family))
                for family, nodes in listeners.items()
            ]

        with ThreadPoolExecutor(max_workers=max(1, len(wanted))) as pool:
            found = [each for answers in pool.map(ask, wanted) for each in answers]
        self.whereabouts = distinct_clients(found)
        for each in found:
            keep_private([self.place(each.client)], [each.seen] if each.seen is not None else [])
        return self.whereabouts

    def _given(self, client: str, family: Family) -> IPAddress | None:
        """The address of a client that the user gives."""
        given = self.place(client).given(4 if family is Family.IPV4 else 6)
        return parse_address(given) if given else None

    def _echo_servers(self, family: Family) -> dict[str, tuple[str, int]]:
        """The echo servers of the clients beside the nodes."""
        return {
            client: (address, ECHO_PORT)
            for client, addresses in sorted(self._neighbours.items())
            for address in addresses
            if address and family_of(address) is family
        }

    def check(self, owner: Callable[[IPAddress], str]) -> list[DiscoveredAddress]:
        """Check the discovered addresses again, now that more owners of addresses are known."""
        self.whereabouts = checked(self.whereabouts, owner)
        return self.whereabouts

    def remove(self) -> None:
        """Remove the started containers; nothing is left on hosts, because nothing was written there.

        Raises:
            HarnessError: a container could not be removed.
        """
        self._containers.remove()


def _first(listeners: Listeners) -> dict[str, tuple[str, int]]:
    """The control listeners that are dialled."""
    return dict(list(listeners.items())[:LISTENERS_DIALLED])


def _ask(prober: Prober, listeners: Mapping[Family, Listeners]) -> dict[Family, list[Answer]]:
    """The answers of listeners to a prober."""
    flying = []
    for family, nodes in listeners.items():
        for node, (host, port) in nodes.items():
            job = Job(f"whereabouts {node} {family}", "tcp", host, port, ASKS, ASK_SECONDS)
            flying.append((family, node, prober.submit(job)))
    answers: dict[Family, list[Answer]] = {family: [] for family in listeners}
    for family, node, future in flying:
        try:
            answers[family] += answers_of(node, future.result(timeout=ASK_SECONDS + 10))
        except TimeoutError:
            raise HarnessError(
                f"The prober of {prober.name} did not report the answer of the listener of node {node}.",
                "check the connection to that host.",
            ) from None
    return answers
