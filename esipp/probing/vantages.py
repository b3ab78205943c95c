"""The clients outside the cluster, wherever each stands: one face for containers, this machine and hosts over ssh."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from esipp.base.client_places import Kind, Place, keep_private, place_of
from esipp.base.errors import HarnessError
from esipp.checks.model import Family
from esipp.judging.client_addresses import Answer, Whereabouts, answers_of, checked, find, told_apart
from esipp.judging.topology import IPAddress
from esipp.probing import hosts, transports
from esipp.probing.hosts import Landed
from esipp.probing.jobs import Job
from esipp.probing.outside import OutsideContainers
from esipp.probing.prober import Prober

ASKS = 2
"""Connections to each listener: from one client they must all show the same."""

ASK_SECONDS = 8.0
"""Until a listener that is silent is given up: a SYN that is lost is sent again after one, three and seven seconds."""

LISTENERS_ASKED = 3

Listeners = Mapping[str, tuple[str, int]]
"""Address and port of reference listeners, by node."""


class Outside:
    """The clients outside.

    Args:
        places: where they stand, in order (``--outside``).
        containers: starts those that are containers.
        landed: what this machine and the hosts over ssh told of themselves.
    """

    def __init__(
        self, places: tuple[Place, ...], containers: OutsideContainers, landed: Mapping[Place, Landed]
    ) -> None:
        self._places, self._containers, self._landed = places, containers, landed
        self.whereabouts: list[Whereabouts] = []

    def place(self, client: str) -> Place:
        """Where a client stands."""
        return place_of(client, self._places)

    def start(self, client: str) -> list[str]:
        """Make a client ready; its own addresses.

        Raises:
            HarnessError: the engine refused its container.
        """
        place = self.place(client)
        if place.kind is Kind.DOCKER:
            return self._containers.start(client)
        return sorted(str(address) for address in self._landed[place].addresses)

    def hosts(self, clients: Iterable[str]) -> list[str]:
        """Those that are no containers: whether NAT stands before them has to be found out."""
        return [client for client in clients if self.place(client).kind is not Kind.DOCKER]

    def prober(self, client: str, name: str = "") -> Prober:
        """A prober of its own where a client stands.

        Raises:
            HarnessError: it cannot be started, now or at ``hello``.
        """
        place = self.place(client)
        if place.kind is Kind.DOCKER:
            return Prober(name or client, transports.docker(self._containers.name_of(client)))
        return hosts.start(place, f"{name or client}, {place}")

    def learn(
        self, clients: Iterable[str], listeners: Mapping[Family, Listeners], owner: Callable[[IPAddress], str]
    ) -> list[Whereabouts]:
        """Find out by which address the nodes see the clients that are no containers, all at once.

        Args:
            clients: all clients outside.
            listeners: the reference listeners by family; the first few are asked.
            owner: whose an address is, or nothing.

        Raises:
            HarnessError: a prober does not start, or is gone.
        """
        wanted = self.hosts(clients)

        def ask(client: str) -> list[Whereabouts]:
            prober = self.prober(client)
            try:
                prober.hello()
                answers = _ask(prober, listeners)
            finally:
                prober.close()
            return [
                find(client, family, list(nodes)[:LISTENERS_ASKED], answers[family], owner)
                for family, nodes in listeners.items()
            ]

        with ThreadPoolExecutor(max_workers=max(1, len(wanted))) as pool:
            found = [each for told in pool.map(ask, wanted) for each in told]
        self.whereabouts = told_apart(found)
        for each in found:
            keep_private([self.place(each.client)], [each.seen] if each.seen is not None else [])
        return self.whereabouts

    def check(self, owner: Callable[[IPAddress], str]) -> list[Whereabouts]:
        """What was learnt, held against owners of whom more is known by now."""
        self.whereabouts = checked(self.whereabouts, owner)
        return self.whereabouts

    def remove(self) -> None:
        """Remove what was started; on hosts nothing is left, as nothing was written there.

        Raises:
            HarnessError: a container could not be removed.
        """
        self._containers.remove()


def _ask(prober: Prober, listeners: Mapping[Family, Listeners]) -> dict[Family, list[Answer]]:
    """What the reference listeners see of a prober's host."""
    flying = []
    for family, nodes in listeners.items():
        for node, (host, port) in list(nodes.items())[:LISTENERS_ASKED]:
            job = Job(f"whereabouts {node} {family}", "tcp", host, port, ASKS, ASK_SECONDS)
            flying.append((family, node, prober.submit(job)))
    answers: dict[Family, list[Answer]] = {family: [] for family in listeners}
    for family, node, future in flying:
        try:
            answers[family] += answers_of(node, future.result(timeout=ASK_SECONDS + 10))
        except TimeoutError:
            raise HarnessError(
                f"The prober of {prober.name} did not tell what the listener of node {node} answered.",
                "is the way to that host still there?",
            ) from None
    return answers
