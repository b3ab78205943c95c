"""The report's way out of a cluster: whose turn it is, in a sentence; and it arrives whole, or is not said to."""

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from esipp.app.cli import main
from esipp.app.in_cluster import fetch
from esipp.app.in_cluster.archive import Archive, pack, read, unpack
from esipp.app.in_cluster.job import ARCHIVE, DESCRIPTION
from esipp.app.in_cluster.keep import FETCHED
from esipp.app.in_cluster.state import JobState, state_of
from esipp.base.errors import EsippError, ExitCode, HarnessError, PreflightError
from esipp.base.json import Json
from esipp.cluster.client import ApiError, UnreachableError
from tests.unit.report_world import failing, made, some_checks

JOB: Json = {"metadata": {"name": "esipp"}, "spec": {}, "status": {}}


WAITS = {"waiting": {"reason": "PodInitializing"}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}
RAN = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def pod(
    state: Json | None = None,
    keeper: Json = WAITS,
    *,
    ready: bool = False,
    name: str = "esipp-x",
    at: str = "1",
    **status: Any,
) -> Json:
    """The Job's pod, by the states of the container that runs and of the one that keeps the report."""
    first = [] if state is None else [{"name": "esipp", "state": state, "ready": False}]
    second = [] if state is None else [{"name": "report", "state": keeper, "ready": ready}]
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:0{at}Z"},
        "status": {"phase": "Running", "initContainerStatuses": first, "containerStatuses": second, **status},
    }


