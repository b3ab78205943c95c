"""HAProxy, for the classes that proxy: one process for all Services, with its own health checks.

A thread of ours starts it, reloads it when what is to be served has changed, and starts it again when it died. A
reload hands the old worker's sockets and its knowledge of the nodes to the new one; a node that is new begins as down,
as everywhere in this balancer, not as up, which is HAProxy's own habit.
"""

from __future__ import annotations

import contextlib
import csv
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

from .checks import Target
from .decisions import Decisions
from .haproxy_config import Proxied, log_socket, proxied, render, state_file, stats_socket
from .objects import Node, Service
from .settings import Settings
from .thresholds import Health, Result

GATHER_SECONDS = 0.1  # changes that come together are one reload
LONGEST_GATHER_SECONDS = 1.0
LIVES_EVERY = 1.0
RELOAD_SECONDS = 5.0
ASK_SECONDS = 5.0
END_SECONDS = 3.0
VERDICT = re.compile(r"Server (\S+)/(\S+) is (UP|DOWN)")  # the finding behind it comes just before
FINDING = re.compile(
    r"Health check for server (\S+)/(\S+) (?:succeeded|failed)[^,]*, reason: ([^,]+)(?:, code: (\d+))?"
)
# Down, its check's last status "initial" and last result "failed": with none at all HAProxy never begins to check.
NEW_SERVER = "{be_id} {be} {id} {name} {address} 0 0 1 1 0 1 2 0 6 0 0 0 - {port} - 0 {check_port} - - 0"


class HAProxy:
    """The process, and what it says of the nodes."""

    def __init__(
        self, settings: Settings, own: Mapping[str, str], decisions: Decisions, program: str = "haproxy"
    ) -> None:
        self._settings, self._own, self._decisions, self._program = settings, own, decisions, program
        self._folder = settings.state
        self._config = self._folder / "haproxy.cfg"
        self._wish: list[Proxied] = []
        self._served: list[Proxied] = []  # what the running process was given
        self._changed = threading.Condition()
        self._wished = self._closing = False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()  # of all below
        self._healths: dict[Target, Health] = {}
        self._by_backend: dict[str, Proxied] = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        path = log_socket(self._folder)
        path.unlink(missing_ok=True)
        self._log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._log.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._log.bind(str(path))
        self._threads = [
            threading.Thread(target=work, name=work.__name__, daemon=True) for work in (self._run, self._listen)
        ]
        for thread in self._threads:
            thread.start()

    # What others ask

    def serve(self, vips: Mapping[Service, Mapping[str, Sequence[str]]], nodes: Mapping[str, Node]) -> None:
        """Serve these Services on these VIPs, by way of these nodes; soon, and then."""
        wish = proxied(vips, nodes)
        with self._changed:
            if wish != self._wish:
                self._wish, self._wished = wish, True
                self._changed.notify()

    def health(self, target: Target) -> Health | None:
        """How HAProxy finds a node."""
        with self._lock:
            return self._healths.get(target)

    def refresh(self) -> None:
        """Ask HAProxy how it finds all nodes now."""
        rows = csv.DictReader(self._ask("show stat -1 4 -1").removeprefix("# ").splitlines())
        now = time.monotonic()
        with self._lock:
            for row in rows:
                one = self._by_backend.get(row["pxname"])
                target = self._target(one, row["svname"])
                if not one or target not in self._healths:
                    continue
                health = self._healths[target]
                if (row.get("check_status") or "*")[0] != "*":  # else there is none, or one is under way
                    status = int(row["check_code"]) if row.get("check_code", "").isdigit() else None
                    health.last = Result(status, row.get("check_desc") if status is None else None, now)
                self._turn(one, target, row["status"].startswith(("UP", "no check")), "found so", now)

    def close(self) -> None:
        """End it."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._threads[0].join(END_SECONDS + ASK_SECONDS)
        self._log.close()

    # The process

    def _run(self) -> None:
        took = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wished or self._closing, LIVES_EVERY)
                if self._closing:
                    self._end()
                    return
                wished = self._wished
            if wished:
                time.sleep(max(GATHER_SECONDS, took))  # reloads take half of the time at most, however many come
                with self._changed:
                    wish, self._wished = self._wish, False
                began = time.monotonic()
                self._apply_guarded(wish)
                took = min(time.monotonic() - began, LONGEST_GATHER_SECONDS)
            elif self._served and not self._lives():
                print("haproxy ended, and is started again", file=sys.stderr, flush=True)
                self._apply_guarded(self._served)
            elif self._served:
                self.refresh()  # it may have been in too much of a hurry to log everything

    def _apply_guarded(self, served: list[Proxied]) -> None:
        try:
            self._apply(served)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"haproxy: {error!r}", file=sys.stderr, flush=True)

    def _apply(self, served: list[Proxied]) -> None:
        if not served:
            self._end()
            self._adopt([])
            return
        new = self._config.with_suffix(".new")
        new.write_text(render(served, self._own, self._settings))
        checked = subprocess.run([self._program, "-c", "-q", "-f", str(new)], capture_output=True, check=False)
        if checked.returncode != 0:
            print(f"haproxy refuses its configuration: {checked.stderr.decode()}", file=sys.stderr, flush=True)
            return
        new.replace(self._config)
        known = self._ask("show servers state")
        faults = self._settings.faults
        # Without checks nothing would ever take new ones up.
        state = known if faults.no_checks else with_new_servers(known, served, keeps_ports=faults.keeps_ports)
        state_file(self._folder).write_text(state)
        self._adopt(served)
        before = self._worker()
        if self._process and self._lives():
            self._process.send_signal(signal.SIGUSR2)
        else:
            command = [self._program, "-W", "-f", str(self._config)]
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            threading.Thread(target=_tell_alerts, args=[self._process.stderr], name="alerts", daemon=True).start()
        deadline = time.monotonic() + RELOAD_SECONDS
        while self._worker() in ("", before):
            if self._closing:
                return
            if time.monotonic() > deadline:
                self._wished = True  # again; the old worker goes on meanwhile
                raise TimeoutError("no new worker came up")
            time.sleep(0.02)
        self.refresh()

    def _adopt(self, served: list[Proxied]) -> None:
        """Know the nodes that are served now: new ones begin unhealthy."""
        now = time.monotonic()
        with self._lock:
            self._served = served
            self._by_backend = {one.checking: one for one in served}
            old = self._healths
            self._healths = {}
            for one in served:
                for node in one.nodes:
                    target = Target(one.service.key, one.service.uid, one.family, node.name)
                    self._healths[target] = old.get(target) or Health(0, 0, now)

    def _lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _worker(self) -> str:
        """The process id of the worker that answers; empty while none does."""
        found = re.search(r"^Pid: (\d+)$", self._ask("show info"), re.M)
        return found[1] if found else ""

    def _end(self) -> None:
        if self._process:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
            self._process.kill()
            self._process.wait()
        self._process = None

    def _ask(self, question: str) -> str:
        """What the running worker answers; nothing if none runs."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(ASK_SECONDS)
            try:
                sock.connect(str(stats_socket(self._folder)))
                sock.sendall(question.encode() + b"\n")
                answer = b""
                while data := sock.recv(1 << 16):
                    answer += data
            except TimeoutError:  # what is to be served waits meanwhile
                print(f"haproxy has not answered '{question}' for {ASK_SECONDS:.0f} s", file=sys.stderr, flush=True)
                raise
            return answer.decode()
        return ""

    # What it says

    def _listen(self) -> None:
        """Take in what it logs, with the time at which it came."""
        with contextlib.suppress(OSError):
            while True:
                line = self._log.recv(4096).decode(errors="replace").strip("\0\n ")
                self._heard(line, time.monotonic())

    def _heard(self, line: str, now: float) -> None:
        with self._lock:
            if found := FINDING.search(line):
                target = self._target(self._by_backend.get(found[1]), found[2])
                if target in self._healths:
                    status = int(found[4]) if found[4] else None
                    self._healths[target].last = Result(status, None if found[4] else found[3], now)
            elif found := VERDICT.search(line):
                one = self._by_backend.get(found[1])
                target = self._target(one, found[2])
                if one and target in self._healths:
                    self._turn(one, target, found[3] == "UP", str(self._healths[target].last), now)

    def _target(self, one: Proxied | None, node: str) -> Target:
        service = one.service if one else None
        return Target(
            service.key if service else ("", ""), service.uid if service else "", one.family if one else "", node
        )

    def _turn(self, one: Proxied, target: Target, healthy: bool, why: str, now: float) -> None:
        """Note that HAProxy turned a node: it checks and steers in one."""
        health = self._healths[target]
        if health.healthy == healthy:
            return
        health.healthy, health.since = healthy, now
        decided = {"node": target.node, "healthy": healthy, "why": why}
        self._decisions.add("health", one.service, one.family, at=now, **decided)
        up = sorted(
            t.node for t, h in self._healths.items() if h.healthy and t.uid == target.uid and t.family == target.family
        )
        turned = "healthy" if healthy else "unhealthy"
        why = f"{target.node} became {turned}"
        self._decisions.add("steer", one.service, one.family, at=now, nodes=up, why=why)


