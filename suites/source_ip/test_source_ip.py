"""Where the client's source IP survives; the rows say what is required, the judge whether it holds."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.model import Cell
from esipp.observation import Verdict
from fixtures.session import enforce
from suites.source_ip.cells import CELLS


@pytest.mark.parametrize("cell", CELLS, ids=attrgetter("id"))
def test_source_ip(cell: Cell, verdict_of: Callable[[Cell], Verdict]) -> None:
    enforce(verdict_of(cell))
