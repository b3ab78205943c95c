"""`esipp clean` finds what killed runs left on nodes, in whatever state, and spares what is another's."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from esipp import sweeping
from esipp.cluster import Cluster
from esipp.disruption import marks, services, shell
from esipp.disruption.containers import nodes_of
from esipp.disruption.features import disruption_features
from esipp.disruption.marks import Mark
from esipp.disruption.model import Disruption
from esipp.errors import PreflightError
from esipp.namespaces import owner
from tests.unit.fake_nodes import EXCLUDED, FakeNode, FakeNodes

DEAD = "elsewhere/1"

Json = dict[str, Any]


@pytest.fixture
def fake() -> FakeNodes:
    fake = FakeNodes()
    fake.leases = {f"kube-system/{name}": 1 for name in services.LEADERS} | {"kube-node-lease/a": 1}
    return fake


@pytest.fixture
def cluster(fake: FakeNodes, tmp_path: Path) -> Iterator[Cluster]:
    with fake.served(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """The container of node a, the only one that is found; no docker besides."""
    node = FakeNode(tmp_path / "a")
    monkeypatch.setattr(sweeping, "node_containers", lambda server: {"a": node.way})
    monkeypatch.setattr(sweeping.outside, "left_behind", lambda server: {})
    monkeypatch.setattr(sweeping, "is_alive", lambda by: by == owner())  # a test's worker is not called esipp
    return node


def cleaned(cluster: Cluster, *, force: bool = False) -> list[str]:
    said: list[str] = []
    sweeping.clean(cluster, None, force, said.append)
    return said


def test_nothing_was_left(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    before = fake.plain()
    assert cleaned(cluster) == ["nothing was left"]
    assert fake.plain() == before


def test_all_marks_are_found_and_undone(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    before = fake.plain()
    marks.change(cluster, "a", Mark.CORDONED, DEAD)
    marks.change(cluster, "a", Mark.EXCLUDED, DEAD)
    shell.stop(node.way, Disruption.KUBELET, DEAD, 60)
    assert cleaned(cluster) == [
        "started the kubelet of node a",
        "uncordoned node a",
        "took the label off that excluded node a",
    ]
    assert fake.plain() == before
    assert (node.says("kubelet"), node.marked) == ("active", {})
    assert cleaned(cluster) == ["nothing was left"]


def test_what_others_did_stays(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.nodes["b"]["spec"]["unschedulable"] = True
    fake.nodes["c"]["metadata"]["labels"] |= EXCLUDED
    (node.state / "kubelet").write_text("inactive\n")
    before = fake.plain()
    assert cleaned(cluster) == ["nothing was left"]
    assert (fake.plain(), node.says("kubelet")) == (before, "inactive")


def test_a_run_that_lives_is_spared_unless_forced(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    marks.change(cluster, "a", Mark.CORDONED, owner())
    shell.stop(node.way, Disruption.KUBELET, owner(), 60)
    assert cleaned(cluster) == ["nothing was left"]
    assert (fake.marked(), node.says("kubelet")) == ({"a": {Mark.CORDONED.value: owner()}}, "inactive")
    assert cleaned(cluster, force=True) == ["started the kubelet of node a", "uncordoned node a"]


def test_an_api_server_that_is_stopped_is_made_to_go_on_first(
    cluster: Cluster, node: FakeNode, fake: FakeNodes
) -> None:
    marks.change(cluster, "a", Mark.CORDONED, DEAD)
    shell.stop(node.way, Disruption.API_SERVER, DEAD, 60)
    fake.silent = lambda: node.says("api") == "T"
    assert cleaned(cluster) == ["made the API server go on, on node a", "uncordoned node a"]
    assert node.marked == {}


def test_both_that_were_stopped_on_one_node_are_waited_for(
    cluster: Cluster, node: FakeNode, fake: FakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[str] = []
    monkeypatch.setattr(sweeping, "wait_for_control_plane", lambda cluster: waited.append("control plane"))
    monkeypatch.setattr(sweeping, "wait_for_node", lambda cluster, name: waited.append(name))
    for what in (Disruption.API_SERVER, Disruption.KUBELET):
        shell.stop(node.way, what, DEAD, 60)
    cleaned(cluster)
    assert waited == ["control plane", "a"]


def test_what_arrives_late_is_undone_too(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    """What a process that was killed had sent off in its last moment."""

    def late(method: str, path: str, body: Json) -> None:
        if path == "/api/v1/namespaces" and not node.marked:
            shell.stop(node.way, Disruption.KUBELET, DEAD, 60)

    fake.before = late
    assert cleaned(cluster) == ["started the kubelet of node a"]


def test_a_cluster_that_does_not_answer_is_told(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.silent = lambda: True
    with pytest.raises(PreflightError, match="does not answer"):
        cleaned(cluster)


def test_a_cluster_that_refuses_is_told(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.before = lambda method, path, body: (403, {"message": "no"}) if path == "/api/v1/nodes" else None
    with pytest.raises(PreflightError, match="The nodes cannot be looked after"):
        cleaned(cluster)


# --------------------------------------------------------------------------------------------- whose containers
def container(name: str, cluster: str, role: str, *, port: str = "", host: str = "127.0.0.1", ip: str = "") -> Json:
    labels = {"io.x-k8s.kind.cluster": cluster, "io.x-k8s.kind.role": role}
    ports = {"6443/tcp": [{"HostIp": host, "HostPort": port}]} if port else {}
    networks = {"kind": {"IPAddress": ip, "GlobalIPv6Address": ""}}
    return {
        "Name": f"/{name}",
        "Config": {"Labels": labels},
        "State": {"Running": True},
        "NetworkSettings": {"Ports": ports, "Networks": networks},
    }


CONTAINERS = [
    container("one-control-plane", "one", "control-plane", port="4001", ip="172.18.0.2"),
    container("one-worker", "one", "worker", ip="172.18.0.3"),
    container("two-external-load-balancer", "two", "external-load-balancer", port="4002", host="0.0.0.0"),
    container("two-control-plane", "two", "control-plane", port="4003"),
    container("two-control-plane2", "two", "control-plane", port="4004"),
    container("three-control-plane", "three", "control-plane", port="4005", host="::1"),
]

ONE, TWO = ["one-control-plane", "one-worker"], ["two-control-plane", "two-control-plane2"]


@pytest.mark.parametrize(
    ("server", "names"),
    [
        ("https://127.0.0.1:4001", ONE),
        ("https://localhost:4001", ONE),
        ("https://one-control-plane:6443", ONE),
        ("https://172.18.0.2:6443", ONE),
        ("https://192.0.2.7:4002", TWO),
        ("https://[::1]:4005", ["three-control-plane"]),
        ("https://192.0.2.7:4001", []),
        ("https://127.0.0.1:6443", []),
        ("https://example.com", []),
    ],
)
def test_only_the_containers_of_this_api_servers_cluster(server: str, names: list[str]) -> None:
    assert nodes_of(server, CONTAINERS) == names


def test_features_say_what_can_be_disturbed(cluster: Cluster, fake: FakeNodes, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "cat").write_text("#!/bin/sh\necho machine-a\n")
    (programs / "cat").chmod(0o755)
    way = ["env", f"PATH={programs}:{os.environ['PATH']}"]
    fake.add_pod("kube-proxy-a", "a", namespace="kube-system", daemon_set="d", k8s_app="kube-proxy")
    fake.add_pod("kube-apiserver-a", "a", namespace="kube-system", component="kube-apiserver")

    def present(machines: dict[str, str]) -> set[str]:
        found = disruption_features(cluster, machines, lambda node, command: way)
        return {name for name, feature in found.items() if feature.present}

    assert present({"a": "machine-a"}) == {"kube-proxy.pods", "nodes.shell", "control-plane.reachable"}
    # a container of that name which is another cluster's node
    assert present({"a": "machine-a", "b": "machine-b"}) == {"kube-proxy.pods", "control-plane.reachable"}
    assert present({"a": "machine-b"}) == {"kube-proxy.pods"}
    assert disruption_features(cluster, {"a": "x"}, lambda node, command: None)["nodes.shell"].present is False
