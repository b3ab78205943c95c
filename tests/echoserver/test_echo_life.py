"""How the echo server starts, becomes unready, logs and ends."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.echoserver.harness import (
    IMAGE,
    PATIENCE,
    EchoServer,
    Process,
    Response,
    ask,
    closed_port,
    connect,
    exchange,
    http,
)
from tests.tools import needs_root, needs_tool

CONTROL = "PUT /ready HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{}"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", str(IMAGE / "echoserver.py"), *arguments]
    env = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=PATIENCE, check=False)


def test_readiness_is_switched_from_the_pod() -> None:
    with EchoServer() as server:
        port = str(server.ports["control"])
        assert http(server.ports["http"], "/readyz").status == 200
        done = run("control", "ready=false", "--control", port)
        assert (done.returncode, done.stdout) == (0, "ready=false\n")
        assert http(server.ports["http"], "/readyz").status == 503
        assert http(server.ports["http"], "/healthz").status == 200
        assert ask(server, "tcp", "ipv4", "still")[0]["nonce"] == "still"
        assert http(int(port), "/ready", family="ipv6").text == "false\n"
        assert run("control", "ready=true", ESIPP_CONTROL=port).returncode == 0
        assert http(server.ports["http"], "/readyz").status == 200
        server.check()


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_control_takes_true_and_false_only(family: str) -> None:
    with EchoServer() as server:
        port = server.ports["control"]
        for body, status in (("false", 200), ("maybe", 400), ("", 400), ("true\n", 200)):
            assert Response(exchange(family, port, CONTROL.format(len(body), body).encode())).status == status
        head, tail = CONTROL.format(5, "fa"), "lse"
        assert Response(exchange(family, port, head.encode(), tail.encode())).text == "false\n"
        assert http(port, "/", family=family).status == 404
        assert http(port, "/ready", method="POST", family=family).status == 405


def test_control_listens_on_loopback_only() -> None:
    with EchoServer() as server:
        table = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        port = f":{server.ports['control']:04X} "
        bound = {
            line.split()[1].split(":")[0] for line in table.splitlines() if port in line and line.split()[3] == "0A"
        }
        assert bound == {"0100007F", "0" * 24 + "01000000"}


def test_control_client_without_a_server() -> None:
    done = run("control", "ready=false", "--control", str(closed_port()))
    assert done.returncode == 1
    assert "no answer from the control port" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_at_once(number: int) -> None:
    with EchoServer() as server, connect("ipv4", server.ports["tcp"]) as idle:
        ask(server, "tcp", "ipv4", "accepted-after-the-idle-one")
        began = time.monotonic()
        server.signal(number)
        assert server.exit_code() == 0
        assert time.monotonic() - began < 2
        with pytest.raises(ConnectionRefusedError):
            connect("ipv4", server.ports["http"])
        idle.close()


def test_serves_on_for_a_while() -> None:
    with EchoServer("--on-sigterm", "serve:1.5") as server:
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        while http(server.ports["http"], "/readyz").status != 503:
            assert time.monotonic() - began < 1
        exchange("ipv4", server.ports["control"], CONTROL.format(4, "true").encode())
        assert http(server.ports["http"], "/readyz").status == 503  # what is ending cannot be made ready
        assert ask(server, "udp", "ipv6", "still")[0]["nonce"] == "still"
        assert server.exit_code() == 0
        assert 1.4 < time.monotonic() - began < 5


def test_sigint_cuts_the_while_short() -> None:
    with EchoServer(env={"ESIPP_ON_SIGTERM": "serve:60"}) as server:
        server.signal(signal.SIGTERM)
        ask(server, "tcp", "ipv4", "n")
        server.signal(signal.SIGINT)
        assert server.exit_code() == 0


@needs_root
@needs_tool("unshare")
@pytest.mark.parametrize("mode", ["stop", "serve:0.2"])
def test_as_the_first_process_of_a_container(mode: str) -> None:
    prefix = ["unshare", "--pid", "--fork", "--kill-child", "--"]
    with EchoServer("--on-sigterm", mode, prefix=prefix) as server:
        parent = server.process.pid
        first = int(Path(f"/proc/{parent}/task/{parent}/children").read_text())
        assert Path(f"/proc/{first}/status").read_text().split("NSpid:")[1].split("\n")[0].split()[-1] == "1"
        os.kill(first, signal.SIGTERM)
        assert server.exit_code() == 0


def test_options_from_the_environment_and_off() -> None:
    port = str(closed_port())
    command = [sys.executable, "-B", str(IMAGE / "echoserver.py"), "--udp=off", "--control", "off"]
    env = {"PATH": os.environ["PATH"], "ESIPP_HTTP": port, "ESIPP_TCP": "0", "ESIPP_UDP": "0", "NODE_NAME": "n"}
    with Process(command, env) as server:
        line = server.wait_for(lambda _: True)
        assert (line["http"], line["udp"], line["control"], line["node"]) == (int(port), None, None, "n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--http"],
        ["--http", "x"],
        ["--tcp=65536"],
        ["--nonsense", "1"],
        ["-x"],
        ["word"],
        ["--on-sigterm", "serve"],
        ["--on-sigterm=serve:-1"],
        ["--on-sigterm=serve:."],
        ["control"],
        ["control", "ready=perhaps"],
        ["control", "other=true"],
        ["control", "ready=true", "--control", "off"],
    ],
)
def test_wrong_command_lines(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage" in done.stderr or "echoserver.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_help() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "--on-sigterm" in done.stdout


@pytest.mark.parametrize("name", ["http", "tcp", "udp", "control"])
def test_a_port_in_use(name: str) -> None:
    kind = socket.SOCK_DGRAM if name == "udp" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET6, kind) as taken:
        taken.bind(("::", 0))
        if name != "udp":
            taken.listen()
        ports = {"http": "0", "tcp": "0", "udp": "0", "control": "0", name: str(taken.getsockname()[1])}
        done = run(*(word for key, value in ports.items() for word in (f"--{key}", value)))
    assert done.returncode == 1
    assert done.stderr.startswith(f"cannot listen on {name} port ")
    assert "Traceback" not in done.stderr


def test_a_log_that_nobody_reads_does_not_hold_up_the_serving() -> None:
    ports = [word for name in ("http", "tcp", "udp", "control") for word in (f"--{name}", "0")]
    command = [sys.executable, "-B", str(IMAGE / "echoserver.py"), *ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"]}) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        port = int(first.split(b'"udp": ')[1].split(b",")[0])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(("127.0.0.1", port))
            for number in range(5000):  # some 2 MiB of log
                sock.send(f"n{number}".encode())
                assert f'"n{number}"'.encode() in sock.recv(65536)
            lines = iter(process.stdout.readline, b"")
            seen = 0
            for line in lines:
                if b"log_dropped" in line:
                    break
                seen += 1
            assert 2000 < seen < 5000
            assert int(line.split(b'"lines": ')[1].rstrip(b"}\n")) == 5000 - seen
        process.terminate()
        process.communicate()
        assert process.returncode == 0


def test_a_log_whose_reader_is_gone() -> None:
    ports = [word for name in ("http", "tcp", "udp", "control") for word in (f"--{name}", "0")]
    command = [sys.executable, "-B", str(IMAGE / "echoserver.py"), *ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"]}) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split(b'"tcp": ')[1].split(b",")[0])
        process.stdout.close()
        for _ in range(3):
            assert b'"nonce": "n"' in exchange("ipv4", port, b"n\n")
        process.terminate()
        assert process.wait(PATIENCE) == 0


NO_IPV6 = """
import errno, sys
sys.path.insert(0, sys.argv.pop(1))
import echoserver, serving
real = serving.bound
def bound(address, port, kind):
    if ":" in address:
        raise OSError(errno.EAFNOSUPPORT, "no IPv6")
    return real(address, port, kind)
