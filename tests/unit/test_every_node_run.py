"""Every sampled node is dialled at every address it should serve, over every protocol; also those without a role."""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.json import Json
from esipp.checks.check import LINK_LOCAL, Feature, Status, on_link
from esipp.checks.model import OUTSIDE, Family, Outcome, Protocol, Role
from esipp.checks.profile import PROXY_PORT
from esipp.checks.required_features import PACKETS
from esipp.judging.observation import Irregular, Observation, Tracked, Witness
from esipp.judging.topology import Node, Stand, Topology, by_family, parse_address
from esipp.loadbalancers.detection import NOTHING_FOUND
from esipp.probing.prober import NOT_ON_LINK, Job
from esipp.scenarios.every_node.evidence import CLUSTER, HEALTH, LISTENER, LOCAL, PROXY, SOME, EveryNodeEvidence
from esipp.scenarios.every_node.objects import HIGHEST, LAST, endpoints, homes, objects, some_of
from esipp.scenarios.every_node.run import SAMPLED, SAMPLES, SHARED, Survey
from esipp.scenarios.every_node.subject import (
    QUESTIONS,
    Entrance,
    EveryNodeCheck,
    Requires,
    external_ips,
    other_addresses,
    several_announced,
)
from esipp.scenarios.paths.run import ANSWER_TIMEOUT, PARALLEL, WAITS
from esipp.scenarios.timeouts import TIMEOUTS
from esipp.testbed.objects import Ground
from suites.clients import OUTSIDE_ROUTED
from suites.nodes.checks import CHECKS
from tests.unit.every_node_world import FEATURES, verdicts
from tests.unit.verdicts import judge_with

NAMES = ("a", "b", "c", "d", "control-plane")
FOURTH = "d"
OWN = "192.0.2.100"
LISTENERS = {Protocol.TCP: 40001, Protocol.UDP: 40002, Protocol.SCTP: 40003}


def node(at: int, name: str) -> Node:
    internal = {Family.IPV4: f"10.0.0.{at}", Family.IPV6: f"fd00::{at}"}
    external = {Family.IPV4: f"203.0.113.{at}"} if name != "b" else {}
    others = [f"10.0.0.{100 + at}"] if name == FOURTH else []
    held = frozenset(parse_address(each) for each in (*internal.values(), *external.values(), *others))
    return Node(name, internal, held, external=external)


NODES = {name: node(at, name) for at, name in enumerate(NAMES, 1)}
ROLES = dict(zip(Role, NAMES, strict=False))
GROUND = Ground("r1", "image", NODES, ROLES, FEATURES, sampled=NAMES)


