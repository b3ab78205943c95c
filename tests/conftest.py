"""The hooks of our own tests: a test that needs a program asks for it before anything of the test begins."""

import gc
import os
from collections.abc import Generator

import pytest

from ci.hermetic.apt import PROGRAM_FOLDERS
from esipp.app.cli import MANY_OBJECTS
from tests.tools import require_tool


def pytest_configure(config: pytest.Config) -> None:
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{PROGRAM_FOLDERS}"
    config.addinivalue_line("markers", "needs_tool(*programs): programs that a test runs (tests/tools.py)")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays: it is not looked through again and again for what is no longer used."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(MANY_OBJECTS)
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """After pytest's own skips, before fixtures."""
    for mark in item.iter_markers("needs_tool"):
        require_tool(*mark.args)
