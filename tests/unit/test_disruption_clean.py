"""`esipp clean` finds what killed runs left on nodes, in whatever state, and spares what is another's."""

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from esipp.base.errors import PreflightError
from esipp.base.json import Json
from esipp.base.labels import MANAGED_BY, OWNER, RUN_LABEL
from esipp.checks import disruption
from esipp.checks.disruption import ALL_NODES, Disruption
from esipp.cluster import leases
from esipp.cluster.client import ApiError, Cluster
from esipp.cluster.namespaces import owner
from esipp.disruption import cleanup as sweeping
from esipp.disruption import daemon_sets, kube_proxy, marks, services, shell
from esipp.disruption.marks import Mark
from esipp.disruption.rollback import Undo
from esipp.judging.topology import Node, family_of, parse_address
from esipp.preflight.preflight import Findings
from esipp.preflight.steps import disruption_features
from esipp.probing import outside
from esipp.probing.node_containers import matches, nodes_of, proven
from esipp.probing.outside import find_network
from esipp.testbed import leftovers
from tests.unit.fake_nodes import EXCLUDED, PROXIES, PROXY_CONFIG, FakeNode, FakeNodes

DEAD = "elsewhere/1"


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
    monkeypatch.setattr(outside, "left_behind", lambda server: {})
    for module in (sweeping, leftovers):  # a test's worker is not called esipp
        monkeypatch.setattr(module, "is_alive", lambda by: by == owner())
    return node


def cleaned(cluster: Cluster, *, force: bool = False, dry_run: bool = False, run: str | None = None) -> list[str]:
    said: list[str] = []
    sweeping.clean(cluster, run, force, said.append, dry_run=dry_run)
    return said