def _tell_alerts(stream: IO[bytes]) -> None:
    """Pass on why HAProxy does not start; it also writes a line for every server that begins as down."""
    for line in stream:
        if b"[ALERT]" in line:
            print(f"haproxy: {line.decode(errors='replace').strip()}", file=sys.stderr, flush=True)


def with_new_servers(known: str, served: list[Proxied], *, keeps_ports: bool = False) -> str:
    """What a new worker is to know: the answer to `show servers state`, as far as it holds for what is served now.

    A server that is not in it begins as down. Of one that is, its address and ports are those of now: HAProxy would
    take the state's check port for set by hand, and go on asking a health port that a flip of the policy has closed.
    """
    lines = known.strip().splitlines() or ["1", "#"]
    there = {(fields[1], fields[3]): fields for fields in map(str.split, lines[2:])}
    state = lines[:2]
    for number, one in enumerate(served, 1):
        for port in one.ports:
            backend = one.backend(port)
            check_port = one.service.check_port if backend == one.checking else 0
            for index, node in enumerate(one.nodes, 1):
                address = node.address(one.family)
                if fields := there.get((backend, node.name)):
                    now = {4: address, 18: port.node_port} | ({} if keeps_ports else {21: check_port})
                    state.append(" ".join(str(now.get(column, field)) for column, field in enumerate(fields)))
                    continue
                names = {"be_id": number, "be": backend, "id": index, "name": node.name}
                state.append(NEW_SERVER.format(**names, address=address, port=port.node_port, check_port=check_port))
    return "\n".join(state) + "\n"
