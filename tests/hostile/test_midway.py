"""Failures of the environment during a run. None may count as a failure of the product."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from esipp.checks.model import Role
from esipp.cluster.client import Cluster
from esipp.judging.topology import cast_roles, read_node
from tests.hostile.accounts import account, kubeconfig_with
from tests.hostile.running import Place, control_plane, docker
from tests.hostile.tried import Tried

pytestmark = pytest.mark.timeout(2400)

AWAY = 20.0
"""Seconds that the API server is unavailable."""


@contextmanager
def api_server_stopped(node: str) -> Iterator[None]:
    """Its process is stopped: connections are accepted, but get no answer."""
    try:
        docker("exec", node, "pkill", "-STOP", "-x", "kube-apiserver")
        yield
    finally:
        docker("exec", node, "pkill", "-CONT", "-x", "kube-apiserver")


def stop_for(node: str, seconds: float) -> None:
    """Stop the API server for a while."""
    with api_server_stopped(node):
        threading.Event().wait(seconds)


@pytest.mark.parametrize("phase", ["set-up", "observe", "teardown"])
def test_api_server_is_silent_for_20_s(place: Place, cluster: Cluster, tried: Tried, phase: str) -> None:
    node = control_plane(cluster)
    run = place.start(samples=200)
    run.reach(phase)
    stop_for(node, AWAY)
    ended = run.end()
    tried.keep(
        ended,
        what=f"the API server is silent for 20 s (phase {phase})",
        how="the process kube-apiserver was stopped (SIGSTOP) and made to go on",
        left=place.left(ended),
    )
    assert not ended.product_is_blamed
    assert ended.code in (0, 3), ended.text
    assert place.left(ended) == []


@pytest.mark.parametrize("phase", ["observe", "teardown"])
def test_api_server_is_restarted(place: Place, cluster: Cluster, tried: Tried, phase: str) -> None:
    run = place.start(samples=200)
    run.reach(phase)
    docker("exec", control_plane(cluster), "pkill", "-KILL", "-x", "kube-apiserver")
    ended = run.end()
    tried.keep(
        ended,
        what=f"the API server dies and is started again by its kubelet (phase {phase})",
        how="the process kube-apiserver was killed (SIGKILL)",
        left=place.left(ended),
    )
    assert not ended.product_is_blamed
    assert ended.code in (0, 3), ended.text
    assert place.left(ended) == []


def test_prober_is_killed(place: Place, tried: Tried) -> None:
    run = place.start(samples=200)
    run.reach("observe")
    client = "outside-1"
    docker("exec", f"{run.namespace}-{client}", "pkill", "-KILL", "-f", "prober.py")
    ended = run.end()
    tried.keep(ended, what="a prober is killed", how="SIGKILL inside its container", left=place.left(ended))
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert f"The prober of {client} is gone" in ended.text


def test_outside_client_is_removed(place: Place, tried: Tried) -> None:
    run = place.start(samples=200)
    run.reach("observe")
    client = "outside-2"
    docker("rm", "--force", f"{run.namespace}-{client}")
    ended = run.end()
    tried.keep(
        ended, what="the container of an outside client is removed", how="docker rm --force", left=place.left(ended)
    )
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert f"The prober of {client} is gone" in ended.text


def test_echo_pod_is_evicted(place: Place, cluster: Cluster, tried: Tried) -> None:
    run = place.start(samples=200)
    run.reach("observe")
    pod = "backend"
    path = f"/api/v1/namespaces/{run.namespace}/pods/{pod}/eviction"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    cluster.create(path, eviction)
    ended = run.end()
    tried.keep(
        ended, what="the echo pod is evicted", how="the eviction API, as kubectl drain does",
        left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert f"our pod {pod}" in ended.text.lower()


def test_echo_pod_crashes(place: Place, cluster: Cluster, tried: Tried) -> None:
    run = place.start(samples=200)
    run.reach("observe")
    pod = "backend"
    kill_in_pod(cluster, run.namespace, pod)
    ended = run.end()
    tried.keep(ended, what="the echo server crashes", how="SIGKILL to its process, on its node", left=place.left(ended))
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert f"our pod {pod}" in ended.text.lower()


def kill_in_pod(cluster: Cluster, namespace: str, name: str) -> None:
    """Kill the echo server of a pod from its node, as the kernel does when memory runs out."""
    pod = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    tasks = docker("exec", pod["spec"]["nodeName"], "ctr", "--namespace", "k8s.io", "tasks", "ls").splitlines()
    (pid,) = [line.split()[1] for line in tasks if line.startswith(container)]
    docker("exec", pod["spec"]["nodeName"], "kill", "-KILL", pid)


@pytest.mark.parametrize("role", ["endpoint", "other"])
def test_node_is_lost(place: Place, cluster: Cluster, tried: Tried, role: str) -> None:
    run = place.start("--seed", "0", samples=200)
    run.reach("observe")
    roles = cast_roles(read_node(item) for item in cluster.list("/api/v1/nodes"))
    node = roles[Role(f"{role}-node")]
    docker("pause", node)
    try:
        ended = run.end()
        left = place.left(ended)
    finally:
        docker("unpause", node)
    tried.keep(
        ended, what=f"the {role} node is lost and does not come back", how="docker pause of its container", left=left
    )
    assert (ended.code, ended.product_is_blamed, left) == (3, [], [])


def test_token_expires(place: Place, cluster: Cluster, tried: Tried, tmp_path: Path) -> None:
    with account(cluster, "esipp-hostile-expires") as token:
        file = kubeconfig_with(cluster, tmp_path / "config", token(3600))
        run = place.start("--kubeconfig", str(file), samples=200)
        run.reach("observe")
        cluster.delete("/api/v1/namespaces/default/serviceaccounts/esipp-hostile-expires")
        ended = run.end()
    left = place.left(ended)
    tried.keep(
        ended, what="the account's token is revoked, or expires", how="its ServiceAccount was deleted", left=left,
        then="the run says what it could not remove; `esipp clean` removes it once somebody has logged in again",
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed) == (3, [])
    assert "log in again" in ended.text.lower()
    if left:
        assert "Cannot remove the namespace" in ended.text
    place.clean()
    assert place.left(ended) == []


def test_token_is_renewed(place: Place, cluster: Cluster, tried: Tried, tmp_path: Path) -> None:
    with account(cluster, "esipp-hostile-renews") as token:
        file = kubeconfig_with(cluster, tmp_path / "config", token(45))
        run = place.start("--kubeconfig", str(file), samples=200)
        run.reach("set-up")
        kubeconfig_with(cluster, file, token(3600))
        ended = run.end()
    tried.keep(
        ended, what="a token expires, and the kubeconfig, or its plugin, has a new one by then",
        how="a token of 45 s, signed with the cluster's key; another one was written into the kubeconfig",
        left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (0, [], [])


def test_disk_becomes_full(place: Place, tried: Tried, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=120m", "none", str(small)], check=True)
    try:
        run = place.start(samples=200, out=small / "run")
        run.reach("observe")
        with (small / "ballast").open("wb") as ballast:
            try:
                while True:
                    ballast.write(b"x" * 65536)
                    ballast.flush()
            except OSError:
                pass
        ended = run.end()
        tried.keep(
            ended, what="the disk of the run's folder becomes full", how="a small tmpfs, filled by another process",
            left=place.left(ended),
        )  # fmt: skip
        assert (ended.code, place.left(ended)) == (3, [])
        assert "Cannot write to the ledger" in ended.message
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


STEP = """
import os, time
real, file = time.time, os.environ["ESIPP_TEST_STEP"]
def stepped():
    try:
        with open(file) as offset:
            return real() + float(offset.read() or 0)
    except OSError:
        return real()
