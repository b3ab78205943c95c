"""Which nodes are asked, in which families, by which job."""

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from esipp.base.waiting import Budget
from esipp.checks.catalog import all_checks
from esipp.checks.check import is_about
from esipp.checks.health import About, Answer, HealthAnswer, HealthAnswerCheck, Place, Situation
from esipp.checks.model import Family, Role
from esipp.judging.topology import Node
from esipp.probing.prober import Job
from esipp.scenarios.health.evidence import HealthEvidence
from esipp.scenarios.health.objects import service_name
from esipp.scenarios.health.probes import MOST_AT_ONCE, SAMPLES, TIMEOUT, Asker
from esipp.scenarios.paths.run import ANSWER_TIMEOUT
from esipp.scenarios.timeouts import TIMEOUTS

ROLES = {Role.ENDPOINT_NODE: "a", Role.BARE_NODE: "b", Role.OTHER_NODE: "b"}


class Prober:
    """Keeps what it is asked; every health check says 503."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.result: dict[str, Any] = {"outcome": "answered", "response": {"status": 503, "headers": {}, "body": ""}}

    def ask(self, job: Job) -> Future[list[dict[str, Any]]]:
        self.jobs.append(job)
        future: Future[list[dict[str, Any]]] = Future()
        future.set_result([self.result])
        return future


def asking() -> tuple[Asker, Prober]:
    """Two nodes with roles and an excluded control plane; one has an IPv6 address, too."""
    marks = frozenset({"control-plane", "excluded-node"})
    nodes = {
        name: Node(name, {Family.IPV4: f"192.0.2.{number}"}, frozenset(), marks=marks if name == "c" else frozenset())
        for number, name in enumerate("abc", 1)
    }
    nodes["c"] = replace(nodes["c"], internal=nodes["c"].internal | {Family.IPV6: "2001:db8::3"})
    prober = Prober()
    testbed: Any = SimpleNamespace(nodes=nodes, roles=ROLES, there=None)
    clients: Any = SimpleNamespace(probers={"outside-1": prober})
    return Asker(testbed, clients), prober


def test_every_node_is_asked_once_in_the_families_that_all_have() -> None:
    asker, prober = asking()
    said = asker.everywhere(30001)
    assert set(said) == {(place, Family.IPV4) for place in (Place.ENDPOINT_NODE, Place.BARE_NODE, Place.CONTROL_PLANE)}
    assert {answer.words for answer in said.values()} == {"503"}
    assert sorted(job.host for job in prober.jobs) == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
    assert {(job.port, job.count, job.brief, job.parallel, job.url) for job in prober.jobs} == {
        (30001, 1, True, MOST_AT_ONCE, "/healthz")
    }


def test_only_some_nodes_are_asked_so_often() -> None:
    asker, prober = asking()
    assert set(asker.on_nodes(30001, only=(Place.BARE_NODE,), count=7, spacing=0.5)) == {(Place.BARE_NODE, Family.IPV4)}
    assert [(job.host, job.count, job.spacing) for job in prober.jobs] == [("192.0.2.2", 7, 0.5)]


def questions() -> list[HealthAnswerCheck]:
    """The status checks of IPv4, asked from outside, of one situation."""
    found = [check for check in all_checks() if is_about(check, HealthAnswer) and check.subject.about is About.STATUS]
    wanted = [
        check.subject.question
        for check in found
        if check.subject.question.situation is Situation.NO_PODS
        and check.subject.question.place in (Place.ENDPOINT_NODE, Place.BARE_NODE)
    ]
    plain = {q.key for q in wanted if q.client.name == "outside-1" and q.family is Family.IPV4 and q.url == "/healthz"}
    return [
        check for check in found if check.subject.question.key in plain and not check.subject.question.second_address
    ]


def asking_for(checks: list[HealthAnswerCheck]) -> tuple[Asker, Prober]:
    asker, prober = asking()
    spec = {"healthCheckNodePort": 30001, "ports": [{"nodePort": 30002}]}
    asker.testbed.services = {service_name(check.subject.question.situation): {"spec": spec} for check in checks}
    asker.testbed.listeners, asker.testbed.namespace = {}, "n"
    return asker, prober


def patience(prober: Prober) -> dict[int, float]:
    """Of the last jobs: seconds by how often is asked."""
    return {job.count: job.timeout for job in prober.jobs}


def test_what_answered_in_time_once_has_longer_in_the_window() -> None:
    checks = questions()
    assert checks
    asker, prober = asking_for(checks)
    assert asker.settle(checks).held
    asker.window(checks, HealthEvidence())
    assert patience(prober) == {1: TIMEOUT, SAMPLES: ANSWER_TIMEOUT}


def test_the_time_of_each_answer_is_kept() -> None:
    checks = questions()
    asker, prober = asking_for(checks)
    prober.result |= {"brief": True, "count": 2, "moments": [(1.0, 1.25), (1.5, 7.5)]}
    seen = HealthEvidence()
    asker.window(checks, seen)
    assert {answer.took for answers in seen.answers.values() for answer in answers} == {(0.25, 6.0)}
    assert Answer.read({"outcome": "timeout", "started": 3.0, "ended": 5.0}).took == (2.0,), "without an answer, too"
    assert Answer.read({"outcome": "error"}).took == ()


def test_checks_of_times_alone_are_waited_for_as_well() -> None:
    """A health check that was never in time while all settle is cut off, and cannot be measured."""
    asked = [check for check in all_checks() if is_about(check, HealthAnswer) and check.subject.about is About.TIME]
    assert asked
    bare = [check for check in asked if (check.subject.question.family, check.subject.question.place) ==
            (Family.IPV4, Place.BARE_NODE)]  # fmt: skip
    asker, prober = asking_for(bare)
    assert asker.settle(bare).held
    asker.window(bare, HealthEvidence())
    assert patience(prober) == {1: TIMEOUT, SAMPLES: ANSWER_TIMEOUT}


def test_what_never_answered_in_time_has_no_longer() -> None:
    checks = questions()
    asker, prober = asking_for(checks)
    asker.timeouts = replace(TIMEOUTS, health_checks_answer=Budget("every health check", 0.0, need=1))
    prober.result = {"outcome": "timeout"}
    assert not asker.settle(checks).held
    asker.window(checks, HealthEvidence())
    assert patience(prober) == {1: TIMEOUT, SAMPLES: TIMEOUT}
