"""What is done on a node itself: the mark and the switch come first, and only what is ours is undone."""

import subprocess
from pathlib import Path

import pytest

from esipp.base.errors import HarnessError
from esipp.checks.disruption import Disruption
from esipp.disruption import shell
from esipp.disruption.marks import RefusedError
from tests.unit.fake_nodes import NODE, FakeNode

STOPPED = {
    Disruption.KUBELET: ("kubelet", "inactive", "active"),
    Disruption.API_SERVER: ("api", "T", "S"),
    Disruption.PROXY_STOPPED: ("proxy", "T", "S"),
    Disruption.NETWORK_STOPPED: ("kindnetd", "T", "S"),
    Disruption.SPEAKER_STOPPED: ("speaker", "T", "S"),
    Disruption.CONTROLLER_STOPPED: ("controller", "T", "S"),
}
BOTH = pytest.mark.parametrize("what", list(STOPPED))


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


@BOTH
def test_stopped_and_gone_on(what: Disruption, node: FakeNode) -> None:
    name, stopped, goes = STOPPED[what]
    assert not shell.is_stopped(node.way, what)
    shell.stop(node.way, what, "host/1", 60)
    assert (node.says(name), shell.is_stopped(node.way, what)) == (stopped, True)
    assert shell.marks(node.way) == {what: "host/1"}
    assert node.says("switch")
    assert shell.go_on(node.way, what, "host/1")
    assert (node.says(name), shell.is_stopped(node.way, what)) == (goes, False)
    assert (shell.marks(node.way), node.says("switch")) == ({}, "")


@BOTH
def test_the_switch_alone_undoes_it(what: Disruption, node: FakeNode) -> None:
    name, _, goes = STOPPED[what]
    shell.stop(node.way, what, "host/1", 60)
    subprocess.run([*node.way, "sh", "-c", node.says("switch")], check=True)
    assert (node.says(name), node.marked) == (goes, {})
    assert not shell.go_on(node.way, what, "host/1"), "nothing is left to undo"


def test_a_switch_that_cannot_undo_it_leaves_the_mark_for_whoever_cleans(node: FakeNode) -> None:
    shell.stop(node.way, Disruption.KUBELET, "host/1", 60)
    assert "systemctl start kubelet && rm" in node.says("switch")


@BOTH
def test_what_another_run_has_in_hand_is_refused_and_spared(what: Disruption, node: FakeNode) -> None:
    shell.stop(node.way, what, "other/2", 60)
    with pytest.raises(RefusedError):
        shell.stop(node.way, what, "host/1", 60)
    assert not shell.go_on(node.way, what, "host/1")
    assert (node.marked, shell.is_stopped(node.way, what)) == ({what.value: "other/2"}, True)


@BOTH
def test_what_was_stopped_before_stays_so(what: Disruption, node: FakeNode) -> None:
    name, stopped, _ = STOPPED[what]
    (node.state / name).write_text(f"{stopped}\n")
    with pytest.raises(RefusedError):
        shell.stop(node.way, what, "host/1", 60)
    assert node.marked == {}
    assert not shell.go_on(node.way, what, "host/1")
    assert shell.is_stopped(node.way, what)


def test_nothing_is_stopped_without_a_switch(node: FakeNode) -> None:
    (node.state / "no-timers").touch()
    with pytest.raises(HarnessError, match="no timers"):
        shell.stop(node.way, Disruption.KUBELET, "host/1", 60)
    assert (node.says("kubelet"), node.marked) == ("active", {})


def test_what_does_not_go_on_keeps_its_mark_and_its_switch(node: FakeNode) -> None:
    shell.stop(node.way, Disruption.KUBELET, "host/1", 60)
    (node.state / "stuck").touch()
    with pytest.raises(HarnessError, match="it does not start"):
        shell.go_on(node.way, Disruption.KUBELET, "host/1")
    assert (node.marked, bool(node.says("switch"))) == ({"kubelet": "host/1"}, True)
    (node.state / "stuck").unlink()
    assert shell.go_on(node.way, Disruption.KUBELET, "host/1")