class Wire:
    """Connections as kube-proxy makes them: to all endpoints, rewritten under Cluster."""

    def __init__(self, services: dict[str, Json], client: str, silent: str, behind: bool = False) -> None:
        self.services, self.client, self.silent, self.behind = services, client, silent, behind
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> "Future[list[Observation]]":
        self.jobs.append(job)
        made: Future[list[Observation]] = Future()
        seen = self.dial(job)
        single = (replace(each, count=1) for each in seen for _ in range(each.count))
        made.set_result(seen if job.brief else [replace(each, seq=seq) for seq, each in enumerate(single)])
        return made

    def ask(self, job: Job) -> "Future[list[Json]]":
        self.jobs.append(job)
        if job.protocol == "who-has" or (job.link_local and self.behind):
            return self.ask_link(job)
        here = next(name for name, each in NODES.items() if job.host in each.internal.values())
        serves = job.port == 10256 or here in some_of(homes(GROUND))
        made: Future[list[Json]] = Future()
        response = {"status": 200 if serves else 503}
        made.set_result([{"outcome": "answered", "brief": True, "count": job.count, "response": response,
                          "moments": [(1.0, 1.25)] * job.count}])  # fmt: skip
        return made

    def ask_link(self, job: Job) -> "Future[list[Json]]":
        made: Future[list[Json]] = Future()
        link = next((f"link of {name}" for name, each in NODES.items() if job.host in each.internal.values()), "a's")
        line: Json = {"outcome": "answered", "started": 1.0, "links": [link]}
        if self.behind:
            line = {"outcome": "unreachable", "detail": NOT_ON_LINK, "started": 1.0, "links": []}
        one_by_one = job.protocol == "who-has"
        made.set_result([line] * job.count if one_by_one else [{**line, "brief": True, "count": job.count}])
        return made

    def dial(self, job: Job) -> list[Observation]:
        """Equal results as one observation, as brief jobs have them."""
        here = next((n for n, each in NODES.items() if parse_address(job.host) in each.addresses), self.client)
        if self.silent and job.host.startswith(self.silent):
            return [Observation(job.key, 0, Outcome.TIMEOUT, (OWN, 7), count=job.count)]
        if job.port in LISTENERS.values():
            return [self.answer(job, "agent", here, OWN, job.count)]
        if job.port in LAST and any(job.host in each.internal.values() for each in NODES.values()):
            return [Observation(job.key, 0, Outcome.REFUSED, (OWN, 7), count=job.count)]
        name = next(name for name, each in self.services.items() if self.leads(each, job))
        own = endpoints(GROUND)
        pods = [pod for pod, on in own.items() if name != SOME or on in some_of(homes(GROUND))]
        if name in (LOCAL, SOME):
            pods = [pod for pod in pods if own[pod] == here]
        if not pods:
            return [Observation(job.key, 0, Outcome.TIMEOUT, (OWN, 7), count=job.count)]
        kept = name in (LOCAL, SOME) or "vip-local" in name
        source = OWN if kept else NODES["a"].internal[Family.IPV4]
        shares = [job.count // len(pods) + (at < job.count % len(pods)) for at in range(len(pods))]
        return [
            self.answer(job, pod, own[pod], source, count) for pod, count in zip(pods, shares, strict=True) if count
        ]

    def leads(self, service: Json, job: Job) -> bool:
        at_node = any(port.get("nodePort") == job.port for port in service["spec"]["ports"])
        given = service["status"]["loadBalancer"].get("ingress") or []
        return at_node or job.host in service["spec"]["clusterIPs"] or job.host in [each["ip"] for each in given]

    @staticmethod
    def answer(job: Job, pod: str, on: str, source: str, count: int) -> Observation:
        document = {"peer_address": source, "peer_address_raw": source, "local_address": "10.244.0.1", "nonce": ""}
        echo = {**document, "pod": pod, "node": on}
        return Observation(
            job.key, 0, Outcome.ANSWERED, (OWN, 7), seen=(source, 7), echo=echo, count=count, moments=((1.0, 1.5),)
        )


def services() -> dict[str, Json]:
    """The Services as an API server would return them; each VIP has two IPv4 addresses."""
    made = {each["metadata"]["name"]: each for each in objects(list(CHECKS), GROUND).services}
    for number, service in enumerate(made.values(), 1):
        spec = service["spec"]
        spec |= {"clusterIPs": [f"10.96.0.{number}", f"fd96::{number}"], "healthCheckNodePort": 32000 + number}
        for at, port in enumerate(spec["ports"]):
            port["nodePort"] = 30000 + 100 * number + at
        given = (
            [f"192.0.3.{number}", f"192.0.4.{number}", f"fd03::{number}"]
            if "vip" in service["metadata"]["name"]
            else []
        )
        service["status"] = {"loadBalancer": {"ingress": [{"ip": each} for each in given]}}
    return made


@cache
def surveyed() -> tuple[EveryNodeEvidence, Wire, dict[str, Feature]]:
    return survey()


def survey(
    checks: Sequence[EveryNodeCheck] = CHECKS,
    silent: str = "",
    wire: type[Wire] = Wire,
    behind: bool = False,
    follow: Callable[[object, Mapping[str, list[Observation]]], tuple[dict[str, Any], str]] = lambda *_: ({}, ""),
    **more: Any,
) -> tuple[EveryNodeEvidence, Wire, dict[str, Feature]]:
    there = services()
    probers = {name: wire(there, name, silent, behind) for name in (OUTSIDE.name, OUTSIDE_ROUTED.name, *NAMES)}
    testbed = SimpleNamespace(
        **{
            "sampled": NAMES,
            "nodes": NODES,
            "services": there,
            "absent": {},
            "balancer": NOTHING_FOUND,
            "obstacles": {},
            "listeners": dict.fromkeys(NAMES, LISTENERS),
            "second_addresses": {FOURTH: {Family.IPV4: f"10.0.0.{100 + NAMES.index(FOURTH) + 1}"}},
            **more,
        }
    )
    stands = {each.name: Stand(each, frozenset({parse_address(OWN)})) for each in (OUTSIDE, OUTSIDE_ROUTED)}
    features = {**FEATURES, PACKETS: Feature(False, "made up")}
    context: Any = SimpleNamespace(
        timeouts=replace(TIMEOUTS, paths_answer=replace(TIMEOUTS.paths_answer, seconds=0.5)) if silent else TIMEOUTS,
        testbed=testbed,
        ground=GROUND,
        clients=SimpleNamespace(probers=probers, agents={name: probers[name] for name in NAMES}),
        findings=SimpleNamespace(features=features, on_node=lambda *_: None),
        run=SimpleNamespace(record=lambda *_, **__: None, feature=lambda *_: None, settings=SimpleNamespace(seed=7)),
        asked=lambda _: checks,
        watched=lambda _: nullcontext(),
        follow=follow,
    )
    topology = Topology(NODES, ROLES, stands)
    made = Survey(context, topology)
    seen = made.perform()
    made.end(seen)
    return seen, probers[OUTSIDE.name], features


def test_every_node_is_asked_over_every_protocol_and_family_and_all_is_well() -> None:
    seen, _, features = surveyed()
    for protocol in Protocol:
        for family in Family:
            for service in (LISTENER, CLUSTER, LOCAL, SOME):
                rows = seen.rows(service, Entrance.NODE_PORT, protocol, family)
                assert [row.node for row in rows] == list(NAMES), "the fourth worker and the control plane among them"
    for service, entrance in ((HEALTH, Entrance.HEALTH), (PROXY, Entrance.PROXY)):
        assert [row.node for row in seen.rows(service, entrance, Protocol.TCP, Family.IPV6)] == list(NAMES)
    found = {name: said.status for name, said in verdicts(seen, features=features).items()}
    unsupported = {name for name, status in found.items() if status is Status.UNSUPPORTED}
    assert set(found.values()) == {Status.PASS, Status.RECORDED, Status.UNSUPPORTED}
    assert unsupported == {
        name for name in found if ".ipv6." in name and re.search("other-address|external-ip|every-address", name)
    }


def test_an_announced_address_that_leads_nowhere_fails_its_checks_and_costs_few_connections() -> None:
    seen, wire, features = survey(silent="192.0.4.")
    found = {name for name, said in verdicts(seen, features=features).items() if said.status is Status.FAIL}
    assert found == {name for name in verdicts(seen) if name.endswith("ipv4.every-address")}
    assert max(job.count for job in wire.jobs if job.host.startswith("192.0.4.")) == SAMPLES - SAMPLED
    assert max(job.count for job in wire.jobs if job.host.startswith("192.0.3.")) == SHARED - SAMPLED


def test_a_silent_node_has_all_its_connections_at_once_and_keeps_no_other_target_waiting() -> None:
    _, wire, _ = survey(silent="10.0.0.2")
    judged = [job for job in wire.jobs if job.protocol == "tcp" and job.count > 1]
    at_node = {host: {job.parallel for job in judged if job.host == host} for host in ("10.0.0.1", "10.0.0.2")}
    assert at_node["10.0.0.2"] == {0}
    assert PARALLEL[Protocol.TCP] in at_node["10.0.0.1"]


@pytest.mark.parametrize("entrance", [Entrance.VIP, Entrance.EXTERNAL_IP, Entrance.CLUSTER_IP, Entrance.LOOPBACK])
def test_what_is_asked_elsewhere_dials_no_internal_ip(entrance: Entrance) -> None:
    """A client that cannot reach InternalIPs would wait for a timeout at each of them."""
    own = [check for check in CHECKS if check.subject.entrance is entrance]
    seen, outside, features = survey(own)
    assert {row.entrance for row in seen.dialled} == {entrance}
    dialled = {job.host for job in outside.jobs if job.protocol != "who-has"}
    assert not dialled & {each for node in NODES.values() for each in node.internal.values()}
    assert bool(outside.jobs) is (entrance in (Entrance.VIP, Entrance.EXTERNAL_IP))
    clients = objects(list(own), GROUND).clients
    assert (OUTSIDE in clients) is bool(outside.jobs)
    said = {judge_with(check, seen, features, {}).status for check in own}
    assert {Status.PASS} <= said <= {Status.PASS, Status.RECORDED, Status.UNSUPPORTED}


def test_the_time_of_health_checks_and_their_controls_is_measured_and_that_of_nothing_else() -> None:
    seen, wire, _ = surveyed()
    took = {row.service: {each for answer in row.answers for each in answer.took} for row in seen.dialled}
    assert {service: found for service, found in took.items() if found} == {
        HEALTH: {0.25},
        PROXY: {0.25},
        LISTENER: {0.5},
    }
    waited = {job.timeout for job in wire.jobs if job.port == PROXY_PORT}
    assert waited == {ANSWER_TIMEOUT}, "what hangs is measured, and not cut off as silent"
    assert set(seen.gives_up) == {HEALTH, PROXY}


def test_health_checks_alone_have_their_control_listeners() -> None:
    seen, _, _ = survey([check for check in CHECKS if check.subject.entrance is Entrance.HEALTH])
    rows = [(row.service, row.family, row.node) for row in seen.dialled if row.service == LISTENER]
    assert rows == [(LISTENER, family, name) for family in Family for name in NAMES]


def test_endpoints_of_every_protocol_stand_on_every_node_and_some_nodes_have_none_of_some_services() -> None:
    seen, _, _ = surveyed()
    assert len(seen.endpoints) == len(NAMES) + 1
    assert set(seen.endpoints.values()) == set(NAMES)
    assert {seen.endpoints[pod] for pod in seen.some} == {"a", "b"}
    pods = objects(list(CHECKS), GROUND).pods
    assert all("--sctp" in pod["spec"]["containers"][0]["args"] for pod in pods)


def test_every_announced_address_is_dialled_at_the_first_and_the_last_port() -> None:
    seen, _, features = surveyed()
    rows = [row for row in seen.dialled if row.entrance is Entrance.VIP and row.family is Family.IPV4]
    for name in {row.service for row in rows}:
        own = [(row.address.split(".")[2], row.port) for row in rows if row.service == name]
        first, last = (80, HIGHEST) if "cluster" in name else (81, HIGHEST - 1)
        assert own == [("3", first), ("3", last), ("4", first), ("4", last)]
    assert features[several_announced(Family.IPV4)].present
    assert not features[several_announced(Family.IPV6)].present
    inside = {row.port for row in seen.dialled if row.entrance is Entrance.CLUSTER_IP and row.service == CLUSTER}
    assert inside == {80, HIGHEST}


def test_services_with_vips_share_no_port_as_they_may_share_the_vips() -> None:
    made = [each["spec"] for each in objects(list(CHECKS), GROUND).services if "vip" in each["metadata"]["name"]]
    ports = [(port["protocol"], port["port"]) for spec in made for port in spec["ports"]]
    assert len({spec["externalTrafficPolicy"] for spec in made}) == 2
    assert len(set(ports)) == len(ports)


def test_a_further_address_of_any_node_is_dialled() -> None:
    seen, _, features = surveyed()
    rows = [row for row in seen.dialled if row.entrance is Entrance.OTHER_ADDRESS]
    assert {(row.node, row.address) for row in rows} == {(FOURTH, "10.0.0.104")}
    assert features[other_addresses(Family.IPV4)] == Feature(True, "d (10.0.0.104)")
    assert features[other_addresses(Family.IPV6)] == Feature(False, "no sampled node has a further IPv6 address")


def test_external_ips_are_dialled_by_a_neighbour_of_the_nodes_and_by_a_client_behind_a_router() -> None:
    seen, _, features = surveyed()
    for service in (LISTENER, CLUSTER, LOCAL, SOME):
        rows = seen.rows(service, Entrance.EXTERNAL_IP, Protocol.TCP, Family.IPV4)
        assert {(row.node, row.client) for row in rows} == {
            (name, client.name) for name in NAMES if name != "b" for client in (OUTSIDE, OUTSIDE_ROUTED)
        }
        assert all(row.address == f"203.0.113.{NAMES.index(row.node) + 1}" for row in rows)
    assert features[external_ips(Family.IPV4)].present
    assert (
        features[external_ips(Family.IPV6)].why
        == "no sampled node has an IPv6 ExternalIP in addition to its InternalIP"
    )


def test_connections_are_bounded() -> None:
    seen, outside, _ = surveyed()
    at_ports = seen.rows(CLUSTER, Entrance.NODE_PORT, Protocol.UDP, Family.IPV4)
    assert sum(row.total for row in at_ports) == SHARED
    at_some = seen.rows(SOME, Entrance.NODE_PORT, Protocol.TCP, Family.IPV6)
    assert [row.total for row in at_some] == [SAMPLES if row.answered else SAMPLES + WAITS for row in at_some]
    assert sum(job.count for job in outside.jobs) < 12_000


def test_a_target_that_must_be_silent_has_two_connections_as_patient_as_one_that_answers() -> None:
    _, outside, _ = surveyed()
    silent = [
        (job.timeout, job.count) for job in outside.jobs if job.key.startswith("some-nodes-local at c (10.0.0.3)")
    ]
    assert sorted(set(silent)) == [(2.0, SAMPLED), (2.0, SAMPLES - SAMPLED), (10.0, WAITS)]
    for service in (LISTENER, LOCAL):
        judged = [job for job in outside.jobs if job.key.startswith(f"{service} at d (10.0.0.104)") and job.count > 1]
        assert {job.timeout for job in judged} == {10.0}, "settling leaves further addresses out: they have 10 s, too"


class Slow(Wire):
    """Answers of some targets come only to those who wait for longer than others do."""

    at = ""

    def dial(self, job: Job) -> list[Observation]:
        if not job.key.startswith(self.at):
            return super().dial(job)
        if job.timeout <= 2.0:
            return [Observation(job.key, 0, Outcome.TIMEOUT, (OWN, 7), count=job.count)]
        return [replace(self.answer(job, "every-node-1", "a", OWN, job.count), started=1.0, ended=7.0)]


def test_a_node_without_endpoints_that_answers_after_six_seconds_is_not_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Slow, "at", "some-nodes-local at d (10.0.0.4), nodeport TCP")
    seen, _, features = survey(wire=Slow)
    found = {name: said for name, said in verdicts(seen, features=features).items() if said.status is Status.FLAKY}
    assert set(found) == {"nodes.nodeport.local.tcp.ipv4.silent"}
    (said,) = found.values()
    assert said.reason == "1 of 3 targets differ: d (10.0.0.4): every-node-1 answered after 6 s x2"


