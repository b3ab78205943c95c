"""How the prober takes jobs, spaces and shares them, and what it does with bad ones."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from images.echoserver import prober as module
from tests.echoserver.harness import IMAGE, PATIENCE, EchoServer, Prober, tcp_server, udp_server

TCP = {"protocol": "tcp", "host": "127.0.0.1", "port": 9}


@pytest.fixture
def silent() -> Iterator[int]:
    """A UDP port that never answers."""
    with udp_server(lambda *_: None) as port:
        yield port


def test_what_arrives_while_the_prober_stands_still_is_no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    happened: list[str] = []
    arriving: list[list[tuple[int, int]]] = [[], [(7, 1)], []]

    def poll(_wait: float, _most: int) -> list[tuple[int, int]]:
        clock[0] += 10.0  # it is stopped between its look at the sockets and its look at the clock
        return arriving.pop(0)

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    due = SimpleNamespace(deadline=105.0, ends=105.0, due=lambda: happened.append("time is up"))
    handlers = {7: lambda _mask: happened.append("answer")}
    prober: Any = SimpleNamespace(
        epoll=SimpleNamespace(poll=poll), handlers=handlers, waiting=[(105.0, 1, due)], woken=100.0, stood_still=[]
    )
    module.Prober._turn(prober, 0.0)
    assert happened == []
    module.Prober._turn(prober, 0.0)
    assert happened == ["answer", "time is up"]  # which, once it is answered, changes nothing
    assert prober.stood_still == [(100.0, 10.0), (110.0, 10.0)]


def test_connections_that_last_take_turns_with_all_others_and_keep_their_ports() -> None:
    """Two services lead to one backend: behind their NAT, two of one port would be one connection."""
    prober: Any = SimpleNamespace(ports=range(100, 104), turns={}, held=set())
    job = {kind: SimpleNamespace(protocol=kind, family=socket.AF_INET, wide=None) for kind in ("tcp", "get", "lasting")}

    def given(kind: str, times: int = 1) -> list[int]:
        return [module.Prober.next_port(prober, job[kind]) for _ in range(times)]

    ports = given("lasting") + given("tcp") + given("get") + given("lasting")
    assert sorted(ports) == [100, 101, 102, 103]
    prober.held = {(socket.AF_INET, ports[0]), (socket.AF_INET6, ports[1])}
    assert given("tcp", 6) == ports[1:] * 2


def test_wide_ports_are_of_the_whole_range_without_those_that_are_kept_for_others() -> None:
    every = [module.wide_port(turn) for turn in range(7, 7 + module.WIDE_COUNT)]
    assert sorted(every) == list(range(1024, 65536))
    few = sorted(module.wide_port(turn) for turn in range(100))
    assert max(high - low for low, high in itertools.pairwise(few)) < 2000  # a hundredth of the range is 645
    prober: Any = SimpleNamespace(ports=range(100, 104), turns={}, held=set(), reserved={every[1]})
    job: Any = SimpleNamespace(protocol="udp", family=socket.AF_INET, wide=7, spare=range(every[2], every[2] + 1))
    assert [module.Prober.next_port(prober, job) for _ in range(3)] == [every[0], every[3], every[4]]


def test_wide_ports_begin_with_the_number_of_the_job(server: EchoServer) -> None:
    job = {"host": "127.0.0.1", "port": server.ports["tcp"], "wide": 3, "spare": [20000, 60000], "count": 5}
    with Prober() as prober:
        results = prober.take(prober.give("tcp", **job))
    wide = [module.wide_port(turn) for turn in range(3, 40)]
    expected = [port for port in wide if not 20000 <= port <= 60000][:5]
    assert [result["source_port"] for result in sorted(results, key=lambda each: each["seq"])] == expected
    assert {result["echo"]["peer_port"] for result in results} == set(expected)


@pytest.mark.parametrize("one_socket", [False, True])
@pytest.mark.parametrize("brief", [False, True])
def test_answers_that_come_twice_are_counted(prober: Prober, server: EchoServer, one_socket: bool, brief: bool) -> None:
    def answer(sock: socket.socket, data: bytes, peer: Any) -> None:
        document = json.dumps({"schema": 1, "peer_address": "::1", "peer_port": 7, "nonce": data.decode()}).encode()
        for _ in range(2 if data.endswith(b":1") else 1):
            sock.sendto(document, peer)
            sock.sendto(document[:-1], ("127.0.0.1", server.ports["udp"]))  # no business of the prober's

    with udp_server(answer) as port:
        job = {"count": 3, "one_socket": one_socket, "brief": brief, "linger": 0.2}
        name = prober.give("udp", "127.0.0.1", port, **job)
        results = groups(prober, name) if brief else prober.take(name)
    assert {result["outcome"] for result in results} == {"answered"}
    irregular = [each for result in results for each in result.get("irregular", [])]
    assert [each[3:] for each in irregular] == [[0, 1]]


def test_a_job_that_is_cancelled_tells_what_was_answered_already(prober: Prober, server: EchoServer) -> None:
    name = prober.give("udp", "127.0.0.1", server.ports["udp"], count=2, spacing=9.0, linger=9.0)
    server.wait_for(lambda line: str(line.get("nonce", "")).endswith(f"{name}:0"))
    assert prober.probe("udp", "127.0.0.1", server.ports["udp"])["outcome"] == "answered"  # the first was before it
    prober.send({"cancel": name})
    done = prober.wait_for(lambda line: line.get("id") == name and "done" in line)
    assert (done["cancelled"], done["probes"]) == (True, 1)


def test_a_repeated_syn_and_a_late_answer_are_reported(prober: Prober, server: EchoServer) -> None:
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fill = stack.enter_context(socket.create_connection(listener.getsockname()))  # the queue has one place
        name = prober.give("tcp", "127.0.0.1", listener.getsockname()[1])
        assert prober.probe("udp", "127.0.0.1", server.ports["udp"])["outcome"] == "answered"  # a SYN was sent before
        for _ in range(2):
            sock, peer = listener.accept()
            with sock:
                if peer != fill.getsockname():
                    nonce = sock.recv(1000).decode().strip()
                    document = {"schema": 1, "peer_address": peer[0], "peer_port": peer[1], "nonce": nonce}
                    sock.sendall(json.dumps(document).encode() + b"\n")
        (result,) = prober.take(name)
    ((started, connected, ended, again, copies),) = result["irregular"]
    assert ended >= connected >= started + 1.0
    assert (again >= 1, copies) == (True, 0)


def test_it_says_what_it_is() -> None:
    with Prober("--limit", "7") as prober:
        about = prober.about
    assert about["prober"] == module.PROTOCOL
    assert about["limit"] == 7
    assert about["hostname"] == socket.gethostname()
    assert about["pid"] == prober.process.pid
    assert about["addresses"] == module.own_addresses()
    assert abs(about["time"] - time.time()) < PATIENCE
    assert about["monotonic"] <= time.monotonic()


@pytest.mark.parametrize("arguments", [["--limit"], ["--limit", "0"], ["--limit", "x"], ["word"]])
def test_wrong_command_lines(arguments: list[str]) -> None:
    command = [sys.executable, "-B", str(IMAGE / "prober.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")


FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.244.1.0/24 2 0 2
        |-- 10.244.1.0
           /24 link UNICAST
        |-- 10.244.1.5
           /32 host LOCAL
        |-- 10.244.1.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
     |-- 169.254.1.1
        /32 host LOCAL
Local:
        |-- 10.244.1.5
           /32 host LOCAL
        |-- 9.9.9.9
           /32 host LOCAL
"""
IF_INET6 = """\
fd00000000000000000000000000000a 02 40 00 80     eth0
fd000000000000000000000000000002 02 40 00 88     eth0
20010db8000000000000000000000001 02 40 00 00     eth0
fe8000000000000000000000000000aa 02 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
"""


