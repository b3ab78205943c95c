"""The watchdog: a process that undoes what a killed run left, ``python -m esipp.disruption.watchdog``.

It reads JSON lines from a pipe that only the run holds: first the cluster, then each rollback before its disruption,
and each performed rollback. It answers each line, so that the run disrupts nothing that the watchdog does not know.
When the pipe ends, because the run ended or was killed, it performs the remaining rollbacks, those on nodes themselves
first. It retries for as long as the API server may need to recover. If nothing remains, it ends at once.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from esipp.base.redaction import KNOWN, redact
from esipp.base.waiting import Budget
from esipp.cluster.client import Cluster
from esipp.disruption.rollback import Undo, undo_all

LAST = Budget("the watchdog's rollback", 240.0, need=3, spacing=1.0)
"""Three passes, because a last request of the killed run may take effect after the first one."""


class Watch:
    """The state of the watchdog: the rollbacks to perform if the run ends now."""

    def __init__(self) -> None:
        self.left: dict[int, Undo] = {}
        self.cluster: Cluster | None = None
        self.log: Path | None = None

    def hear(self, message: dict[str, Any]) -> dict[str, Any]:
        """Process a message and return the answer."""
        if "cluster" in message:
            # read the kubeconfig now: the file may be gone when it is needed
            KNOWN.cloud.hear(message.get("cloud") or {})
            self.cluster = Cluster(message["cluster"], message["kubeconfig"], as_user=message["as"])
            self.log = Path(message["log"]) if message["log"] else None
            return {"heard": "cluster"}
        if "undone" in message:
            self.left.pop(message["undone"], None)
            return {"heard": message["undone"]}
        self.left[message["number"]] = Undo.from_json(message["undo"])
        return {"heard": message["number"]}

    def end(self) -> int:
        """Perform the remaining rollbacks after the run. Return 1 if any failed, else 0."""
        if not self.left or self.cluster is None:
            return 0
        left, waited = undo_all(self.left.values(), self.cluster, LAST, lambda undo: self._say(undo.done))
        self._say(f"watchdog: {waited}")
        return 1 if left else 0

    def _say(self, line: str) -> None:
        if self.log is not None:
            with contextlib.suppress(OSError), self.log.open("a", encoding="utf-8") as file:
                file.write(redact(line) + "\n")


def watch(lines: Iterable[str], answers: TextIO) -> int:
    """Read messages until the pipe ends, then perform the remaining rollbacks."""
    watched = Watch()
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:
            break  # truncated: it was never answered, so the run did nothing
        answer = watched.hear(message)
        with contextlib.suppress(OSError):  # the run may have ended
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    return watched.end()


def main() -> int:
    """Watch the process at the other end of the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # these signals are for the run, which performs its rollbacks itself
    code = watch(sys.stdin, sys.stdout)
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - the pipe may have no reader
    return code


if __name__ == "__main__":
    sys.exit(main())