serving.bound = bound
sys.exit(echoserver.main())
"""


def test_on_a_kernel_without_ipv6() -> None:
    ports = [word for name in ("http", "tcp", "udp", "control") for word in (f"--{name}", "0")]
    command = [sys.executable, "-B", "-c", NO_IPV6, str(IMAGE), *ports]
    with Process(command, {"PATH": os.environ["PATH"]}) as server:
        line = server.wait_for(lambda _: True)
        document = json.loads(exchange("ipv4", line["tcp"], b"n\n"))
        assert document["peer_address"] == document["peer_address_raw"] == "127.0.0.1"
        assert document["family"] == "ipv4"
        assert json.loads(http(line["http"]).text)["local_address_raw"] == "127.0.0.1"
        assert http(line["control"], "/ready").text == "true\n"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE)
            sock.sendto(b"n", ("127.0.0.2", line["udp"]))
            data, peer = sock.recvfrom(65536)
        assert peer == ("127.0.0.2", line["udp"])
        assert json.loads(data)["local_address"] == json.loads(data)["local_address_raw"] == "127.0.0.2"
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0


def test_a_request_that_arrived_while_the_server_stood_still_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    happened: list[str] = []
    arriving: list[list[tuple[int, int]]] = [[], [(7, 1)], []]

    def poll(_wait: float, _most: int) -> list[tuple[int, int]]:
        clock[0] += 50.0  # it is stopped between its look at the sockets and its look at the clock
        return arriving.pop(0)

    def close() -> None:
        happened.append("closed")
        server.stop_at = 0.0

    monkeypatch.syspath_prepend(str(IMAGE))  # there its modules lie side by side
    serving = importlib.import_module("serving")
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    connection = SimpleNamespace(kept=False, fd=7, expires=112.0, close=close)
    server: Any = SimpleNamespace(
        handlers={7: lambda _mask: happened.append("answered")},
        oldest=deque([connection]),
        kept=OrderedDict(),
        log=SimpleNamespace(flush=lambda: None, drain=lambda _seconds: None),
        epoll=SimpleNamespace(poll=poll),
        listeners=[],
        stop_at=None,
    )
    serving.Server.run(server)
    assert happened == ["answered", "closed"]  # which, once it is answered, changes nothing
