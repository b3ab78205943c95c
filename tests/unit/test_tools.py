"""A test that needs a program: skipped in one sentence without it, failed where such a skip is not allowed."""

import re
from pathlib import Path

import pytest

from tests import tools

pytest_plugins = ["pytester"]

HOUSE = Path(__file__).parents[2]
OWN = """
import pytest
from tests.tools import needs_tool

@pytest.fixture
def stand():
    raise RuntimeError("fixtures wait for the tool")

@needs_tool("haproxy")
def test_runs_haproxy(stand):
    pass

@pytest.mark.skip(reason="the kernel cannot")
@needs_tool("haproxy")
def test_of_the_kernel():
    pass
"""
SENTENCE = "needs haproxy: ./ci/test installs haproxy as root where apt-get works"


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session on a machine without HAProxy."""
    pytester.makepyfile(test_own=OWN)
    monkeypatch.setattr(tools.shutil, "which", lambda _program: None)
    monkeypatch.delenv(tools.NO_SKIP, raising=False)
    return pytester


def run(session: pytest.Pytester) -> pytest.RunResult:
    return session.runpytest_inprocess("-p", "tests.conftest", "-p", "no:cacheprovider", "-rs", "--strict-markers")


def test_without_its_program_a_test_is_skipped_before_its_fixtures(session: pytest.Pytester) -> None:
    done = run(session)
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines([f"*{SENTENCE}"])


def test_where_no_such_skip_is_allowed_it_fails_and_skips_of_the_platform_stay(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tools.NO_SKIP, "1")
    done = run(session)
    done.assert_outcomes(skipped=1, errors=1)
    done.stdout.fnmatch_lines([f"{SENTENCE}; {tools.NO_SKIP}=1 makes this a failure"])
    assert done.ret == 1


def test_what_a_test_needs_is_what_ci_test_installs() -> None:
    with pytest.raises(LookupError, match="add it to TESTED_WITH"):
        tools.needs_tool("no-such-program")


def test_the_gate_allows_no_such_skip() -> None:
    assert f"export {tools.NO_SKIP}=1" in (HOUSE / ".ci" / "run").read_text()


def test_no_test_has_a_way_of_its_own_to_skip_without_a_program() -> None:
    skips = re.compile(r"skip(?:if)?\((?:[^()]|\([^()]*\))*(?:which\(|not installed)")
    files = [path for path in HOUSE.glob("tests/**/*.py") if path != Path(__file__)]
    assert [path.name for path in files if skips.search(path.read_text())] == []
