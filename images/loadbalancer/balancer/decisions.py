"""The history of decisions: numbered, time-stamped, bounded, and followed by any number of readers."""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import islice
from typing import Any

from .objects import Service

KEPT = 20_000


class Decisions:
    """What was decided, newest last; readers in other threads wait for more."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=kept)
        self._changed = threading.Condition()
        self._closed = False
        self.last = 0

    def add(self, kind: str, service: Service, family: str, *, at: float | None = None, **what: Any) -> None:
        """Note one; ``at`` is the monotonic second at which it took effect, by default now."""
        now = time.monotonic()
        at = now if at is None else at
        with self._changed:
            self.last += 1
            named = {"namespace": service.namespace, "service": service.name, "class": service.mode.value}
            entry = {"seq": self.last, "time": time.time() - (now - at), "monotonic": at, **named}
            self._kept.append({**entry, "family": family, "kind": kind, **what})
            self._changed.notify_all()

    def after(self, seq: int, seconds: float) -> tuple[list[dict[str, Any]], int]:
        """What came after a number, waited for so long at most, and how many of these are lost; after 0, all kept."""
        with self._changed:
            self._changed.wait_for(lambda: self.last > seq or self._closed, seconds)
            first = self._kept[0]["seq"] if self._kept else self.last + 1
            found = list(islice(self._kept, max(0, seq + 1 - first), None))
            return found, max(0, first - seq - 1) if found and seq else 0

    @property
    def closed(self) -> bool:
        """Whether no more will come."""
        return self._closed

    def close(self) -> None:
        """Let every reader go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