def test_a_node_that_answers_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers after six seconds are answers: whether a machine is slow is no question of these checks."""
    monkeypatch.setattr(Slow, "at", "every-node-local at a (10.0.0.1), nodeport TCP")
    seen, _, features = survey(wire=Slow)
    found = verdicts(seen, features=features)["nodes.nodeport.local.tcp.ipv4.source"]
    assert found.status is Status.PASS, found.reason


def test_tables_of_nodes_witness_all_connections_but_those_to_loopback_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same flow to 127.0.0.1 may be in the tables of several nodes."""
    given: dict[str, list[Observation]] = {}

    def testify(_self: object, made: dict[str, list[Observation]]) -> dict[str, Tracked]:
        given.update(made)
        return dict.fromkeys(made, Tracked(3))

    monkeypatch.setattr("esipp.scenarios.every_node.run.Tracking.testify", testify)
    seen, _, _ = survey()
    at_pods = [row for row in seen.dialled if row.service not in (HEALTH, PROXY)]
    assert seen.tracked.keys() >= {row.key for row in at_pods if row.entrance is not Entrance.LOOPBACK}
    assert not seen.tracked.keys() & {row.key for row in at_pods if row.entrance is Entrance.LOOPBACK}
    for row in (row for row in at_pods if row.key in given):
        judged = row.total if row.answered else row.total - WAITS
        assert sum(each.count for each in given[row.key]) == judged


