"""The watchdog, a real process: it undoes what a killed run left, and does nothing else, ever."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from esipp.base.errors import HarnessError
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.catalog import HOUSE
from esipp.checks.disruption import ALL_NODES, Disruption
from esipp.cluster.client import Cluster
from esipp.disruption import kube_proxy, marks, shell
from esipp.disruption.marks import Mark
from esipp.disruption.rollback import Undo, in_order, undo_all
from esipp.disruption.watchdog import watch
from esipp.disruption.watchdog_client import WatchdogClient
from tests.unit.fake_nodes import FakeNode, FakeNodes

SOON = Budget("the watchdog's work", 40.0, need=1, spacing=0.05)
CORDON = Undo(Mark.CORDONED.value, "a", "host/1")

RUN = """
import json, sys, time
from esipp.disruption.watchdog_client import WatchdogClient
from esipp.disruption.rollback import Undo
leash = WatchdogClient("home", sys.argv[1], None)
numbers = [leash.note(Undo.from_json(each)) for each in json.loads(sys.argv[2])]
for number in json.loads(sys.argv[3]):
    leash.undone(numbers[number])
print(leash.pid, flush=True)
time.sleep(60)
"""
"""A run that has noted things, some of which are undone, and is about to be killed."""


@pytest.fixture
def fake() -> FakeNodes:
    return FakeNodes()


@pytest.fixture
def cluster(fake: FakeNodes, tmp_path: Path) -> Iterator[Cluster]:
    with fake.served(tmp_path) as cluster:
        yield cluster


def wait_until(held: Callable[[], bool]) -> None:
    waited = converge(lambda: Reading(held(), "not yet"), SOON)
    assert waited.held, waited


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody has asked about is dead, too."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def start(cluster: Cluster, undos: list[Undo], undone: list[int] | None = None) -> tuple[subprocess.Popen[str], int]:
    """A run in a process of its own, and its watchdog's process."""
    found = [json.dumps([undo.as_json() for undo in undos]), json.dumps(undone or [])]
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(cluster.kubeconfig), *found],
        cwd=HOUSE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    return run, int(run.stdout.readline())


def kill(run: subprocess.Popen[str]) -> None:
    run.kill()
    run.wait()
    assert run.stdout is not None
    run.stdout.close()


def cordoned(cluster: Cluster, owner: str = "host/1") -> None:
    marks.change(cluster, "a", Mark.CORDONED, owner)


def test_what_a_killed_run_left_is_undone(fake: FakeNodes, cluster: Cluster, tmp_path: Path) -> None:
    before, node = fake.plain(), FakeNode(tmp_path / "node")
    cordoned(cluster)
    marks.change(cluster, "b", Mark.EXCLUDED, "host/1")
    shell.stop(node.way, Disruption.KUBELET, "host/1", 60)
    run, dog = start(
        cluster,
        [CORDON, Undo(Mark.EXCLUDED.value, "b", "host/1"), Undo(Disruption.KUBELET.value, "a", "host/1", node.way)],
    )
    assert alive(dog)
    assert fake.plain() != before, "it waits for the run to end"
    kill(run)
    wait_until(lambda: not alive(dog))
    assert fake.plain() == before
    assert (node.says("kubelet"), node.marked) == ("active", {})


def test_a_mode_that_a_killed_run_gave_to_kube_proxy_is_taken_back(fake: FakeNodes, cluster: Cluster) -> None:
    fake.add_proxies()
    before = fake.plain_objects()
    kube_proxy.change_mode(cluster, "host/1", "nftables")
    run, dog = start(cluster, [Undo(Disruption.PROXY_MODE.value, ALL_NODES, "host/1")])
    assert fake.plain_objects() != before
    kill(run)
    wait_until(lambda: not alive(dog))
    assert fake.plain_objects() == before


def test_what_the_run_undid_itself_is_not_undone_again(fake: FakeNodes, cluster: Cluster) -> None:
    cordoned(cluster)  # a mark that should be gone: whoever undid it now would be seen
    run, dog = start(cluster, [CORDON], undone=[0])
    asked = len(fake.requests)
    kill(run)
    wait_until(lambda: not alive(dog))
    assert fake.marked() == {"a": {Mark.CORDONED.value: "host/1"}}
    assert len(fake.requests) == asked, "nothing is even asked"


