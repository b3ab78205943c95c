"""Taps: tcpdump on a node, which leaves nothing behind."""

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import IO

from esipp.base.waiting import Budget, Reading, converge
from esipp.packets.capture import Capture, read_capture
from esipp.packets.scope import Scope

START_SECONDS = 20.0
"""Timeout for tcpdump to listen. It includes the exec into a container and compiling the filter."""

END_SECONDS = 10.0
"""Timeout for the exec to end after its input was closed."""

FEWEST_CORES = 4
"""Cores that nodes which are containers of this machine and esipp need together for watching beside what is measured.
With two, captures made the policy changes take 45 s instead of 27 s, and hardly any of their times was measured well
enough (2026-11-24). That four are enough is an assumption."""

MOST_SECONDS = 900
MOST_PACKETS = 200_000
MOST_BYTES = 64 * 2**20
SNAP_LENGTH = 512
"""Captured bytes of each packet: enough for all headers, and for the nonce of an HTTP request through a proxy."""

DRAINED = Budget("the capture's last packets", 3.0, need=3, spacing=0.1)

SCRIPT = """
names() {
    for each in /sys/class/net/*/ifindex; do
        name=${each%/ifindex}
        echo "interface $(cat "$each" 2>/dev/null) ${name##*/}" >&2
    done
}
names
exec 3<&0
timeout "$0" tcpdump "$@" </dev/null 3<&- &
tap=$!
{ while read -r line <&3; do :; done; kill "$tap"; } >/dev/null 2>&1 &
watch=$!
wait "$tap"
code=$?
kill "$watch" 2>/dev/null
names
exit "$code"
"""
"""Ends tcpdump when its input closes. An exec whose client is gone leaves its process behind, but closes its input. The
script lists the interfaces at its start and its end, because veths come and go."""


class Tap:
    """A running capture of all interfaces of a node.

    It starts at once and never raises, because a missing capture is no failure of the run. ``listening`` and the
    capture say why there is none.

    Args:
        node: the node's name.
        command: prefix of a command on the node, such as ``docker exec -i NODE`` or ``kubectl exec -i -n NS POD --``,
            with stdin. The node or pod needs sh, timeout and tcpdump, root, and the capabilities NET_RAW,
            SETUID and SETGID (tcpdump changes its user even from root to root).
        scope: the run's own packets.
        packets: the capture ends after this number of packets,
        seconds: or after this time.
    """

    def __init__(
        self,
        node: str,
        command: Sequence[str],
        scope: Scope,
        *,
        packets: int = MOST_PACKETS,
        seconds: int = MOST_SECONDS,
    ) -> None:
        self.node = node
        self._scope = scope
        self._raw = bytearray()
        self._names: dict[int, str] = {}
        self._said: list[str] = []
        self._dropped = 0
        self._started = threading.Event()
        self._listens = False
        self._trouble = ""
        self._capture: Capture | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: list[threading.Thread] = []
        tcpdump = [
            "-i", "any", "-y", "LINUX_SLL2", "-n", "-s", str(SNAP_LENGTH), "-B", "4096", "--immediate-mode", "-U",
            "-Z", "root", "-c", str(packets), "-w", "-", scope.expression(),
        ]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                [*command, "sh", "-c", SCRIPT, str(seconds), *tcpdump],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,  # an interrupt at the terminal is ours to handle, not the exec's
            )  # fmt: skip
        except OSError as broken:
            self._trouble = f"the capture on {node} cannot be started: {broken}"
            return
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_messages, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def listening(self) -> str:
        """Wait until tcpdump listens. Return why it does not, as a sentence, or an empty string."""
        if self._process is not None:
            self._started.wait(START_SECONDS)
        if self._listens:
            return ""
        if not self._started.is_set() and self._process is not None:
            self._trouble = f"the capture on {self.node} did not start within {START_SECONDS:.0f} s{self._last_lines()}"
        else:
            self._trouble = self._trouble or f"the capture on {self.node} did not start{self._last_lines()}"
        return self._trouble

    def stop(self) -> Capture:
        """End the capture and read it; the second call returns the same."""
        if self._capture is None:
            self._capture = self._end()
        return self._capture

    def _end(self) -> Capture:
        if self._process is None:
            return Capture(self.node, trouble=self._trouble)
        early = self._process.poll() is not None
        if not early and self._listens:
            converge(_Growth(self._raw), DRAINED)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._complain(f"the capture on {self.node} did not end within {END_SECONDS:.0f} s")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for reader in self._readers:
            reader.join(timeout=3)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        if not self._listens:
            self.listening()
        elif early:
            self._complain(f"the capture on {self.node} ended before it was stopped{self._last_lines()}")
        if self._dropped:
            self._complain(f"the kernel of {self.node} lost {self._dropped} packets")
        return read_capture(
            self.node, bytes(self._raw), self._names, self._scope, dropped=self._dropped, trouble=self._trouble
        )

    def _read(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := stream.read1(65536):  # type: ignore[attr-defined]  # a buffered pipe has it
                if len(self._raw) < MOST_BYTES:
                    self._raw += chunk
                elif not self._trouble:
                    self._complain(f"the capture on {self.node} has more than {MOST_BYTES} bytes")

    def _read_messages(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in stream:
                self._take(line.decode(errors="replace").strip())
        self._started.set()

    def _take(self, line: str) -> None:
        if named := re.fullmatch(r"interface (\d+) (\S+)", line):
            self._names[int(named[1])] = named[2]
        elif lost := re.match(r"(\d+) packets? dropped by (?:kernel|interface)", line):
            self._dropped += int(lost[1])
        elif "listening on" in line:
            self._listens = True
            self._started.set()
        elif line and not re.match(r"interface |\d+ packets? |tcpdump: data link type", line):
            self._said = [*self._said[-4:], line]

    def _complain(self, what: str) -> None:
        self._trouble = f"{self._trouble}; {what}" if self._trouble else what

    def _last_lines(self) -> str:
        said = " ".join(self._said)
        return f": {said[:300]}" if said else ""


class _Growth:
    """Whether a buffer has stopped growing."""

    def __init__(self, buffer: bytearray) -> None:
        self._buffer, self._before = buffer, -1

    def __call__(self) -> Reading:
        before, self._before = self._before, len(self._buffer)
        return Reading(before == self._before, f"{self._before} bytes")
