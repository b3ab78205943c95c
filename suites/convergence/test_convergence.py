"""Load balancers follow the pods; the checks say what is required, the timelines of all moves whether it holds."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.checks.catalog import checks_of
from esipp.checks.endpoint_change import EndpointChangeCheck
from esipp.checks.observation import Verdict
from fixtures.session import enforce


@pytest.mark.parametrize("check", checks_of("convergence"), ids=attrgetter("id"))
def test_convergence(check: EndpointChangeCheck, followed: Callable[[EndpointChangeCheck], Verdict]) -> None:
    enforce(followed(check))
