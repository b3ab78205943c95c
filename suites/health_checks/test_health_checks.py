"""Health checks that tell the truth; the rows say what is required, the judge whether it holds."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.checks.catalog import rows_of
from esipp.checks.check import Row
from esipp.checks.observation import Verdict
from fixtures.session import enforce


@pytest.mark.parametrize("cell", rows_of("health_checks"), ids=attrgetter("id"))
def test_health_checks(cell: Row, health_verdict_of: Callable[[Row], Verdict]) -> None:
    enforce(health_verdict_of(cell))