def test_addresses_from_proc() -> None:
    assert module.local_addresses(FIB_TRIE, IF_INET6) == ["9.9.9.9", "10.244.1.5", "2001:db8::1", "fd00::a"]
    assert module.local_addresses("", "") == []


def test_describe(prober: Prober) -> None:
    prober.send({"describe": True, "id": "d1"})
    line = prober.wait_for(lambda line: line.get("id") == "d1")
    assert line["event"] == "description"
    assert line["addresses"] == module.own_addresses()
    assert line["monotonic"] >= prober.about["monotonic"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"protocol": "dccp"}, "protocol is"),
        ({"protocol": "tcp", "size": 7}, "size is for udp and bulk only"),
        ({"protocol": "sctp", "path": "/"}, "for http and get only"),
        ({"protocol": None}, "protocol is"),
        ({"host": "localhost"}, "host is a literal"),
        ({"host": "127.1"}, "host is a literal"),
        ({"host": ""}, "host is a literal"),
        ({"host": 1}, "host is a literal"),
        ({"host": "::ffff:127.0.0.1"}, "write an IPv4 address as one"),
        ({"host": "fe80::1"}, "needs its %scope"),
        ({"host": "fe80::1%nosuch0"}, "no such address or scope"),
        ({"host": "127.0.0.1%lo"}, "no such address or scope"),
        ({"host": "::1%99999999999999999999"}, "no such address or scope"),
        ({"port": 0}, "port is an integer"),
        ({"port": 65536}, "port is an integer"),
        ({"port": True}, "port is an integer"),
        ({"port": "80"}, "port is an integer"),
        ({"source_address": "::1"}, "different families"),
        ({"source_address": "x"}, "source_address is a literal"),
        ({"source_port": [1]}, "source_port is"),
        ({"source_port": [5, 4]}, "source_port is"),
        ({"source_port": "1"}, "source_port is"),
        ({"source_port": [1, 70000]}, "source_port is"),
        ({"count": 0}, "count is"),
        ({"count": 1_000_001}, "count is"),
        ({"count": 1.5}, "count is"),
        ({"spacing": -1}, "spacing is"),
        ({"spacing": float("nan")}, "spacing is"),
        ({"timeout": 0}, "timeout is"),
        ({"timeout": float("inf")}, "timeout is"),
        ({"timeout": None}, "timeout is"),
        ({"tiemout": 1}, "unknown: tiemout"),
        ({"path": "/"}, "for http and get only"),
        ({"one_socket": True}, "for udp and sctp only"),
        ({"one_socket": 1}, "one_socket is true or false"),
        ({"family": "ipv4"}, "not for tcp: family"),
        ({"preamble": "5"}, "in hexadecimal"),
        ({"preamble": "5 0"}, "in hexadecimal"),
        ({"preamble": None}, "in hexadecimal"),
        ({"preamble": "00" * 1025}, "1024 bytes at most"),
        ({"protocol": "udp", "preamble": "00"}, "for tcp, http and lasting only"),
        ({"brief": "yes"}, "brief is true or false"),
        ({"wide": -1}, "wide is an integer"),
        ({"wide": 1, "source_port": 5}, "exclude each other"),
        ({"wide": 1, "spare": [1]}, "spare is"),
        ({"wide": 1, "spare": [1, "2"]}, "spare is"),
        ({"linger": 1}, "linger is for udp and sctp only"),
        ({"protocol": "udp", "linger": 11}, "linger is a number"),
        ({"parallel": 0}, "parallel is"),
        ({"method": "GET"}, "method is for get only"),
        ({"protocol": "http", "method": "GET"}, "method is for get only"),
        ({"protocol": "get", "method": "POST"}, "method is GET or HEAD"),
        ({"protocol": "get", "method": ["GET"]}, "method is GET or HEAD"),
        ({"protocol": "get", "preamble": "00"}, "for tcp, http and lasting only"),
        ({"protocol": "get", "path": "/\r\n"}, "path is"),
        ({"protocol": "get", "headers": {"Connection": "x"}}, "the prober's own"),
        ({"protocol": "get", "one_socket": True}, "for udp and sctp only"),
        ({"protocol": "http", "path": "x"}, "path is"),
        ({"protocol": "http", "path": "/ x"}, "path is"),
        ({"protocol": "http", "path": "/\r\nA: b"}, "path is"),
        ({"protocol": "http", "headers": []}, "headers are"),
        ({"protocol": "http", "headers": {"A": "b\r\nC: d"}}, "not a plain name"),
        ({"protocol": "http", "headers": {"A b": "c"}}, "not a plain name"),
        ({"protocol": "http", "headers": {"A": 1}}, "not a plain name"),
        ({"protocol": "http", "headers": {"X-Esipp-Nonce": "n"}}, "the prober's own"),
        ({"protocol": "http", "headers": {f"A{n}": "b" * 2000 for n in range(9)}}, "longer than"),
    ],
)
def test_malformed_jobs(prober: Prober, change: dict[str, Any], complaint: str) -> None:
    prober.given += 1
    name = f"bad{prober.given}"
    prober.send({"id": name, **TCP, **change})
    line = prober.wait_for(lambda line: line.get("id") == name)
    assert line.keys() == {"error", "id"}
    assert complaint in line["error"]


