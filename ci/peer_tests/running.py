"""A run of upstream's specs, with its duration and the machine's load."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from ci.peer_tests import report
from ci.peer_tests.build import Upstream
from ci.peer_tests.data import Effort, Theirs
from ci.peer_tests.report import Outcome, SpecResult
from ci.peer_tests.specs import BY_NAME
from ci.places import CONTEXT, cores
from ci.step import SetupError, guarded, output

PROCESSES = cores() + 2
"""Specs side by side. Upstream's hack/ginkgo-e2e.sh has 25: on four cores its processes and their pods then hold up the
API server of a kind cluster for so long that neither side gets answers in time."""

WORKERS = 3
"""Set as in kind's own run of these tests: otherwise only the first process counts the nodes, and others skip specs."""

GRACE = 120.0
"""Seconds upstream's run has for tidying up after its time is over."""

E2E_NAMESPACES = "e2e-framework"
"""The label of all namespaces that upstream's framework makes."""


class Watch:
    """A timer for a run."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def effort(self) -> Effort:
        """The time and load so far."""
        return Effort(round(time.monotonic() - self._began, 1), round(os.getloadavg()[0], 1))


def command(built: Upstream, names: Sequence[str], folder: Path, limit: float, kubeconfig: str) -> list[str]:
    """The command line of a run, as in upstream's script."""
    focus = "|".join(BY_NAME[name].focus for name in names)
    runner = [str(built.ginkgo), f"--nodes={min(PROCESSES, len(names))}", f"--timeout={limit:.0f}s", "--no-color"]
    runner += ["--silence-skips", f"--focus={focus}", str(built.e2e), "--"]
    runner += ["--provider=skeleton", f"--kubeconfig={kubeconfig}", f"--context={CONTEXT}", f"--num-nodes={WORKERS}"]
    return [*runner, f"--report-dir={folder}", "--report-complete-ginkgo"]


def run_theirs(built: Upstream, names: Sequence[str], folder: Path, limit: float) -> Theirs:
    """Run upstream's specs in parallel; unfinished ones time out at the limit."""
    folder.mkdir(parents=True, exist_ok=True)
    argv = command(built, names, folder.absolute(), limit, os.environ.get("KUBECONFIG", ""))
    watch = Watch()
    with (folder / "said.txt").open("wb") as said:
        process = subprocess.Popen(guarded(argv, "TERM"), stdout=said, stderr=said, start_new_session=True)
        try:
            process.wait(timeout=limit + GRACE)
        except subprocess.TimeoutExpired:
            said.write(b"\nended by ci/peer\n")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its processes too, however it ended
            process.wait()
    effort = watch.effort()
    remove_leftovers()
    try:
        return Theirs(effort, report.read(folder, list(names)))
    except OSError:  # it had to be killed: nothing is known of any spec
        return Theirs(effort, [SpecResult(name, Outcome.MISSING) for name in names])


def remove_leftovers() -> None:
    """Remove the namespaces of unfinished specs."""
    removing = ["delete", "namespace", "--selector", E2E_NAMESPACES, "--ignore-not-found", "--timeout=150s"]
    subprocess.run(["kubectl", "--context", CONTEXT, *removing], capture_output=True, timeout=180, check=False)


def cluster_version() -> str:
    """The API server's version."""
    answer = output(["kubectl", "--context", CONTEXT, "version", "--output", "json"])
    if not answer:
        raise SetupError("The cluster does not answer.", "ci/conformance --up creates one.")
    return str(json.loads(answer)["serverVersion"]["gitVersion"])
