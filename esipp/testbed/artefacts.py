"""Artefacts for failed checks: collected before teardown, limited in size and time, redacted; errors become notes.

Artefacts of the whole cluster are collected once per run, in ``artefacts/``. The evidence of a check is in
``rows/ID/``, which refers to that folder.
"""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esipp.base.framing import LATE, BoundedText, Frames
from esipp.base.hashing import file_name
from esipp.base.redaction import KNOWN, redact

SECONDS = 20.0
"""The timeout of a command."""

TOTAL_SECONDS = 60.0
"""The timeout of all collectors of a run together; unfinished artefacts are noted as missing."""

MOST_BYTES = 512 * 1024
"""The maximum size of an artefact."""

AT_ONCE = 16
MOST_CHECKS = 20
MOST_OBSERVATIONS = 1000


@dataclass(frozen=True)
class Collector:
    """The collector of an artefact.

    Args:
        name: file name, relative to the folder.
        source: a command, or a function that returns the text; None if the artefact is not available.
        tail: whether to keep the end, not the beginning, of a text that is too long.
        missing: why the artefact is not available.
        parts: several artefacts of one command, framed by ``boundary`` (esipp.base.framing).
    """

    name: str
    source: Sequence[str] | Callable[[], str] | None
    tail: bool = False
    missing: str = ""
    parts: "tuple[Collector, ...]" = ()
    boundary: str = ""


@dataclass(frozen=True)
class CheckEvidence:
    """The evidence of a failed check: its verdict and observations as in the ledger, and its packets.

    ``packets`` are its traces as text, ``pcaps`` the slices of the captures by node.
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
    """Run all collectors in parallel, and write the redacted artefacts and an ``index.txt``.

    It never raises for a collector: if one fails, is cut or does not end in time, there is a note.

    Args:
        folder: the target folder, which is created.
        collectors: the collectors.
        seconds: timeout of a command with one artefact.
        total: timeout of all collectors together.
        most_bytes: maximum size of an artefact.

    Returns:
        The notes, one sentence each, in the order of the collectors.
    """
    wanted = list(collectors)
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(wanted)):
        todo.put(number)
    done: dict[str, str] = {}
    running: set[subprocess.Popen[bytes]] = set()
    closed = threading.Event()

    def work() -> None:
        while not closed.is_set():
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            taking = _Taking(folder, wanted[number], most_bytes, running, closed, done)
            try:
                taking.all_of_it(seconds, total)
            except Exception as broken:  # an error of a collector does not stop the others
                taking.broke(redact(str(broken))[:300] or type(broken).__name__)

    # daemon threads, not an executor: a blocked thread must not keep the process alive
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
    names = [each.name for bundle in wanted for each in bundle.parts or (bundle,)]
    notes = [finished.get(name, f"not done after {total:.0f} s") for name in names]
    notes = [redact(f"{name}: {note}") for name, note in zip(names, notes, strict=True) if note]
    _write_index(folder, notes)
    return notes


@dataclass
class _Taking:
    """The run of one collector; ``notes`` gets a note on each artefact, empty if all is well."""

    folder: Path
    collector: Collector
    most: int
    running: set[subprocess.Popen[bytes]]
    closed: threading.Event
    notes: dict[str, str]

    def all_of_it(self, seconds: float, total: float) -> None:
        """Collect and write all artefacts.

        Args:
            seconds: timeout of a command with one artefact.
            total: timeout of a command with several artefacts.
        """
        only, source = self.collector, self.collector.source
        if source is None:
            self._note(only, only.missing or "not available")
        elif callable(source):
            self._write(only, source().encode())
        elif only.parts:
            parts = {each.name: each for each in only.parts}
            frames = Frames(
                only.boundary,
                lambda name: BoundedText(self.most, parts[name].tail),
                lambda name, text, code: self._write(parts[name], text.raw, _ended(code, text.raw, seconds)),
            )
            said = BoundedText(self.most, tail=True)
            trouble, code = self._run(source, total, lambda chunk: said.take(chunk) and frames.take(chunk))
            self.broke(trouble or _ended(code, said.raw, total) or "no output")
        else:
            text = BoundedText(self.most, only.tail)
            trouble, code = self._run(source, seconds, text.take)
            self._write(only, text.raw, trouble or _ended(code, text.raw, seconds))

    def broke(self, why: str) -> None:
        """Note why the remaining artefacts are missing."""
        for each in self.collector.parts or (self.collector,):
            if each.name not in self.notes:
                self._note(each, why)

    def _note(self, artefact: Collector, note: str) -> None:
        if not self.closed.is_set():
            self.notes[artefact.name] = note

    def _write(self, artefact: Collector, raw: bytes, trouble: str = "") -> None:
        """Write an artefact, cut and redacted."""
        most, tail = self.most, artefact.tail
        cut = len(raw) > most
        if cut and tail:
            # drop a line that lost its beginning: it could be the rest of a secret, which redaction would not recognise
            raw = raw[-most:].partition(b"\n")[2]
        raw = redact(raw.decode(errors="replace")).encode()
        if cut and not tail:
            lines, newline, _ = raw[:most].rpartition(b"\n")  # the same for a line that lost its end
            raw = lines + newline if newline else raw[:most]
        if cut:
            trouble = trouble or f"cut to its {'last' if tail else 'first'} {most} bytes"
        if self.closed.is_set():
            return
        try:
            path = self.folder / redact(artefact.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)
        except OSError as broken:
            trouble = str(broken)
        self._note(artefact, trouble)

    def _run(self, command: Sequence[str], seconds: float, take: Callable[[bytes], bool]) -> tuple[str, int]:
        """Run a command and pass on its output, until no more of it is wanted.

        Returns:
            What went wrong, and the exit code, which is 0 if the command was ended after enough output.
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
        self.running.add(process)
        timer.start()
        flood = False
        try:
            assert process.stdout is not None
            while chunk := os.read(process.stdout.fileno(), 65536):
                if not take(chunk):
                    flood = True
                    break
        finally:
            timer.cancel()
            if flood:
                _kill(process)
            with suppress(subprocess.TimeoutExpired):  # it closed its output but still runs
                process.wait(1)
            _kill(process)
            process.wait()
            self.running.discard(process)
            if process.stdout is not None:
                process.stdout.close()
        return f"ended after {seconds:.0f} s" if late.is_set() else "", 0 if flood else process.returncode