def test_a_node_without_an_api_server_is_reported_and_left_as_it_was(tmp_path: Path) -> None:
    node = FakeNode(tmp_path / "worker", control_plane=False)
    with pytest.raises(HarnessError, match="Cannot begin"):
        shell.stop(node.way, Disruption.API_SERVER, "host/1", 60)
    assert shell.go_on(node.way, Disruption.API_SERVER, "host/1"), "its mark is taken away"
    assert (node.marked, node.says("switch")) == ({}, "")


def test_a_node_that_cannot_be_reached_is_reported() -> None:
    with pytest.raises(HarnessError, match="Cannot reach the node with 'no-such-docker exec a'"):
        shell.marks(("no-such-docker", "exec", "a"))
    with pytest.raises(HarnessError, match="Cannot read the marks"):
        shell.marks(("false",))


def test_other_files_beside_the_marks_are_none(node: FakeNode) -> None:
    node.marks.mkdir()
    (node.marks / "lost+found").write_text("x")
    assert shell.marks(node.way) == {}


def modes(node: FakeNode) -> list[str]:
    return sorted(each.name for each in node.writers.iterdir() if each.stat().st_mode & 0o111)


def test_a_proxy_without_its_programs_gets_them_back(node: FakeNode) -> None:
    what = Disruption.PROXY_SICK
    shell.stop(node.way, what, "host/1", 60)
    assert (modes(node), shell.is_stopped(node.way, what)) == (["tcpdump"], True)
    with pytest.raises(RefusedError):
        shell.stop(node.way, what, "other/2", 60)
    assert shell.go_on(node.way, what, "host/1")
    assert (modes(node), shell.is_stopped(node.way, what)) == (["nft", "tcpdump", "xtables-nft-multi"], False)
    shell.stop(node.way, what, "host/1", 60)
    subprocess.run([*node.way, "sh", "-c", node.says("switch")], check=True)
    assert (modes(node), node.marked) == (["nft", "tcpdump", "xtables-nft-multi"], {})


def test_a_node_without_kube_proxy_is_reported(node: FakeNode) -> None:
    (node.state / "proxy").unlink()
    for what in (Disruption.PROXY_STOPPED, Disruption.PROXY_SICK):
        with pytest.raises(HarnessError, match="Cannot begin"):
            shell.stop(node.way, what, "host/1", 60)
        assert shell.go_on(node.way, what, "host/1"), "its mark is taken away"


def test_a_slow_api_server_pauses_until_it_is_undone(node: FakeNode) -> None:
    what = Disruption.API_SLOW
    shell.stop(node.way, what, "host/1", 60)
    assert shell.is_stopped(node.way, what)
    assert "pkill -STOP -x kube-apiserver; sleep 2.0; pkill -CONT -x kube-apiserver" in node.says("esipp-api-slow")
    (node.state / "api").write_text("T\n")  # the pause in which it ends
    assert shell.go_on(node.way, what, "host/1")
    assert (node.says("api"), shell.is_stopped(node.way, what), node.marked) == ("S", False, {})
    assert shell.stop(node.way, what, "host/1", 60) is None
    subprocess.run([*node.way, "sh", "-c", node.says("switch")], check=True)
    assert (shell.is_stopped(node.way, what), node.marked) == (False, {})


def registered(node: FakeNode) -> bool:
    return (node.state / "node").exists()


def test_a_node_that_lost_its_object_creates_it_as_it_was(node: FakeNode) -> None:
    what = Disruption.NODE_DELETED
    for undo in (
        lambda: shell.go_on(node.way, what, "host/1"),
        lambda: subprocess.run([*node.way, "sh", "-c", node.says("switch")], check=True),
    ):
        (node.state / "node").write_text(NODE)
        shell.stop(node.way, what, "host/1", 60)
        assert not shell.is_stopped(node.way, what), "the run itself deletes the object"
        (node.state / "node").unlink()
        assert shell.is_stopped(node.way, what)
        undo()
        of_the_server = ("creationTimestamp", "resourceVersion", "uid")
        kept = [line for line in NODE.splitlines() if line.strip().partition(":")[0] not in of_the_server]
        assert node.says("node").splitlines() == kept
        assert (shell.is_stopped(node.way, what), node.marked) == (False, {})


