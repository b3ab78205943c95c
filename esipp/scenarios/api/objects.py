"""Testbed objects of the compatibility suite."""

from esipp.checks.api import ApiCheck, Verb
from esipp.checks.check import Check
from esipp.checks.model import OUTSIDE
from esipp.checks.policy_change import PolicyChangeCheck
from esipp.scenarios.policy_change.objects import props as flip_props
from esipp.testbed.objects import Ground, Objects


def props(checks: list[Check], ground: Ground) -> Objects:
    """Everything these checks need; checks about the API alone make their own Services."""
    flips: list[Check] = [check for check in checks if isinstance(check, PolicyChangeCheck)]
    steps = [step for check in checks if isinstance(check, ApiCheck) for step in check.chain.steps]
    asked = Objects(clients=frozenset({OUTSIDE})) if any(step.verb is Verb.LISTEN for step in steps) else Objects()
    return Objects.all_of([asked, *([flip_props(flips, ground)] if flips else [])])
