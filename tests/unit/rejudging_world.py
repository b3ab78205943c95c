"""A whole run, made up: what the judges of all suites were given, and a ledger that keeps it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from esipp.checks.catalog import all_checks
from esipp.checks.check import Check, Feature
from esipp.checks.continuity import ContinuityCheck
from esipp.checks.endpoint_change import EndpointChangeCheck
from esipp.checks.model import Balancer
from esipp.checks.observation import Verdict, Witness
from esipp.checks.path import PathCheck
from esipp.checks.policy_change import Flipping, PolicyChangeCheck
from esipp.judging.api import judge as judge_api
from esipp.judging.continuity.judge import Judge as ContinuityJudge
from esipp.judging.endpoint_change.judge import Judge as MovesJudge
from esipp.judging.endpoint_change.judge import Result
from esipp.judging.frame import give_verdict
from esipp.judging.health.judge import judge as judge_health
from esipp.judging.interoperability.judge import judge as judge_interoperability
from esipp.judging.paths import Evidence, judge
from esipp.judging.policy_change.judge import judge as judge_flips
from esipp.ledger.evidence import (
    API,
    CONTINUITY,
    CONVERGENCE,
    FLIPS,
    HEALTH,
    INTEROPERABILITY,
    PATHS,
    Moved,
    judged,
    window_of,
)
from esipp.ledger.rejudging import judge_of
from esipp.ledger.run import Run, Settings
from tests.unit import (
    continuity_world,
    endpoint_change_world,
    health_world,
    interoperability_world,
    policy_change_world,
)
from tests.unit.services_api_server import FakeServices
from tests.unit.test_api_judge import perform
from tests.unit.test_policy_change_isolation import window
from tests.unit.world import SAMPLES, evidence

BALANCERS = (Balancer.DEFAULT, Balancer.ECMP)
FACTS = {"kubernetes": "v1.36.0", "proxy-mode": "nftables", "pod-to-node.ipv4": "unchanged"}
BLIND = "no packets on worker-b"


@cache
def checks() -> tuple[Check, ...]:
    """Some of the checks of every suite; those of balancers and ways that our worlds do not have are among them."""
    chosen: list[Check] = []
    for name in (PATHS, HEALTH, INTEROPERABILITY, API, FLIPS, CONVERGENCE, CONTINUITY):
        own = [check for check in all_checks() if judge_of(check) == name]
        chosen += own[:: max(1, len(own) // 120)]
    return tuple(chosen)


@cache
def features() -> dict[str, Feature]:
    """All that is needed, but for one."""
    names = {name for check in all_checks() for name in check.features}
    return {name: Feature(name != "nodes.excluded", "made up") for name in sorted(names)}


@cache
def seen() -> Mapping[str, Any]:
    """What each judge is given."""
    path_checks = [check for check in checks() if isinstance(check, PathCheck)]
    keys = {path.key for path_check in path_checks for path in path_check.paths}
    observations = {key: made for key, made in evidence().observations.items() if key in keys}
    witnesses = {key: [Witness(key, 0, True, "words", ("192.0.2.1", 7))] for key in list(observations)[:5]}
    flips = policy_change_world.World(Flipping.ECMP).seen()
    flips.window = window()
    flips.trouble["loadbalancer"] = "it has no VIP"
    results = {each: endpoint_change_world.World(each).result() for each in BALANCERS}
    return {
        PATHS: Evidence(
            observations, evidence().topology, features(), SAMPLES, FACTS, {"gone": "why"}, witnesses, BLIND
        ),
        HEALTH: health_world.healthy(),
        INTEROPERABILITY: interoperability_world.seen(),
        API: perform(FakeServices()),
        FLIPS: flips,
        CONVERGENCE: Moved(results),
        CONTINUITY: continuity_world.world(),
    }


def decide(check: Check, what: Mapping[str, Any], facts: Mapping[str, str] = FACTS) -> Verdict:
    """The verdict of a check's own judge."""
    given = what[judge_of(check)]
    if isinstance(check, PathCheck):
        return judge(check, replace(given, facts=facts))
    if isinstance(check, EndpointChangeCheck):
        moves_judge = _judge_of(given.results[check.balancer])
        return give_verdict(check, features(), facts, lambda: moves_judge.decide(check), check.differences)
    if isinstance(check, ContinuityCheck):
        return ContinuityJudge(given).verdict(check, features(), facts)
    if isinstance(check, PolicyChangeCheck):
        return judge_flips(check, given, features(), facts)
    own = {HEALTH: judge_health, INTEROPERABILITY: judge_interoperability, API: judge_api}[judge_of(check)]
    return own(check, given, features(), facts)


_JUDGES: dict[int, MovesJudge] = {}


def _judge_of(result: Result) -> MovesJudge:
    """The judge of a balancer, which is found once: it holds the result, so that no other one has its id."""
    if id(result) not in _JUDGES:
        _JUDGES[id(result)] = MovesJudge(result)
    return _JUDGES[id(result)]


def can_be_decided(check: Check) -> bool:
    return not isinstance(check, EndpointChangeCheck) or check.balancer in BALANCERS


def begun(out: Path, chosen: Sequence[Check]) -> Run:
    run = Run(Settings("kind-test", image="x", out=str(out), samples=SAMPLES), say=lambda _: None)
    run.begin(list(chosen), left_out=0)
    return run


def tell(run: Run, without: Sequence[str] = ()) -> None:
    """Everything that was seen, as the fixtures tell it."""
    run.fact("kubernetes", "v1.30.0", "a first look")
    for name, value in FACTS.items():
        run.fact(name, value, "made up")
    for name, feature in features().items():
        run.record("feature", name=name, present=feature.present, why=feature.why, ours=feature.ours)
    of_paths: Evidence = seen()[PATHS]
    for made in of_paths.observations.values():
        for each in made:
            run.record("observation", **each.as_json())
    for told in of_paths.witnesses.values():
        for witness in told:
            run.record("witness", **witness.as_json())
    for name, what in seen().items():
        if name not in without:
            run.record("judged", **judged(name, window_of(what) if name == PATHS else what))


def made(out: Path, chosen: Sequence[Check] | None = None, without: Sequence[str] = ()) -> Path:
    """The ledger of a whole run."""
    chosen = [check for check in (checks() if chosen is None else chosen) if can_be_decided(check)]
    run = begun(out, chosen)
    tell(run, without)
    for check in chosen:
        run.keep(decide(check, seen()))
    run.end()
    return out / "ledger.jsonl"
