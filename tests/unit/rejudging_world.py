"""A whole run, made up: what the judges of all suites were given, and a ledger that keeps it."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from esipp.checks.catalog import all_checks
from esipp.checks.check import Check, Feature, Verdict, is_about
from esipp.checks.endpoint_change import EndpointChange
from esipp.checks.model import Balancer, Family
from esipp.checks.path import OnPath
from esipp.checks.policy_change import ChangingService
from esipp.judging.frame import Known
from esipp.judging.observation import Witness
from esipp.judging.scenario import scenario_of
from esipp.ledger.codec import judged, record_of
from esipp.ledger.run import Run, Settings
from esipp.scenarios.endpoint_change.evidence import Moved
from esipp.scenarios.paths.evidence import Evidence
from tests.unit import (
    continuity_world,
    endpoint_change_world,
    every_node_world,
    health_world,
    interoperability_world,
    policy_change_world,
    service_change_world,
)
from tests.unit.services_api_server import FakeServices
from tests.unit.test_api_judge import perform
from tests.unit.test_policy_change_isolation import window
from tests.unit.world import SAMPLES, evidence

PATHS, HEALTH, INTEROPERABILITY, API = "paths", "health_checks", "interoperability", "compatibility"
POLICY_CHANGES, CONVERGENCE, CHANGES, CONTINUITY, EVERY_NODE = (
    "flips",
    "convergence",
    "changes",
    "continuity",
    "every_node",
)
NAMES = (PATHS, HEALTH, INTEROPERABILITY, API, POLICY_CHANGES, CONVERGENCE, CHANGES, CONTINUITY, EVERY_NODE)
"""The names of the scenarios' evidence in ledgers."""

BALANCERS = (Balancer.DEFAULT, Balancer.ECMP)
FACTS = {"kubernetes": "v1.36.0", "proxy-mode": "nftables", "pod-to-node.ipv4": "unchanged"}
BLIND = "no packets on worker-b"


@cache
def checks() -> tuple[Check, ...]:
    """Some of the checks of every suite; those of balancers and ways that our worlds do not have are among them."""
    chosen: list[Check] = []
    for name in NAMES:
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
    path_checks = [check for check in checks() if is_about(check, OnPath)]
    keys = {path.key for path_check in path_checks for path in path_check.subject.paths}
    observations = {key: made for key, made in evidence().observations.items() if key in keys}
    witnesses = {key: [Witness(key, 0, True, "words", ("192.0.2.1", 7))] for key in list(observations)[:5]}
    policies = policy_change_world.World(ChangingService.ECMP).seen()
    policies.window = window()
    policies.trouble["loadbalancer"] = "it has no VIP"
    policies.witnesses = {"a stream": [Witness("a stream", seq, True, "words", ("192.0.2.1", 7)) for seq in range(4)]}
    policies.blind = BLIND
    results = {each: endpoint_change_world.World(each).result() for each in BALANCERS}
    return {
        PATHS: Evidence(
            observations=observations,
            topology=evidence().topology,
            features=features(),
            samples=SAMPLES,
            facts=FACTS,
            obstacles={"gone": "why"},
            witnesses=witnesses,
            blind=BLIND,
        ),
        HEALTH: health_world.healthy(),
        INTEROPERABILITY: interoperability_world.seen(),
        API: perform(FakeServices()),
        POLICY_CHANGES: policies,
        CONVERGENCE: Moved(results),
        CHANGES: service_change_world.World(families=tuple(Family)).seen(),
        CONTINUITY: continuity_world.world(),
        EVERY_NODE: every_node_world.seen(),
    }


_ANALYSED: dict[int, tuple[Any, Any]] = {}


def decide(check: Check, what: Mapping[str, Any], facts: Mapping[str, str] = FACTS) -> Verdict:
    """The verdict of a check's own judge."""
    scenario = scenario_of(check)
    evidence = what[scenario.record]
    if id(evidence) not in _ANALYSED:
        _ANALYSED[id(evidence)] = evidence, scenario.analyse(evidence)  # the evidence too: no other one gets its id
    return scenario.judge(check, _ANALYSED[id(evidence)][1], Known(facts, features()))


def judge_of(check: Check) -> str:
    """The name in ledgers of the evidence that decides a check."""
    return scenario_of(check).record


def can_be_decided(check: Check) -> bool:
    return not is_about(check, EndpointChange) or check.subject.balancer in BALANCERS


def begun(out: Path, chosen: Sequence[Check]) -> Run:
    run = Run(Settings("kind-test", image="x", out=str(out), samples=SAMPLES), say=lambda _: None)
    run.begin(list(chosen), left_out=0)
    return run


def tell(run: Run, without: Collection[str] = ()) -> None:
    """Everything that was seen, as the fixtures tell it."""
    run.fact("kubernetes", "v1.30.0", "a first look")
    for name, value in FACTS.items():
        run.fact(name, value, "made up")
    for name, feature in features().items():
        run.record("feature", name=name, present=feature.present, why=feature.why, ours=feature.ours)
    of_paths: Evidence = seen()[PATHS]
    for made in of_paths.observations.values():
        for each in made:
            run.record("observation", **record_of(each))
    for witnesses in of_paths.witnesses.values():
        for witness in witnesses:
            run.record("witness", **record_of(witness))
    for name, what in seen().items():
        if name not in without:
            run.record("judged", **judged(name, what))


def made(out: Path, chosen: Sequence[Check] | None = None, without: Collection[str] = ()) -> Path:
    """The ledger of a whole run."""
    chosen = [check for check in (checks() if chosen is None else chosen) if can_be_decided(check)]
    run = begun(out, chosen)
    tell(run, without)
    for check in chosen:
        run.keep(decide(check, seen()))
    run.end()
    return out / "ledger.jsonl"
