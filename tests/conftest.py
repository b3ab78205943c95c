"""The hooks of our own tests: a test that needs a program asks for it before anything of the test begins."""

import gc
import os

import pytest

from ci.hermetic.apt import PROGRAM_FOLDERS
from tests.tools import require_tool


def pytest_configure(config: pytest.Config) -> None:
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{PROGRAM_FOLDERS}"
    config.addinivalue_line("markers", "needs_tool(*programs): programs that a test runs (tests/tools.py)")


def pytest_collection_finish() -> None:
    """What is there now stays: it is not looked through again and again for what is no longer used."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """After pytest's own skips, before fixtures."""
    for mark in item.iter_markers("needs_tool"):
        require_tool(*mark.args)
