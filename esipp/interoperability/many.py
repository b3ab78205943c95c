"""Many services at once: made, dialled, asked, and deleted again, all of them over one and the same pod."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from esipp import manifests
from esipp.cluster import ApiError, UnreachableError
from esipp.convergence import Budget, Reading
from esipp.health.asking import Asker, read_all
from esipp.health.model import Answer, Place
from esipp.health.props import NOBODY, OUTSIDE
from esipp.health.seen import Node
from esipp.interoperability.model import DIALLED, MANY_SERVICES, Kind
from esipp.interoperability.seen import Many
from esipp.labels import RUN_LABEL, labels_of
from esipp.manifests import BACKEND_LABEL
from esipp.model import Backends, Entry, EntryKind, Family, Path, Protocol, Role
from esipp.observation import Observation, Outcome
from esipp.probing.jobs import Job
from esipp.reading import read
from esipp.topology import Topology

Json = dict[str, Any]

AT_ONCE = 16
"""Requests to the API server under way."""

COUNT = 2
"""Connections to each nodePort, and questions to each health check."""

TIMEOUT = 2.0
BOUND = 60.0

PROGRAMMED = Budget("every node knowing the services that were created last", 60.0, need=2, spacing=0.2)
"""The controller that makes EndpointSlices may be allowed twenty requests a second, then kube-proxy syncs."""

LAST = 8
"""So many of each kind, the last ones that were created, are waited for."""

CLOSED = Budget("every node closing the health checks of deleted services", 15.0, need=1, spacing=0.2)


@dataclass
class Trial:
    """Performs the trial; what it has made is gone when it ends, however it ends."""

    asker: Asker
    topology: Topology
    number: int = MANY_SERVICES
    made: dict[str, Json] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)

    def perform(self) -> Many:
        """Everything, in order."""
        seen = Many(namespace=self.asker.stage.namespace)
        began = time.monotonic()

        def done(what: str) -> None:
            seen.seconds[what] = round(time.monotonic() - began, 3)

        try:
            self._create()
            done("created")
            for name, kind in self.kinds.items():
                seen.names.setdefault(kind, []).append(name)
            seen.ports = {name: _ports(item) for name, item in self.made.items()}
            self.asker.stop.converge(self._last_ones_answer, PROGRAMMED)  # what never does is judged as it is
            done("programmed")
            self._window(seen)
            done("asked")
        finally:
            self._delete()
        done("deleted")
        self._closed(seen)
        done("closed")
        return seen

    # ---------------------------------------------------------------------------------------------------- the API
    @property
    def _services(self) -> str:
        return f"/api/v1/namespaces/{self.asker.stage.namespace}/services"

    def _create(self) -> None:
        """All of them, by a few threads, the kinds in turn."""
        run, kinds, families = self.asker.stage.run, list(Kind), self.asker.families
        wanted = [
            manifest(run, number, kinds[number % len(kinds)], families[number // len(kinds) % len(families)])
            for number in range(self.number)
        ]
        self.kinds = {item["metadata"]["name"]: kinds[number % len(kinds)] for number, item in enumerate(wanted)}

        def create(item: Json) -> Json:
            self.asker.stop.check()
            return self.asker.stage.cluster.create(self._services, item)

        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            for made in [pool.submit(create, item) for item in wanted]:
                item = made.result()
                self.made[item["metadata"]["name"]] = item

    def _delete(self) -> None:
        """Whatever became of the creation: so many would make the end of the stage slow."""

        def delete(name: str) -> None:
            self.asker.stage.cluster.delete(f"{self._services}/{name}")

        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            try:
                list(pool.map(delete, self.kinds))
            except (ApiError, UnreachableError):
                return  # they go with the namespace

    # -------------------------------------------------------------------------------------------------- the window
    def _last_ones_answer(self) -> Reading:
        """Whether the last ones of each kind are known on the nodes, which know the earlier ones then, too."""
        names = [name for kind in Kind for name in [n for n, k in self.kinds.items() if k is kind][-LAST:]]
        dialled = {(name, role): self._dial(name, role, 1) for name in names for role in self._answering(name)}
        asked = {name: self._ask(name, only=[Place.ENDPOINT_NODE]) for name in names}
        answered = {key: self.asker.stop.result(each, BOUND) for key, each in dialled.items()}
        late = [name for (name, _), made in answered.items() if any(o.outcome is not Outcome.ANSWERED for o in made)]
        for name, nodes in asked.items():
            told = self._told(nodes.values())
            late += [name] if any(answer.words != "200" for answer in told) else []
        return Reading(not late, f"{len(late)} do not answer yet, among them {late[:1]}")

    def _answering(self, name: str) -> Iterable[Role]:
        return DIALLED[:1] if self.kinds[name].is_local else DIALLED

    def _ask(self, name: str, count: int = 1, only: Iterable[Place] = ()) -> "dict[Node, Future[list[Json]]]":
        """Ask the health check of a service, if it has one, on every node or some, in the family of the service."""
        port, family = _health_port(self.made[name]), _family(self.made[name])
        places = list(only) or [place for place in self.asker.places if place is not Place.EXCLUDED]
        return {
            (place, family): self.asker.get(OUTSIDE, host, port, count=count)
            for place in places
            if port and (host := self.asker.address(place, family))
        }

    def _window(self, seen: Many) -> None:
        """All at once: every nodePort of the endpoint node and of the bare node, every health check of every node."""
        dialled = {(name, role): self._dial(name, role, COUNT) for name in self.made for role in DIALLED}
        asked = {(name, node): each for name in self.made for node, each in self._ask(name, COUNT).items()}
        listening = self.asker.listeners(OUTSIDE)
        seen.reached = {(place, family): reached for (_, place, family), reached in listening.items()}
        for (name, role), observed in dialled.items():
            path, kind = self._path(name, role), self.kinds[name]
            readings = [read(path, each, self.topology) for each in self.asker.stop.result(observed, BOUND)]
            seen.dialled.setdefault((kind, role), {})[name] = readings
        for (name, node), each in asked.items():
            seen.answers.setdefault(name, {})[node] = self._told([each])

    def _told(self, asked: "Iterable[Future[list[Json]]]") -> list[Answer]:
        """All answers to some questions."""
        found: list[Answer] = []
        for each in asked:
            results = self.asker.stop.result(each, BOUND)
            found += read_all(results)
        return found

    def _dial(self, name: str, role: Role, count: int) -> "Future[list[Observation]]":
        item, path = self.made[name], self._path(name, role)
        host = self.asker.stage.nodes[self.asker.stage.roles[role]].internal[path.family]
        job = Job(name, "tcp", host, int(item["spec"]["ports"][0]["nodePort"]), count, TIMEOUT)
        return self.asker.clients.probers[OUTSIDE.name].submit(job)

    def _path(self, name: str, role: Role) -> Path:
        """The path that is dialled, for whoever reads what came of it."""
        family = _family(self.made[name])
        return Path(OUTSIDE, Entry(EntryKind.NODE_PORT, role), Protocol.TCP, family, self.kinds[name].shape)

    def _closed(self, seen: Many) -> None:
        """Ask every node at the ports that were health checks, until all refuse."""
        ports = {name: port for name, item in self.made.items() if (port := _health_port(item))}
        if not ports:
            return

        def look() -> Reading:
            flying = {name: self._ask(name) for name in ports}
            for name, nodes in flying.items():
                answers = self._told(nodes.values())
                seen.gone[name] = Counter(each.words for each in answers)
            still = [name for name, said in seen.gone.items() if set(said) != {Outcome.REFUSED.value}]
            return Reading(not still, f"{len(still)} of {len(ports)} are answered")

        self.asker.stop.converge(look, CLOSED)
        still = {name: ports[name] for name, said in seen.gone.items() if set(said) != {Outcome.REFUSED.value}}
        for name in _taken(self.asker.stage.cluster.list("/api/v1/services") if still else [], still):
            del seen.gone[name]  # another tenant's by now


def manifest(run: str, number: int, kind: Kind, family: Family) -> Json:
    """One of the services; of one family, so that its EndpointSlices are half as many."""
    shape = kind.shape
    spec: Json = {
        "type": shape.type.value,
        "selector": {RUN_LABEL: run, BACKEND_LABEL: Backends.POD.value},
        "ports": [{"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": manifests.TCP}],
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": [family.value],
    }
    if shape.policy:
        spec["externalTrafficPolicy"] = shape.policy.value
    if kind is Kind.BALANCER_LOCAL:
        spec["loadBalancerClass"] = NOBODY
    metadata = {"name": f"many-{kind.value}-{number:03}", "labels": labels_of(run)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _family(item: Json) -> Family:
    return Family(item["spec"]["ipFamilies"][0])


def _health_port(item: Json) -> int | None:
    return item["spec"].get("healthCheckNodePort") or None


def _ports(item: Json) -> list[int]:
    """Its ports on the nodes."""
    found = [int(each["nodePort"]) for each in item["spec"]["ports"] if each.get("nodePort")]
    port = _health_port(item)
    return [*found, *([port] if port else [])]


def _taken(services: Iterable[Json], ports: Mapping[str, int]) -> list[str]:
    """Whose port another service has by now."""
    held = {port for item in services for port in (item["spec"].get("healthCheckNodePort"), *_node_ports(item)) if port}
    return [name for name, port in ports.items() if port in held]


def _node_ports(item: Json) -> list[int]:
    return [each["nodePort"] for each in item["spec"].get("ports") or [] if each.get("nodePort")]
