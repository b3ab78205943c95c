"""A run as the drawings see it: made up, with every kind of evidence that the suites keep, and nothing else."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from esipp.base.document import Section
from esipp.checks.api import Answer
from esipp.checks.check import Level, Status
from esipp.checks.continuity import Phase as ContinuityPhase
from esipp.checks.disruption import Disruption, Proof
from esipp.checks.health import Answer as HealthAnswer
from esipp.checks.health import Place
from esipp.checks.model import Family
from esipp.checks.observation import Outcome, Verdict
from esipp.checks.policy_change import At, Flipping
from esipp.judging.promise import Checking
from esipp.judging.timeline.events import Mark, Steer
from esipp.judging.timeline.streams import Sample, Stream
from esipp.judging.topology import parse_address
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.rendering.html import blocks
from esipp.scenarios.api.judge import Seen as ApiSeen
from esipp.scenarios.continuity.evidence import Exchange, Window
from esipp.scenarios.continuity.evidence import Seen as Continuity
from esipp.scenarios.health.evidence import Fact, Followed, Leaving, Round
from esipp.scenarios.health.evidence import Seen as Health
from suites.continuity.checks import WAYS
from tests.unit import interoperability_world, policy_change_world, service_change_world
from tests.unit.test_policy_change_isolation import window

Evidence = dict[Any, Any]
FAMILIES = ("IPv4", "IPv6")
NODES = ("node-a", "node-b", "node-c")
CLIENT = {"IPv4": "192.0.2.7", "IPv6": "2001:db8::7"}
BALANCERS = ("default", "reference-ecmp")
PHASES = ("call to trigger", "EndpointSlice to health check", "trigger to traffic")


def recorded(evidence: Evidence, *, whole: bool = True, checks: list[RecordedCheck] | None = None) -> RecordedRun:
    topology = {
        "nodes": {node: {"addresses": [f"10.0.0.{at}", f"fd00::{at}"]} for at, node in enumerate(NODES, 1)},
        "clients": {"outside-1": {"vantage": "outside", "node": "", "addresses": list(CLIENT.values())}},
    }
    header = {"left_out_core_rows": 0, "fail_on": "core", "seed": 77}
    run = RecordedRun(Path(), header, checks or [], topology=topology, end={} if whole else None)
    for kind, what in evidence.items():
        if isinstance(kind, str):
            run.judged[kind] = what
        else:
            run.evidence[kind] = what
    return run


def html_of(section: Section) -> str:
    return str(blocks([section]))


def told_check(name: str, suite: str, expect: str = "", level: Level = Level.CORE) -> RecordedCheck:
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


def convergence(moves: int = 4) -> Evidence:
    made, streams = [], []
    for balancer in BALANCERS:
        for number in range(moves):
            for up in (True, False):
                made.append(_move(balancer, number, up, 100.0 + 10 * number + (0 if up else 5)))
        for family, vip in (("IPv4", "192.0.2.200"), ("IPv6", "2001:db8::200")):
            streams.append(_stream(f"moves-{balancer}: VIP {vip}", moves, "answered", family))
            for node in NODES:
                streams.append(_stream(f"moves-{balancer}: health check of {node} {family}", moves, "200", family))
    samples = [round(0.11 + 0.37 * at, 4) for at in range(moves)]
    of = {"n": moves, "p50": samples[(moves - 1) // 2], "p95": samples[-1], "max": samples[-1], "samples": samples}
    told = {"default": {"period": None, "failures": None}, "reference-ecmp": {"period": 1.0, "failures": 2}}
    gaps = {"n": 3, "p50": 1.01, "p95": 1.22, "max": 1.22, "samples": [0.99, 1.01, 1.22]}
    seen = {
        "default": {"sources": [], "gaps": {"n": 0, "samples": []}, "failures": []},
        "reference-ecmp": {"sources": ["10.9.9.9"], "gaps": gaps, "failures": [2, 2, 3]},
    }
    settings = {"seed": 406472, "moves": moves, "balancers": list(BALANCERS), "spacing": 0.02, "timeout": 0.9}
    return {
        ("convergence", "settings"): [settings | {"clock_uncertainty": 0.0007, "packets": "captured"}],
        ("convergence", "move"): made,
        ("convergence", "stretch"): streams,
        ("convergence", "mark"): [{"balancer": "default", "at": 100.1, "what": "ready", "pod": "p", "family": ""}],
        ("convergence", "decision"): [
            {"balancer": "default", "at": 1.0, "node": "node-a", "healthy": True, "family": ""}
        ],
        ("convergence", "distribution"): [
            {"balancer": balancer, "family": family, "direction": direction, "phase": phase, **of}
            for balancer in BALANCERS
            for family in FAMILIES
            for direction in ("up", "down")
            for phase in PHASES
        ],
        ("convergence", "balance"): [
            {"balancer": each, "family": "IPv4", "nodes": {"node-a": 206, "node-b": 214}, "pods": {}, "lost": 0}
            | {"p_value": 0.7327}
            for each in BALANCERS
        ],
        ("convergence", "checks"): [
            {"balancer": each, "told": told[each], "observed": seen[each]} for each in BALANCERS
        ],
        ("convergence", "obstacle"): [{"balancer": "reference-proxy", "why": "it has no address"}],
    }


def _move(balancer: str, number: int, up: bool, cause: float) -> dict[str, Any]:
    seen = {
        "used": not up,
        "at": cause + 2.2,
        "steady": True,
        "decision": cause + 2.1,
        "timed_out": 0 if up else number + 1,
        "refused": 0,
        "reset": 0,
        "wrong": 0,
        "first_lost": cause + 1.0,
        "last_lost": cause + 2.2,
        "last_lost_by_steering": cause + 2.2,
        "stray": 0,
        "outage": 0.0 if up else round(1.11 + number / 10, 4),
        "black_hole": None if up else 1.2345,
        "phases": {"call to trigger": 0.2},
    }
    health = dict.fromkeys(FAMILIES, cause + 0.97)
    told = {"trigger": cause + 0.3, "slice": cause + 0.4, "health": health, "path": cause + 1.0, "path_losses": 0}
    named = {"balancer": balancer, "number": number, "move": "opened" if up else "closed", "up": up, "node": "node-b"}
    return named | {"pod": "p", "cause": cause, "until": cause + 5} | told | {"traffic": dict.fromkeys(FAMILIES, seen)}


def _stream(name: str, moves: int, good: str, family: str) -> dict[str, Any]:
    bad = "timeout" if good == "answered" else "503"
    runs = []
    for number in range(moves):
        since = 100.0 + 10 * number
        runs += [
            [since, since + 4.98, 250, good, 1],
            [since + 6, since + 7, 20, bad, 0],
            [since + 7.1, since + 9.9, 90, good, 1],
        ]
    return {"stream": name, "answered_by": [["", "", ""], ["p", "node-b", CLIENT[family]]], "stretches": runs}


def flips(**lies: Any) -> Evidence:
    seen = policy_change_world.World(Flipping.ECMP, **lies).seen()
    seen.courses[Flipping.ECMP].obstacles[At.VIP, Family.IPV4] = "there is none"
    seen.window = window()
    return {"flips": seen}


def api() -> Evidence:
    taken, refused = Answer({"spec": {}}, warnings=("299",)), Answer(refused=(422, "Invalid", "no"))
    troubled = Answer(trouble="the API server hung up")
    answers = {"rule-a": {"created": taken}, "change-b": {"patched": refused}, "old-c": {"created": troubled}}
    return {"compatibility": ApiSeen(answers=answers)}


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
    seen = Continuity(
        streams={of: Stream(way.slug, 0.1, [*quiet, *busy]) for way, of in ways.items()},
        lasting=dict.fromkeys(ways.values(), exchanges),
        control={Family.IPV4: Stream("control", 0.1, [*quiet, *busy[:20]])},
        health={Family.IPV4: {"node-a": Stream("health", 0.1, codes)}},
        windows=[Window(ContinuityPhase.DELETED, 210.0, 225.0, 210.2, 224.0, causes, words="it is gone")],
        marks=[Mark(0.0, "ready", "p"), Mark(0.0, "slice-ready", "p", "IPv4")],
        nodes={"p": "node-a"},
        steers={way: [Steer(212.5, "IPv4", ("node-b",), "unhealthy")] for way in ways if way.by != "default"},
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


def service_changes() -> Evidence:
    return {"changes": service_change_world.World(keeps=frozenset({"udp-socket"})).seen()}


def everything(moves: int = 4) -> Evidence:
    """Evidence of every kind."""
    return {
        **health(),
        **convergence(moves),
        **flips(),
        **api(),
        **continuity(),
        **interoperability(),
        **service_changes(),
    }
