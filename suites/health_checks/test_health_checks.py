"""Health check suite: one test for each check; the judge decides its verdict."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.checks.catalog import checks_of
from esipp.checks.check import Check
from esipp.checks.observation import Verdict
from fixtures.session import enforce


@pytest.mark.parametrize("check", checks_of("health_checks"), ids=attrgetter("id"))
def test_health_checks(check: Check, health_verdict_of: Callable[[Check], Verdict]) -> None:
    enforce(health_verdict_of(check))
