"""The run of API checks: every chain of requests of the selected checks, each on Services of its own."""

import copy
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.labels import labels_of
from esipp.base.waiting import Reading
from esipp.checks.api import ANNOTATION, Answer, Chain, Ref, Requests, Step, Verb, at, is_absent
from esipp.checks.health import Answer as OfHealth
from esipp.cluster.client import ApiError, Cluster
from esipp.cluster.node_ports import ALLOCATED, taken
from esipp.ledger.run import Run
from esipp.scenarios.api.judge import ApiEvidence
from esipp.scenarios.context import Context, kept
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.probes import Asker
from esipp.testbed.manifests import TCP

# --------------------------------------------------------------------------------------------------------- the requests
Listen = Callable[[int, int], Json]
"""The answers of every node at a port where none may listen, and at a control port where all must."""


class _NotMadeError(Exception):
    """A step cannot be made, because of what came before it."""


@dataclass
class Performer:
    """Runs the steps of a chain.

    Args:
        cluster, namespace, run: the place and owner of the Services.
        stop: ends it.
        listen: probes the nodes; None without a client that can.
    """

    cluster: Cluster
    namespace: str
    run: str
    stop: Stop
    listen: Listen | None = None
    made: dict[str, set[str]] = field(default_factory=dict)

    def perform(self, chain: Chain, answers: dict[str, Answer]) -> None:
        """Perform every step and fill in its answer. Always delete what was created.

        Raises:
            StoppedError: the run is ending.
            UnreachableError: the API server does not answer.
        """
        mine = self.made.setdefault(chain.name, set())
        ended: dict[str, str] = {}
        try:
            for step in chain.steps:
                self.stop.check()
                if step.of in ended and step.verb is not Verb.FREE:
                    answers[step.name] = Answer(trouble=ended[step.of])
                    continue
                answers[step.name] = answer = self._answer(chain, step, answers)
                refused = f"refused as {answer.refused[1]}: {answer.refused[2]}" if answer.refused else ""
                why = answer.trouble or refused
                if why and not step.alone:
                    ended[step.of] = f"the earlier step {step.name} failed: {why}"
        finally:
            for name in mine:
                self.cluster.delete(f"{self._services}/{name}")

    # ------------------------------------------------------------------------------------------------ one step
    @property
    def _services(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/services"

    def _answer(self, chain: Chain, step: Step, answers: dict[str, Answer]) -> Answer:
        warnings: list[str] = []
        try:
            made = self._make(chain, step, answers, warnings)
        except _NotMadeError as why:
            return Answer(trouble=str(why))
        except ApiError as refused:
            allocated = ALLOCATED in refused.message
            trouble = self._rival(chain, _numbers(_resolved(step.body, answers))) if allocated else ""
            return Answer(refused=(refused.status, refused.reason, refused.message), trouble=trouble)
        trouble = self._rival(chain, _numbers(_resolved(step.body, answers))) if step.verb is Verb.LISTEN else ""
        return Answer(made, warnings=tuple(warnings), trouble=trouble)

    def _make(self, chain: Chain, step: Step, answers: dict[str, Answer], warnings: list[str]) -> Json:
        name = f"{chain.name}-{step.of}" if step.of else chain.name
        path, verb, body = f"{self._services}/{name}", step.verb, _resolved(step.body, answers)

        def send(method: str, where: str, what: Any = None, content: str = "", **query: str) -> Json:
            kind = f"application/{content}+json" if content else "application/json"
            return self.cluster.request(method, where, body=what, query=query, warnings=warnings, content=kind)

        if verb is Verb.CREATE:
            self.made[chain.name].add(name)  # also where it is to be refused: who knows
            return send("POST", self._services, self._manifest(name, body))
        if verb is Verb.REPLACE:
            return send("PUT", path, self._manifest(name, body))
        if verb is Verb.UPDATE:
            if step.since:
                return send("PUT", path, _edited(copy.deepcopy(answers[step.since].object), body or {}, step.drop))
            read = send("GET", path)
            version = read["metadata"]["resourceVersion"]
            try:
                return send("PUT", path, _edited(read, body or {}, step.drop))
            except ApiError as refused:
                if refused.status == 409 and send("GET", path)["metadata"]["resourceVersion"] != version:
                    raise _NotMadeError("another client changed the Service meanwhile") from None
                raise
        if verb is Verb.APPLY:
            whole = {"apiVersion": "v1", "kind": "Service", **body}
            labels = {**labels_of(self.run), **body.get("metadata", {}).get("labels", {})}
            whole["metadata"] = {"name": name, **body.get("metadata", {}), "labels": labels}
            self.made[chain.name].add(name)
            force = {"force": "true"} if step.force else {}
            query = {"fieldManager": step.manager, **force}
            kind = "application/apply-patch+yaml"  # JSON is YAML
            return self.cluster.request("PATCH", path, body=whole, query=query, warnings=warnings, content=kind)
        if verb is Verb.STATUS:
            return send("PATCH", f"{path}/status", {"status": {"loadBalancer": {"ingress": body}}}, "merge-patch")
        if verb in (Verb.MERGE, Verb.STRATEGIC, Verb.JSON):
            return send("PATCH", path, body, verb.value)
        if verb is Verb.DELETE:
            self.cluster.delete(path)
            if self.cluster.exists(path):
                raise _NotMadeError("the Service still exists: a finalizer holds it")
            return {}
        if verb is Verb.FREE:
            return {"port": self._free_port(chain)}
        if verb is Verb.LISTEN:
            if self.listen is None:
                raise _NotMadeError("there is no client outside the cluster to probe the nodes")
            return self.listen(int(body["silent"]), int(body["control"]))
        return send("GET", path)

    def _manifest(self, name: str, body: Json) -> Json:
        ports = [{"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": TCP}]
        metadata: Json = {"name": name, "labels": labels_of(self.run)}
        if body.get("annotations"):
            metadata["annotations"] = body["annotations"]
        spec = {"ports": ports, **body.get("spec", {})}  # no selector, no endpoints: less work for the cluster
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    def _free_port(self, chain: Chain) -> int:
        """A port that the allocator has just had free: it is allocated as a nodePort, and given back."""
        name = f"{chain.name}-free"
        made = self.cluster.create(self._services, self._manifest(name, {"spec": {"type": "NodePort"}}))
        self.cluster.delete(f"{self._services}/{name}")
        return int(made["spec"]["ports"][0]["nodePort"])

    def _rival(self, chain: Chain, wanted: Iterable[int]) -> str:
        """Which service took one of these ports that is not this chain's; empty where none did."""
        mine = {(self.namespace, name) for name in (*self.made[chain.name], f"{chain.name}-free")}
        return taken(self.cluster.list("/api/v1/services"), {*wanted}, mine)


def _resolved(body: Any, answers: dict[str, Answer]) -> Any:
    """The body with every Ref's value in its place."""
    if isinstance(body, Ref):
        value = at(answers[body.step].object, body.path) if body.step in answers else None
        if is_absent(value):
            raise _NotMadeError(f"step {body.step} returned no {body.path}")
        return str(value) if body.text else value
    if isinstance(body, dict):
        return {name: _resolved(each, answers) for name, each in body.items()}
    return [_resolved(each, answers) for each in body] if isinstance(body, list) else body


def _numbers(body: Any) -> list[int]:
    """Every number in it."""
    if isinstance(body, int):
        return [body]
    parts = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return [number for part in parts for number in _numbers(part)]


def _edited(read: Json, values: Json, drop: tuple[str, ...]) -> Json:
    """An object with the fields at some paths set, and at others removed."""
    for path, value in values.items():
        if path.startswith(ANNOTATION):
            read["metadata"].setdefault("annotations", {})[path.removeprefix(ANNOTATION)] = value
        else:
            parent, last = _parent(read, path)
            parent[last] = value
    for path in drop:
        parent, last = _parent(read, path)
        parent.pop(last, None)
    return read


def _parent(read: Json, path: str) -> tuple[Any, str]:
    before, _, last = path.rpartition(".")
    return at(read, before), last


# -------------------------------------------------------------------------------------------------------------- the run
def listen(asker: Asker, silent: int, control: int) -> Json:
    """What every node says at both ports, once all of them listen at the second; or as it is when they never do."""

    def look() -> Reading:
        said = _words(asker.everywhere(control))
        return Reading(all(words in ("200", "503") for words in said.values()), str(said))

    asker.stop.converge(look, asker.timeouts.ports_listen)
    return {"silent": _words(asker.everywhere(silent)), "control": _words(asker.everywhere(control))}


def _words(answers: dict[Node, OfHealth]) -> dict[str, str]:
    return {f"{place.value} {family.value}": answer.words for (place, family), answer in answers.items()}


AT_ONCE = 8
"""Number of parallel chains: the API server of a small cluster shares its processors with esipp. Chains that request a
released port again run one by one after all others: the server allocates ports at random, and every few runs one of
some two thousand ports would belong to another chain by then.
"""

TRIES = 3
"""The maximum number of attempts for a chain."""

TAKEN = "took port"
"""The part of an error that says that another Service took a port."""


def observe(context: Context) -> ApiEvidence:
    """The answers to every request."""
    run, testbed = context.run, context.testbed
    chains = {check.subject.chain.name: check.subject.chain for check in context.asked(Requests)}
    seen, stop = ApiEvidence(), Stop()
    context.gathered = lambda: seen
    performer = Performer(context.cluster, testbed.namespace, run.id, stop)
    if any(step.verb is Verb.LISTEN for chain in chains.values() for step in chain.steps):
        asker = Asker(replace(testbed, nodes=context.topology.nodes), context.clients, stop, timeouts=context.timeouts)
        performer.listen = partial(listen, asker)
    requests = sum(len(chain.steps) for chain in chains.values())
    with run.phase("edit Services", f"{len(chains)} chains of {requests} requests"):
        for at_once, these in in_turn(chains.values()):
            with ThreadPoolExecutor(at_once) as pool:
                try:
                    for each in [pool.submit(_make, run, performer, chain, seen) for chain in these]:
                        each.result()
                except BaseException:
                    stop.set()
                    raise
    return seen


def in_turn(chains: Iterable[Chain]) -> Iterator[tuple[int, list[Chain]]]:
    """The groups of chains that run in parallel, with their number of threads."""
    for at_once, alone in ((AT_ONCE, False), (1, True)):
        yield at_once, [chain for chain in chains if chain.reuses_a_port is alone]


def _make(run: Run, performer: Performer, chain: Chain, seen: ApiEvidence) -> None:
    """Perform a chain; retry with other ports if another Service took one of them."""
    with kept(chain.name, run, seen):
        for _ in range(TRIES):
            answers = seen.answers[chain.name] = {}
            performer.perform(chain, answers)
            if not any(TAKEN in answer.trouble for answer in answers.values()):
                break
