"""A run as the drawings see it: made up, with every kind of evidence that the suites keep, and nothing else."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from esipp.base.document import Section
from esipp.checks.api import Answer
from esipp.checks.check import Level, Status, Verdict
from esipp.checks.continuity import Phase as ContinuityPhase
from esipp.checks.disruption import Disruption, Proof
from esipp.checks.health import Answer as HealthAnswer
from esipp.checks.health import Place
from esipp.checks.model import Balancer, Family, Outcome, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService
from esipp.checks.profile import Destination, Target
from esipp.checks.timing import Checking, Promise
from esipp.judging.statistics import Distribution
from esipp.judging.timeline import Mark, Sample, Steer, Stream
from esipp.judging.topology import parse_address
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.rendering.html import blocks
from esipp.scenarios.api.judge import ApiEvidence
from esipp.scenarios.continuity.evidence import ContinuityEvidence, Exchange, LinkChange, Window
from esipp.scenarios.endpoint_change.evidence import BalancerEvidence, Counted, Moved, Observed, Result
from esipp.scenarios.health.evidence import Fact, Followed, Leaving, Round
from esipp.scenarios.health.evidence import HealthEvidence as Health
from esipp.scenarios.load_balancer_probes.evidence import Figures, Probe, ProbeEvidence
from esipp.scenarios.load_balancer_probes.evidence import Observed as ObservedProbes
from suites.continuity.checks import WAYS
from tests.unit import (
    endpoint_change_world,
    every_node_world,
    interoperability_world,
    policy_change_world,
    service_change_world,
)
from tests.unit.test_policy_change_isolation import window

Evidence = dict[str, Any]
FAMILIES = ("IPv4", "IPv6")
NODES = ("node-a", "node-b", "node-c")
CLIENT = {"IPv4": "192.0.2.7", "IPv6": "2001:db8::7"}


def recorded(evidence: Evidence, *, whole: bool = True, checks: list[RecordedCheck] | None = None) -> RecordedRun:
    topology = {
        "nodes": {node: {"addresses": [f"10.0.0.{at}", f"fd00::{at}"]} for at, node in enumerate(NODES, 1)},
        "clients": {"outside-1": {"vantage": "outside", "node": "", "addresses": list(CLIENT.values())}},
    }
    header = {"left_out_core_rows": 0, "fail_on": "core", "seed": 406472, "moves": 4}
    run = RecordedRun(Path(), header, checks or [], topology=topology, end={} if whole else None)
    run.judged.update(evidence)
    return run


def html_of(section: Section) -> str:
    return str(blocks([section]))


def recorded_check(name: str, suite: str, expect: str = "", level: Level = Level.CORE) -> RecordedCheck:
    return RecordedCheck(name, suite, level, "it must", (), "LoadBalancer", expect, asked="something was asked")


def verdict(check: str, status: Status, observed: str = "", level: Level = Level.CORE) -> Verdict:
    return Verdict(check, level, status, "", observed)


def answer(status: int, local: int, count: int = 20) -> HealthAnswer:
    body = f'{{"service": {{"namespace": "n", "name": "s"}}, "localEndpoints": {local}, "serviceProxyHealthy": true}}'
    return HealthAnswer(Outcome.ANSWERED, status, {"x-load-balancing-endpoint-weight": str(local)}, body, count)


def health() -> Evidence:
    asked = {
        f"one-pod.{family.lower()}.{client}-to-{place}": (answer(*said),)
        for family in FAMILIES
        for client in ("outside-1", "pod-on-other-node")
        for place, said in (("endpoint-node", (200, 1)), ("bare-node", (503, 0)), ("second-address-of-x", (503, 0)))
    }
    right, late = Followed(0.15, after={"right": 12}), Followed(2.149, "503", {"right": 11, "503": 1})
    bare, endpoint = (Place.BARE_NODE, Family.IPV4), (Place.ENDPOINT_NODE, Family.IPV4)
    rounds = []
    for number in range(4):
        followed = {bare: late if number else Followed(None, "503"), endpoint: right}
        rounds.append(Round(number, "made ready a pod", {Place.BARE_NODE: 1}, followed, {bare: late, endpoint: right}))
    refused = (422, "Invalid", "may only be set when `type` is 'LoadBalancer'")
    seen = Health(
        answers=asked,
        rounds=rounds,
        stable={(Place.BARE_NODE, family): (answer(503, 0, 500),) for family in Family},
        cordoned={bare: (answer(503, 0, 40),)},
        proofs=[Proof(Disruption.CORDON, "node-a", "undone", 1.0, 2.0, 3.0, 4.0)],
        leaving={Family.IPV4: Leaving((answer(503, 0, 60),), {"served": 61}, 0)},
        life={
            "chosen": Fact("created", {"life": 31498}, listeners={"node-a IPv4": Counter({"this service": 8})}),
            "refused": Fact("created", refused=refused),
        },
    )
    return {"health_checks": seen}


def convergence(more: int = 0) -> Evidence:
    """Endpoint changes behind two load balancers, the second of which has health checks; ``more`` pairs of changes."""
    results = {}
    for balancer in (Balancer.DEFAULT, Balancer.ECMP):
        own = balancer is Balancer.DEFAULT
        world = endpoint_change_world.World(balancer, tells=not own, more=more)
        result = world.result()
        seen = result.seen
        (vip,), (nodes,) = seen.vip.values(), seen.health.values()
        marks = [*seen.marks, *(replace(mark, family="IPv6") for mark in seen.marks if mark.family)]
        seen = replace(
            seen,
            vip=dict.fromkeys(Family, vip),
            health=dict.fromkeys(Family, nodes),
            beside=seen.ports,
            marks=sorted(marks, key=lambda mark: mark.at),
        )
        split = {Family.IPV4: Counted({"a": 206, "b": 214}, {"a": 1, "b": 2})}
        gaps = Observed() if own else Observed(("10.9.9.9",), Distribution.of([0.99, 1.01, 1.22]), (2, 2, 3))
        promise = Promise() if own else result.promise
        results[balancer] = replace(result, seen=seen, counted=split, observed=gaps, promise=promise)
    nothing = BalancerEvidence({}, {}, {})
    results[Balancer.PROXY] = Result(Balancer.PROXY, nothing, obstacle="it has no address")
    return {"convergence": Moved(results, 0.02, 0.9)}


def policy_changes(**lies: Any) -> Evidence:
    seen = policy_change_world.World(ChangingService.ECMP, **lies).seen()
    seen.courses[ChangingService.ECMP].obstacles[At.VIP, Family.IPV4] = "there is none"
    seen.window = window()
    return {"flips": seen}


def api() -> Evidence:
    taken, refused = Answer({"spec": {}}, warnings=("299",)), Answer(refused=(422, "Invalid", "no"))
    troubled = Answer(trouble="the API server hung up")
    answers = {"rule-a": {"created": taken}, "change-b": {"patched": refused}, "old-c": {"created": troubled}}
    return {"compatibility": ApiEvidence(answers=answers)}


def continuity(causes: tuple[float, ...] = (210.0,), late: float = 216.0) -> Evidence:
    """A deletion in which 21 requests are lost; one is answered late, and one shows somebody else's address."""
    own = parse_address(CLIENT["IPv4"])
    quiet = [Sample(at, 200 + at / 10, 200.01 + at / 10, "answered", "p", "node-a", str(own)) for at in range(100)]
    busy = [Sample(100 + at, 210 + at / 10, 210.01 + at / 10, "answered", "p", "node-a", str(own)) for at in range(150)]
    busy[20:41] = [Sample(each.seq, each.started, each.started + 3, "timeout") for each in busy[20:41]]
    slow = round((late - 210) * 10)
    busy[slow] = busy[slow]._replace(ended=busy[slow].started + 1.2)
    busy[75] = busy[75]._replace(source="10.9.9.9")
    exchanges = [Exchange((0, 0), quiet[50]), Exchange((0, 0), Sample(9, 213.4, 213.5, "reset"))]
    ways = {way: (way, Family.IPV4) for way in WAYS if way.slug in ("default.local", "reference-ecmp.local")}
    codes = [Sample(at, 200 + at / 10, 200 + at / 10, "200" if at < 110 else "503") for at in range(240)]
    seen = ContinuityEvidence(
        streams={of: Stream(way.slug, 0.1, [*quiet, *busy]) for way, of in ways.items()},
        lasting=dict.fromkeys(ways.values(), exchanges),
        control={Family.IPV4: Stream("control", 0.1, [*quiet, *busy[:20]])},
        health={Family.IPV4: {"node-a": Stream("health", 0.1, codes)}},
        windows=[Window(ContinuityPhase.DELETED, 210.0, 225.0, 210.2, 224.0, causes, words="it is gone")],
        marks=[Mark(0.0, "ready", "p"), Mark(0.0, "slice-ready", "p", "IPv4")],
        nodes={"p": "node-a"},
        steers={way: [Steer(212.5, "IPv4", ("node-b",), "unhealthy")] for way in ways if way.by != "default"},
        links={
            of: [LinkChange(199.0, "02:00:00:00:00:0a"), LinkChange(212.5, "02:00:00:00:00:0b")]
            for way, of in ways.items()
            if way.by == "default"
        },
        checking=Checking(1.0, 2),
        serves=7,
        own=frozenset({own}),
        obstacles={
            (next(way for way in WAYS if way.slug == "reference-proxy.local"), Family.IPV4): "it has no address"
        },
        since=200.0,
        spacing=0.1,
        timeout=3.0,
    )
    return {"continuity": seen}