BAD_LINES = [
    b"x", b"[]", b"1", b"null", b"{", b"\xff\xfe", b'{"id": 1}', b'{"id": ""}', b"{}", b'{"cancel": null}',
    b"[" * 60_000, json.dumps({"id": "x" * 201, **TCP}).encode(), b"{" + b" " * 70_000 + b"}", b"y" * 300_000,
]  # fmt: skip


@pytest.mark.parametrize("data", BAD_LINES, ids=lambda data: repr(data[:12]))
def test_malformed_lines(prober: Prober, data: bytes) -> None:
    since = len(prober.lines)
    prober.write(data + b"\n\n")
    assert prober.wait_for(lambda line: "error" in line, since).keys() == {"error"}
    prober.send({"describe": True, "id": f"after{since}"})
    prober.wait_for(lambda line: line.get("id") == f"after{since}")
    assert len([line for line in prober.lines[since:] if "error" in line]) == 1


VALUES = st.none() | st.booleans() | st.integers(-2, 70_000) | st.floats() | st.text(max_size=5) | st.just("::1")
JOBS = st.dictionaries(st.sampled_from(sorted(module.JOB_KEYS - {"id"})), VALUES | st.lists(VALUES, max_size=3))


@settings(max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200).map(lambda b: b.replace(b"\n", b" ")) | JOBS)
def test_random_lines(prober: Prober, data: bytes | dict[str, Any]) -> None:
    prober.given += 1
    name = f"random{prober.given}"
    if isinstance(data, dict):  # an address that goes nowhere near, and soon over
        data = json.dumps({**TCP, "port": 1, **data, "id": name, "host": "127.0.0.1", "count": 1}).encode()
    since = len(prober.lines)
    prober.write(data + b"\n")
    prober.send({"describe": True, "id": f"{name}-after"})
    prober.wait_for(lambda line: line.get("id") == f"{name}-after", since)
    prober.send({"cancel": name})


