"""Checks of the compatibility suite that require a field of a Service after an update."""

from esipp.checks.api import Is, Requests, Taken, Verb
from esipp.checks.check import Check, is_about

UPDATES = (Verb.REPLACE, Verb.UPDATE, Verb.MERGE, Verb.STRATEGIC, Verb.JSON, Verb.APPLY)


def wants_after_an_update(check: Check, path: str, value: object = None) -> bool:
    """Whether a check requires a field, or its value, in the answer to an update of a Service."""
    if not is_about(check, Requests):
        return False
    steps = {step.name: step for step in check.subject.chain.steps}
    first = {
        step.of: step.name for step in reversed(check.subject.chain.steps)
    }  # what makes a Service is no update of it
    for want in check.subject.wants:
        if isinstance(want, Taken):
            step, wanted = steps[want.step], dict(want.fields).get(path)
            right = wanted == value if value is not None else wanted not in (None, Is.ABSENT)
            if right and step.verb in UPDATES and first[step.of] != step.name:
                return True
    return False
