"""The pytest outcome of a verdict. Exit code and reports do not depend on it."""

import pytest

from esipp.base.errors import HarnessError
from esipp.base.redaction import redact
from esipp.checks.check import Status, Verdict
from esipp.checks.reference import titles


def enforce(verdict: Verdict) -> None:
    """End the test with the outcome of its verdict.

    Suite errors and inconclusive checks raise a HarnessError. Tools that separate failed assertions from other
    exceptions (Allure: failed, broken) then separate them from failures of the product.
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