def test_packets_follow_two_connections_to_every_target() -> None:
    given: dict[str, list[Observation]] = {}

    def follow(_: object, made: Mapping[str, list[Observation]]) -> tuple[dict[str, Any], str]:
        given.update(made)
        return {key: [Witness(key, each.seq, seen=True) for each in own] for key, own in made.items()}, ""

    seen, _, features = survey(follow=follow)
    rows = [row for row in seen.dialled if row.service not in (HEALTH, PROXY)]
    assert list(given) == [row.key for row in rows], "each target has a key of its own"
    assert {tuple((each.seq, each.count) for each in made) for made in given.values()} == {((0, 1), (1, 1))}
    said = verdicts(seen, features=features)["nodes.nodeport.local.tcp.ipv4.source"]
    assert said.witnesses == "echo server, and packets of 10 of 280 connections"


def test_what_single_connections_do_not_show_is_recorded_at_every_target() -> None:
    whole = Wire.answer

    def answer(job: Job, pod: str, on: str, source: str, count: int) -> Observation:
        late = (Irregular(1.0, 2.1, 2.2, 1, 0), Irregular(1.0, None, 1.1, 0, 2), Irregular(1.0, 1.1, 3.1, 0, 0))
        made = whole(job, pod, on, source, count)
        return replace(made, irregular=late, ports=((1024, 1024), (1025, 2000), (1026, None)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wire, "answer", staticmethod(answer))
        seen, _, _ = survey()
    (row, *_) = seen.rows(LOCAL, Entrance.NODE_PORT, Protocol.UDP, Family.IPV4)
    (pod, *_) = row.answered
    assert (pod.resent, pod.copies, pod.paired, pod.moved) == (2, 4, 4, 2), "in both parts of the window"
    assert sum(each.count for each in row.first) > 0
    assert {each.pod for each in row.first} <= set(seen.endpoints)


def test_source_ports_are_of_the_whole_range_for_each_client_from_another_one_on() -> None:
    _, outside, _ = surveyed()
    asked = [job for job in outside.jobs if job.protocol not in ("get", "who-has")]
    assert all(job.linger and job.wide is not None for job in asked)
    assert len({job.wide for job in asked}) == 1
    assert not any(job.on_a_node for job in asked)


def test_a_node_without_an_agent_is_reported() -> None:
    seen, _, _ = survey(sampled=(*NAMES, "e"), absent={"e": "node e has no ready agent"})
    assert (seen.sampled, seen.unasked) == (NAMES, {"e": "node e has no ready agent"})


@pytest.mark.parametrize(
    ("nodes", "number", "bare"), [(2, 5, 1), (3, 5, 1), (4, 5, 2), (5, 6, 3), (12, 11, 5)], ids=str
)
def test_on_clusters_of_any_size_there_are_five_endpoints_and_a_node_without_one(
    nodes: int, number: int, bare: int
) -> None:
    names = tuple(f"n{at:02}" for at in range(nodes))
    roles = {role: names[min(at, nodes - 1)] for at, role in enumerate(list(Role)[:3])}
    ground = Ground("r1", "image", {}, roles, FEATURES, sampled=names)
    assert len(endpoints(ground)) == number
    assert len(homes(ground)) - len(some_of(homes(ground))) == bare
    assert list(endpoints(ground).values()).count(names[0]) > 1, "so that shares within a node are known"


def test_addresses_by_family_are_those_of_the_service() -> None:
    assert by_family(services()[CLUSTER]["spec"]["clusterIPs"])[Family.IPV6].startswith("fd96::")


def test_the_link_is_asked_who_has_every_vip_and_every_address_of_a_node() -> None:
    seen, wire, features = surveyed()
    asked = {job.host for job in wire.jobs if job.protocol == "who-has"}
    vips = {row.address for row in seen.dialled if row.entrance is Entrance.VIP and row.protocol is Protocol.TCP}
    assert asked >= vips
    assert asked >= {each for node in NODES.values() for each in node.internal.values()}
    assert {len(told) for told in seen.has_vip.values()} == {QUESTIONS}
    assert {name: {each.links for each in told} for name, told in seen.has_own.items()} == {
        name: {(f"link of {name}",)} for name in NAMES
    }
    assert features[on_link("IPv4")].present
    assert features[LINK_LOCAL].present


def test_health_checks_are_asked_for_from_the_link_local_address_and_the_global_one() -> None:
    own = [check for check in CHECKS if check.subject.entrance is Entrance.LINK_LOCAL_HEALTH]
    seen, wire, _ = survey(own)
    found = {(row.entrance, row.node) for row in seen.dialled if row.service == HEALTH}
    assert found == {(each, name) for each in (Entrance.HEALTH, Entrance.LINK_LOCAL_HEALTH) for name in NAMES}
    assert {job.link_local for job in wire.jobs if job.protocol == "get"} == {True, False}


def test_a_client_behind_a_gateway_lacks_what_only_neighbours_can_be_asked() -> None:
    own = [
        check for check in CHECKS
        if check.subject.entrance is Entrance.LINK_LOCAL_HEALTH or check.subject.requires is Requires.ONE_NODE
    ]  # fmt: skip
    seen, _, features = survey(own, behind=True)
    assert not features[LINK_LOCAL].present
    assert not features[on_link("IPv4")].present
    assert {judge_with(check, seen, features, {}).status for check in own} == {Status.UNSUPPORTED}
