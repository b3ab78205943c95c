"""The inter-operation trials as they are performed, on made-up nodes: they wait for what they change, and clean up."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from esipp.cluster import ApiError
from esipp.convergence import Budget
from esipp.errors import HarnessError
from esipp.health.asking import Asker
from esipp.health.model import Answer, Place
from esipp.health.seen import Node
from esipp.interoperability import many, neighbours
from esipp.interoperability.many import manifest
from esipp.interoperability.model import Kind
from esipp.model import Family, Role
from esipp.observation import Observation, Outcome
from esipp.probing.jobs import Job
from esipp.stop import Stop
from tests.unit.health_world import no_answer
from tests.unit.world import ROLES, topology

Json = dict[str, Any]
T = TypeVar("T")
BRIEF = Budget("a moment", 0.05, need=1, spacing=0.01)
PORT_A, PORT_B = 30001, 30002


def landed(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future


class FakeCluster:
    """An API server that keeps Services, and tells what was done to it."""

    def __init__(self) -> None:
        self.there: dict[str, Json] = {}
        self.done: list[str] = []
        self.refuse_after = 10**6

    def create(self, _collection: str, item: Json) -> Json:
        if len(self.there) >= self.refuse_after:
            raise ApiError(403, "Forbidden", "exceeded quota", "POST")
        name, port = item["metadata"]["name"], 30100 + 2 * len(self.there)
        made = {**item, "spec": {**item["spec"], "ports": [{**item["spec"]["ports"][0], "nodePort": port}]}}
        if item["spec"].get("externalTrafficPolicy") == "Local" and item["spec"]["type"] == "LoadBalancer":
            made["spec"].setdefault("healthCheckNodePort", port + 1)
        self.there[name] = made
        self.done.append(f"create {name}")
        return made

    def delete(self, path: str) -> None:
        self.there.pop(path.rpartition("/")[2], None)
        self.done.append(f"delete {path.rpartition('/')[2]}")

    def patch(self, path: str, body: Json, _how: str = "") -> Json:
        name = path.removesuffix("/status").rpartition("/")[2]
        if path.endswith("/status"):
            self.done.append(f"gate {name} {body['status']['conditions'][0]['status']}")
        else:
            self.there[name]["spec"] |= body["spec"]
            self.done.append(f"patch {name} {body['spec']}")
        return {}

    def request(self, _method: str, path: str) -> Json:
        item = self.there[path.rpartition("/")[2]]
        return {"metadata": {"name": item["metadata"]["name"], "resourceVersion": "7"}, "spec": dict(item["spec"])}

    def list(self, _collection: str) -> list[Json]:
        return [*self.there.values()]


class FakeProber:
    """Whoever is dialled answers, or nobody does."""

    def __init__(self) -> None:
        self.streams: list[str] = []
        self.cancelled = 0

    def submit(self, job: Job) -> Future[list[Observation]]:
        return landed([Observation(job.key, 0, Outcome.TIMEOUT, count=job.count)])

    def stream(self, job: Job, _sink: Callable[[Json], None]) -> Any:
        self.streams.append(f"{job.protocol} {job.port}")

        def cancel() -> None:
            self.cancelled += 1

        return SimpleNamespace(cancel=cancel, wait=lambda _seconds: 0)


class FakeAsker:
    """Nodes whose health checks follow the API server at once, unless they are ``deaf``."""

    def __init__(self, cluster: FakeCluster, *, deaf: bool = False) -> None:
        self.cluster, self.deaf, self.stop, self.prober = cluster, deaf, Stop(), FakeProber()
        self.families = list(Family)
        self.places = {Place(role.value): node for role, node in ROLES.items()}
        self.clients = SimpleNamespace(probers={"outside-1": self.prober})
        self.stage = SimpleNamespace(
            namespace="esipp-x", run="x", cluster=cluster, nodes=topology().nodes, roles=ROLES, services={}
        )
        for name, port in ((neighbours.A, PORT_A), (neighbours.B, PORT_B)):
            item = neighbours.service_b("x", healthCheckNodePort=port)
            item["metadata"]["name"] = name
            self.stage.services[name] = cluster.create("", item)

    def address(self, place: Place, family: Family) -> str:
        return topology().nodes[self.places[place]].internal[family]

    def listeners(self, _client: object) -> dict[tuple[str, Place, Family], bool]:
        return {("outside-1", place, family): True for place in self.places for family in Family}

    def everywhere(self, _port: int) -> dict[Node, Answer]:
        service = self.cluster.there.get(neighbours.B)
        gates = [each for each in self.cluster.done if each.startswith("gate")]
        opened = bool(gates) and gates[-1].endswith("True") and not self.deaf
        local = service is not None and service["spec"]["externalTrafficPolicy"] == "Local"
        told = {}
        for place in self.places:
            own = place in (Place.ENDPOINT_NODE, Place.BARE_NODE) and opened
            status = Answer(Outcome.ANSWERED, 200 if own else 503)
            told |= {(place, family): status if local else no_answer(Outcome.REFUSED) for family in Family}
        return told

    def get(self, _client: object, _host: str, _port: int, **_: object) -> Future[list[Json]]:
        return landed([{"outcome": "refused", "count": 1}])


def asker(**options: Any) -> tuple[Asker, FakeCluster, FakeAsker]:
    cluster = FakeCluster()
    fake = FakeAsker(cluster, **options)
    return cast(Asker, fake), cluster, fake


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        *((neighbours, name) for name in ("TOLD", "AFTER")),
        *((many, name) for name in ("PROGRAMMED", "CLOSED")),
    ):
        monkeypatch.setattr(module, name, replace(BRIEF, name=getattr(module, name).name))


def test_each_change_of_the_neighbour_is_waited_for_while_the_other_is_watched() -> None:
    made, cluster, fake = asker()
    seen = neighbours.Trial(made, topology()).perform()
    on = [f"neighbour-b-on-{role.value}" for role in (Role.ENDPOINT_NODE, Role.BARE_NODE)]
    assert cluster.done[2:] == [
        *(f"gate {pod} True" for pod in on),
        *(f"gate {pod} False" for pod in on),
        *(f"gate {pod} True" for pod in on),
        "patch neighbour-b {'externalTrafficPolicy': 'Cluster'}",
        "delete neighbour-b",
        "create neighbour-b",
        "delete neighbour-b",
    ]
    assert len(seen.changes) == 5
    assert seen.before == seen.after
    watched = {f"get {PORT_A}": 8, f"tcp {fake.stage.services[neighbours.A]['spec']['ports'][0]['nodePort']}": 8}
    assert {each: fake.prober.streams.count(each) for each in fake.prober.streams} == watched
    assert fake.prober.cancelled == 16


def test_a_neighbour_whose_changes_do_not_reach_the_nodes_ends_the_trial() -> None:
    made, _, fake = asker(deaf=True)
    with pytest.raises(HarnessError, match="its pods become ready"):
        neighbours.Trial(made, topology()).perform()
    assert fake.prober.cancelled == len(fake.prober.streams)


def test_many_are_made_looked_at_and_deleted() -> None:
    made, cluster, _ = asker()
    seen = many.Trial(made, topology(), number=16).perform()
    assert {kind: len(names) for kind, names in seen.names.items()} == dict.fromkeys(Kind, 4)
    assert len(seen.ports) == 16
    assert {key: len(of) for key, of in seen.dialled.items()} == {
        (kind, role): 4 for kind in Kind for role in (Role.ENDPOINT_NODE, Role.BARE_NODE)
    }
    assert {len(nodes) for nodes in seen.answers.values()} == {4}, "each in its own family, on every node"
    assert set(seen.gone) == set(seen.names[Kind.BALANCER_LOCAL])
    assert set(cluster.there) == {neighbours.A, neighbours.B}


def test_many_of_which_some_cannot_be_made_are_deleted_all_the_same() -> None:
    made, cluster, _ = asker()
    cluster.refuse_after = 10
    with pytest.raises(ApiError):
        many.Trial(made, topology(), number=16).perform()
    assert set(cluster.there) == {neighbours.A, neighbours.B}


def test_a_port_that_another_service_took_meanwhile_is_no_old_listener() -> None:
    item = manifest("r", 0, Kind.BALANCER_LOCAL, Family.IPV4)
    item["spec"]["healthCheckNodePort"] = 30500
    assert many._taken([item], {"gone": 30500, "other": 30501}) == ["gone"]
