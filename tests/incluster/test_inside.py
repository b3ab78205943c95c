"""The suite inside of a cluster: a Job's report is fetched, coming too early or late gives a reason, nothing stays."""

from pathlib import Path

import pytest

from esipp.app.in_cluster.command import JOB, NAMESPACE
from esipp.app.in_cluster.state import KEEPER, RUNNER
from esipp.base.errors import ExitCode
from esipp.checks.check import Status
from esipp.ledger.reading import read_run
from esipp.preflight.outside_clients import NO_CLIENT_OUTSIDE
from tests.incluster.inside import PLUGIN, Inside

FEW = ("--suite", "source_ip", "--suite", "health_checks", "--samples", "20", "--exclude", "clusterip.itp-local=why")
ONE = ("--samples", "20", "clusterip.tcp.ipv4")
RUN_SECONDS = 1200


@pytest.mark.timeout(2 * RUN_SECONDS)
def test_a_job_asks_its_cluster_and_its_report_is_fetched(inside: Inside, tmp_path: Path) -> None:
    inside.start_job(*FEW)
    early = inside.fetch(tmp_path / "early")
    assert early.returncode == ExitCode.USAGE
    assert any(word in early.stderr for word in ("still running", "has not started", "has no pod yet")), early.stderr

    done = inside.fetch(tmp_path / "run", wait=RUN_SECONDS)
    assert done.returncode == ExitCode.CONFORMANT, done.stdout[-3000:] + done.stderr
    assert "PARTIAL" in done.stdout
    run = read_run(tmp_path / "run")
    assert run.whole
    assert run.command.startswith("esipp run --in-cluster")
    passed = [each for each in run.verdicts.values() if each.status is Status.PASS]
    unsupported = [each for each in run.verdicts.values() if each.status is Status.UNSUPPORTED]
    assert len(passed) > 100
    assert any(NO_CLIENT_OUTSIDE in each.reason for each in unsupported)
    assert any(each.reason == "excluded by --exclude: why" for each in unsupported)
    assert all("outside" not in each.check_id or each.status is Status.UNSUPPORTED for each in run.verdicts.values())
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000

    inside.wait(f"job/{JOB}", "condition=Complete")  # who was fetched from goes, with the run's exit code
    late = inside.fetch(tmp_path / "late")
    assert late.returncode == ExitCode.HARNESS
    assert "has ended with exit code 0, and its report is gone" in late.stderr
    assert inside.namespaces() == []


@pytest.mark.timeout(2 * RUN_SECONDS)
def test_what_keeps_the_report_has_no_token(inside: Inside) -> None:
    inside.start_job(*ONE)
    inside.wait(f"job/{JOB}", "jsonpath={.status.active}=1")
    inside.wait(f"pod/{inside.pod()}", "condition=Ready", RUN_SECONDS)
    enter = ("exec", inside.pod(), "--namespace", NAMESPACE, "--container", KEEPER, "--")
    assert inside.kubectl(*enter, "sh", "-c", "ls /var/run/secrets 2>/dev/null; true") == ""


def test_a_job_that_is_not_there_is_reported(inside: Inside, tmp_path: Path) -> None:
    done = inside.fetch(tmp_path / "run", "--job", "nobody")
    assert done.returncode == ExitCode.USAGE
    assert "There is no Job 'nobody'." in done.stderr


def test_a_run_that_is_refused_ends_its_job(inside: Inside, tmp_path: Path) -> None:
    inside.start_job("--samples", "0")
    done = inside.fetch(tmp_path / "run", wait=120)
    assert done.returncode == ExitCode.USAGE
    assert "has ended with exit code 4" in done.stderr
    assert "--samples 0 is out of range" in inside.kubectl(
        "logs", f"job/{JOB}", "--container", RUNNER, "--namespace", NAMESPACE
    )


def test_a_job_that_is_deleted_leaves_nothing(inside: Inside) -> None:
    inside.start_job(*FEW)
    inside.wait(f"job/{JOB}", "jsonpath={.status.active}=1")  # there is a pod
    started = "jsonpath={.status.initContainerStatuses[0].started}=true"
    inside.wait(f"pod/{inside.pod()}", started)
    assert inside.says("settle:"), "the run has begun"
    assert len(inside.namespaces()) == 1
    inside.kubectl("delete", "job", JOB, "--namespace", NAMESPACE, "--cascade=foreground", "--wait=true")
    assert inside.namespaces() == []


@pytest.mark.timeout(RUN_SECONDS)
def test_sonobuoys_worker_finds_what_it_waits_for(inside: Inside, tmp_path: Path) -> None:
    inside.start_plugin(*ONE)
    ended = "jsonpath={.status.containerStatuses[?(@.name=='esipp')].state.terminated.exitCode}=0"
    inside.wait(f"pod/{PLUGIN}", ended, RUN_SECONDS - 100)
    worker = ("exec", PLUGIN, "--namespace", NAMESPACE, "--container", "worker", "--")
    done = inside.kubectl(*worker, "cat", "/tmp/sonobuoy/results/done")  # noqa: S108 - Sonobuoy's
    listed = inside.kubectl(*worker, "tar", "-tzf", done)
    assert [name for name in listed.split() if name.endswith(".xml")] == [f"{listed.split()[0].strip('/')}/junit.xml"]
