"""Evidence for rows that fail: taken before anything is removed, bounded, redacted, and never a failure itself.

What concerns the whole cluster is collected once a run, into ``artefacts/``; what concerns one row is written into
``rows/ID/``, which points there.
"""

import hashlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esipp.redaction import KNOWN, redact

SECONDS = 20.0
"""A command may take so long."""

TOTAL_SECONDS = 60.0
"""All collectors of a run may take so long together; what is not done by then is noted as missing."""

MOST_BYTES = 512 * 1024
"""The size of one artefact, at most."""

AT_ONCE = 16
MOST_ROWS = 20
MOST_OBSERVATIONS = 1000


@dataclass(frozen=True)
class Collector:
    """One artefact.

    Args:
        name: its file, relative to the folder.
        source: a command, whose output it is; or what returns its text; or None for what cannot be had.
        tail: of too much, keep the end and not the beginning.
        missing: why it cannot be had.
    """

    name: str
    source: Sequence[str] | Callable[[], str] | None
    tail: bool = False
    missing: str = ""


@dataclass(frozen=True)
class RowEvidence:
    """What is known of one row that fails: its verdict and observations as the ledger has them, and its packets.

    ``packets`` are its traces in words, ``pcaps`` the slices of the captures by node.
    """

    id: str
    verdict: Mapping[str, Any]
    observations: Sequence[Mapping[str, Any]] = ()
    packets: str = ""
    pcaps: Mapping[str, bytes] = field(default_factory=dict)


# -------------------------------------------------------------------------------------------------- collecting


def collect(
    folder: Path,
    collectors: Iterable[Collector],
    *,
    seconds: float = SECONDS,
    total: float = TOTAL_SECONDS,
    most_bytes: int = MOST_BYTES,
) -> list[str]:
    """Run all collectors side by side and write what they bring, redacted, with an ``index.txt``.

    Never raises for what a collector does: that it failed, was cut or not done in time is a note.

    Args:
        folder: where to; it is made.
        collectors: what to collect.
        seconds: bound for a command.
        total: bound for all of them together.
        most_bytes: bound for each artefact.

    Returns:
        The notes, one sentence each, in the order of the collectors.
    """
    wanted = list(collectors)
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(wanted)):
        todo.put(number)
    done: dict[int, str] = {}
    running: set[subprocess.Popen[bytes]] = set()
    closed = threading.Event()

    def work() -> None:
        while not closed.is_set():
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            note = _take(folder, wanted[number], seconds, most_bytes, running, closed)
            if not closed.is_set():
                done[number] = note

    # daemons, not an executor: what hangs may not keep the process from ending
    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(AT_ONCE, len(wanted)))]
    deadline = time.monotonic() + total
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
    finally:
        closed.set()
        for process in list(running):
            _kill(process)
    finished = dict(done)
    notes = [finished.get(i, f"{each.name}: not done after {total:.0f} s") for i, each in enumerate(wanted)]
    notes = [redact(note) for note in notes if note]
    _write_index(folder, notes)
    return notes


def _take(
    folder: Path,
    collector: Collector,
    seconds: float,
    most: int,
    running: set[subprocess.Popen[bytes]],
    closed: threading.Event,
) -> str:
    """Run one collector and write its file; returns what is to be noted of it."""
    if collector.source is None:
        return f"{collector.name}: {collector.missing or 'cannot be had'}"
    trouble = ""
    try:
        if callable(collector.source):
            raw = collector.source().encode()
        else:
            raw, trouble = _output(collector.source, seconds, most, collector.tail, running)
    except Exception as broken:  # whatever a collector does, the others go on
        return f"{redact(collector.name)}: {redact(str(broken))[:300] or type(broken).__name__}"
    cut = len(raw) > most
    if cut and collector.tail:
        # a line that lost its beginning goes whole: it could be the rest of a secret, which nobody would recognise
        raw = raw[-most:].partition(b"\n")[2]
    raw = redact(raw.decode(errors="replace")).encode()
    if cut and not collector.tail:
        lines, newline, _ = raw[:most].rpartition(b"\n")  # so could a line that lost its end
        raw = lines + newline if newline else raw[:most]
    if cut:
        trouble = trouble or f"cut to its {'last' if collector.tail else 'first'} {most} bytes"
    if closed.is_set():
        return ""
    try:
        path = folder / redact(collector.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    except OSError as broken:
        return f"{collector.name}: {broken}"
    return f"{collector.name}: {trouble}" if trouble else ""


def _output(
    command: Sequence[str], seconds: float, most: int, tail: bool, running: set[subprocess.Popen[bytes]]
) -> tuple[bytes, str]:
    """What a command says, and what went wrong with it.

    It is ended when it takes too long, or says too much and the end is not wanted.
    """
    process = subprocess.Popen(
        list(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    running.add(process)
    timer.start()
    kept = b""
    flood = False
    try:
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), 65536):
            kept += chunk
            if len(kept) > 2 * most and tail:
                kept = kept[-most - 1 :]  # one more than allowed, so that the cut is told
            elif len(kept) > most and not tail:
                flood = True
                break
    finally:
        timer.cancel()
        if flood:
            _kill(process)
        with suppress(subprocess.TimeoutExpired):  # it closed its output and goes on
            process.wait(1)
        _kill(process)
        process.wait()
        running.discard(process)
        if process.stdout is not None:
            process.stdout.close()
    if late.is_set():
        return kept, f"ended after {seconds:.0f} s"
    if process.returncode and not flood:
        last = kept.decode(errors="replace").strip().rpartition("\n")[2]
        return kept, f"exit code {process.returncode}: {redact(last)[:200]}"
    return kept, ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _write_index(folder: Path, notes: Sequence[str]) -> None:
    with suppress(OSError):  # a full disk has been noted with each artefact
        folder.mkdir(parents=True, exist_ok=True)
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "index.txt")
        lines = [f"{path.stat().st_size:>9}  {path.relative_to(folder)}" for path in files]
        missing = [f"  {note}" for note in notes] or ["  nothing"]
        text = ["bytes      what was collected; [redacted: …] stands for tokens, keys and certificates", *lines]
        (folder / "index.txt").write_text("\n".join([*text, "", "missing or not whole:", *missing, ""]))