def test_a_job_id_is_taken_once_at_a_time(prober: Prober, silent: int) -> None:
    job = prober.give("udp", "127.0.0.1", silent, timeout=30)
    prober.send({**TCP, "id": job})
    assert "under way" in prober.wait_for(lambda line: line.get("id") == job)["error"]
    prober.send({"cancel": job})
    prober.wait_for(lambda line: line.get("id") == job and "done" in line)
    since = len(prober.lines)
    prober.send({"cancel": job})
    assert prober.wait_for(lambda line: line.get("id") == job, since)["error"] == "no such job"


def hold(sock: socket.socket) -> None:
    sock.recv(1000)
    sock.recv(1)


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_cancel(prober: Prober, silent: int, protocol: str) -> None:
    with tcp_server(hold) as listening:
        port = listening if protocol == "tcp" else silent
        job = prober.give(protocol, "127.0.0.1", port, count=1000, spacing=0.01, timeout=0.1)
        prober.wait_for(lambda line: line.get("id") == job)
        began = time.monotonic()
        prober.send({"cancel": job})
        done = prober.wait_for(lambda line: line.get("id") == job and "done" in line)
        assert time.monotonic() - began < 2
    results = [line for line in prober.lines if line.get("id") == job and "outcome" in line]
    assert done == {"id": job, "done": True, "probes": len(results), "cancelled": True}
    assert 0 < len(results) < 1000


def test_end_of_input_ends_it(server: EchoServer, silent: int) -> None:
    with Prober() as prober:
        prober.give("udp", "127.0.0.1", silent, count=100, timeout=60)
        prober.take(prober.give("tcp", "127.0.0.1", server.ports["tcp"]))
        began = time.monotonic()
        assert prober.process.stdin is not None
        prober.process.stdin.close()
        assert prober.exit_code() == 0
        assert time.monotonic() - began < 2
        assert not [line for line in prober.lines if "not json" in line]


