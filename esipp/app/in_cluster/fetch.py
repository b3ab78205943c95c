"""Bring the report of a Job out of a cluster: find the pod, stream the archive, check it, unpack it, let the pod go."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

from esipp.app.in_cluster.archive import Parcel, digest, read, unpack
from esipp.app.in_cluster.job import ARCHIVE, FOLDER, PARCEL
from esipp.app.in_cluster.keep import FETCHED
from esipp.app.in_cluster.state import KEEPER, RUNNER, JobStage, State, state_of
from esipp.base.errors import ExitCode, HarnessError, PreflightError
from esipp.base.redaction import redact
from esipp.cluster.client import ApiError, Cluster, UnreachableError, kubeconfig_arguments
from esipp.ledger.run import point

TRIES = 5
"""So often in a row may a transfer bring nothing: connections through API servers break."""

SECONDS = 600.0
"""A transfer may take so long before it is taken up again."""


def bring(cluster: Cluster, namespace: str, job: str, seconds: float, out: Path | None) -> Path:
    """Wait for a Job's report so long, bring it here, let the pod go, and return the folder.

    Raises:
        PreflightError: there is no such Job, it is still running, or there is no place for the report.
        HarnessError: the report is gone, or does not arrive.
    """
    pod = ready_pod(cluster, namespace, job, seconds)
    arguments = kubeconfig_arguments(cluster.context, cluster.kubeconfig)
    return fetch(["kubectl", *arguments, "exec", "-n", namespace, pod, "-c", KEEPER, "--"], out)


def ready_pod(cluster: Cluster, namespace: str, job: str, seconds: float) -> str:
    """The pod whose report is ready; waits for it so long.

    Raises:
        PreflightError: there is no such Job, or it has not got so far.
        HarnessError: there will be no report.
    """
    try:
        found = _look(cluster, namespace, job)
        if found.stage is JobStage.WAITING and seconds > 0:
            print(f"{found.sentence} Waiting for {seconds:.0f} s at most.", file=sys.stderr, flush=True)
            selector = f"job-name={job}"
            pods = f"/api/v1/namespaces/{namespace}/pods"
            for _ in cluster.watch(pods, budget=seconds, labelSelector=selector):
                found = _look(cluster, namespace, job)
                if found.stage is not JobStage.WAITING:
                    break
    except ApiError as refused:
        raise PreflightError(
            f"The API server refused: {refused.message}.", "get jobs, get and watch pods are needed there."
        ) from None
    except UnreachableError as silent:
        raise HarnessError(f"The API server stopped answering: {silent}.", "is it up?") from None
    if found.stage is JobStage.READY:
        return found.pod
    start = f"kubectl --context {cluster.context} -n {namespace}"
    if found.stage is JobStage.WAITING:
        raise PreflightError(
            found.sentence, f"--wait SECONDS waits for it; {start} logs -f job/{job} -c {RUNNER} follows it."
        )
    if not found.pod:
        raise PreflightError(found.sentence, f"{start} get jobs; --namespace and --job name another.")
    hint = f"{start} logs {found.pod} -c {RUNNER} has its last words; delete the Job and apply it again."
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
    """Bring the report here, unpack it, let the pod go, and return the folder.

    Args:
        enter: what stands before a command that is run in the pod's container.
        out: the folder to be; None for one in ``runs`` that is called as it was in the pod.

    Raises:
        PreflightError: the folder is there already.
        HarnessError: the report does not arrive whole.
    """
    parcel = read(_output([*enter, "cat", str(FOLDER / PARCEL)]))
    folder = out or Path("runs") / parcel.name
    if folder.exists():
        raise PreflightError(f"{folder} is there already.", "name another folder with --out.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as place:
            archive = Path(place) / ARCHIVE
            _bring(enter, parcel, archive)
            unpack(archive, parcel.name, folder)
    except OSError as broken:
        raise PreflightError(
            f"Nothing can be written to {folder.parent}: {broken.strerror}.", "name another folder with --out."
        ) from None
    if out is None:
        point(folder.parent / "latest", folder.name)
    _output([*enter, "touch", str(FOLDER / FETCHED)])
    return folder


def _bring(enter: list[str], parcel: Parcel, archive: Path) -> None:
    """Stream the archive; what a broken connection has brought is kept, and the rest asked for.

    Raises:
        HarnessError: nothing comes any more, or what came is something else.
    """
    archive.touch()
    lost, why = 0, ""
    while (have := archive.stat().st_size) < parcel.size:
        with archive.open("ab") as file:
            ended = _run([*enter, "tail", "-c", f"+{have + 1}", str(FOLDER / ARCHIVE)], stdout=file)
        why = ended or why
        lost = lost + 1 if archive.stat().st_size == have else 0
        if lost == TRIES:
            raise HarnessError(
                f"The report does not arrive: {have} of {parcel.size} bytes did. {why}".rstrip(),
                "the pod keeps it; fetch it again.",
            )
    if archive.stat().st_size != parcel.size or digest(archive) != parcel.sha256:
        raise HarnessError("The report arrived, but is another one.", "the pod keeps it; fetch it again.")


def _output(words: list[str]) -> str:
    """What a short command prints.

    Raises:
        HarnessError: it fails.
    """
    with tempfile.TemporaryFile() as file:
        if why := _run(words, stdout=file):
            raise HarnessError(f"The pod cannot be entered: {why}", "may the account create pods/exec there?")
        file.seek(0)
        return file.read().decode(errors="replace")


def _run(words: list[str], stdout: IO[bytes]) -> str:
    """Run a command; returns why it failed, in a line, or nothing."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, timeout=SECONDS, check=False
        )
    except FileNotFoundError:
        raise PreflightError(f"There is no {words[0]} on PATH.", "the report is fetched by 'kubectl exec'.") from None
    except subprocess.TimeoutExpired:
        return f"It took longer than {SECONDS:.0f} s."
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return redact(lines[-1] if lines else f"exit code {done.returncode}")[:300].rstrip(".") + "."
