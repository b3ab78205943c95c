"""Where the client's source IP survives; the rows say what is required, the judge whether it holds."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.checks.catalog import rows_of
from esipp.checks.observation import Verdict
from esipp.checks.path import Cell
from fixtures.session import enforce


@pytest.mark.parametrize("cell", rows_of("source_ip"), ids=attrgetter("id"))
def test_source_ip(cell: Cell, verdict_of: Callable[[Cell], Verdict]) -> None:
    enforce(verdict_of(cell))