def test_what_is_of_another_owner_is_spared(fake: FakeNodes, cluster: Cluster) -> None:
    cordoned(cluster, "other/2")
    run, dog = start(cluster, [CORDON])
    kill(run)
    wait_until(lambda: not alive(dog))
    assert fake.marked() == {"a": {Mark.CORDONED.value: "other/2"}}


def test_an_api_server_that_is_away_is_waited_for(fake: FakeNodes, cluster: Cluster) -> None:
    cordoned(cluster)
    run, dog = start(cluster, [CORDON])
    fake.silent = lambda: True
    kill(run)
    time.sleep(1.5)  # it has tried by now
    assert alive(dog)
    fake.silent = lambda: False
    wait_until(lambda: not alive(dog))
    assert fake.marked() == {}


def test_signals_to_the_run_do_not_reach_it(fake: FakeNodes, cluster: Cluster) -> None:
    cordoned(cluster)
    run, dog = start(cluster, [CORDON])
    assert os.getsid(dog) == dog, "a session of its own: a killed process group, or a Ctrl-C, is not its"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(dog, number)
    os.killpg(run.pid, signal.SIGKILL)
    kill(run)
    wait_until(lambda: not alive(dog))
    assert fake.marked() == {}


def test_a_session_that_ends_well_ends_it(cluster: Cluster, fake: FakeNodes) -> None:
    leash = WatchdogClient("home", cluster.kubeconfig)
    assert leash.pid is None, "there is none before there is anything to undo"
    number = leash.note(CORDON)
    dog = leash.pid
    assert dog is not None
    leash.undone(number)
    asked = list(fake.requests)
    leash.close()
    assert not alive(dog)
    assert fake.requests == asked
    leash.close()


def test_nothing_may_be_done_without_it(cluster: Cluster) -> None:
    leash = WatchdogClient("home", cluster.kubeconfig)
    leash.note(CORDON)
    assert leash.pid is not None
    os.kill(leash.pid, signal.SIGKILL)
    with pytest.raises(HarnessError, match="does not answer"):
        leash.note(CORDON)
    leash.undone(1)  # nobody need know
    leash.close()


def test_it_says_what_it_did(cluster: Cluster, tmp_path: Path) -> None:
    cordoned(cluster)
    leash = WatchdogClient("home", cluster.kubeconfig, tmp_path / "watchdog.txt")
    leash.note(CORDON)
    leash.close()
    wait_until(lambda: "watchdog: settled" in (tmp_path / "watchdog.txt").read_text())
    assert (tmp_path / "watchdog.txt").read_text().startswith("uncordoned node a\n")


def test_a_message_that_is_cut_off_was_never_answered(cluster: Cluster, fake: FakeNodes) -> None:
    cordoned(cluster)
    hello = json.dumps({"cluster": "home", "kubeconfig": cluster.kubeconfig, "as": "", "log": ""})
    note = json.dumps({"number": 1, "undo": CORDON.as_json()})
    answers = io.StringIO()
    assert watch([hello + "\n", note[:30]], answers) == 0
    assert answers.getvalue() == '{"heard": "cluster"}\n'
    assert fake.marked() != {}


def test_the_nodes_own_come_first() -> None:
    there = Undo(Disruption.API_SERVER.value, "a", "host/1", ("docker", "exec", "a"))
    assert in_order([CORDON, there, CORDON]) == [there, CORDON, CORDON]
    assert Undo.from_json(json.loads(json.dumps(there.as_json()))) == there
    assert (CORDON.done, there.done) == ("uncordoned node a", "resumed the API server on node a")


def test_one_that_fails_leaves_no_other_undone(fake: FakeNodes, cluster: Cluster) -> None:
    cordoned(cluster)
    lost = Undo(Disruption.KUBELET.value, "b", "host/1", ("no-such-docker",))
    left, waited = undo_all([lost, CORDON], cluster, Budget("a test", 0.5, need=1, spacing=0.2))
    assert left == [lost]
    assert "b, kubelet: Cannot reach the node" in waited.state
    assert fake.marked() == {}


def test_a_node_that_is_gone_has_nothing_to_undo(fake: FakeNodes, cluster: Cluster) -> None:
    del fake.nodes["a"]
    left, _ = undo_all([CORDON], cluster)
    assert left == []