def test_nothing_was_left(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    before = fake.plain()
    assert cleaned(cluster) == ["nothing to clean up"]
    assert fake.plain() == before


def test_all_marks_are_found_and_undone(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    before = fake.plain()
    marks.change(cluster, "a", Mark.CORDONED, DEAD)
    marks.change(cluster, "a", Mark.EXCLUDED, DEAD)
    shell.stop(node.way, Disruption.KUBELET, DEAD, 60)
    assert cleaned(cluster) == [
        "started the kubelet on node a",
        "uncordoned node a",
        "removed the exclusion label from node a",
    ]
    assert fake.plain() == before
    assert (node.says("kubelet"), node.marked) == ("active", {})
    assert cleaned(cluster) == ["nothing to clean up"]


@pytest.mark.parametrize("what", disruption.ROLLOUTS)
def test_agents_get_back_what_they_had(what: Disruption, cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.add_proxies()
    fake.add_cilium()
    before = fake.plain_objects()

    def change(by: str) -> None:
        if what is Disruption.PROXY_MODE:
            kube_proxy.change_mode(cluster, by, "nftables")
        elif what is Disruption.PROXY_SLOW:
            kube_proxy.change_period(cluster, by, "10s")
        else:
            daemon_sets.change_image(cluster, what, by, "other:v1.35.4")

    change(owner())
    assert cleaned(cluster) == ["nothing to clean up"], "its run lives"
    Undo(what.value, ALL_NODES, owner()).perform(cluster)
    change(DEAD)
    assert fake.plain_objects() != before
    assert cleaned(cluster, dry_run=True) == [f"would undo {what} on all nodes"]
    assert cleaned(cluster) == [daemon_sets.ROLLOUTS[what].undone]
    assert fake.plain_objects() == before
    assert cleaned(cluster) == ["nothing to clean up"]


def test_a_run_that_was_killed_between_the_two_changes_of_kube_proxy_left_the_first(
    cluster: Cluster, node: FakeNode, fake: FakeNodes
) -> None:
    fake.add_proxies()
    before = fake.plain_objects()
    fake.before = lambda method, path, body: (500, {}) if method == "PATCH" and path == PROXIES else None
    with pytest.raises(ApiError):
        kube_proxy.change_mode(cluster, DEAD, "nftables")
    fake.before = lambda method, path, body: None
    assert fake.plain_objects() != before
    assert cleaned(cluster) == [daemon_sets.ROLLOUTS[Disruption.PROXY_MODE].undone]
    assert fake.plain_objects() == before


def test_kube_proxy_that_the_account_may_not_read_has_no_mark(
    cluster: Cluster, node: FakeNode, fake: FakeNodes
) -> None:
    fake.add_proxies()
    fake.before = lambda method, path, body: (403, {}) if path in (PROXIES, PROXY_CONFIG) else None
    assert cleaned(cluster) == ["nothing to clean up"]


def test_what_others_did_stays(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.nodes["b"]["spec"]["unschedulable"] = True
    fake.nodes["c"]["metadata"]["labels"] |= EXCLUDED
    (node.state / "kubelet").write_text("inactive\n")
    before = fake.plain()
    assert cleaned(cluster) == ["nothing to clean up"]
    assert (fake.plain(), node.says("kubelet")) == (before, "inactive")


def test_a_run_that_lives_is_spared_unless_forced(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    marks.change(cluster, "a", Mark.CORDONED, owner())
    shell.stop(node.way, Disruption.KUBELET, owner(), 60)
    assert cleaned(cluster) == ["nothing to clean up"]
    assert (fake.marked(), node.says("kubelet")) == ({"a": {Mark.CORDONED.value: owner()}}, "inactive")
    assert cleaned(cluster, force=True) == ["started the kubelet on node a", "uncordoned node a"]


def test_an_api_server_that_is_stopped_is_made_to_go_on_first(
    cluster: Cluster, node: FakeNode, fake: FakeNodes
) -> None:
    marks.change(cluster, "a", Mark.CORDONED, DEAD)
    shell.stop(node.way, Disruption.API_SERVER, DEAD, 60)
    fake.silent = lambda: node.says("api") == "T"
    assert cleaned(cluster) == ["resumed the API server on node a", "uncordoned node a"]
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
    assert cleaned(cluster) == ["started the kubelet on node a"]


def test_a_cluster_that_does_not_answer_is_reported(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.silent = lambda: True
    with pytest.raises(PreflightError, match="does not answer"):
        cleaned(cluster)


def test_a_cluster_that_refuses_is_reported(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.before = lambda method, path, body: (403, {"message": "no"}) if path == "/api/v1/nodes" else None
    with pytest.raises(PreflightError, match="Cannot clean up the nodes"):
        cleaned(cluster)


# ------------------------------------------------------------------------------------------------ whose namespaces
RUN = "0101-000000-aaaa"
SPACE = f"esipp-{RUN}"
LONG_AGO = "2020-01-01T00:00:00Z"


def space(name: str = SPACE, run: str = RUN, by: str = DEAD, *, created: str = LONG_AGO) -> Json:
    labels = {**MANAGED_BY, **({RUN_LABEL: run} if run else {})}
    notes = {OWNER: by} if by else {}
    return {"metadata": {"name": name, "labels": labels, "annotations": notes, "creationTimestamp": created}}


def held(by: str = DEAD, *, ago: float = 0.0, machine: str = "another") -> Json:
    """The Lease of a run, renewed so many seconds ago."""
    made = leases.lease(RUN, f"{by}/{RUN}", time.time() - ago)
    made["metadata"]["annotations"][leases.MACHINE] = machine
    return made


def test_the_namespace_of_a_killed_run_is_removed(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.spaces = [space()]
    assert cleaned(cluster) == [f"removed namespace {SPACE}"]
    assert fake.spaces == []


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (space("team-a"), "its name does not begin with 'esipp-'"),
        (space("esipp-team-a"), f"its label {RUN_LABEL} names another run: {RUN}"),
        (space(run=""), f"it has no label {RUN_LABEL}"),
        (space(by=""), f"its {OWNER} does not name a process"),
        (space(by="somebody"), f"its {OWNER} does not name a process"),
        (space("esipp-", run=""), f"it has no label {RUN_LABEL}"),
    ],
)
def test_what_has_only_some_of_the_marks_is_named_and_spared(
    cluster: Cluster, node: FakeNode, fake: FakeNodes, found: Json, why: str
) -> None:
    fake.spaces = [found]
    line = f"kept namespace {found['metadata']['name']}, which may not belong to a run: {why}"
    assert cleaned(cluster) == cleaned(cluster, force=True) == [line]
    assert fake.spaces == [found]
    assert not any(request.startswith("DELETE") for request in fake.requests)


def test_a_run_on_another_machine_is_spared_while_its_lease_is_fresh(
    cluster: Cluster, node: FakeNode, fake: FakeNodes
) -> None:
    fake.spaces, fake.of_runs = [space()], {SPACE: held(ago=10)}
    (line,) = cleaned(cluster)
    assert re.fullmatch(
        rf"kept namespace {SPACE}: {DEAD}/{RUN} holds its Lease until \d\d:\d\d:\d\d UTC \(--force removes it\)", line
    )
    assert fake.spaces
    assert cleaned(cluster, force=True) == [f"removed namespace {SPACE}"]


def test_one_whose_lease_has_ended_is_removed(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.spaces, fake.of_runs = [space()], {SPACE: held(ago=leases.DURATION + 2)}
    assert cleaned(cluster) == [f"removed namespace {SPACE}"]


def test_the_api_servers_date_of_a_renewal_counts_and_not_the_holders(
    cluster: Cluster, node: FakeNode, fake: FakeNodes
) -> None:
    """The holder's clock is an hour behind, or ahead."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    behind, ahead = held(ago=3600), held(ago=-3600)
    behind["metadata"]["managedFields"] = [{"manager": "x", "time": LONG_AGO}, {"manager": "y", "time": now}]
    ahead["metadata"]["managedFields"] = [{"manager": "x", "time": LONG_AGO}]
    fake.spaces, fake.of_runs = [space()], {SPACE: behind}
    assert cleaned(cluster)[0].startswith(f"kept namespace {SPACE}")
    fake.of_runs = {SPACE: ahead}
    assert cleaned(cluster) == [f"removed namespace {SPACE}"]


def test_a_process_of_this_machine_is_looked_up_whatever_its_lease_says(
    cluster: Cluster, node: FakeNode, fake: FakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "machine", lambda: "here")
    killed = f"{socket.gethostname()}/1"
    fake.spaces, fake.of_runs = [space(by=killed)], {SPACE: held(killed, machine="here")}
    assert cleaned(cluster) == [f"removed namespace {SPACE}"], "a fresh Lease of a process that is known to be dead"
    fake.spaces, fake.of_runs = [space(by=owner())], {SPACE: held(owner(), ago=3600, machine="here")}
    assert cleaned(cluster) == [f"kept namespace {SPACE}: process {os.getpid()} uses it (--force removes it)"]


@pytest.mark.parametrize("machine", ["another", ""])
def test_a_machine_of_the_same_name_is_another_one(
    cluster: Cluster, node: FakeNode, fake: FakeNodes, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr(leases, "machine", lambda: machine and "here")
    same_name = f"{socket.gethostname()}/1"
    fake.spaces, fake.of_runs = [space(by=same_name)], {SPACE: held(same_name, machine=machine)}
    assert "holds its Lease" in cleaned(cluster)[0]


def test_a_run_that_was_just_begun_elsewhere_may_not_hold_its_lease_yet(
    cluster: Cluster, node: FakeNode, fake: FakeNodes
) -> None:
    fake.spaces = [space(created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))]
    assert "may not have its Lease yet (--force removes it)" in cleaned(cluster)[0]


def test_where_leases_cannot_be_read_other_machines_runs_are_spared(
    cluster: Cluster, node: FakeNode, fake: FakeNodes
) -> None:
    here = f"{socket.gethostname()}/1"
    fake.spaces = [space(), space("esipp-b", "b", here)]
    fake.before = lambda method, path, body: (403, {"message": "no."}) if "/leases/" in path else None
    said = cleaned(cluster)
    assert said[0].startswith(f"kept namespace {SPACE}: {DEAD} created it, and may be active: cannot read its Lease: ")
    assert said[1:] == ["removed namespace esipp-b"], "a process of this machine can be looked up"


def test_a_dry_run_says_all_and_does_nothing(
    cluster: Cluster, node: FakeNode, fake: FakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[str] = []
    found = {f"esipp-{RUN}-outside-1": (RUN, DEAD), "esipp-old": ("", "")}
    monkeypatch.setattr(outside, "left_behind", lambda server: found)
    monkeypatch.setattr(outside, "sweep", swept.extend)
    marks.change(cluster, "a", Mark.CORDONED, DEAD)
    shell.stop(node.way, Disruption.KUBELET, DEAD, 60)
    fake.spaces = [space(), space("esipp-b", "b", owner())]
    before, marked = fake.plain(), node.marked
    assert cleaned(cluster, dry_run=True) == [
        "would undo kubelet on node a",
        "would undo esipp.dev/cordoned-by on node a",
        f"would remove namespace {SPACE} of run {RUN}, created by {DEAD}",
        f"kept namespace esipp-b: process {os.getpid()} uses it (--force removes it)",
        f"would remove container esipp-{RUN}-outside-1 of run {RUN}, created by {DEAD}",
        f"kept container esipp-old, which may not belong to a run: it has no label {RUN_LABEL}",
    ]
    assert (fake.plain(), node.marked, node.says("kubelet"), swept) == (before, marked, "inactive", [])
    assert {request.split()[0] for request in fake.requests[-6:]} == {"GET"}
    assert len(fake.spaces) == 2


def test_containers_go_by_the_same_marks_and_by_their_runs_namespace(
    cluster: Cluster, node: FakeNode, fake: FakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[str] = []
    found = {
        f"{SPACE}-outside-1": (RUN, DEAD),  # its namespace holds a Lease
        "esipp-b-outside-1": ("b", DEAD),
        "esipp-c-outside-1": ("c", ""),
        "esipp-d-outside-1": ("e", DEAD),
        "postgres": ("f", DEAD),
        "esipp-g-outside-1": ("g", owner()),
    }
    monkeypatch.setattr(outside, "left_behind", lambda server: found)
    monkeypatch.setattr(outside, "sweep", swept.extend)
    fake.spaces, fake.of_runs = [space()], {SPACE: held()}
    said = cleaned(cluster)
    assert swept == ["esipp-b-outside-1"]
    assert [line for line in said if line.startswith("removed")] == ["removed container esipp-b-outside-1"]
    assert len(said) == 7
    assert sum("may not belong to a run" in line for line in said) == 3


def test_what_a_living_run_elsewhere_did_to_nodes_stays(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.spaces, fake.of_runs = [space()], {SPACE: held()}
    marks.change(cluster, "a", Mark.CORDONED, DEAD)
    shell.stop(node.way, Disruption.KUBELET, DEAD, 60)
    (line,) = cleaned(cluster)
    assert line.startswith(f"kept namespace {SPACE}")
    assert (fake.marked(), node.says("kubelet")) == ({"a": {Mark.CORDONED.value: DEAD}}, "inactive")


def test_only_one_runs_are_removed_if_so_asked(cluster: Cluster, node: FakeNode, fake: FakeNodes) -> None:
    fake.spaces = [space(), space("esipp-b", "b")]
    assert cleaned(cluster, run="b") == ["removed namespace esipp-b"]


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


# ------------------------------------------------------------------------------------------------- proven containers
def kind_node(name: str, *addresses: str, hostname: str = "", role: str = "worker") -> Json:
    found = container(name, "one", role)
    found["Config"]["Hostname"] = hostname or name
    networks = [{"IPAddress": each, "GlobalIPv6Address": ""} for each in addresses if ":" not in each]
    networks += [{"IPAddress": "", "GlobalIPv6Address": each} for each in addresses if ":" in each]
    found["NetworkSettings"]["Networks"] = {str(number): each for number, each in enumerate(networks)}
    return found


def unlabelled(found: Json, label: str) -> Json:
    del found["Config"]["Labels"][label]
    return found


def stopped(found: Json) -> Json:
    return {**found, "State": {"Running": False}}


OF_A = ("172.18.0.3", "fc00::3")
"""The InternalIPs of node a."""


@pytest.mark.parametrize(
    ("found", "proven"),
    [
        (kind_node("a", *OF_A), True),
        (kind_node("a", *OF_A, role="control-plane"), True),
        (kind_node("a", "172.18.0.3", "FC00:0::3", "10.0.0.1"), True),
        (kind_node("a", *OF_A, role="external-load-balancer"), False),
        (unlabelled(kind_node("a", *OF_A), "io.x-k8s.kind.cluster"), False),
        (unlabelled(kind_node("a", *OF_A), "io.x-k8s.kind.role"), False),
        (stopped(kind_node("a", *OF_A)), False),
        (kind_node("b", *OF_A), False),
        (kind_node("a", *OF_A, hostname="b"), False),
        (kind_node("a", "172.18.0.3"), False),
        (kind_node("a", "172.18.0.4", "fc00::3"), False),
        (kind_node("a"), False),
    ],
)
def test_a_container_is_a_nodes_only_if_docker_says_all_of_it(found: Json, proven: bool) -> None:
    assert set(matches({"a": OF_A}, [found])) == ({"a"} if proven else set())
    assert matches({"a": ()}, [found]) == {}, "a node without an address is nobody's"


def node_object(name: str = "a", machine: str = "machine-a", provider: str = "kind://docker/kind/{}") -> Json:
    addresses = [{"type": "InternalIP", "address": each} for each in OF_A] + [{"type": "Hostname", "address": name}]
    status = {"addresses": addresses, "nodeInfo": {"machineID": machine}}
    return {"metadata": {"name": name}, "spec": {"providerID": provider.format(name)}, "status": status}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker command that knows a container of kind's, a, and one that is none, shop; and writes down all it does."""
    result = tmp_path / "inspect.json"
    result.write_text(json.dumps([kind_node("a", *OF_A)]))
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        f"""#!/bin/sh
echo "$@" >>{tmp_path}/asked
case $1 in
  ps) echo a ;;
  inspect) cat {result} ;;
  exec) echo machine-a ;;
esac
"""
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    return tmp_path / "asked"


def entered(asked: Path) -> list[str]:
    lines = asked.read_text().splitlines() if asked.exists() else []
    return [line.split()[1] for line in lines if line.startswith("exec")]


def test_a_proven_node_is_entered_by_its_own_name(engine: Path) -> None:
    assert proven([node_object()]) == {"a": ("docker", "exec", "a")}
    assert entered(engine) == ["a"]


@pytest.mark.parametrize("machine", ["machine-b", ""])
def test_another_machine_of_that_name_is_not_the_node(engine: Path, machine: str) -> None:
    assert proven([node_object(machine=machine)]) == {}


@pytest.mark.parametrize("name", ["shop", "b"])
def test_nothing_is_run_in_what_a_provider_id_claims(engine: Path, name: str) -> None:
    claims = node_object(name, provider="kind://docker/kind/shop")
    assert proven([claims, node_object("c", provider="kind://docker/kind/a")]) == {}
    assert entered(engine) == []


def test_nothing_is_run_where_dockers_labels_are_missing(engine: Path) -> None:
    (engine.parent / "inspect.json").write_text(json.dumps([unlabelled(kind_node("a", *OF_A), "io.x-k8s.kind.role")]))
    assert proven([node_object()]) == {}
    assert entered(engine) == []


def test_docker_is_not_asked_about_nodes_of_a_cloud(engine: Path) -> None:
    assert proven([node_object(provider="aws:///eu-1a/i-1"), node_object("b", provider="")]) == {}
    assert not engine.exists()


def test_findings_know_a_way_into_proven_nodes_only() -> None:
    found = Findings({}, {}, {}, {}, {}, None, ways={"a": ("docker", "exec", "a")})
    assert found.on_node("a", ["ip", "addr"]) == ["docker", "exec", "a", "ip", "addr"]
    assert found.on_node("b", ["ip", "addr"]) is None


def test_clients_outside_stand_beside_proven_nodes_only(engine: Path) -> None:
    internal = {family_of(parse_address(each)): each for each in OF_A}
    there = Node("a", internal, frozenset(), provider_id="kind://docker/kind/a")
    assert find_network([there]) == "0"
    assert find_network([replace(there, name="b", provider_id="kind://docker/kind/a")]) is None
    assert find_network([replace(there, provider_id="")]) is None
    assert find_network([]) is None


def test_features_say_what_can_be_disturbed(cluster: Cluster, fake: FakeNodes) -> None:
    fake.add_pod("kube-proxy-a", "a", namespace="kube-system", daemon_set="d", k8s_app="kube-proxy")
    fake.add_pod("kube-apiserver-a", "a", namespace="kube-system", component="kube-apiserver")

    def present(nodes: str, reached: str) -> set[str]:
        found = disruption_features(cluster, dict.fromkeys(nodes, "6.1"), reached, {})
        return {name for name, feature in found.items() if feature.present}

    assert present("a", "a") == {"kube-proxy.pods", "nodes.shell", "control-plane.reachable"}
    assert present("ab", "a") == {"kube-proxy.pods", "control-plane.reachable"}
    assert present("a", "") == {"kube-proxy.pods"}

    one = disruption_features(cluster, {"a": "6.1"}, "a", {})["control-plane.several"]
    assert one.why == "the only API server runs on a"
    fake.add_pod("kube-apiserver-b", "b", namespace="kube-system", component="kube-apiserver")
    assert present("ab", "ab") == {"kube-proxy.pods", "nodes.shell", "control-plane.reachable", "control-plane.several"}
    assert present("ab", "a") == {"kube-proxy.pods", "control-plane.several"}
