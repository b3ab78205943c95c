"""Verdicts as a run gives them: a scenario's decision, in the frame."""

from collections.abc import Mapping
from typing import Any

from esipp.checks.check import Check, Feature, Verdict
from esipp.checks.path import PathCheck
from esipp.judging.frame import Known, give_verdict
from esipp.judging.scenario import scenario_of
from esipp.scenarios.paths.evidence import Evidence
from esipp.scenarios.paths.judge import decide


def judge(check: PathCheck, evidence: Evidence) -> Verdict:
    """The verdict on a check of a path; its evidence has features and facts."""
    return give_verdict(check, Known(evidence.facts, evidence.features), lambda: decide(check, evidence), "paths")


def judge_with(check: Check, analysed: Any, features: Mapping[str, Feature], facts: Mapping[str, str]) -> Verdict:
    """The verdict on a check of any scenario, from what the scenario made of its evidence."""
    return scenario_of(check).judge(check, analysed, Known(facts, features))
