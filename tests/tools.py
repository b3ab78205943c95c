"""The programs that tests run, and what a test does on a machine without one of them.

``ci/test`` installs every program of ``TESTED_WITH`` where it may. Elsewhere a test that needs a missing one is
skipped. With ``ESIPP_NO_SKIP=1``, which ``.ci/run`` sets, such a test fails. What a machine cannot do (no root, no
kernel module) is not a program: tests that need it stay skipped.
"""

from __future__ import annotations

import os
import shutil

import pytest

from ci.hermetic.apt import TESTED_WITH

NO_SKIP = "ESIPP_NO_SKIP"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def needs_tool(*programs: str) -> pytest.MarkDecorator:
    """Mark a test, or a file of tests, that runs these programs."""
    for program in programs:
        _package(program)
    return pytest.mark.needs_tool(*programs)


def require_tool(*programs: str) -> None:
    """End the test if one of these programs is missing: skipped, or failed where no such skip is allowed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return
    packages = ", ".join(sorted({_package(program) for program in missing}))
    needs = f"needs {', '.join(missing)}: ./ci/test installs {packages} as root where apt-get works"
    if os.environ.get(NO_SKIP) == "1":
        pytest.fail(f"{needs}; {NO_SKIP}=1 makes this a failure", pytrace=False)
    pytest.skip(needs)


def _package(program: str) -> str:
    if program not in TESTED_WITH:
        raise LookupError(f"ci/test does not install '{program}': add it to TESTED_WITH in ci/hermetic/apt.py")
    return TESTED_WITH[program]
