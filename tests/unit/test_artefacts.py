"""Evidence: from commands that hang, fail, flood and hold secrets."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from esipp.base.framing import script
from esipp.base.hashing import file_name
from esipp.cluster.client import ApiError, Cluster
from esipp.testbed import artefacts
from esipp.testbed.artefacts import MOST_CHECKS, CheckEvidence, Collector, collect, write_checks
from esipp.testbed.collectors import MOST_NODES, cluster_collectors, container_collectors, node_collectors

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"  # noqa: S105 - made up


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_what_commands_and_callables_say_is_written(tmp_path: Path) -> None:
    notes = collect(
        tmp_path / "artefacts",
        [Collector("nodes/a/ip-addr.txt", python("print('1: lo')")), Collector("services.json", lambda: "{}\n")],
    )
    assert notes == []
    assert (tmp_path / "artefacts/nodes/a/ip-addr.txt").read_text() == "1: lo\n"
    assert (tmp_path / "artefacts/services.json").read_text() == "{}\n"
    index = (tmp_path / "artefacts/index.txt").read_text()
    assert "6  nodes/a/ip-addr.txt" in index
    assert "missing or incomplete:\n  nothing" in index


def test_one_that_fails_is_noted_and_keeps_what_it_said(tmp_path: Path) -> None:
    def breaks() -> str:
        raise ApiError(403, "Forbidden", "not for you", "GET /x")

    notes = collect(
        tmp_path,
        [
            Collector("a.txt", python("print('half'); print('no such table'); raise SystemExit(3)")),
            Collector("b.json", breaks),
            Collector("c.txt", ["/nowhere/conntrack"]),
            Collector("d.txt", None, missing="esipp cannot run commands on node x"),
            Collector("e.txt", python("print('well')")),
        ],
    )
    assert notes[0] == "a.txt: exit code 3: no such table"
    assert notes[1] == "b.json: GET /x: 403 Forbidden: not for you"
    assert notes[2].startswith("c.txt: [Errno 2]")
    assert notes[3] == "d.txt: esipp cannot run commands on node x"
    assert len(notes) == 4
    assert (tmp_path / "a.txt").read_text() == "half\nno such table\n"
    assert (tmp_path / "e.txt").read_text() == "well\n"
    assert "  a.txt: exit code 3" in (tmp_path / "index.txt").read_text()


def bundle(commands: dict[str, list[str]], *, tail: str = "", more: str = "", seconds: int = 60) -> Collector:
    parts = tuple(Collector(name, None, tail=name == tail) for name in commands)
    return Collector("n", ["sh", "-c", script(commands, "B0UND", seconds) + more], parts=parts, boundary="B0UND")


def test_one_command_brings_several_each_as_if_it_were_alone(tmp_path: Path) -> None:
    commands = {
        "n/plain.txt": ["printf", "a\nb\n"],
        "n/open.txt": ["printf", "no newline at the end"],
        "n/nothing.txt": ["true"],
        "n/bare.txt": ["printf", "\n"],
        "n/fails.txt": ["sh", "-c", "echo half; echo 'no such table' >&2; exit 3"],
        "n/missing.txt": ["/nowhere/conntrack"],
        "n/quoted.txt": ["sh", "-c", 'echo "it\'s $0"', "quoted"],
        "n/first.txt": python("print('first');\nfor i in range(60000): print('x' * 9)\nprint('last')"),
        "n/last.txt": python("print('first');\nfor i in range(60000): print('x' * 9)\nprint('last')"),
        "n/long.txt": python("print('y' * 200_000)"),
        "n/token.txt": ["echo", f"token={TOKEN}"],
    }
    late = {"n/late.txt": ["sh", "-c", "echo begun; exec sleep 30"], "n/next.txt": ["echo", "next"]}
    wanted = [bundle(commands, tail="n/last.txt"), bundle(late, seconds=2)]
    notes = collect(tmp_path, wanted, most_bytes=300_000)
    text = {name: (tmp_path / name).read_text() for name in (*commands, *late)}
    assert text["n/plain.txt"] == "a\nb\n"
    assert text["n/open.txt"] == "no newline at the end"
    assert text["n/nothing.txt"] == ""
    assert text["n/bare.txt"] == "\n"
    assert text["n/fails.txt"] == "half\nno such table\n"
    assert (text["n/late.txt"], text["n/next.txt"]) == ("begun\n", "next\n")
    assert text["n/quoted.txt"] == "it's quoted\n"
    assert text["n/first.txt"].startswith("first\nxxx")
    assert text["n/last.txt"].endswith("xxx\nlast\n")
    assert text["n/long.txt"] == "y" * 200_000 + "\n"
    assert TOKEN not in text["n/token.txt"]
    said = {note.partition(": ")[0]: note.partition(": ")[2] for note in notes}
    assert said.pop("n/missing.txt").startswith("exit code 127: timeout: ")
    assert said == {
        "n/fails.txt": "exit code 3: no such table",
        "n/late.txt": "ended after 20 s",
        "n/first.txt": "cut to its first 300000 bytes",
        "n/last.txt": "cut to its last 300000 bytes",
    }


def test_of_several_that_break_off_those_before_are_kept(tmp_path: Path) -> None:
    well = {"n/a.txt": ["echo", "well"]}
    gone = bundle(well, more="\necho no such container\nexit 1")
    more = Collector("n/b.txt", None)
    notes = collect(tmp_path, [Collector("n", gone.source, parts=(*gone.parts, more), boundary=gone.boundary)])
    assert notes == ["n/b.txt: exit code 1: no such container"]
    assert (tmp_path / "n/a.txt").read_text() == "well\n"
    notes = collect(tmp_path, [bundle(well, more="\nsleep 30"), bundle({"m": ["sleep", "30"]})], total=0.5)
    assert notes == ["m: not done after 0 s"]
    notes = collect(tmp_path, [Collector("n", ["/nowhere/docker"], parts=gone.parts, boundary=gone.boundary)])
    assert notes == ["n/a.txt: [Errno 2] No such file or directory: '/nowhere/docker'"]


def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    code = f"echo begun; sleep 60 & echo $! > {child}; wait"
    began = time.monotonic()
    notes = collect(tmp_path / "out", [Collector("a.txt", ["sh", "-c", code])], seconds=0.5)
    assert time.monotonic() - began < 10
    assert notes == ["a.txt: ended after 0 s"]
    assert (tmp_path / "out/a.txt").read_text() == "begun\n"
    state = Path(f"/proc/{child.read_text().strip()}/stat")
    deadline = time.monotonic() + 5
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        os.sched_yield()
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_callable_that_hangs_is_left_behind(tmp_path: Path) -> None:
    forever = threading.Event()

    def hangs() -> str:
        forever.wait(30)
        return "late"

    began = time.monotonic()
    notes = collect(tmp_path, [Collector("a.txt", hangs), Collector("b.txt", lambda: "b")], total=0.5)
    assert time.monotonic() - began < 5
    forever.set()
    assert notes == ["a.txt: not done after 0 s"]
    assert (tmp_path / "b.txt").exists()


@pytest.mark.parametrize("tail", [False, True])
def test_one_that_floods_is_cut(tail: bool, tmp_path: Path) -> None:
    code = "print('first');\nfor i in range(60000): print('x' * 9)\nprint('last')"
    notes = collect(tmp_path, [Collector("a.txt", python(code), tail=tail)], most_bytes=1000)
    text = (tmp_path / "a.txt").read_text()
    assert len(text) <= 1000
    assert (text.startswith("first"), text.endswith("last\n")) == (not tail, tail)
    assert notes == [f"a.txt: cut to its {'last' if tail else 'first'} 1000 bytes"]


def test_one_that_floods_for_ever_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    notes = collect(tmp_path, [Collector("a.txt", ["yes"]), Collector("b.txt", ["yes"], tail=True)], seconds=1)
    assert time.monotonic() - began < 8
    assert notes == ["a.txt: cut to its first 524288 bytes", "b.txt: ended after 1 s"]


def test_what_is_collected_holds_no_token(tmp_path: Path) -> None:
    def breaks() -> str:
        raise RuntimeError(f"refused: Bearer {TOKEN}")

    fails = python(f"print('token={TOKEN}'); raise SystemExit(1)")
    begins = python(f"print('x' * 900 + ' token={TOKEN}' * 3)")
    collect(tmp_path, [Collector("a.txt", fails), Collector("b.txt", breaks)])
    collect(tmp_path, [Collector("c.txt", begins, tail=True), Collector("d.txt", begins)], most_bytes=930)
    for path in tmp_path.rglob("*"):
        assert TOKEN[-20:] not in path.read_text()


class FakeCluster:
    """Answers like an API server of which one part is out of order."""

    def request(self, method: str, path: str, **_: Any) -> dict[str, Any]:
        if path.endswith("networkpolicies"):
            raise ApiError(403, "Forbidden", "no", f"{method} {path}")
        return {"path": path, "items": [{"metadata": {"name": "x", "managedFields": [{"f": 1}]}}]}

    def list(self, path: str) -> list[dict[str, Any]]:
        def pod(name: str, **labels: str) -> dict[str, Any]:
            return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c"}]}}

        if "kube-system" in path:
            return [pod("kube-proxy-1", **{"k8s-app": "kube-proxy"}), pod("kindnet-1"), pod("etcd-1")]
        return [pod(f"backend-{i}") for i in range(30)]

    def text(self, path: str, query: dict[str, str]) -> str:
        if "backend-3/" in path:
            raise ApiError(404, "NotFound", "gone", path)
        return f"log of {path} since {query['sinceSeconds']} {query['container']}\n"


def test_what_the_api_server_knows(tmp_path: Path) -> None:
    notes = collect(tmp_path, cluster_collectors(cast(Cluster, FakeCluster()), "esipp-1", since=41.5))
    assert [note.partition(":")[0] for note in notes] == ["kubernetes/networkpolicies.json"]
    services = json.loads((tmp_path / "kubernetes/services.json").read_text())
    assert services == {"path": "/api/v1/namespaces/esipp-1/services", "items": [{"metadata": {"name": "x"}}]}
    echo = (tmp_path / "logs/echo.txt").read_text()
    assert "log of /api/v1/namespaces/esipp-1/pods/backend-0/log since 42 c" in echo
    assert "only the first 20 of 30 pods" in echo
    assert "404 NotFound" in echo
    assert "backend-4/" in echo
    assert "kube-proxy-1" in (tmp_path / "logs/kube-proxy.txt").read_text()
    addon = (tmp_path / "logs/network-addon.txt").read_text()
    assert ("kindnet-1" in addon, "etcd-1" in addon) == (True, False)


def names(mode: str) -> set[str]:
    found = node_collectors(["a"], lambda node, command: ["exec", node, *command], ports=[80], proxy_mode=mode)
    return {part.name.removeprefix("nodes/a/").removesuffix(".txt") for each in found for part in each.parts}


def test_rules_are_read_as_the_proxy_mode_has_them() -> None:
    assert {"iptables", "ip6tables"} <= names("iptables")
    assert "nft" not in names("iptables")
    assert "nft" in names("nftables")
    assert "iptables" not in names("nftables")
    assert {"ipvs", "iptables"} <= names("ipvs")
    assert {"nft", "iptables"} <= names("")


def test_commands_go_where_the_node_is_and_end_there() -> None:
    (made,) = node_collectors(["a"], lambda node, command: ["exec", node, *command], ports=[30080, 80])
    assert isinstance(made.source, list)
    assert made.source[:4] == ["exec", "a", "sh", "-c"], "one command for all of a node"
    assert "timeout 20" in made.source[-1]
    assert "each nodes/a/ip-rule.txt ip rule\n" in made.source[-1]
    assert "port=(80|30080) " in made.source[-1]


def test_a_node_without_a_way_and_nodes_too_many_are_noted(tmp_path: Path) -> None:
    many = [f"n{i}" for i in range(MOST_NODES + 2)]
    notes = collect(tmp_path, node_collectors(many, lambda node, command: None, ports=[]))
    assert "nodes/n0: esipp cannot run commands on node n0" in notes
    assert notes[-1] == "nodes: limited to 10 nodes; left out: n10, n11"


def test_containers_log() -> None:
    (only,) = container_collectors(["esipp-1-outside-1"])
    assert only.source == ["docker", "logs", "--tail", "500", "esipp-1-outside-1"]


def evidence(identity: str, **more: Any) -> CheckEvidence:
    return CheckEvidence(identity, {"id": identity, "status": "fail"}, [{"seq": 0}, {"seq": 1}], **more)


def test_a_check_has_its_own_folder(tmp_path: Path) -> None:
    check = evidence("nodeport.local.tcp", packets="at the node: …", pcaps={"worker-a": b"\xd4\xc3\xb2\xa1"})
    assert write_checks(tmp_path, [check]) == []
    folder = tmp_path / "rows/nodeport.local.tcp"
    assert json.loads((folder / "verdict.json").read_text())["status"] == "fail"
    assert (folder / "observations.jsonl").read_text() == '{"seq": 0}\n{"seq": 1}\n'
    assert (folder / "packets.txt").read_text() == "at the node: …\n"
    assert (folder / "worker-a.pcap").read_bytes() == b"\xd4\xc3\xb2\xa1"
    readme = (folder / "README.txt").read_text()
    assert "../../artefacts/index.txt" in readme
    assert "worker-a.pcap" in readme


def test_without_packets_nothing_is_said_of_them(tmp_path: Path) -> None:
    write_checks(tmp_path, [evidence("a")])
    assert sorted(path.name for path in (tmp_path / "rows/a").iterdir()) == [
        "README.txt", "observations.jsonl", "verdict.json",
    ]  # fmt: skip


def test_checks_and_what_they_hold_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artefacts, "MOST_OBSERVATIONS", 1)
    monkeypatch.setattr(artefacts, "MOST_BYTES", 10)
    checks = [evidence(f"row-{i:02}", pcaps={"n": bytes(11)}) for i in range(MOST_CHECKS + 3)]
    notes = write_checks(tmp_path, checks)
    assert len([path for path in (tmp_path / "rows").iterdir() if path.is_dir()]) == MOST_CHECKS
    assert notes[-1] == "3 more checks have no folder of their own; rows/README.txt names them"
    assert "row-22" in (tmp_path / "rows/README.txt").read_text()
    assert "row-00: 1 of 2 observations; the ledger has all" in notes
    assert "row-00: the packets of n are left out, because they have 11 bytes" in notes


def test_a_check_that_cannot_be_written_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/a").write_text("in the way")
    notes = write_checks(tmp_path, [evidence("a"), evidence("b")])
    assert len(notes) == 1
    assert (tmp_path / "rows/b/verdict.json").exists()


def test_no_checks_leave_nothing(tmp_path: Path) -> None:
    assert write_checks(tmp_path, []) == []
    assert list(tmp_path.iterdir()) == []


def test_ids_are_safe_as_file_names() -> None:
    assert (
        file_name("nodeport.local.tcp.ipv4.outside-1-to-bare-node") == "nodeport.local.tcp.ipv4.outside-1-to-bare-node"
    )
    names = {
        file_name(each) for each in ("../etc/passwd", "..", "", ".hidden", "a/b", "a_b", "a b", "x" * 300, "x" * 301)
    }
    assert len(names) == 9
    assert all(name and "/" not in name and not name.startswith(".") and len(name) < 130 for name in names)
