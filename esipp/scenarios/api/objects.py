"""Testbed objects of requests to the API server: they make their own Services, some clients dial them."""

from esipp.checks.api import ApiCheck, Verb
from esipp.checks.model import OUTSIDE
from esipp.testbed.objects import Ground, Objects


def objects(checks: list[ApiCheck], _: Ground) -> Objects:
    """Everything these checks need."""
    steps = [step for check in checks for step in check.subject.chain.steps]
    return Objects(clients=frozenset({OUTSIDE})) if any(step.verb is Verb.LISTEN for step in steps) else Objects()
