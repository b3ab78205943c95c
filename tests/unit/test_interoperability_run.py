"""The inter-operation trials as they are performed, on made-up nodes: they wait for what they change, and clean up."""

import threading
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from esipp.base.clock import Clock
from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop, StoppedError
from esipp.base.json import Json
from esipp.base.waiting import Budget
from esipp.checks.health import Answer, Place
from esipp.checks.interoperability import Kind
from esipp.checks.model import Family, Outcome, Protocol, Role
from esipp.cluster.client import ApiError
from esipp.cluster.node_ports import BY_NUMBER
from esipp.judging.observation import Observation
from esipp.probing.prober import Job
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.probes import Asker
from esipp.scenarios.interoperability import isolation, scale
from esipp.scenarios.interoperability.controls import listen
from esipp.scenarios.interoperability.evidence import Many
from esipp.scenarios.interoperability.objects import A, B, service_b
from esipp.scenarios.interoperability.scale import manifest
from esipp.scenarios.paths.run import ANSWER_TIMEOUT, JUDGED_TIMEOUT
from esipp.scenarios.timeouts import TIMEOUTS
from tests.unit.health_world import no_answer
from tests.unit.world import ROLES, topology

T = TypeVar("T")
BRIEF = Budget("a moment", 0.05, need=1, spacing=0.01)
QUICK = replace(
    TIMEOUTS,
    **{
        name: replace(BRIEF, name=getattr(TIMEOUTS, name).name)
        for name in ("other_followed", "last_answers", "services_answer", "services_closed")
    },
)
PORT_A, PORT_B, LISTENER = 31001, 31002, 40000
CLIENT = "172.18.0.9"


