"""Interoperability suite: one test for each check; the judge decides its verdict."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.checks.catalog import checks_of
from esipp.checks.check import Check
from esipp.checks.observation import Verdict
from fixtures.session import enforce


@pytest.mark.parametrize("check", checks_of("interoperability"), ids=attrgetter("id"))
def test_interoperability(check: Check, interoperability_verdict_of: Callable[[Check], Verdict]) -> None:
    enforce(interoperability_verdict_of(check))
