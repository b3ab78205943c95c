"""The run's end of the watchdog's pipe."""

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
from esipp.checks.catalog import HOUSE
from esipp.disruption.rollback import Undo

ANSWER_SECONDS = 60.0
"""For one message; the first has a Python interpreter to wait for, on a busy machine."""
END_SECONDS = 5.0


class Leash:
    """Starts the watchdog with the first note; everything noted and not undone is undone when this process ends.

    Args:
        context, kubeconfig: of the cluster.
        log: a file in which the watchdog says what it did, if it does anything.
    """

    def __init__(self, context: str, kubeconfig: str | None, log: Path | None = None) -> None:
        self._context, self._log = context, log
        self._kubeconfig = str(Path(kubeconfig).absolute()) if kubeconfig else None
        self._dog: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._one_at_a_time = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The watchdog's process; None while there is none."""
        return self._dog.pid if self._dog else None

    def note(self, undo: Undo) -> int:
        """Have the watchdog know what will have to be undone; returns a number for ``undone``.

        Raises:
            HarnessError: it does not confirm; then nothing may be done.
        """
        with self._one_at_a_time:
            if self._dog is None:
                self._dog = self._start()
                log = str(self._log.absolute()) if self._log else ""
                told = {"cluster": self._context, "kubeconfig": self._kubeconfig, "log": log}
                self._tell({**told, "cloud": KNOWN.cloud.told()})
            self._number += 1
            self._tell({"number": self._number, "undo": undo.as_json()})
            return self._number

    def undone(self, number: int) -> None:
        """It was undone; a watchdog that is gone need not know."""
        with self._one_at_a_time, contextlib.suppress(HarnessError):
            self._tell({"undone": number})

    def close(self) -> None:
        """End the watchdog. What could not be undone is left to it for some minutes more."""
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
        """In a session of its own: what is sent to our process group does not reach it."""
        path = os.pathsep.join(part for part in (str(HOUSE), os.environ.get("PYTHONPATH")) if part)
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
                "nothing is disturbed without it; is the machine out of memory?",
            )