READY = pod(RAN, RUNNING, ready=True)
FETCHED_FROM = pod(RAN, {"terminated": {"exitCode": 1, "reason": "Error"}})
UNSCHEDULABLE = [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: too little memory."}]
FAILED = {"conditions": [{"type": "Failed", "status": "True", "message": "Job was active longer than it may."}]}


@pytest.mark.parametrize(
    ("job", "pods", "stage", "said"),
    [
        (None, [], JobState.OVER, "There is no Job 'esipp'."),
        (JOB, [], JobState.WAITING, "has no pod yet"),
        ({**JOB, "spec": {"suspend": True}}, [], JobState.WAITING, "is suspended"),
        ({**JOB, "status": FAILED}, [], JobState.OVER, "has failed and no longer has a pod: Job was active longer"),
        (JOB, [pod(RUNNING)], JobState.WAITING, "still running, since 2026-01-01T00:00:05Z."),
        (JOB, [READY], JobState.READY, "is ready"),
        (
            JOB,
            [pod(RAN, RUNNING)],
            JobState.WAITING,
            "The run of the Job 'esipp' has ended, but its report is not ready yet",
        ),
        (JOB, [pod(RAN, WAITS)], JobState.WAITING, "has ended, but its report is not ready yet: PodInitializing."),
        (JOB, [FETCHED_FROM], JobState.OVER, "ended with exit code 1, and its report is gone."),
        (
            JOB,
            [pod({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, phase="Failed")],
            JobState.OVER,
            "ended with exit code 137 (OOMKilled), and there is no report.",
        ),
        (
            JOB,
            [pod({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image."}}, phase="Pending")],
            JobState.WAITING,
            "The pod esipp-x has not started: ImagePullBackOff: Back-off pulling image.",
        ),
        (
            JOB,
            [pod(phase="Pending", conditions=UNSCHEDULABLE)],
            JobState.WAITING,
            "has not started: 0/3 nodes are available: too little memory.",
        ),
        (
            JOB,
            [pod(phase="Failed", reason="Evicted", message="The node was low on memory.")],
            JobState.OVER,
            "ended without a report: The node was low on memory.",
        ),
    ],
)
def test_how_a_job_stands_is_one_sentence(job: Json | None, pods: list[Json], stage: JobState, said: str) -> None:
    found = state_of("esipp", job, pods)
    assert found.state is stage
    assert said in found.sentence
    assert found.sentence.endswith(".")
    assert not found.sentence.endswith("..")


def test_of_several_pods_the_newest_counts() -> None:
    assert state_of("esipp", JOB, [pod(RAN, RUNNING, name="new", at="2", ready=True), FETCHED_FROM]).pod == "new"


def test_a_pod_that_goes_away_is_not_fetched_from() -> None:
    leaving = pod(RAN, RUNNING, ready=True)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    assert state_of("esipp", JOB, [leaving]).state is JobState.OVER


class There:
    """A cluster with one Job, whose pod is in another state each time one looks."""

    kubectl = ("kubectl", "--context", "kind-there")

    def __init__(self, *states: Json | Exception | None) -> None:
        self.states, self.watched = list(states), 0.0

    def request(self, _method: str, path: str) -> Json:
        assert path == "/apis/batch/v1/namespaces/ours/jobs/esipp"
        now = self.states[0]
        if isinstance(now, Exception):
            raise now
        if now is None:
            raise ApiError(404, "NotFound", "jobs.batch not found", f"GET {path}")
        return JOB

    def list(self, path: str, **query: str) -> list[Json]:
        assert (path, query) == ("/api/v1/namespaces/ours/pods", {"labelSelector": "job-name=esipp"})
        now = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        assert isinstance(now, dict)
        return [now]

    def watch(self, _path: str, *, budget: float, **_: str) -> Iterator[tuple[str, Json]]:
        self.watched = budget
        yield from (("MODIFIED", {}) for _ in range(len(self.states)))


def asked(there: There, seconds: float = 0) -> str:
    cluster: Any = there
    return fetch.ready_pod(cluster, "ours", "esipp", seconds)


def test_a_report_that_waits_is_not_waited_for() -> None:
    there = There(READY)
    assert asked(there, 60) == "esipp-x"
    assert there.watched == 0


def test_one_that_is_not_there_yet_is_waited_for_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    there = There(pod(phase="Pending"), pod(RUNNING), READY)
    assert asked(there, 60) == "esipp-x"
    assert there.watched == 60
    assert "Waiting up to 60 s" in capsys.readouterr().err


REFUSED = pod({"terminated": {"exitCode": int(ExitCode.USAGE), "reason": "Error"}})


@pytest.mark.parametrize(
    ("states", "seconds", "kind", "sentence", "hint"),
    [
        ([None], 0, PreflightError, "There is no Job", "--namespace and --job"),
        ([pod(RUNNING)], 0, PreflightError, "still running", "--wait SECONDS"),
        ([pod(RUNNING)], 5, PreflightError, "still running", "logs -f job/esipp -c esipp"),
        ([pod(RUNNING), FETCHED_FROM], 5, HarnessError, "its report is gone", "logs esipp-x"),
        ([REFUSED], 0, PreflightError, "exit code 4", "logs esipp-x -c esipp"),
        ([ApiError(403, "Forbidden", "may not", "GET")], 0, PreflightError, "refused: may not", "get Jobs"),
        ([UnreachableError("refused")], 0, HarnessError, "stopped answering", "up"),
    ],
)
def test_what_cannot_be_fetched_is_reported_in_a_sentence_with_a_hint(
    states: list[Any], seconds: float, kind: type[EsippError], sentence: str, hint: str
) -> None:
    with pytest.raises(EsippError, match=sentence) as refused:
        asked(There(*states), seconds)
    assert type(refused.value) is kind
    assert hint in refused.value.hint


# ---------------------------------------------------------------------------------------------------------- transfer
@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder in a pod whose commands are run here; its report waits."""
    monkeypatch.chdir(tmp_path)
    inside = tmp_path / "pod"
    folder = inside / "runs" / "20260101T000000Z-in"
    (folder / "rows" / "one").mkdir(parents=True)
    (folder / "ledger.jsonl").write_text("{}\n")
    (folder / "rows" / "one" / "slice.pcap").write_bytes(bytes(range(256)) * 40)
    pack(folder, inside / ARCHIVE, 1).write(inside / DESCRIPTION)
    monkeypatch.setattr(fetch, "FOLDER", inside)
    return folder


def shim(tmp_path: Path, script: str) -> list[str]:
    """What stands before a command in place of kubectl exec."""
    path = tmp_path / "shim"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return [str(path)]


def files(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_the_folder_arrives_as_it_was_and_the_pod_is_let_go(run: Path, tmp_path: Path) -> None:
    folder = fetch.fetch(["env"], None)
    assert folder == Path("runs") / run.name
    assert files(folder) == files(run)
    assert (Path("runs") / "latest").resolve() == folder.resolve()
    assert (tmp_path / "pod" / FETCHED).exists()
    assert sorted(each.name for each in Path("runs").iterdir()) == [run.name, "latest"], "nothing half is left"


def test_a_connection_that_breaks_is_taken_up_where_it_broke(run: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    enter = shim(tmp_path, f'echo "$@" >>{calls}; if [ "$1" = tail ]; then "$@" | head -c 300; else "$@"; fi')
    assert files(fetch.fetch(enter, tmp_path / "mine")) == files(run)
    asked = [line.split()[2] for line in calls.read_text().splitlines() if line.startswith("tail")]
    assert asked[:3] == ["+1", "+301", "+601"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('[ "$1" = tail ] && { echo "error: lost" >&2; exit 1; }; exec "$@"', "after 0 of .* bytes. error: lost."),
        ('[ "$1" = tail ] || exec "$@"; "$@" | tr "\\0" "\\1"', "is not what the pod announced"),
        ('[ "$1" = tail ] || exec "$@"; "$@"; echo more', "is not what the pod announced"),
        ('echo "error: forbidden" >&2; exit 1', "Cannot run a command in the pod: error: forbidden."),
        ("echo hello", "Cannot read"),
    ],
)
def test_what_does_not_arrive_whole_is_not_kept(run: Path, tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(HarnessError, match=said) as refused:
        fetch.fetch(shim(tmp_path, script), None)
    assert refused.value.hint
    assert not (tmp_path / "pod" / FETCHED).exists(), "the pod keeps it"
    assert not list(Path("runs").glob("*"))


def test_a_folder_that_is_there_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(PreflightError, match="already exists"):
        fetch.fetch(["env"], tmp_path / "mine")


def test_without_kubectl_it_is_reported(run: Path, tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="no no-such-kubectl on PATH"):
        fetch.fetch([str(tmp_path / "no-such-kubectl").rpartition("/")[2]], None)


# ------------------------------------------------------------------------------------------------------- the archive
def archive(tmp_path: Path, *entries: tuple[str, Callable[[tarfile.TarInfo], None]]) -> Path:
    path = tmp_path / "bad.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, change in entries:
            entry = tarfile.TarInfo(name)
            change(entry)
            tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    return path


def a_file(entry: tarfile.TarInfo) -> None:
    entry.size = 1


def a_link(entry: tarfile.TarInfo) -> None:
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("run/../../up", a_file),
        ("/etc/cron.d/x", a_file),
        ("other/file", a_file),
        ("run/link", a_link),
    ],
)
def test_nothing_is_written_beside_the_folder(
    name: str, change: Callable[[tarfile.TarInfo], None], tmp_path: Path
) -> None:
    target = tmp_path / "runs" / "run"
    with pytest.raises(HarnessError, match="which no run writes"):
        unpack(archive(tmp_path, ("run/fine", a_file), (name, change)), "run", target)
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_is_no_archive_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "bad.tar.gz"
    path.write_bytes(b"\x1f\x8b cut")
    with pytest.raises(HarnessError, match="Cannot unpack"):
        unpack(path, "run", tmp_path / "run")


@pytest.mark.parametrize("name", ["../up", "/etc", "..", "a/b", ""])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    Archive(name, 0, 1, "0").write(tmp_path / "archive.json")
    with pytest.raises(HarnessError, match="is not the name of a run folder"):
        read((tmp_path / "archive.json").read_text())


def test_fetching_ends_as_the_run_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = some_checks()[:3]
    made(tmp_path / "run", checks, failing())

    class Answers:
        def __init__(self, *_: object, as_user: str, request_timeout: float) -> None:
            assert (as_user, request_timeout) == ("jane", 60.0)

        def version(self) -> str:
            return "v1.36.3"

    result: list[tuple[object, ...]] = []
    monkeypatch.setattr("esipp.cluster.client.Cluster", Answers)
    monkeypatch.setattr(fetch, "bring", lambda _cluster, *words: result.append(words) or tmp_path / "run")
    words = ["--context", "c", "--wait", "9", "--as", "jane", "--request-timeout", "1m"]
    assert main(["fetch", *words]) == ExitCode.NOT_CONFORMANT
    assert result == [("esipp-account", "esipp", 9, None)]
    assert "NONCONFORMANT" in capsys.readouterr().out