def _ended(code: int, said: bytes, seconds: float) -> str:
    """A note on an exit code with the last line of output; empty for 0."""
    if code == LATE:
        return f"ended after {seconds:.0f} s"
    last = said.decode(errors="replace").strip().rpartition("\n")[2]
    return f"exit code {code}: {redact(last)[:200]}" if code else ""


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
        text = ["bytes      collected files; [redacted: …] replaces tokens, keys and certificates", *lines]
        (folder / "index.txt").write_text("\n".join([*text, "", "missing or incomplete:", *missing, ""]))


# ------------------------------------------------------------------------------------------------ check by check


def write_checks(folder: Path, checks: Sequence[CheckEvidence]) -> list[str]:
    """Write ``rows/ID/`` for each failed check: verdict, observations, packets, and a README.

    Args:
        folder: the run's folder.
        checks: the checks, the most important first; after the first twenty, ``rows/README.txt`` only names them.

    Returns:
        What could not be written or was left out, one sentence each.
    """
    notes = []
    for check in checks[:MOST_CHECKS]:
        try:
            notes += _write_check(folder / "rows" / file_name(check.id), check)
        except OSError as broken:
            notes.append(f"{check.id}: {broken}")
    left = [check.id for check in checks[MOST_CHECKS:]]
    if left:
        notes.append(f"{len(left)} more checks have no folder of their own; rows/README.txt names them")
    if checks:
        lines = [f"{file_name(check.id)}/" for check in checks[:MOST_CHECKS]]
        if left:
            lines += ["", f"without a folder (limit: {MOST_CHECKS}), see ../ledger.jsonl:", *left]
        with suppress(OSError):
            (folder / "rows").mkdir(parents=True, exist_ok=True)
            (folder / "rows" / "README.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return notes


def _write_check(folder: Path, check: CheckEvidence) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    notes = []
    observations = check.observations[:MOST_OBSERVATIONS]
    if len(observations) < len(check.observations):
        notes.append(f"{check.id}: {MOST_OBSERVATIONS} of {len(check.observations)} observations; the ledger has all")
    verdict = json.dumps(KNOWN.value(check.verdict), indent=1)
    (folder / "verdict.json").write_text(f"{verdict}\n", encoding="utf-8")
    lines = "".join(f"{KNOWN.line(json.dumps(each))}\n" for each in observations)
    (folder / "observations.jsonl").write_text(lines, encoding="utf-8")
    said = [
        "verdict.json        requirement, expectation and observation",
        "observations.jsonl  every probe of the check",
    ]
    if check.packets:
        (folder / "packets.txt").write_text(redact(check.packets.rstrip("\n")) + "\n", encoding="utf-8")
        said.append("packets.txt         packets of the sampled connections, as text")
    for node, raw in check.pcaps.items():
        if len(raw) > MOST_BYTES:
            notes.append(f"{check.id}: the packets of {node} are left out, because they have {len(raw)} bytes")
            continue
        name = f"{file_name(redact(node))}.pcap"
        (folder / name).write_bytes(raw)
        said.append(f"{name:<19} the same packets, for tcpdump -r and Wireshark")
    said += ["", "../../artefacts/index.txt lists the artefacts of the whole run: objects, logs, nodes."]
    (folder / "README.txt").write_text("\n".join([f"evidence for {check.id}", "", *said, *notes, ""]), encoding="utf-8")
    return notes
