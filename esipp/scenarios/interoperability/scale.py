"""The scale scenario: many Services over one pod, created, dialled, probed and deleted at once.

An API server takes its time: all nodePorts are kept in one object, which every Service changes once or twice when it
comes and again when it goes, one after the other. So the Services are created and deleted in the background of other
scenarios.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.labels import UNSERVED_CLASS
from esipp.base.waiting import Reading
from esipp.checks.health import Place
from esipp.checks.interoperability import DIALLED, MANY_SERVICES, Kind
from esipp.checks.model import OUTSIDE, Backends, Entry, EntryKind, Family, Outcome, Path, Protocol, Role
from esipp.cluster.client import ApiError, UnreachableError
from esipp.cluster.node_ports import all_ports, health_port
from esipp.judging.observation import Observation, read
from esipp.judging.topology import Topology
from esipp.probing.prober import Job
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.probes import Asker, read_all
from esipp.scenarios.interoperability.controls import listen
from esipp.scenarios.interoperability.evidence import Many
from esipp.scenarios.paths.run import ANSWER_TIMEOUT, JUDGED_TIMEOUT, SETTLING_TIMEOUT
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed import manifests
from esipp.testbed.manifests import BACKEND_LABEL
from esipp.testbed.testbed import Testbed

K = TypeVar("K")
V = TypeVar("V")
Asks = Mapping[K, Callable[[], "Future[V]"]]

COUNT = 2
"""Connections to each nodePort, and questions to each health check."""

AT_A_TIME = 50
"""Jobs under way where an answer must come: more would be more than our one echo server takes at once."""

AT_ONCE = 16
"""Requests to the API server under way."""


@dataclass
class ManyServices:
    """The Services in the order of creation: the kinds in turn, each in every family.

    ``made`` are the objects by name, ``began`` is when the first was asked for.
    """

    testbed: Testbed
    stop: Stop
    families: list[Family]
    number: int
    timeouts: Timeouts = TIMEOUTS
    made: dict[str, Json] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    began: float = 0.0
    _refused: threading.Event = field(default_factory=threading.Event)

    @property
    def _services(self) -> str:
        return f"/api/v1/namespaces/{self.testbed.namespace}/services"

    def create(self) -> None:
        """Make all of them, by a few threads; where one cannot be made, those that were are deleted.

        Raises:
            ApiError: the API server refused one.
            UnreachableError: it did not answer.
            StoppedError: the session ends.
        """
        wanted = list(self._manifests())
        self.began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            flying = [pool.submit(self._create, item) for item in wanted]
            try:
                for each in flying:
                    item = each.result()
                    self.made[item["metadata"]["name"]] = item
            except BaseException:
                pool.shutdown(cancel_futures=True)
                self.delete(self.kinds)
                raise

    def _manifests(self) -> Iterator[Json]:
        for kind, item in manifests_of(self.testbed.run, self.families, self.number):
            self.kinds[item["metadata"]["name"]] = kind
            yield item

    def _create(self, item: Json) -> Json:
        self.stop.check()
        return self.testbed.cluster.create(self._services, item)

    def delete(self, first: Iterable[str]) -> list[str]:
        """Delete all; some first, which alone are waited for, while the others are deleted in the background.

        What cannot be deleted goes with the namespace, and so does all that was to be deleted after it.

        Returns:
            Those of the first that surely are deleted.

        Raises:
            StoppedError: the session ends.
        """
        first, end = [*first], time.monotonic() + self.timeouts.services_deleted
        pool = ThreadPoolExecutor(AT_ONCE)
        flying = {name: pool.submit(self._delete, name) for name in dict.fromkeys((*first, *self.kinds))}
        pool.shutdown(wait=False)
        return [name for name in first if self.stop.result(flying[name], max(0.0, end - time.monotonic()))]

    def _delete(self, name: str) -> bool:
        """Whether it surely is deleted."""
        try:
            self.stop.check()
            if not self._refused.is_set():
                self.testbed.cluster.delete(f"{self._services}/{name}")
        except (ApiError, UnreachableError):
            self._refused.set()
        return not self._refused.is_set()


def manifests_of(run: str, families: Sequence[Family], number: int = MANY_SERVICES) -> Iterator[tuple[Kind, Json]]:
    """The names of this number of Services in the order of creation, each with its kind."""
    kinds = list(Kind)
    for each in range(number):
        kind = kinds[each % len(kinds)]
        yield kind, manifest(run, each, kind, families[each // len(kinds) % len(families)])


def manifest(run: str, number: int, kind: Kind, family: Family) -> Json:
    """One of the services; of one family, so that its EndpointSlices are half as many."""
    shape = kind.shape
    name, pods = f"many-{kind.value}-{number:03}", {BACKEND_LABEL: Backends.POD.value}
    balancer = UNSERVED_CLASS if kind is Kind.BALANCER_LOCAL else ""
    families = {"ipFamilyPolicy": "SingleStack", "ipFamilies": [family.value]}
    return manifests.service_over(name, run, pods, shape.type, shape.policy, balancer, **families)


@dataclass
class Scale:
    """Runs the scenario: ``prepare`` in parallel with other scenarios, then ``perform`` alone."""

    asker: Asker
    topology: Topology
    number: int = MANY_SERVICES
    seen: Many = field(default_factory=Many)
    many_services: ManyServices = field(init=False)

    def __post_init__(self) -> None:
        testbed = self.asker.testbed
        self.seen.namespace = testbed.namespace
        self.many_services = ManyServices(
            testbed, self.asker.stop, self.asker.families, self.number, self.asker.timeouts
        )

    def prepare(self) -> None:
        """Make the services, and wait until all of them are known on every node; what never is is judged as it is.

        Raises:
            ApiError: the API server refused a service.
            UnreachableError: it did not answer.
            StoppedError: the session ends.
        """
        self.many_services.create()
        self._done("created")
        for name, kind in self.many_services.kinds.items():
            self.seen.names.setdefault(kind, []).append(name)
        self.seen.ports = {name: all_ports(item) for name, item in self.many_services.made.items()}
        held = self.asker.stop.converge(self._look(), self.asker.timeouts.services_answer)
        self._done("programmed")
        self.seen.late = "" if held.held else held.state

    def perform(self) -> Many:
        """Probe all Services in one window, and delete them; only those with a health check are waited for."""
        self._window()
        self._done("asked")
        balancers = [name for name, item in self.many_services.made.items() if health_port(item)]
        deleted = self.many_services.delete(balancers)
        self._done("deleted")
        self._closed({name: port for name in deleted if (port := health_port(self.many_services.made[name]))})
        self._done("closed")
        return self.seen

    def _done(self, what: str) -> None:
        self.seen.seconds[what] = round(time.monotonic() - self.many_services.began, 3)

    # -------------------------------------------------------------------------------------------------- the window
    def _look(self) -> Callable[[], Reading]:
        """Whether all nodes serve all Services; each entry and each health check is probed until it is right once."""
        dials = self._dials(answering=True)
        asks = {(name, node) for name in self.many_services.made for node in self._health_nodes(name)}

        def look() -> Reading:
            flying = {key: self._dialling(*key, 1, SETTLING_TIMEOUT) for key in dials}
            for key, made in self._in_turn(flying).items():
                if all(each.outcome is Outcome.ANSWERED for each in made):
                    dials.remove(key)
            asking = {(name, node): self._asking(name, node, 1, SETTLING_TIMEOUT) for name, node in asks}
            for (name, node), lines in self._in_turn(asking).items():
                wanted = "200" if node[0] is Place.ENDPOINT_NODE else "503"
                if all(answer.words == wanted for answer in read_all(lines)):
                    asks.remove((name, node))
            late = [*dict.fromkeys(name for name, _ in (*dials, *asks))]
            return Reading(not late, f"{len(late)} do not answer yet, among them {late[:1]}")

        return look

    def _window(self) -> None:
        """Probe every nodePort of the endpoint node and of the node without local endpoints, and all health checks."""
        answering, seen = self._dials(answering=True), self.seen
        silent = {
            key: self._dialling(*key, COUNT, JUDGED_TIMEOUT)() for key in self._dials() if key not in set(answering)
        }
        dialled = self._in_turn({key: self._dialling(*key, COUNT, ANSWER_TIMEOUT) for key in answering})
        asked = self._in_turn(
            {
                (name, node): self._asking(name, node, COUNT, ANSWER_TIMEOUT)
                for name in self.many_services.made
                for node in self._health_nodes(name)
            }
        )
        seen.ways = listen(self.asker, self.topology)
        dialled |= {key: self.asker.stop.result(each, self.asker.timeouts.job_ends) for key, each in silent.items()}
        for (name, role), observed in dialled.items():
            path, kind = self._path(name, role), self.many_services.kinds[name]
            readings = [read(path, each, self.topology) for each in observed]
            seen.dialled.setdefault((kind, role), {})[name] = readings
        for (name, node), lines in asked.items():
            seen.answers.setdefault(name, {})[node] = list(read_all(lines))

    def _closed(self, ports: Mapping[str, int]) -> None:
        """Ask every node at the ports that were health checks, until all refuse."""
        if not ports:
            return
        gone = self.seen.gone
        refused = {Outcome.REFUSED.value}

        def look() -> Reading:
            asking = {(name, node): self._asking(name, node) for name in ports for node in self._health_nodes(name)}
            gone.clear()
            for (name, _), lines in self._in_turn(asking).items():
                gone.setdefault(name, Counter()).update(each.words for each in read_all(lines))
            still = [name for name, said in gone.items() if set(said) != refused]
            return Reading(not still, f"{len(still)} of {len(ports)} ports still answer")

        self.asker.stop.converge(look, self.asker.timeouts.services_closed)
        still = {name: ports[name] for name, said in gone.items() if set(said) != refused}
        for name in _taken(self.asker.testbed.cluster.list("/api/v1/services") if still else [], still):
            del gone[name]  # another tenant's by now

    # ------------------------------------------------------------------------------------------------------ asking
    def _in_turn(self, asks: "Asks[K, V]") -> dict[K, V]:
        """The results of all jobs, with a limited number in flight."""
        found: dict[K, V] = {}
        keys = list(asks)
        for first in range(0, len(keys), AT_A_TIME):
            flying = {key: asks[key]() for key in keys[first : first + AT_A_TIME]}
            found |= {key: self.asker.stop.result(each, self.asker.timeouts.job_ends) for key, each in flying.items()}
        return found

    def _dials(self, *, answering: bool = False) -> list[tuple[str, Role]]:
        """Services and the nodes whose nodePorts are dialled; or only those that must answer."""
        return [
            (name, role)
            for name in self.many_services.made
            for role in DIALLED
            if not (answering and role is Role.BARE_NODE and self.many_services.kinds[name].is_local)
        ]

    def _dialling(self, name: str, role: Role, count: int, timeout: float) -> "Callable[[], Future[list[Observation]]]":
        item, path = self.many_services.made[name], self._path(name, role)
        host = self.asker.testbed.nodes[self.asker.testbed.roles[role]].internal[path.family]
        job = Job(name, "tcp", host, int(item["spec"]["ports"][0]["nodePort"]), count, timeout)
        return lambda: self.asker.clients.probers[OUTSIDE.name].submit(job)

    def _health_nodes(self, name: str) -> list[Node]:
        """The nodes on which a Service's health check is probed, if it has one, in its family."""
        item = self.many_services.made[name]
        family = _family(item)
        places = self.asker.places if health_port(item) else ()
        return [
            (place, family) for place in places if place is not Place.EXCLUDED and self.asker.address(place, family)
        ]

    def _asking(
        self, name: str, node: Node, count: int = 1, timeout: float = JUDGED_TIMEOUT
    ) -> "Callable[[], Future[list[Json]]]":
        host, port = self.asker.address(*node), health_port(self.many_services.made[name])
        assert host
        assert port
        return lambda: self.asker.get(OUTSIDE, host, port, count=count, timeout=timeout)

    def _path(self, name: str, role: Role) -> Path:
        """The path that is dialled, for whoever reads what came of it."""
        family = _family(self.many_services.made[name])
        return Path(
            OUTSIDE, Entry(EntryKind.NODE_PORT, role), Protocol.TCP, family, self.many_services.kinds[name].shape
        )


def _family(item: Json) -> Family:
    return Family(item["spec"]["ipFamilies"][0])


def _taken(services: Iterable[Json], ports: Mapping[str, int]) -> list[str]:
    """The Services whose port another Service has by now."""
    held = {port for item in services for port in all_ports(item)}
    return [name for name, port in ports.items() if port in held]
