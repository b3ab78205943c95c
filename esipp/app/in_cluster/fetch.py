"""Transfer of a Job's report: find the pod, stream the archive, verify it, unpack it, and release the pod."""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

from esipp.app.in_cluster.archive import Archive, digest, read, unpack
from esipp.app.in_cluster.job import ARCHIVE, DESCRIPTION, FOLDER
from esipp.app.in_cluster.keep import FETCHED
from esipp.app.in_cluster.state import KEEPER, RUNNER, JobState, State, state_of
from esipp.base.errors import ExitCode, HarnessError, PreflightError, if_not_writable
from esipp.base.redaction import redact
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.ledger.run import point

TRIES = 5
"""The maximum number of consecutive attempts without data. Connections through API servers break."""

SECONDS = 600.0
"""The maximum duration of one transfer attempt. The next attempt continues where it ended."""


def bring(cluster: Cluster, namespace: str, job: str, seconds: float, out: Path | None) -> Path:
    """Wait for a Job's report, fetch it, release the pod, and return the folder.

    Raises:
        PreflightError: there is no such Job, it is still running, or the report cannot be written.
        HarnessError: the report is gone, or does not arrive.
    """
    pod = ready_pod(cluster, namespace, job, seconds)
    return fetch([*cluster.kubectl, "exec", "-n", namespace, pod, "-c", KEEPER, "--"], out)


def ready_pod(cluster: Cluster, namespace: str, job: str, seconds: float) -> str:
    """Wait for the pod whose report is ready, and return its name.

    Raises:
        PreflightError: there is no such Job, or its report is not ready.
        HarnessError: there will be no report.
    """
    try:
        found = _look(cluster, namespace, job)
        if found.state is JobState.WAITING and seconds > 0:
            print(f"{found.sentence} Waiting up to {seconds:.0f} s.", file=sys.stderr, flush=True)
            selector = f"job-name={job}"
            pods = f"/api/v1/namespaces/{namespace}/pods"
            for _ in cluster.watch(pods, budget=seconds, labelSelector=selector):
                found = _look(cluster, namespace, job)
                if found.state is not JobState.WAITING:
                    break
    except ApiError as refused:
        raise PreflightError(
            f"The API server refused: {refused.message}.",
            "the account must be able to get Jobs, and to get and watch pods, in that namespace.",
        ) from None
    except UnreachableError as silent:
        raise HarnessError(f"The API server stopped answering: {silent}.", "check that it is up.") from None
    if found.state is JobState.READY:
        return found.pod
    start = shlex.join([*cluster.kubectl, "-n", namespace])
    if found.state is JobState.WAITING:
        raise PreflightError(
            found.sentence, f"--wait SECONDS waits for it; '{start} logs -f job/{job} -c {RUNNER}' follows it."
        )
    if not found.pod:
        raise PreflightError(found.sentence, f"see '{start} get jobs'; --namespace and --job name another Job.")
    hint = f"see '{start} logs {found.pod} -c {RUNNER}'; then delete the Job and apply it again."
    refused_by_itself = found.exit_code == ExitCode.USAGE
    raise (PreflightError if refused_by_itself else HarnessError)(found.sentence, hint)


def _look(cluster: Cluster, namespace: str, job: str) -> State:
    try:
        found = cluster.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{job}")
    except ApiError as refused:
        if refused.status != 404:
            raise
        return state_of(job, None, ())
    pods = cluster.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"job-name={job}")
    return state_of(job, found, pods)


def fetch(enter: list[str], out: Path | None) -> Path:
    """Fetch the report, unpack it, release the pod, and return the folder.

    Args:
        enter: prefix of a command that runs in the pod's container.
        out: the target folder; None for one in ``runs`` with the same name as in the pod.

    Raises:
        PreflightError: the folder exists already.
        HarnessError: the report does not arrive completely.
    """
    description = read(_output([*enter, "cat", str(FOLDER / DESCRIPTION)]))
    folder = out or Path("runs") / description.name
    if folder.exists():
        raise PreflightError(f"{folder} already exists.", "name another folder with --out.")
    with if_not_writable(f"Cannot write to {folder.parent}", "name another folder with --out."):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as place:
            archive = Path(place) / ARCHIVE
            _bring(enter, description, archive)
            unpack(archive, description.name, folder)
    if out is None:
        point(folder.parent / "latest", folder.name)
    _output([*enter, "touch", str(FOLDER / FETCHED)])
    return folder


def _bring(enter: list[str], description: Archive, archive: Path) -> None:
    """Stream the archive. After a broken connection, the transfer continues where it ended.

    Raises:
        HarnessError: no more data arrives, or the checksum is wrong.
    """
    archive.touch()
    lost, why = 0, ""
    while (have := archive.stat().st_size) < description.size:
        with archive.open("ab") as file:
            ended = _run([*enter, "tail", "-c", f"+{have + 1}", str(FOLDER / ARCHIVE)], stdout=file)
        why = ended or why
        lost = lost + 1 if archive.stat().st_size == have else 0
        if lost == TRIES:
            raise HarnessError(
                f"The transfer of the report stopped after {have} of {description.size} bytes. {why}".rstrip(),
                "the pod keeps the report; fetch it again.",
            )
    if archive.stat().st_size != description.size or digest(archive) != description.sha256:
        raise HarnessError(
            "The report's size or checksum is not what the pod announced.", "the pod keeps the report; fetch it again."
        )


def _output(command: list[str]) -> str:
    """The output of a short command.

    Raises:
        HarnessError: the command fails.
    """
    with tempfile.TemporaryFile() as file:
        if why := _run(command, stdout=file):
            raise HarnessError(
                f"Cannot run a command in the pod: {why}", "check that the account can create pods/exec there."
            )
        file.seek(0)
        return file.read().decode(errors="replace")


def _run(command: list[str], stdout: IO[bytes]) -> str:
    """Run a command. Return why it failed, in one line, or an empty string."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, timeout=SECONDS, check=False
        )
    except FileNotFoundError:
        raise PreflightError(
            f"There is no {command[0]} on PATH.", "esipp fetches the report with 'kubectl exec'."
        ) from None
    except subprocess.TimeoutExpired:
        return f"It took longer than {SECONDS:.0f} s."
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return redact(lines[-1] if lines else f"exit code {done.returncode}")[:300].rstrip(".") + "."