def test_a_node_that_cannot_register_keeps_its_mark(node: FakeNode) -> None:
    shell.stop(node.way, Disruption.NODE_DELETED, "host/1", 39)
    (node.state / "node").unlink()
    (node.state / "no-api").touch()
    with pytest.raises(HarnessError, match="Cannot undo node-deleted"):
        shell.go_on(node.way, Disruption.NODE_DELETED, "host/1")
    assert shell.marks(node.way) == {Disruption.NODE_DELETED: "host/1"}
    (node.state / "no-api").unlink()
    assert shell.go_on(node.way, Disruption.NODE_DELETED, "host/1")
    assert (registered(node), node.marked) == (True, {})


def test_a_node_that_left_is_registered_before_its_kubelet_starts(node: FakeNode) -> None:
    what = Disruption.NODE_LEFT
    for undo in (
        lambda: shell.go_on(node.way, what, "host/1"),
        lambda: subprocess.run([*node.way, "sh", "-c", node.says("switch")], check=True),
    ):
        (node.state / "node").write_text(NODE)
        shell.stop(node.way, what, "host/1", 39)
        assert shell.is_stopped(node.way, what)
        assert (node.says("kubelet"), "drop" in node.says("rules")) == ("inactive", True)
        (node.state / "node").unlink()
        (node.state / "no-api").touch()
        with pytest.raises(HarnessError, match="Cannot undo node-left"):
            shell.go_on(node.way, what, "host/1")
        assert (node.says("kubelet"), node.says("rules"), registered(node)) == ("inactive", "", False)
        (node.state / "no-api").unlink()
        undo()
        assert (node.says("kubelet"), registered(node), node.marked) == ("active", True, {})
        assert not shell.is_stopped(node.way, what)


TAKEN_AWAY = """\
delete node esipp-r1-joined --ignore-not-found
delete pods -A --field-selector=spec.nodeName=esipp-r1-joined --force --grace-period=0
-n kube-system delete secret bootstrap-token-abc123 --ignore-not-found
delete csr --ignore-not-found csr-1"""


def test_a_node_that_joined_is_taken_away_with_its_pods_and_what_it_joined_by(node: FakeNode) -> None:
    what, first = Disruption.NODE_JOINED, shell.let_join("esipp-r1-joined", "abc123.0123456789abcdef")
    (node.state / "csrs").write_text(
        "csr-1   5s   kubernetes.io/kubelet-serving   system:bootstrap:abc123   <none>   Approved,Issued\n"
        "csr-2   5s   kubernetes.io/kubelet-serving   system:bootstrap:other1   <none>   Approved,Issued\n"
    )
    for undo in (
        lambda: shell.go_on(node.way, what, "host/1"),
        lambda: subprocess.run([*node.way, "sh", "-c", node.says("switch")], check=True),
    ):
        shell.stop(node.way, what, "host/1", 290, first)
        assert shell.is_stopped(node.way, what)
        assert "token create abc123.0123456789abcdef --ttl=10m" in node.says("token")
        with pytest.raises(RefusedError):
            shell.stop(node.way, what, "other/2", 290, first)
        (node.state / "no-api").touch()
        with pytest.raises(HarnessError, match="Cannot undo node-joined"):
            shell.go_on(node.way, what, "host/1")
        assert shell.marks(node.way) == {what: "host/1"}, "it can be tried again"
        (node.state / "no-api").unlink()
        undo()
        assert node.says("taken-away") == TAKEN_AWAY
        assert (node.marked, shell.is_stopped(node.way, what)) == ({}, False)
        (node.state / "taken-away").unlink()


def test_a_node_that_nothing_lets_join_leaves_nothing_but_what_its_undoing_removes(node: FakeNode) -> None:
    what, first = Disruption.NODE_JOINED, shell.let_join("esipp-r1-joined", "abc123.0123456789abcdef")
    (node.state / "no-api").touch()
    with pytest.raises(HarnessError, match="Cannot begin node-joined: no API"):
        shell.stop(node.way, what, "host/1", 290, first)
    (node.state / "no-api").unlink()
    (node.state / "csrs").touch()
    assert shell.go_on(node.way, what, "host/1")
    assert node.marked == {}


