"""A node of kind that is switched off: what starts it again, and what proves that it was restarted."""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.waiting import Budget
from esipp.cluster.client import Cluster
from esipp.disruption import cleanup, machines, marks
from esipp.disruption.machines import NodeRestarted
from esipp.disruption.marks import Mark, RefusedError
from esipp.probing import node_machines, outside
from esipp.probing.node_machines import State
from tests.unit.fake_nodes import FakeNodes

SHORT = Budget("something, in a test", 0.6, need=1, spacing=0.05)
WAY = ("docker", "exec", "b")


@dataclass
class Machine:
    """A container, and what is done to it; ``boots`` is called when it starts."""

    boots: Callable[[], object]
    state: State = field(default=State(True, "1", ("192.0.2.3",)))
    done: list[str] = field(default_factory=list)

    def kill(self, container: str) -> None:
        self.done.append(f"kill {container}")
        self.state = State(False, self.state.started, self.state.addresses)

    def start(self, container: str) -> None:
        self.done.append(f"start {container}")
        self.state = State(True, "2", self.state.addresses)
        self.boots()


@pytest.fixture
def machine(fake: FakeNodes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    fake.add_pod("kube-proxy-b", "b", namespace="kube-system")
    fake.add_pod("kube-apiserver-a", "a", namespace="kube-system", component="kube-apiserver")
    fake.leases["kube-node-lease/b"] = -1
    status = fake.pods["kube-system/kube-proxy-b"]["status"]
    status["containerStatuses"] = [{"restartCount": 3}]

    def boots() -> None:
        fake.leases["kube-node-lease/b"] = 5
        status["containerStatuses"] = [{"restartCount": 4}]

    made, later = Machine(boots), list["subprocess.Popen[bytes]"]()

    def start_later(*_: object) -> "subprocess.Popen[bytes]":
        later.append(subprocess.Popen(["sleep", "60"]))
        return later[-1]

    monkeypatch.setattr(machines, "STARTED", SHORT)
    for name, stand in {
        "state_of": lambda _: made.state,
        "keep_addresses": lambda way: made.done.append(f"keep the addresses of {way[-1]}"),
        "start_later": start_later,
        "kill": made.kill,
        "start": made.start,
    }.items():
        monkeypatch.setattr(node_machines, name, stand)
    yield made
    for each in later:
        node_machines.forget(each)


@pytest.fixture
def fake() -> FakeNodes:
    return FakeNodes()


def restart(cluster: Cluster, node: str = "b") -> NodeRestarted:
    return NodeRestarted(cluster, "host/1", node, WAY, 60.0)


def test_a_node_is_switched_off_and_its_pods_start_again(fake: FakeNodes, machine: Machine, tmp_path: Path) -> None:
    with fake.served(tmp_path) as cluster:
        action, before = restart(cluster), fake.plain()
        action.do()
        assert machine.done == ["keep the addresses of b", "kill b"]
        assert fake.marked() == {"b": {Mark.OFF.value: "host/1"}}
        assert action.prove(Stop()) == "its container was killed: none of its processes runs"
        assert action.lasts() == "until the end"
        with pytest.raises(RefusedError, match="already off by run host/1"):
            restart(cluster).do()
        assert [undo.perform(cluster) for undo in action.undos] == [True]
        assert (machine.done[-1], fake.plain()) == ("start b", before)
        said = action.back()
    assert said.startswith("started again, and ready after ")
    assert "its 1 pod ready again" in said


def test_a_node_of_the_api_server_stays_on(fake: FakeNodes, machine: Machine, tmp_path: Path) -> None:
    with fake.served(tmp_path) as cluster, pytest.raises(RefusedError, match="Node a runs the API server"):
        restart(cluster, "a").do()
    assert (machine.done, fake.marked()) == ([], {})


@pytest.mark.parametrize(("changed", "why"), [("address", "other addresses: 192.0.2.9"), ("pods", "kube-proxy-b")])
def test_a_node_that_does_not_come_back_as_it_was_is_reported(
    changed: str, why: str, fake: FakeNodes, machine: Machine, tmp_path: Path
) -> None:
    def boots() -> None:
        fake.leases["kube-node-lease/b"] = 5
        if changed == "address":
            machine.state = State(True, "2", ("192.0.2.9",))

    machine.boots = boots
    with fake.served(tmp_path) as cluster:
        action = restart(cluster)
        action.do()
        action.undos[0].perform(cluster)
        with pytest.raises(HarnessError, match=why):
            action.back()


def test_a_node_that_somebody_starts_is_found_out(fake: FakeNodes, machine: Machine, tmp_path: Path) -> None:
    with fake.served(tmp_path) as cluster:
        action = restart(cluster)
        action.do()
        machine.start("b")
        with pytest.raises(HarnessError, match="Node b runs again already"):
            action.lasts()


def test_a_clean_up_starts_a_node_that_a_killed_run_left(
    fake: FakeNodes, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "node_containers", lambda _: {})
    monkeypatch.setattr(outside, "left_behind", lambda _: {})
    said: list[str] = []
    with fake.served(tmp_path) as cluster:
        restart(cluster).do()
        marks.change(cluster, "c", Mark.OFF, "host/2")
        cleanup.clean(cluster, None, True, said.append)
    assert said == ["started the container of node b", "started the container of node c"]
    assert (machine.done[2:], fake.marked()) == (["start b", "start c"], {})


def test_another_owners_node_stays_off(fake: FakeNodes, machine: Machine, tmp_path: Path) -> None:
    with fake.served(tmp_path) as cluster:
        marks.change(cluster, "b", Mark.OFF, "other/2")
        assert not restart(cluster).undos[0].perform(cluster)
    assert machine.done == []


# ----------------------------------------------------------------------------------------- without run and watchdog
@pytest.mark.parametrize(("now", "started"), [("1", True), ("2", False)])
def test_a_process_of_its_own_starts_what_nobody_has_started(
    now: str, started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\ncase $1 in inspect) echo {now} ;; *) echo "$*" >{tmp_path}/did ;; esac\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    later = node_machines.start_later("b", State(True, "1", ()), 0.0)
    later.wait(20)
    assert (tmp_path / "did").exists() is started
    assert not started or (tmp_path / "did").read_text() == "start b\n"
