"""Python processes that start with everything imported: for tests that need a process, and not how it starts.

Importing esipp, pytest and all checks takes longer than what most such tests do. multiprocessing's server imports them
once for each worker of the tests; each process is forked from it.
"""

import atexit
import contextlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from esipp.checks.catalog import HOUSE

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.imported"])


def run_module(
    module: str, *arguments: str, cwd: Path, env: Mapping[str, str], timeout: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """What ``subprocess.run([python, -m, module, *arguments], capture_output=True, text=True)`` does, sooner.

    Raises:
        TimeoutExpired: it took longer than ``timeout`` seconds; it is ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        told = (module, arguments, cwd, dict(env), out, err)
        process = _SERVER.Process(target=_become, args=told, daemon=True)
        with contextlib.chdir(HOUSE):  # the server imports from the folder it starts in
            process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([module, *arguments], timeout)
        return subprocess.CompletedProcess([module, *arguments], process.exitcode, out.read_text(), err.read_text())


def _become(module: str, arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str], out: Path, err: Path) -> None:
    for number, path in ((1, out), (2, err)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # a forked process ends without them
