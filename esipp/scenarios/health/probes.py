"""Health check probes: all questions in one window, and the nodePort of the same node for comparison."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Convergence, Reading, converge
from esipp.checks.check import Level
from esipp.checks.health import About, Answer, HealthAnswerCheck, Place, Question, Situation
from esipp.checks.model import OUTSIDE, POD_BACKEND, Client, Family, Outcome, Protocol
from esipp.judging.controls import Counts
from esipp.judging.observation import Observation
from esipp.probing.prober import Job
from esipp.scenarios.health.evidence import HealthEvidence, Node
from esipp.scenarios.health.objects import places_of, service_name
from esipp.scenarios.paths.run import ANSWER_TIMEOUT
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed.clients import Clients
from esipp.testbed.integrity import Harm
from esipp.testbed.testbed import Testbed

SAMPLES = 20
SPACING = 0.05
"""Twenty answers over a second; the stability window covers a longer time."""

TIMEOUT = 2.0
"""Seconds within which a health check must answer once while all settle. Those that did have as long as any path later,
so that a busy machine does not count; checks of their own ask whether a load balancer would wait that long."""

PODS_OF = {
    Situation.ONE_POD: POD_BACKEND,
    Situation.SEVERAL_PORTS: POD_BACKEND,
    Situation.SEVERAL_PODS: "several",
    Situation.UNREADY_POD: "unready",
    Situation.PUBLISHED_POD: "unready",
    Situation.HOST_NETWORK_POD: "health-host-network",
}
"""How the names of the pods begin that the Service of a situation selects."""

MOST_AT_ONCE = 16
"""Requests of one client in flight for one question."""


@dataclass
class Asker:
    """Probes the health check of a Service on a node from a client; ``stop`` ends all waits.

    ``prompt`` are the keys of questions that were answered in time at least once while all settled. ``timeouts`` is how
    long each wait may take.
    """

    testbed: Testbed
    clients: Clients
    stop: Stop = field(default_factory=Stop)
    prompt: set[str] = field(default_factory=set)
    timeouts: Timeouts = TIMEOUTS

    @property
    def places(self) -> dict[Place, str]:
        """The node at each place."""
        return places_of(self.testbed.nodes.values(), self.testbed.roles)

    def address(self, place: Place, family: Family, *, second: bool = False) -> str | None:
        """The address of the node at a place."""
        node = self.places.get(place)
        if node is None:
            return None
        if second:
            return self.testbed.second_addresses.get(node, {}).get(family)
        return self.testbed.nodes[node].internal.get(family)

    @property
    def families(self) -> list[Family]:
        """The families that every node here has an address of."""
        return [f for f in Family if all(self.address(p, f) for p in self.places)]

    def get(
        self,
        client: Client,
        host: str,
        port: int,
        *,
        count: int = 1,
        spacing: float = 0.0,
        timeout: float = TIMEOUT,
        method: str = "GET",
        url: str = "/healthz",
    ) -> Future[list[Json]]:
        """Ask ``count`` times; equal answers come as one."""
        key = f"health {host} {port}"
        job = Job(key, "get", host, port, count, timeout, spacing, MOST_AT_ONCE, brief=True, url=url, method=method)
        return self.clients.probers[client.name].ask(job)

    def on_nodes(
        self,
        port: int,
        *,
        only: Iterable[Place] = (),
        count: int = 1,
        spacing: float = 0.0,
        timeout: float = TIMEOUT,
    ) -> dict[Node, Future[list[Json]]]:
        """Ask every node once in each family, or only the nodes at some places."""
        # the excluded node has another place, too
        places = list(only) or [place for place in self.places if place is not Place.EXCLUDED]
        return {
            (place, family): self.get(OUTSIDE, host, port, count=count, spacing=spacing, timeout=timeout)
            for place in places
            for family in self.families
            if (host := self.address(place, family))
        }

    def everywhere(self, port: int) -> dict[Node, Answer]:
        """One answer of every node, in each family, at a port."""
        return {
            node: Answer.read(self.stop.result(each, self.timeouts.job_ends)[0])
            for node, each in self.on_nodes(port).items()
        }

    def listeners(self, client: Client) -> dict[tuple[str, Place, Family], bool]:
        """Whether a client reaches each node at all: its control listener, without a Service."""
        return {
            key: any(each.outcome is Outcome.ANSWERED for each in future.result(timeout=self.timeouts.job_ends))
            for key, future in self.listening(client, 3, 0.0, TIMEOUT).items()
        }

    def listening(
        self, client: Client, count: int, spacing: float, timeout: float
    ) -> dict[tuple[str, Place, Family], Future[list[Observation]]]:
        """Start requests of a client to the control listener of each node."""
        prober = self.clients.probers[client.name]
        flying: dict[tuple[str, Place, Family], Future[list[Observation]]] = {}
        for place, node in self.places.items():
            port = self.testbed.listeners.get(node, {}).get(Protocol.TCP)
            for family in Family:
                host = self.address(place, family)
                if host and port:
                    job = Job(f"listener of {node}", "tcp", host, port, count, timeout, spacing)
                    flying[client.name, place, family] = prober.submit(job)
        return flying

    # --------------------------------------------------------------------------------------------- the window
    def target(self, question: Question) -> tuple[str, int] | str:
        """The address and port of a question, or a sentence if it cannot be asked."""
        name = "health-at-vip" if question.place is Place.VIP else service_name(question.situation)
        port = self.testbed.services[name]["spec"].get("healthCheckNodePort")
        if not port:
            return f"the Service {name} has no healthCheckNodePort"
        if question.place is Place.VIP:
            vip = self.testbed.vips.get(name, {}).get(question.family)
            return (vip, port) if vip else f"the Service {name} has no {question.family} VIP"
        address = self.address(question.place, question.family, second=question.second_address)
        return (address, port) if address else f"there is no {question.place} with an {question.family} address"

    def node_port(self, question: Question) -> int:
        """The nodePort of the question's Service."""
        ports: list[Json] = self.testbed.services[service_name(question.situation)]["spec"]["ports"]
        return int(ports[0]["nodePort"])

    def settle(self, checks: Iterable[HealthAnswerCheck]) -> Convergence:
        """Wait until every binding health check says what it must; what never does is judged as it is."""
        waiting = {
            check.subject.question: "200" if check.subject.question.local_pods else "503"
            for check in checks
            if check.subject.about in (About.STATUS, About.TIME) and check.level is not Level.RECORD
        }

        def look() -> Reading:
            answers = self._ask(waiting, 1, 0.0)[0]
            self.prompt |= {key for key, given in answers.items() if given[0].outcome is Outcome.ANSWERED}
            wrong = [q for q, wanted in waiting.items() if q.key in answers and answers[q.key][0].words != wanted]
            if not wrong:
                return Reading(True, f"{len(waiting)} health checks are right")
            first = wrong[0]
            state = f"{len(wrong)} of {len(waiting)} health checks are wrong, among them {first.key}"
            return Reading(False, f"{state}: {answers[first.key][0].words}")

        return converge(look, self.timeouts.health_checks_answer, self.testbed.there)

    def window(self, checks: Iterable[HealthAnswerCheck], seen: HealthEvidence) -> None:
        """Ask every question of the checks, and dial the same nodes' nodePorts from the same client meanwhile."""
        checks = list(checks)
        questions = {check.subject.question: "" for check in checks}
        truths = {check.subject.question for check in checks if check.subject.about is About.TRUTH}
        truths |= {question.control for question in truths}
        dialled = {question: self.node_port(question) for question in truths}
        for client in {question.client for question in questions}:
            seen.reached |= self.listeners(client)
        ways: dict[tuple[str, Place, Family], Future[list[Observation]]] = {}
        for client in {question.client for question in questions}:
            ways |= self.listening(client, SAMPLES, SPACING, ANSWER_TIMEOUT)
        flying = {}
        for question, port in dialled.items():
            host = self.address(question.place, question.family)
            if host:
                patience = ANSWER_TIMEOUT if question.local_pods else TIMEOUT  # what must be silent is not waited for
                job = Job(question.key, "tcp", host, port, SAMPLES, patience, spacing=SPACING, brief=True)
                flying[question.key] = self.clients.probers[question.client.name].submit(job)
        seen.nodes = self.places
        seen.answers, seen.obstacles = self._ask(questions, SAMPLES, SPACING, self.prompt)
        for key, each in ways.items():
            made = [one for one in each.result(timeout=self.timeouts.job_ends) if one.outcome is not Outcome.ERROR]
            lost = sum(one.count for one in made if one.outcome is not Outcome.ANSWERED)
            seen.ways[key] = Counts(lost, sum(one.count for one in made))
            seen.listened[key] = tuple(seconds for one in made for seconds in one.took)
        seen.served = {key: tuple(future.result(timeout=self.timeouts.job_ends)) for key, future in flying.items()}
        for situation in {question.situation for question in questions}:
            seen.services[situation] = (self.testbed.namespace, service_name(situation))

    def spoilt(self, checks: Iterable[HealthAnswerCheck], harm: Harm) -> dict[str, str]:
        """The questions that cannot be judged for what happened to a node or a pod of ours, by key, with the reason."""
        found = {}
        for question in {check.subject.question for check in checks}:
            node = self.places.get(question.place, "")
            agent = self.testbed.cast.pod_of(question.client)
            needed = harm.among((name for name in harm.pods if _serves(name, question) or name == agent), {node})
            if needed.sentences:
                found[question.key] = needed.sentences[0]
        return found

    def _ask(
        self, questions: Mapping[Question, str], count: int, spacing: float, patient: Collection[str] = ()
    ) -> tuple[dict[str, tuple[Answer, ...]], dict[str, str]]:
        flying: dict[str, Future[list[Json]]] = {}
        obstacles: dict[str, str] = {}
        for question in questions:
            target = self.target(question)
            if isinstance(target, str):
                obstacles[question.key] = target
                continue
            flying[question.key] = self.get(
                question.client,
                *target,
                count=count,
                spacing=spacing,
                timeout=ANSWER_TIMEOUT if question.key in patient else TIMEOUT,
                method=question.method,
                url=question.url,
            )
        answers = {key: read_all(future.result(timeout=self.timeouts.job_ends)) for key, future in flying.items()}
        return answers, obstacles


def _serves(pod: str, question: Question) -> bool:
    """Whether a pod of ours is one that the Service of a question selects."""
    begins = PODS_OF.get(question.situation)
    return begins is not None and (pod == begins or pod.startswith(f"{begins}-"))


def read_all(results: Iterable[Mapping[str, Any]]) -> tuple[Answer, ...]:
    """All answers of a job."""
    return tuple(Answer.read(result) for result in results)


def said_at(answers: Mapping[Node, Answer], say: Callable[[Answer], str]) -> dict[str, Counter[str]]:
    """What every node said, in words, by node and family."""
    return {f"{place.value} {family.value}": Counter({say(answer): 1}) for (place, family), answer in answers.items()}
