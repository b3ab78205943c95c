"""The watchdog: a process that undoes what a killed run left, ``python -m esipp.disruption.watchdog``.

It reads JSON lines from a pipe that only the run holds: first whose cluster it is, then what must be undone, told
before it is done, and what was undone. Each line is answered by one, so that nothing is done unless it is noted. When
the pipe ends, be it that the run ended or was killed, what is left is undone, the nodes' own first, for as long as the
API server may need to come back. Where nothing is left it ends at once and touches nothing.
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

LAST = Budget("the watchdog undoing what is left", 240.0, need=3, spacing=1.0)
"""Three looks: what the killed run had sent off in its last moment may arrive after the first."""


class Watch:
    """What is to be undone if the run ends now."""

    def __init__(self) -> None:
        self.left: dict[int, Undo] = {}
        self.cluster: Cluster | None = None
        self.log: Path | None = None

    def hear(self, told: dict[str, Any]) -> dict[str, Any]:
        """Take one message and return the answer."""
        if "cluster" in told:
            # read now: the file may be gone by the time it is needed
            KNOWN.cloud.hear(told.get("cloud") or {})
            self.cluster = Cluster(told["cluster"], told["kubeconfig"])
            self.log = Path(told["log"]) if told["log"] else None
            return {"heard": "cluster"}
        if "undone" in told:
            self.left.pop(told["undone"], None)
            return {"heard": told["undone"]}
        self.left[told["number"]] = Undo.from_json(told["undo"])
        return {"heard": told["number"]}

    def end(self) -> int:
        """The run has ended: undo what is left. The exit code says whether all was undone."""
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
    """Listen until the pipe ends, then undo what is left."""
    watched = Watch()
    for line in lines:
        try:
            told = json.loads(line)
        except ValueError:
            break  # cut off in the middle: it was never answered, so nothing was done
        answer = watched.hear(told)
        with contextlib.suppress(OSError):  # the run may be gone already
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    return watched.end()


def main() -> int:
    """Be the watchdog of the process at the other end of the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are meant for the run, which undoes things itself
    code = watch(sys.stdin, sys.stdout)
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  nobody may read the pipe any more
    return code


if __name__ == "__main__":
    sys.exit(main())