def test_input_from_a_file_ends_it_too() -> None:
    command = [sys.executable, "-B", str(IMAGE / "prober.py")]
    with (IMAGE / "Dockerfile").open("rb") as jobs:
        done = subprocess.run(command, stdin=jobs, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert b"not a line of JSON" in done.stdout


def test_a_broken_output_ends_it(server: EchoServer) -> None:
    command = [sys.executable, "-B", str(IMAGE / "prober.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b'{"describe": true, "id": "d"}\n')
        process.stdin.flush()
        assert process.wait(PATIENCE) == 1


def test_results_that_nobody_reads_hold_up_the_probing_only(server: EchoServer) -> None:
    command = [sys.executable, "-B", str(IMAGE / "prober.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        job = {"id": "big", "protocol": "udp", "host": "127.0.0.1", "port": server.ports["udp"], "count": 9000}
        since = len(server.lines)
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()
        server.wait_for(lambda line: str(line.get("nonce")).endswith("big:3000"), since)
        results = []
        for line in iter(process.stdout.readline, b""):
            parsed = json.loads(line)
            if "outcome" in parsed:
                results.append(parsed)
            if "done" in parsed:
                break
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert len(results) == 9000
    assert {result["outcome"] for result in results} == {"answered"}


def test_many_jobs_at_once(server: EchoServer, prober: Prober) -> None:
    jobs = [
        prober.give(protocol, host, server.ports[protocol], count=5)
        for _ in range(50)
        for protocol in ("tcp", "http", "udp")
        for host in ("127.0.0.1", "::1")
    ]
    results = [result for job in jobs for result in prober.take(job)]
    assert len(results) == 1500
    assert {result["outcome"] for result in results} == {"answered"}
    assert len({result["nonce"] for result in results}) == 1500
    flows = {(r["echo"]["protocol"], r["source_address"], r["source_port"], r["echo"]["time"]) for r in results}
    assert len(flows) == 1500


def test_a_small_job_does_not_wait_for_a_large_one(server: EchoServer, prober: Prober) -> None:
    large = prober.give("tcp", "127.0.0.1", server.ports["tcp"], count=5000)
    small = prober.give("tcp", "127.0.0.1", server.ports["tcp"], count=5)
    prober.take(small)
    ends = [line["id"] for line in prober.lines if "done" in line and line["id"] in (large, small)]
    assert ends[0] == small
    assert len(prober.take(large)) == 5000


def test_the_limit_is_kept(silent: int) -> None:
    with Prober("--limit", "3") as prober:
        results = prober.take(prober.give("udp", "127.0.0.1", silent, count=9, timeout=0.2))
    starts = sorted(result["started"] for result in results)
    ends = sorted(result["ended"] for result in results)
    assert all(starts[n + 3] >= ends[n] for n in range(6))  # stamped when it really starts


def test_spacing(server: EchoServer, prober: Prober) -> None:
    results = prober.take(prober.give("tcp", "127.0.0.1", server.ports["tcp"], count=20, spacing=0.05))
    starts = [result["started"] for result in sorted(results, key=lambda result: int(result["seq"]))]
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert min(gaps) > 0.01
    assert 0.9 <= starts[-1] - starts[0] < 2.5  # 19 gaps, and no drift


def test_spacing_without_end_of_the_probe_before(prober: Prober, silent: int) -> None:
    results = prober.take(prober.give("udp", "127.0.0.1", silent, count=10, spacing=0.02, timeout=1))
    starts = [result["started"] for result in results]
    assert max(starts) - min(starts) < 0.9


def free_range(size: int) -> int:
    """The first of so many ports that are free now."""
    for low in range(20_000, 30_000, size):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(low, low + size):
                    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                        stack.enter_context(socket.socket(socket.AF_INET, kind)).bind(("0.0.0.0", port))
            except OSError:
                continue
            return low
    raise AssertionError("no free ports")


@pytest.mark.parametrize("protocol", ["tcp", "http", "udp"])
def test_source_port_range(server: EchoServer, prober: Prober, protocol: str) -> None:
    low = free_range(10) + {"tcp": 0, "http": 3, "udp": 6}[protocol]
    for _ in range(2):  # the ports can be used again at once
        job = prober.give(
            protocol, "127.0.0.1", server.ports[protocol], count=6, spacing=0.02, source_port=[low, low + 2]
        )
        results = prober.take(job)
        assert [result["outcome"] for result in results] == ["answered"] * 6, results
        assert [result["source_port"] for result in results] == [low, low + 1, low + 2] * 2
        assert [result["echo"]["peer_port"] for result in results] == [low, low + 1, low + 2] * 2


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_no_two_probes_share_a_source_port_whatever_they_dial(
    server: EchoServer, prober: Prober, protocol: str
) -> None:
    port = server.ports[protocol]
    jobs = [prober.give(protocol, f"127.0.0.{last}", port, count=100) for last in (1, 2, 3)]
    seen = [result["source_port"] for job in jobs for result in prober.take(job)]
    assert len(set(seen)) == len(seen) == 300


def test_one_socket(server: EchoServer, prober: Prober) -> None:
    for host in ("127.0.0.1", "::1"):
        job = prober.give("udp", host, server.ports["udp"], count=50, one_socket=True)
        results = prober.take(job)
        assert {result["outcome"] for result in results} == {"answered"}
        assert len({result["source_port"] for result in results}) == 1
        assert len({result["echo"]["peer_port"] for result in results}) == 1


def test_one_socket_refused(prober: Prober) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    results = prober.take(prober.give("udp", "127.0.0.1", port, count=5, one_socket=True, timeout=1))
    assert {result["outcome"] for result in results} == {"refused"}


def test_nonces_cannot_be_guessed_and_are_valid(prober: Prober, server: EchoServer) -> None:
    results = [prober.probe("tcp", "127.0.0.1", server.ports["tcp"], id="a" * 200)]
    results += prober.take(prober.give("http", "127.0.0.1", server.ports["http"], id="odd id/äß", count=2))
    assert {result["outcome"] for result in results} == {"answered"}
    assert len({result["nonce"].split(":")[0] for result in results}) == 2  # a job's own prefix
    assert all(len(result["nonce"].split(":")[0]) == 16 for result in results)


def test_thousands_of_probes_leave_no_sockets(server: EchoServer) -> None:
    with Prober() as prober:
        prober.take(prober.give("tcp", "::1", server.ports["tcp"], count=3000))
        prober.take(prober.give("udp", "::1", server.ports["udp"], count=3000))
        descriptors = f"/proc/{prober.process.pid}/fd"
        end = time.monotonic() + 5
        while len(os.listdir(descriptors)) > 10:  # noqa: PTH208 - names are enough
            assert time.monotonic() < end
            prober.take(prober.give("udp", "::1", server.ports["udp"], spacing=0.1, count=2))


def groups(prober: Prober, job: str) -> list[dict[str, Any]]:
    """The lines of a brief job, once it is done; they are all it says."""
    done = prober.wait_for(lambda line: line.get("id") == job and ("done" in line or "error" in line))
    assert done.get("done"), done
    lines = [line for line in prober.lines if line.get("id") == job]
    assert lines.pop() == done
    assert all(line["brief"] and "outcome" in line for line in lines)
    assert sum(line["count"] for line in lines) == done["probes"]
    return lines


@pytest.mark.parametrize("protocol", ["tcp", "http", "udp"])
def test_a_brief_job_tells_equal_results_once(server: EchoServer, prober: Prober, protocol: str) -> None:
    before, wall = time.monotonic(), time.time()
    job = prober.give(protocol, "127.0.0.1", server.ports[protocol], count=1200, brief=True, parallel=50)
    (group,) = groups(prober, job)
    single = prober.probe(protocol, "127.0.0.1", server.ports[protocol])
    after = time.monotonic()
    assert group.keys() == {
        "id", "brief", "outcome", "detail", "answered_from", "count", "source_address", "echo", "connected_count",
        "ports", "moments", "started", "ended", "time",
    }  # fmt: skip
    assert len(group["moments"]) == len(group["ports"])
    assert all(before - 0.01 <= began <= ended <= after + 0.01 for began, ended in group["moments"])
    assert (group["outcome"], group["detail"], group["answered_from"]) == ("answered", None, None)
    assert (group["count"], group["connected_count"]) == (1200, 0 if protocol == "udp" else 1200)
    assert group["source_address"] == "127.0.0.1"
    assert group["echo"] == {k: v for k, v in single["echo"].items() if k not in ("nonce", "time", "peer_port")}
    assert len(group["ports"]) == 1000
    assert all(source == peer > 0 for source, peer in group["ports"])
    assert before <= group["started"] < group["ended"] <= after
    assert wall - 0.1 <= group["time"] <= time.time()


def test_a_brief_job_tells_apart_what_differs(prober: Prober) -> None:
    seen: list[int] = []

    def serve(sock: socket.socket, data: bytes, peer: Any) -> None:
        seen.append(1)
        answer = {"schema": 1, "nonce": data.decode(), "peer_address": "192.0.2.1", "peer_port": len(seen), "time": 1}
        if len(seen) % 10 == 3:
            answer["peer_address"] = "192.0.2.2"
        if len(seen) % 10 != 7:
            sock.sendto(json.dumps(answer).encode(), peer)

    with udp_server(serve) as port:
        lines = groups(prober, prober.give("udp", "127.0.0.1", port, count=40, brief=True, timeout=0.5, parallel=10))
    counts = {(line["outcome"], (line["echo"] or {}).get("peer_address")): line["count"] for line in lines}
    assert counts == {("answered", "192.0.2.1"): 32, ("answered", "192.0.2.2"): 4, ("timeout", None): 4}
    assert {peer for line in lines if line["echo"] is None for _, peer in line["ports"]} == {None}
    assert len({peer for line in lines for _, peer in line["ports"] if peer}) == 36


def test_a_brief_job_that_is_cancelled_tells_what_it_has(prober: Prober, silent: int) -> None:
    since = len(prober.lines)
    job = prober.give("udp", "127.0.0.1", silent, count=1000, spacing=0.01, timeout=0.05, brief=True)
    other = prober.give("udp", "127.0.0.1", silent, count=1, timeout=0.3)
    prober.take(other)
    prober.send({"cancel": job})
    done = prober.wait_for(lambda line: line.get("id") == job and "done" in line)
    (group,) = [line for line in prober.lines[since:] if line.get("id") == job and "outcome" in line]
    assert done == {"id": job, "done": True, "probes": group["count"], "cancelled": True}


@pytest.mark.parametrize("spacing", [0, 0.01])
def test_a_job_s_own_bound_is_kept(prober: Prober, silent: int, spacing: float) -> None:
    job = prober.give("udp", "127.0.0.1", silent, count=9, timeout=0.2, parallel=3, spacing=spacing)
    other = prober.give("udp", "127.0.0.1", silent, count=9, timeout=0.2)
    results = prober.take(job)
    starts = sorted(result["started"] for result in results)
    ends = sorted(result["ended"] for result in results)
    assert all(starts[n + 3] >= ends[n] for n in range(6))
    others = [result["started"] for result in prober.take(other)]
    assert max(others) - min(others) < 0.2  # it is bound alone


@pytest.mark.parametrize("parallel", [1, 3])
def test_what_met_silence_does_not_hold_up_the_others_of_its_job(prober: Prober, parallel: int) -> None:
    arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with udp_server(lambda _sock, data, _peer: arrived.put(data)) as port:
        job = prober.give("udp", "127.0.0.1", port, count=2 * parallel, timeout=1000, parallel=parallel)
        met = {arrived.get(timeout=PATIENCE) for _ in range(2 * parallel)}
        prober.send({"cancel": job})
        assert prober.take(job) == []  # all of them still wait
    assert len(met) == 2 * parallel


def test_thousands_of_silent_probes_are_in_flight_together(prober: Prober, silent: int) -> None:
    began = time.monotonic()
    jobs = [prober.give("udp", "127.0.0.1", silent, count=2, timeout=2, brief=True) for _ in range(2000)]
    for job in jobs:
        (group,) = groups(prober, job)
        assert (group["outcome"], group["count"]) == ("timeout", 2)
    assert time.monotonic() - began < 10 * PATIENCE  # one after the other they would take 8000 s