def interoperability() -> Evidence:
    seen = interoperability_world.seen()
    assert seen.neighbours
    assert seen.many
    seen.neighbours.after = {"spec": {"ports": []}}
    (place, family), *_ = seen.many.ways.reached
    seen.many.ways = replace(seen.many.ways, reached={**seen.many.ways.reached, (place, family): False})
    return {"interoperability": seen}


def every_node() -> Evidence:
    return {"every_node": every_node_world.seen()}


def service_changes() -> Evidence:
    return {"changes": service_change_world.World(keeps=frozenset({"udp-socket"})).seen()}


def everything(more: int = 0) -> Evidence:
    """Evidence of every kind."""
    return {
        **health(),
        **convergence(more),
        **policy_changes(),
        **api(),
        **continuity(),
        **interoperability(),
        **service_changes(),
        **every_node(),
        **probes(),
    }


def probes() -> Evidence:
    """Health checks of the cluster's own load balancer in packets."""
    figures = Figures("cloud", Target.HEALTH_CHECK_NODE_PORT, "/healthz", 1.0, ("192.0.2.0/24",))
    seen = Probe(1.0, "node-a", "192.0.2.6", Target.HEALTH_CHECK_NODE_PORT, "/healthz")
    observed = ObservedProbes(6.0, ("node-a",), (seen,), 10, {Destination.VIP: 10})
    key = (Balancer.DEFAULT, TrafficPolicy.LOCAL)
    return {"load_balancer_probes": ProbeEvidence(figures={key: (figures,)}, observed={key: observed})}
