"""Source IP suite: one test for each check; the judge decides its verdict."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.checks.catalog import checks_of
from esipp.checks.observation import Verdict
from esipp.checks.path import PathCheck
from fixtures.session import enforce


@pytest.mark.parametrize("check", checks_of("source_ip"), ids=attrgetter("id"))
def test_source_ip(check: PathCheck, verdict_of: Callable[[PathCheck], Verdict]) -> None:
    enforce(verdict_of(check))
