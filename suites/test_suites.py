"""All suites: one test for each suite, with its checks as parameters; the scenario's judge decides the verdict."""

from operator import attrgetter

import pytest

from esipp.checks.catalog import checks_of, suite_names
from esipp.checks.check import Check, Verdict
from fixtures.session import Context, enforce, prepared_by, reporting


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each check; of those that ``esipp run`` leaves out none is made."""
    checks, prepared = checks_of(metafunc.definition.name.removeprefix("test_")), prepared_by(metafunc.config)
    chosen = checks if prepared is None else [check for check in checks if check.id in prepared.chosen]
    metafunc.parametrize("check", chosen, ids=attrgetter("id"))


@pytest.fixture
def verdict(check: Check, context: Context) -> Verdict:
    """The verdict on the check of a test."""
    with reporting(context.run):
        return context.verdict(check)


def judge(check: Check, verdict: Verdict) -> None:  # noqa: ARG001 - the verdict is on it
    """Pass or fail as the verdict says."""
    enforce(verdict)


globals().update({f"test_{suite}": judge for suite in suite_names()})