# ------------------------------------------------------------------------------------------------ row by row


def write_rows(folder: Path, rows: Sequence[RowEvidence], *, shared: str = "artefacts") -> list[str]:
    """Write ``rows/ID/`` of each failing row: verdict, observations, packets, and a README that points to the rest.

    Args:
        folder: the run's folder.
        rows: the most important first; those beyond the first twenty are only named, in ``rows/README.txt``.
        shared: the folder of what was collected once, beside ``rows``.

    Returns:
        What could not be written or was left out, a sentence each.
    """
    notes = []
    for row in rows[:MOST_ROWS]:
        try:
            notes += _write_row(folder / "rows" / file_name(row.id), row, shared)
        except OSError as broken:
            notes.append(f"{row.id}: {broken}")
    left = [row.id for row in rows[MOST_ROWS:]]
    if left:
        notes.append(f"{len(left)} more rows have no folder of their own; they are named in rows/README.txt")
    if rows:
        lines = [f"{file_name(row.id)}/" for row in rows[:MOST_ROWS]]
        if left:
            lines += ["", f"without a folder (at most {MOST_ROWS} have one), see ../ledger.jsonl:", *left]
        with suppress(OSError):
            (folder / "rows").mkdir(parents=True, exist_ok=True)
            (folder / "rows" / "README.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return notes


def _write_row(folder: Path, row: RowEvidence, shared: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    notes = []
    observations = row.observations[:MOST_OBSERVATIONS]
    if len(observations) < len(row.observations):
        notes.append(f"{row.id}: {MOST_OBSERVATIONS} of {len(row.observations)} observations; the ledger has all")
    verdict = json.dumps(KNOWN.value(row.verdict), indent=1)
    (folder / "verdict.json").write_text(f"{verdict}\n", encoding="utf-8")
    lines = "".join(f"{KNOWN.line(json.dumps(each))}\n" for each in observations)
    (folder / "observations.jsonl").write_text(lines, encoding="utf-8")
    said = ["verdict.json        what was required, expected and seen", "observations.jsonl  every probe of the row"]
    if row.packets:
        (folder / "packets.txt").write_text(redact(row.packets.rstrip("\n")) + "\n", encoding="utf-8")
        said.append("packets.txt         what packets tell of the sampled connections")
    for node, raw in row.pcaps.items():
        if len(raw) > MOST_BYTES:
            notes.append(f"{row.id}: the packets of {node} are left out, they are {len(raw)} bytes")
            continue
        name = f"{file_name(redact(node))}.pcap"
        (folder / name).write_bytes(raw)
        said.append(f"{name:<19} the same, for tcpdump -r and wireshark")
    said += ["", f"../../{shared}/index.txt lists what was collected once for the whole run: objects, logs, nodes."]
    (folder / "README.txt").write_text("\n".join([f"evidence for {row.id}", "", *said, *notes, ""]), encoding="utf-8")
    return notes


def file_name(identity: str) -> str:
    """An id as the name of a file: letters, digits, dots, dashes; two ids never share one."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", identity).lstrip(".-")
    if plain and plain == identity and len(plain) <= 120:
        return plain
    return f"{plain[:110]}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