time.time = stepped
"""


def test_clock_is_stepped(place: Place, tried: Tried, tmp_path: Path) -> None:
    """The wall clock of the process only: the machine's own is everybody's."""
    (tmp_path / "sitecustomize.py").write_text(STEP)
    step = tmp_path / "step"
    run = place.start(
        samples=200, environment={"PYTHONPATH": str(tmp_path), "ESIPP_TEST_STEP": str(step)}
    )  # fmt: skip
    run.reach("observe")
    step.write_text("3600")
    ended = run.end()
    tried.keep(
        ended, what="the clock is stepped by an hour",
        how="time.time() of the run's own process, by a sitecustomize", left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (0, [], [])


def test_pod_that_moves_is_evicted(place: Place, cluster: Cluster, tried: Tried) -> None:
    """The convergence suite moves pods itself; what others do to them is another thing."""
    run = place.start("--moves", "10", checks=["convergence.reference-ecmp"], suites=["convergence"])
    run.reach("endpoint changes")
    pods = f"/api/v1/namespaces/{run.namespace}/pods"
    name = next(pod["metadata"]["name"] for pod in cluster.list(pods, labelSelector="esipp.dev/moves=reference-ecmp"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    cluster.create(f"{pods}/{name}/eviction", eviction)
    ended = run.end()
    tried.keep(
        ended, what="a pod that a suite moves is evicted", how="the eviction API, while convergence moves pods",
        left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert f"our pod {name}" in ended.message.lower()
