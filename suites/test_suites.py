"""All suites: one test for each suite, with its checks as parameters; the scenario's judge decides the verdict."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from esipp.checks.catalog import checks_of, suite_names
from esipp.checks.check import Check
from esipp.checks.observation import Verdict
from fixtures.session import enforce


def checked(suite: str) -> Callable[[Check, Verdict], None]:
    @pytest.mark.parametrize("check", checks_of(suite), ids=attrgetter("id"))
    def test(check: Check, verdict: Verdict) -> None:  # noqa: ARG001 - the verdict is on it
        enforce(verdict)

    return test


globals().update({f"test_{suite}": checked(suite) for suite in suite_names()})
