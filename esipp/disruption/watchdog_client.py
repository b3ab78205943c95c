"""The client of the watchdog, in the run."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.redaction import KNOWN
from esipp.checks.catalog import PACKAGE
from esipp.disruption.rollback import Undo

ANSWER_SECONDS = 60.0
"""Timeout of a message; the first one waits for the start of Python on a busy machine."""
END_SECONDS = 5.0
"""Timeout for the end of the watchdog process."""


class WatchdogClient:
    """The watchdog's client. The watchdog performs all noted rollbacks that remain when this process ends.

    Args:
        context, kubeconfig: those of the cluster.
        log: the watchdog's log file, if it does anything.
        as_user: whom it impersonates; empty for what the kubeconfig says.
    """

    def __init__(self, context: str, kubeconfig: str | None, log: Path | None = None, as_user: str = "") -> None:
        self._context, self._log, self._as = context, log, as_user
        self._kubeconfig = str(Path(kubeconfig).absolute()) if kubeconfig else None
        self._dog: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._one_at_a_time = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The process id of the watchdog; None if it does not run."""
        return self._dog.pid if self._dog else None

    def note(self, undo: Undo) -> int:
        """Register a rollback before its disruption, and return a number for ``undone``; starts the watchdog if needed.

        Raises:
            HarnessError: the watchdog does not confirm; then the disruption must not be performed.
        """
        with self._one_at_a_time:
            if self._dog is None:
                self._dog = self._start()
                log = str(self._log.absolute()) if self._log else ""
                message = {"cluster": self._context, "kubeconfig": self._kubeconfig, "as": self._as, "log": log}
                self._tell({**message, "cloud": KNOWN.cloud.known()})
            self._number += 1
            self._tell({"number": self._number, "undo": undo.as_json()})
            return self._number

    def undone(self, number: int) -> None:
        """Remove a performed rollback; it is no error if the watchdog is gone."""
        with self._one_at_a_time, contextlib.suppress(HarnessError):
            self._tell({"undone": number})

    def close(self) -> None:
        """End the watchdog. It retries failed rollbacks for some minutes."""
        with self._one_at_a_time:
            dog, self._dog = self._dog, None
        if dog is None or dog.stdin is None or dog.stdout is None:
            return
        with contextlib.suppress(OSError):
            dog.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            dog.wait(END_SECONDS)
        dog.stdout.close()

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the watchdog in its own session, so that signals to this process group do not reach it."""
        path = os.pathsep.join(part for part in (str(PACKAGE.parent), os.environ.get("PYTHONPATH")) if part)
        return subprocess.Popen(
            [sys.executable, "-m", "esipp.disruption.watchdog"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def _tell(self, message: dict[str, Any]) -> None:
        dog = self._dog
        if dog is None or dog.stdin is None or dog.stdout is None:
            return
        try:
            dog.stdin.write(json.dumps(message).encode() + b"\n")
            dog.stdin.flush()
            readable, _, _ = select.select([dog.stdout], [], [], ANSWER_SECONDS)
            answer = dog.stdout.readline() if readable else b""
        except OSError:
            answer = b""
        if not answer:
            raise HarnessError(
                "The watchdog, which undoes disruptions if this process is killed, does not answer.",
                "esipp disrupts nothing without it; check whether the machine is out of memory.",
            )