@pytest.mark.parametrize("lacks", ["rules", "kubelet"])
def test_a_node_that_came_back_by_itself_has_not_left(lacks: str, node: FakeNode) -> None:
    shell.stop(node.way, Disruption.NODE_LEFT, "host/1", 39)
    (node.state / lacks).unlink()
    assert not shell.is_stopped(node.way, Disruption.NODE_LEFT)


def test_a_node_whose_object_was_not_deleted_keeps_it(node: FakeNode) -> None:
    shell.stop(node.way, Disruption.NODE_DELETED, "host/1", 60)
    assert shell.go_on(node.way, Disruption.NODE_DELETED, "host/1")
    assert (node.says("node") + "\n", node.marked) == (NODE, {})


def test_a_node_that_cannot_save_its_object_is_reported(node: FakeNode) -> None:
    (node.state / "node").write_text("the server is currently unable to handle the request")
    with pytest.raises(HarnessError, match="Cannot begin node-deleted"):
        shell.stop(node.way, Disruption.NODE_DELETED, "host/1", 60)


def test_a_switch_lets_the_balancer_reach_the_api_server_again(node: FakeNode) -> None:
    what = Disruption.BALANCER_CUT_OFF
    shell.stop(node.way, what, "host/1", 60, shell.note_balancer(["192.0.2.7"]))
    assert shell.is_stopped(node.way, what)
    assert (shell.dropped(node.way), sorted(node.marked)) == (0, ["balancer", what.value])
    subprocess.run([*node.way, "sh", "-c", node.says("switch")], check=True)
    assert (shell.is_stopped(node.way, what), node.marked) == (False, {})


OTHERS = ("192.0.2.252", "2001:db8::fc")


def given(node: FakeNode) -> list[str]:
    return [line.split()[3] for line in node.says("addresses").splitlines()]


def test_a_node_has_other_addresses_for_a_while(node: FakeNode) -> None:
    what, first = Disruption.ADDRESS_ADDED, shell.note_addresses(OTHERS)
    (node.state / "addresses").write_text("2: eth0    inet 192.0.2.2/24 scope global eth0\n")
    for undo in (
        lambda: shell.go_on(node.way, what, "host/1"),
        lambda: subprocess.run([*node.way, "sh", "-c", node.says("switch")], check=True),
    ):
        shell.stop(node.way, what, "host/1", 60, first)
        assert given(node) == ["192.0.2.2/24", "192.0.2.252/32", "2001:db8::fc/128"]
        assert shell.is_stopped(node.way, what)
        assert shell.marks(node.way) == {what: "host/1"}
        undo()
        assert (given(node), shell.is_stopped(node.way, what), node.marked) == (["192.0.2.2/24"], False, {})


@pytest.mark.parametrize("where", ["addresses", "neighbours"])
def test_an_address_that_is_taken_is_left_alone(where: str, node: FakeNode) -> None:
    taken = {
        "addresses": "2: eth0    inet 192.0.2.252/24 scope global eth0",
        "neighbours": "192.0.2.252 dev eth0 lladdr 02:00:00:00:00:07 STALE",
    }
    (node.state / where).write_text(f"{taken[where]}\n")
    what = Disruption.ADDRESS_ADDED
    with pytest.raises(HarnessError, match="its other address is taken"):
        shell.stop(node.way, what, "host/1", 60, shell.note_addresses(OTHERS))
    assert shell.go_on(node.way, what, "host/1")
    assert (node.says(where), node.marked) == (taken[where], {})


def test_an_address_that_is_not_usable_is_not_there(node: FakeNode) -> None:
    what = Disruption.ADDRESS_ADDED
    shell.stop(node.way, what, "host/1", 60, shell.note_addresses(OTHERS))
    lines = node.says("addresses")
    (node.state / "addresses").write_text(lines.replace("global eth0", "global tentative eth0", 1))
    assert not shell.is_stopped(node.way, what)
