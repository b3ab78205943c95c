"""The ledger file: append-only JSON lines from a header to a closing record.

Each line is one object with a ``record`` field; the schema is ledger.schema.json beside this file.
"""

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from esipp.base.errors import HarnessError, PreflightError
from esipp.base.redaction import KNOWN

SCHEMA_VERSION = 6
READABLE = (5, SCHEMA_VERSION)
"""The versions that are read; ``older.py`` turns records of older ones into today's."""

SCHEMA = Path(__file__).with_name("ledger.schema.json")


class Ledger:
    """Writes a run's records, each flushed at once, so that a killed run leaves all it knew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()  # trials write side by side, and the digest is of the lines' order
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("x", encoding="utf-8", buffering=1)
            self._records, self._digest = 0, hashlib.sha256()
        except FileExistsError:
            raise PreflightError(f"There is already a ledger at {path}.", "name another folder with --out.") from None
        except OSError as broken:
            raise PreflightError(
                f"The run's folder {path.parent} cannot be written: {broken.strerror}.", "name another with --out."
            ) from None

    def write(self, record: str, **fields: Any) -> None:
        """Append one record, without secrets.

        Raises:
            HarnessError: the disk is full, or gone.
        """
        line = KNOWN.line(json.dumps({"record": record, "at": round(time.time(), 6), **fields})) + "\n"
        try:
            with self._lock:
                self._file.write(line)
                self._records += 1
                self._digest.update(line.encode())
        except OSError as broken:
            raise HarnessError(
                f"Cannot write to the ledger {self.path}: {broken.strerror}.",
                "free disk space and run again; this run has no closing record.",
            ) from None

    def so_far(self) -> bytes:
        """All lines that were written, none of them torn."""
        with self._lock:
            size = self.path.stat().st_size
        with self.path.open("rb") as file:
            return file.read(size)

    def seal(self, **fields: Any) -> None:
        """Append the closing record: with the number of records before it, and the digest of their bytes.

        Raises:
            HarnessError: the disk is full, or gone.
        """
        self.write("end", **fields, records=self._records, sha256=self._digest.hexdigest())

    def close(self) -> None:
        """Close the file; what is missing after this is the closing record of an interrupted run."""
        with contextlib.suppress(OSError):  # what could not be flushed was reported by write
            self._file.close()


def read_ledger(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a ledger, in order.

    Raises:
        ValueError: a line is not a JSON object with a ``record`` field; the message names it.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                record["record"]
            except (ValueError, TypeError, KeyError):
                raise ValueError(f"{path}:{number} is not a record") from None
            yield record
