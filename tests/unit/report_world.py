"""Runs with a ledger on disk, made as a run makes them, for the reports that are rendered from it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from esipp.checks.check import Level, Status, Verdict
from esipp.checks.continuity import Phase
from esipp.checks.health import Answer, Place
from esipp.checks.model import Balancer, Family, Outcome, TrafficPolicy
from esipp.checks.path import PathCheck
from esipp.checks.policy_change import ChangingService
from esipp.checks.timing import Checking
from esipp.judging.observation import Observation
from esipp.judging.statistics import Distribution
from esipp.judging.timeline import Sample, Stream
from esipp.ledger.codec import judged, record_of
from esipp.ledger.reading import RecordedRun, read_run
from esipp.ledger.run import Run, Settings
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.continuity.evidence import Window as Disruption
from esipp.scenarios.endpoint_change.evidence import BalancerEvidence, Counted, Moved, Observed, Result
from esipp.scenarios.health.evidence import Followed, Round
from esipp.scenarios.health.evidence import HealthEvidence as Health
from esipp.scenarios.paths.evidence import Evidence
from esipp.scenarios.policy_change.evidence import Course, Neighbour, PolicyAction, PolicyChangeEvidence, Window
from suites.continuity.checks import WAYS
from tests.unit.endpoint_change_world import World
from tests.unit.world import CHECKS, topology

DIGEST = "sha256:" + "1" * 64
NAMES = ("clusterip.", "nodeport.", "loadbalancer.")

HOSTILE = (
    "a|b`c``d @octocat #123 <img src=x onerror=alert(1)> [x](http://e.example) \n# head\n\x1b[31m &lt; *b* \u202e ]]>"
)
"""What a message of somebody else may hold."""


@cache
def some_checks() -> tuple[PathCheck, ...]:
    """A few checks of each profile and level, all of them about the cluster."""
    picked: list[PathCheck] = []
    for start in NAMES:
        for level in Level:
            about = [path_check for path_check in CHECKS if not path_check.instrument]
            fitting = [
                path_check for path_check in about if path_check.id.startswith(start) and path_check.level is level
            ]
            picked += fitting[:: max(1, len(fitting) // 6)][:6]
    return tuple(picked)


def verdict(check: PathCheck, status: Status, **fields: Any) -> Verdict:
    fields.setdefault("instrument", check.instrument)
    return Verdict(check.id, check.level, status, "the client", "a node's x20", **fields)


def made(
    folder: Path,
    checks: Sequence[PathCheck] = (),
    said: Mapping[str, Verdict] | None = None,
    left_out: int = 0,
    components: Sequence[Mapping[str, str]] | None = None,
    more: Callable[[Run], None] | None = None,
    **settings: Any,
) -> RecordedRun:
    """A run of these checks, each as required but those of which something else is said, read again."""
    write(folder, checks, said, left_out, components, more, **settings).end()
    return read_run(folder)


def write(
    folder: Path,
    checks: Sequence[PathCheck] = (),
    said: Mapping[str, Verdict] | None = None,
    left_out: int = 0,
    components: Sequence[Mapping[str, str]] | None = None,
    more: Callable[[Run], None] | None = None,
    **settings: Any,
) -> Run:
    """The same, without a closing record."""
    checks = checks or some_checks()
    run = Run(Settings("kind-test", image="echo:1", out=str(folder), **settings), say=lambda _: None)
    run.begin(list(checks), left_out)
    run.fact("kubernetes", "v1.36.3", "API server /version")
    run.fact("proxy-mode", "iptables", "the ConfigMap")
    for name in sorted({name for check in checks for name in check.features}):
        run.record("feature", name=name, present=True, why="made up", ours=False)
    run.record("topology", **topology().as_json())
    for each in COMPONENTS if components is None else components:
        run.record("component", **{"decided": "imageID of its pods", "version": "1", **each})
    if more is not None:
        more(run)
    _probe(run, checks)
    for check in checks:
        usual = Status.RECORDED if check.level is Level.RECORD else Status.PASS
        run.keep((said or {}).get(check.id) or verdict(check, usual))
    return run


def _probe(run: Run, checks: Sequence[PathCheck]) -> None:
    """Something that was seen of each path: no check passes without."""
    lines = (run.folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    seen = {record["path"] for record in map(json.loads, lines) if record["record"] == "observation"}
    for path in sorted({check.subject.path.key for check in checks} - seen):
        run.record("observation", **record_of(Observation(path, 0, Outcome.ANSWERED, count=20)))


COMPONENTS = (
    {"name": "kube-proxy", "kind": "service-proxy", "image": "registry.example/kube-proxy:v1", "digest": DIGEST},
    {"name": "speaker", "kind": "load-balancer", "image": "registry.example/speaker:v1", "digest": ""},
    {"name": "echoserver", "kind": "echo", "image": "echo:1", "digest": "sha256:" + "2" * 64},
)


def failing(status: Status = Status.FAIL, level: Level = Level.CORE, **fields: Any) -> dict[str, Verdict]:
    """The first check of a level that has this verdict."""
    check = next(check for check in some_checks() if check.level is level)
    return {check.id: verdict(check, status, **fields)}


def validate(document: Any, schema: Path) -> None:
    """Hold it against a schema that is itself one.

    Raises:
        jsonschema.ValidationError: it does not hold.
    """
    _validator(schema).validate(document)


@cache
def _validator(schema: Path) -> jsonschema.Draft202012Validator:
    rules = json.loads(schema.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(rules)
    return jsonschema.Draft202012Validator(rules)


def measured(run: Run) -> None:
    """Evidence of every suite that measures, as each keeps it."""
    world = World(Balancer.ECMP, elsewhere=True)
    observed = Observed(("192.0.2.1",), Distribution.of([0.1, 0.2]), (2, 3))
    split = {Family.IPV4: Counted({"b": 4}, {"b": 1})}
    result = replace(world.result(), counted=split).with_observed(observed)
    nothing = Result(Balancer.PROXY, BalancerEvidence({}, {}, {}), obstacle="it is not there")
    moved = Moved({Balancer.PROXY: nothing, Balancer.ECMP: result}, 0.02, 0.9)
    run.record("judged", **judged("convergence", moved))
    way = next(way for way in WAYS if way.slug == "default.local")
    made = [Sample(at, 1 + at / 10, 1.1 + at / 10, "timeout" if at == 4 else "answered", "p") for at in range(9)]
    steady = ContinuityEvidence(
        streams={(way, Family.IPV4): Stream("default.local", 0.1, made)},
        windows=[Disruption(Phase.DRAIN, 1.0, 3.0, words="done")],
        checking=Checking(1.0, 2),
    )
    run.record("judged", **judged("continuity", steady))
    change = PolicyAction(0, TrafficPolicy.LOCAL, 1.0, 1.5, "Local", 30001)
    others = Window(
        Evidence(observations={}, topology=topology(), features={}, samples=1),
        neighbours={"neighbour": Neighbour([change])},
    )
    changes = PolicyChangeEvidence(window=others, courses={ChangingService.NODE_PORT: Course([change])})
    run.record("judged", **judged("flips", changes))
    answer = Answer(Outcome.ANSWERED, 200, {"X-Load-Balancing-Endpoint-Weight": "1"}, "{}", 3)
    key = "one-pod.ipv4.outside-1-to-endpoint-node.post-root"
    node, other = (Place.ENDPOINT_NODE, Family.IPV4), (Place.BARE_NODE, Family.IPV4)
    played = Round(1, "", {}, {node: Followed(0.2), other: Followed(None, "200")}, {})
    seen = Health(answers={key: (answer,), "strange": (Answer(Outcome.TIMEOUT),)}, rounds=[played])
    run.record("judged", **judged("health_checks", seen))