def resolved(value: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return future


class FakeCluster:
    """An API server that keeps Services, and tells what was done to it."""

    def __init__(self) -> None:
        self.there: dict[str, Json] = {}
        self.done: list[str] = []
        self.refuse_after = 10**6
        self.others: Collection[int] = ()
        self.taken: set[int] = set()

    def create(self, _collection: str, item: Json) -> Json:
        if len(self.there) >= self.refuse_after:
            raise ApiError(403, "Forbidden", "exceeded quota", "POST")
        name, port = item["metadata"]["name"], 30100 + 2 * len(self.there)
        metadata = {"namespace": "esipp-x", **item["metadata"]}
        if item["spec"].get("healthCheckNodePort") in self.taken:
            raise ApiError(422, "Invalid", "provided port is already allocated", "POST")
        made = {
            "metadata": metadata,
            "spec": {**item["spec"], "ports": [{**item["spec"]["ports"][0], "nodePort": port}]},
        }
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
            return {}
        if body["spec"].get("healthCheckNodePort") in self.others:
            raise ApiError(422, "Invalid", "provided port is already allocated", "PATCH")
        made = self.there[name]["spec"]
        made |= body["spec"]
        if made["externalTrafficPolicy"] == "Local":
            made.setdefault("healthCheckNodePort", PORT_B)
        else:
            made.pop("healthCheckNodePort", None)
        self.done.append(f"patch {name} {body['spec']}")
        return self.there[name]

    def request(self, _method: str, path: str) -> Json:
        item = self.there[path.rpartition("/")[2]]
        return {"metadata": {"name": item["metadata"]["name"], "resourceVersion": "7"}, "spec": dict(item["spec"])}

    def list(self, _collection: str) -> list[Json]:
        return [*self.there.values()]


class FakeProber:
    """Listeners answer, and show ``shown``; of Services nobody answers."""

    def __init__(self) -> None:
        self.streams: list[Job] = []
        self.jobs: list[Job] = []
        self.cancelled = 0
        self.shown = CLIENT

    def submit(self, job: Job) -> Future[list[Observation]]:
        self.jobs.append(job)
        if job.port != LISTENER:
            return resolved([Observation(job.key, 0, Outcome.TIMEOUT, count=job.count)])
        own, shown = ("fc00:f853::9", "fc00:f853::9") if ":" in job.host else (CLIENT, self.shown)
        found = {"nonce": "", "node": "worker-a", "pod": "agent"}
        found |= {"peer_address": shown, "peer_address_raw": shown, "local_address": job.host}
        seen = Observation(job.key, 0, Outcome.ANSWERED, seen=(shown, 1), source=(own, 1), echo=found)
        return resolved([seen])

    def stream(self, job: Job, _sink: Callable[[Json], None]) -> Any:
        self.streams.append(job)

        def cancel() -> None:
            self.cancelled += 1

        return SimpleNamespace(cancel=cancel, wait=lambda _seconds: 0)

    def clock(self) -> Clock:
        return Clock(0.0, 0.0)


class FakeAsker:
    """Nodes whose health checks follow the API server at once, unless they are ``deaf``."""

    def __init__(self, cluster: FakeCluster, *, deaf: bool = False) -> None:
        self.cluster, self.deaf, self.stop, self.prober = cluster, deaf, Stop(), FakeProber()
        self.timeouts = QUICK
        self.families = list(Family)
        self.asked: list[tuple[str, int]] = []
        self.asked_b: list[int] = []
        self.places = {Place(role.value): node for role, node in ROLES.items()}
        self.clients = SimpleNamespace(probers={"outside-1": self.prober})
        self.testbed = SimpleNamespace(
            namespace="esipp-x", run="x", cluster=cluster, nodes=topology().nodes, roles=ROLES, services={}
        )
        self.testbed.listeners = {node: {Protocol.TCP: LISTENER} for node in self.places.values()}
        for name, port in ((A, PORT_A), (B, PORT_B)):
            item = service_b("x", healthCheckNodePort=port)
            item["metadata"]["name"] = name
            self.testbed.services[name] = cluster.create("", item)

    def address(self, place: Place, family: Family) -> str:
        return topology().nodes[self.places[place]].internal[family]

    def everywhere(self, port: int) -> dict[Node, Answer]:
        self.asked_b.append(port)
        service = self.cluster.there.get(B)
        gates = [each for each in self.cluster.done if each.startswith("gate")]
        opened = bool(gates) and gates[-1].endswith("True") and not self.deaf
        local = service is not None and service["spec"]["externalTrafficPolicy"] == "Local"
        found = {}
        for place in self.places:
            own = place in (Place.ENDPOINT_NODE, Place.BARE_NODE) and opened
            status = Answer(Outcome.ANSWERED, 200 if own else 503)
            found |= {(place, family): status if local else no_answer(Outcome.REFUSED) for family in Family}
        return found

    def get(self, _client: object, host: str, port: int, **_: object) -> Future[list[Json]]:
        self.asked.append((host, port))
        return resolved([{"outcome": "refused", "count": 1}])


def asker(**options: Any) -> tuple[Asker, FakeCluster, FakeAsker]:
    cluster = FakeCluster()
    fake = FakeAsker(cluster, **options)
    return cast(Asker, fake), cluster, fake


def test_each_change_of_the_neighbour_is_waited_for_while_the_other_is_watched() -> None:
    made, cluster, fake = asker()
    seen = isolation.Isolation(made, topology()).perform()
    on = [f"neighbour-b-on-{role.value}" for role in (Role.ENDPOINT_NODE, Role.BARE_NODE)]
    chosen = fake.asked_b[0]
    assert chosen in BY_NUMBER, "what it leaves is given to nobody who does not ask for it"
    assert cluster.done[2:] == [
        "patch neighbour-b {'externalTrafficPolicy': 'Cluster'}",
        f"patch neighbour-b {{'externalTrafficPolicy': 'Local', 'healthCheckNodePort': {chosen}}}",
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
    dialled = fake.testbed.services[A]["spec"]["ports"][0]["nodePort"]
    assert Counter((job.protocol, job.port) for job in fake.prober.streams) == {("get", PORT_A): 8, ("tcp", dialled): 8}
    assert fake.prober.cancelled == 16


def test_what_must_answer_is_given_time_and_is_watched_until_the_last_of_it_could_be_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A SYN that got lost is sent again after a second; and what is under way when streams end has no result at all."""
    waited = []
    made, _, fake = asker()
    converge = made.stop.converge

    def note(look: Callable[[], Any], budget: Budget) -> Any:
        waited.append((budget.name, look().right))
        return converge(look, budget)

    monkeypatch.setattr(made.stop, "converge", note)
    isolation.Isolation(made, topology()).perform()
    home = {topology().nodes[ROLES[Role.ENDPOINT_NODE]].internal[family] for family in Family}
    patient = {job.timeout for job in fake.prober.streams if job.protocol == "get" or job.host in home}
    assert patient == {isolation.PATIENT}
    assert waited[-1] == (TIMEOUTS.last_answers.name, False), "the last answers are waited for"


@pytest.mark.parametrize(
    ("came", "whole"),
    [
        ({}, False),
        ({0: 1.0, 1: 2.0}, False),
        ({0: 1.0, 1: 2.0, 2: 3.1}, True),
        ({0: 1.0, 2: 3.1}, False),
        ({0: 1.0, 1: 2.0, 2: 3.1, 4: 5.0}, True),
        ({1: 2.0, 2: 3.1}, False),
    ],
    ids=["nothing", "nothing-later", "all-before", "one-is-missing", "later-ones-do-not-count", "the-first-is-missing"],
)
def test_all_that_was_asked_until_then_has_come(came: dict[int, float], *, whole: bool) -> None:
    assert isolation.is_whole(came, 3.0) is whole


def test_a_client_that_is_masqueraded_on_its_way_is_reported() -> None:
    made, _, fake = asker()
    well = listen(made, topology())
    assert set(well.reached.values()) == {True}
    assert set(well.strange.values()) == {""}
    fake.prober.shown = "192.0.2.7"
    masqueraded = listen(made, topology())
    assert masqueraded.strange[Place.BARE_NODE, Family.IPV4].startswith("192.0.2.7 = unknown address")
    fake.testbed.listeners = {node: {Protocol.TCP: LISTENER + 1} for node in fake.places.values()}
    assert set(listen(made, topology()).reached.values()) == {False}


def test_a_neighbour_whose_changes_do_not_reach_the_nodes_ends_the_trial() -> None:
    made, _, fake = asker(deaf=True)
    with pytest.raises(HarnessError, match="its pods became ready"):
        isolation.Isolation(made, topology()).perform()
    assert fake.prober.cancelled == len(fake.prober.streams)


@pytest.mark.parametrize(("others", "left"), [(1, BY_NUMBER), (len(BY_NUMBER), [PORT_B])], ids=["one", "all"])
def test_a_port_that_others_have_is_none_for_the_neighbour(others: int, left: Collection[int]) -> None:
    made, cluster, fake = asker()
    isolation.Isolation(made, topology()).perform()
    first = fake.asked_b[0]
    cluster.others = {first} if others == 1 else BY_NUMBER
    cluster.there[B] = service_b("x")
    fake.asked_b.clear()
    isolation.Isolation(made, topology()).perform()
    assert set(fake.asked_b) <= {*left} - {first}
    assert len(set(fake.asked_b)) == 1


def test_a_port_that_another_run_took_between_is_given_up_for_another() -> None:
    made, cluster, fake = asker()
    delete = cluster.delete

    def gone(path: str) -> None:
        delete(path)
        cluster.taken = {fake.asked_b[0]}

    cluster.delete = gone
    seen = isolation.Isolation(made, topology()).perform()
    assert len(seen.changes) == 5
    first, *_, last = fake.asked_b
    assert last != first
    assert last in BY_NUMBER


def test_whoever_took_the_port_that_the_neighbour_left_is_named() -> None:
    made, cluster, _ = asker(deaf=True)
    rival = {"metadata": {"namespace": "shop", "name": "cart"}, "spec": {"ports": [{"nodePort": PORT_B}]}}
    cluster.others, cluster.there["cart"] = BY_NUMBER, rival
    with pytest.raises(HarnessError, match=f"the Service shop/cart took port {PORT_B} meanwhile"):
        isolation.Isolation(made, topology()).perform()


def performed(trial: scale.Scale) -> Many:
    trial.prepare()
    seen = trial.perform()
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(10)  # of the deletion in the background
    return seen


def test_many_are_made_looked_at_and_deleted() -> None:
    made, cluster, _ = asker()
    seen = performed(scale.Scale(made, topology(), number=16))
    assert {kind: len(names) for kind, names in seen.names.items()} == dict.fromkeys(Kind, 4)
    assert len(seen.ports) == 16
    assert {key: len(of) for key, of in seen.dialled.items()} == {
        (kind, role): 4 for kind in Kind for role in (Role.ENDPOINT_NODE, Role.BARE_NODE)
    }
    assert {len(nodes) for nodes in seen.answers.values()} == {4}, "each in its own family, on every node"
    assert set(seen.gone) == set(seen.names[Kind.BALANCER_LOCAL])
    assert set(cluster.there) == {A, B}
    assert "do not answer yet" in seen.late, "what never was programmed is not reported as if it were"


def test_all_of_many_are_waited_for_on_every_node_before_they_are_judged() -> None:
    """A kube-proxy that lags on one node is given its time, whichever node it is, and whichever service."""
    made, _, fake = asker()
    trial = scale.Scale(made, topology(), number=16)
    trial.prepare()
    ports = {port for ports in trial.seen.ports.values() for port in ports}
    dialled = {(job.host, job.port) for job in fake.prober.jobs}
    assert {port for _, port in dialled} == ports - {port for _, port in fake.asked}
    assert len(dialled) == 16 + 8, "all at the endpoint's node, and those of Cluster at the bare node"
    nodes = {topology().nodes[name].internal[family] for name in fake.places.values() for family in Family}
    assert {host for host, _ in fake.asked} == nodes
    assert len(set(fake.asked)) == 4 * len(fake.places), "every health check at every node"


def test_what_must_answer_among_many_is_given_time_and_not_all_at_once() -> None:
    made, _, fake = asker()
    trial = scale.Scale(made, topology(), number=16)
    trial.many_services.create()
    trial.perform()
    silent = {job.timeout for job in fake.prober.jobs if job.key.startswith(("many-nodeport-local", "many-loadb"))}
    answering = {job.timeout for job in fake.prober.jobs if "cluster" in job.key or "unset" in job.key}
    assert answering == {ANSWER_TIMEOUT}
    assert silent == {ANSWER_TIMEOUT, JUDGED_TIMEOUT}
    flying: list[int] = []

    def ask(number: int) -> Future[int]:
        flying.append(number)
        return resolved(number)

    asks = {number: partial(ask, number) for number in range(2 * scale.AT_A_TIME + 1)}
    assert trial._in_turn(asks) == {number: number for number in asks}
    assert flying == list(asks)


def test_many_of_which_some_cannot_be_made_are_deleted_all_the_same() -> None:
    made, cluster, _ = asker()
    cluster.refuse_after = 10
    with pytest.raises(ApiError):
        scale.Scale(made, topology(), number=16).prepare()
    assert set(cluster.there) == {A, B}


def test_services_that_could_not_be_deleted_are_no_listeners_that_stay_open() -> None:
    made, cluster, _ = asker()
    trial = scale.Scale(made, topology(), number=16)
    trial.prepare()

    def refuse(_path: str) -> None:
        raise ApiError(500, "InternalError", "no", "DELETE")

    cluster.delete = refuse
    assert trial.perform().gone == {}


def test_an_interrupt_leaves_the_deletion_of_many_to_the_namespace() -> None:
    made, cluster, _ = asker()
    trial = scale.Scale(made, topology(), number=16)
    trial.prepare()
    made.stop.set()
    with pytest.raises(StoppedError):
        trial.many_services.delete(trial.many_services.kinds)
    assert not any(each.startswith("delete") for each in cluster.done)


def test_a_port_that_another_service_took_meanwhile_is_no_old_listener() -> None:
    item = manifest("r", 0, Kind.BALANCER_LOCAL, Family.IPV4)
    item["spec"]["healthCheckNodePort"] = 30500
    assert scale._taken([item], {"gone": 30500, "other": 30501}) == ["gone"]
