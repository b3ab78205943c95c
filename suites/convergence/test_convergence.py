"""Load balancers follow the pods; the rows say what is required, the timelines of all moves whether it holds."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.checks.catalog import rows_of
from esipp.checks.endpoint_change import MoveRow
from esipp.checks.observation import Verdict
from fixtures.session import enforce


@pytest.mark.parametrize("cell", rows_of("convergence"), ids=attrgetter("id"))
def test_convergence(cell: MoveRow, followed: Callable[[MoveRow], Verdict]) -> None:
    enforce(followed(cell))
