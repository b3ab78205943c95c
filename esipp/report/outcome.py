"""A verdict as pytest's outcome; the exit code and the reports come from the verdicts themselves."""

import pytest

from esipp.base.errors import HarnessError
from esipp.base.redaction import redact
from esipp.checks.check import Status
from esipp.checks.observation import Verdict
from esipp.checks.reference import titles


def enforce(verdict: Verdict) -> None:
    """End the test as its verdict says.

    What is no failure of the product, but ours or undecided, ends it with an error of ours: tools that tell a failed
    assertion from any other exception (Allure: failed, broken) then tell these apart too.
    """
    said = f"{verdict.status.value}: expected {verdict.expected}; observed {verdict.observed}"
    said = redact(said + (f" ({verdict.reason})" if verdict.reason else ""))
    if verdict.status is Status.UNSUPPORTED:
        pytest.skip(redact(verdict.reason))
    if verdict.status is Status.KNOWN:
        pytest.xfail(redact(f"{verdict.reason} [{titles(verdict.references)}]"))
    if verdict.status in (Status.ERROR, Status.INCONCLUSIVE):
        raise HarnessError(said)
    if verdict.status not in (Status.PASS, Status.RECORDED):
        pytest.fail(said, pytrace=False)
