"""The log: lines on stdout that never hold up the serving."""

from __future__ import annotations

import json
import os
import select
import time

MAX_LOG_BYTES = 1 << 20  # kept while nobody reads stdout


class Log:
    """Lines to stdout that never hold up the serving: kept while nobody reads, up to a bound, then counted only."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._waiting = False
        self._lines: list[str] = []
        self._rest = b""
        self._size = 0
        self._dropped = 0
        self._broken = False
        if not os.isatty(1):  # a terminal is shared with the shell, which would inherit the mode
            os.set_blocking(1, False)

    def write(self, line: str) -> None:
        """Queue a line."""
        if self._size + len(line) > MAX_LOG_BYTES:
            self._dropped += 1
            return
        self._size += len(line) + 1
        self._lines.append(line)

    def flush(self) -> None:
        """Write what stdout takes now."""
        if self._waiting or not self._size or self._broken:
            if self._broken:
                self._lines, self._rest, self._size = [], b"", 0
            return
        if self._lines:
            self._rest += ("\n".join(self._lines) + "\n").encode()
            self._lines = []
        try:
            written = os.write(1, self._rest)
        except BlockingIOError:
            written = 0
        except OSError:  # the reader is gone; the clients are not
            self._broken = True
            return
        self._rest = self._rest[written:]
        self._size = len(self._rest)
        if self._rest:
            self._waiting = True
            self._epoll.register(1, select.EPOLLOUT)
        elif self._dropped:
            count, self._dropped = self._dropped, 0
            self.write(json.dumps({"event": "log_dropped", "lines": count}))

    def writable(self, _mask: int) -> None:
        """Stdout takes more."""
        self._waiting = False
        self._epoll.unregister(1)
        self.flush()

    def drain(self, seconds: float) -> None:
        """Write what is left, for so long at most."""
        end = time.monotonic() + seconds
        while self._size and not self._broken and time.monotonic() < end:
            if self._waiting:
                self._waiting = False
                self._epoll.unregister(1)
            self.flush()
            if self._waiting:
                select.select([], [1], [], max(0.0, end - time.monotonic()))
