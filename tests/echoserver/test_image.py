"""What goes into the image, and that it runs as it will there."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.echoserver.harness import IMAGE, PATIENCE, Line, Process
from tests.tools import needs_root, needs_tool

DOCKERFILE = (IMAGE / "Dockerfile").read_text()


def copied() -> list[str]:
    (line,) = re.findall(r"^COPY (.*) /esipp/$", DOCKERFILE, re.M)
    return str(line).split()


def imports(path: Path) -> set[str]:
    """The modules a file imports when it runs."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name.split(".")[0] for name in found if not name.startswith("images.")}


def test_the_dockerfile_needs_nothing_but_its_base_and_tcpdump() -> None:
    words = re.findall(r"^[A-Z]+", DOCKERFILE, re.M)
    assert words == ["ARG", "FROM", "RUN", "COPY", "ENV", "USER", "EXPOSE", "ENTRYPOINT"]
    assert re.search(r"^RUN command -v tcpdump \|\| ", DOCKERFILE, re.M)  # a base that has it needs no network
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.M)
    assert re.search(r"^USER 65532:65532$", DOCKERFILE, re.M)
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.M)
    assert json.loads(entrypoint) == ["python3", "-B", "/esipp/echoserver.py"]


def test_every_module_is_copied_and_the_rest_is_the_standard_library() -> None:
    files = copied()
    assert sorted(files) == sorted(path.name for path in IMAGE.glob("*.py"))
    own = {Path(name).stem for name in files}
    for name in files:
        assert imports(IMAGE / name) <= own | set(sys.stdlib_module_names)
    assert not imports(IMAGE / "prober.py") & own  # it is copied alone
    loaded = {name for file in files for name in imports(IMAGE / file)}
    assert not loaded & {"asyncio", "argparse", "http", "urllib", "ssl", "subprocess", "logging", "re"}  # slow to start


def is_result(name: str, line: Line) -> bool:
    return line.get("id") == name


@needs_root
@needs_tool("setpriv", "unshare")
def test_as_a_user_without_rights_on_a_read_only_file_system(tmp_path: Path) -> None:
    """As in a pod: another user, no capabilities, nothing writable, an environment of its own."""
    for name in copied():
        shutil.copy(IMAGE / name, tmp_path)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(0o755)
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    drop = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "--no-new-privs", "--bounding-set=-all"]
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    if python is None:
        pytest.skip("no python3 that another user may run")

    def contained(program: str, *arguments: str) -> Process:
        inner = [*drop, python, "-B", str(tmp_path / program), *arguments]
        return Process(["unshare", "--mount", "sh", "-c", script, str(tmp_path), *inner], {"PATH": os.environ["PATH"]})

    ports = ("--http=0", "--tcp=0", "--udp=0", "--control=0")
    with contained("echoserver.py", *ports) as server, contained("prober.py") as prober:
        listening = server.wait_for(lambda _: True)
        assert listening.get("event") == "listening", listening
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert "Uid:\t65532\t65532" in status
        assert "CapEff:\t0000000000000000" in status
        assert prober.process.stdin is not None
        for protocol in ("tcp", "http", "udp"):
            job = {
                "id": protocol,
                "protocol": protocol,
                "host": "::1",
                "port": listening[protocol],
                "timeout": PATIENCE,
            }
            prober.process.stdin.write(json.dumps(job).encode() + b"\n")
            prober.process.stdin.flush()
        for protocol in ("tcp", "http", "udp"):
            assert prober.wait_for(partial(is_result, protocol))["outcome"] == "answered"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(copied())


@needs_root
@needs_tool("setpriv", "tcpdump")
def test_tcpdump_as_an_agent_runs_it() -> None:
    """With -Z root it still sets its groups, which takes CAP_SETGID; nothing else is needed beside CAP_NET_RAW."""
    drop = ["setpriv", "--bounding-set=-all,+net_raw,+setgid", "--inh-caps=-all", "--no-new-privs"]
    command = [*drop, "tcpdump", "-Z", "root", "-i", "any", "-U", "-w", "-", "udp port 9 and host 127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            while b"listening on any" not in (line := process.stderr.readline()):
                assert line, "tcpdump ended"
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.sendto(b"a packet to be seen", ("127.0.0.1", 9))
            seen = b""
            while b"a packet to be seen" not in seen:
                more = os.read(process.stdout.fileno(), 65536)
                assert more, process.stderr.read()
                seen += more
        finally:
            process.terminate()


@pytest.mark.parametrize("name", ["documents.py", "prober.py"])
def test_the_version_is_the_project_s(name: str) -> None:
    project = (IMAGE.parents[1] / "pyproject.toml").read_text()
    (version,) = re.findall(r'^version = "(.*)"$', project, re.M)
    assert f'VERSION = "{version}"' in (IMAGE / name).read_text()


def test_the_prober_needs_nothing_but_its_file() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-B", str(IMAGE / "prober.py"), "--help"], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: prober.py")
