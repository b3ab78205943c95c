"""Evidence for checks that fail: taken before anything is removed, bounded, redacted, and never a failure itself.

What concerns the whole cluster is collected once a run, into ``artefacts/``; what concerns one check is written into
``rows/ID/``, which points there.
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

from esipp.base.framing import LATE, Frames, Kept
from esipp.base.hashing import file_name
from esipp.base.redaction import KNOWN, redact

SECONDS = 20.0
"""A command may take so long."""

TOTAL_SECONDS = 60.0
"""All collectors of a run may take so long together; what is not done by then is noted as missing."""

MOST_BYTES = 512 * 1024
"""The size of one artefact, at most."""

AT_ONCE = 16
MOST_CHECKS = 20
MOST_OBSERVATIONS = 1000


@dataclass(frozen=True)
class Collector:
    """One artefact.

    Args:
        name: its file, relative to the folder.
        source: a command, whose output it is; or what returns its text; or None for what cannot be had.
        tail: of too much, keep the end and not the beginning.
        missing: why it cannot be had.
        parts: the artefacts that one command brings, framed by ``boundary`` (esipp.framing); then it brings nothing
            else.
    """

    name: str
    source: Sequence[str] | Callable[[], str] | None
    tail: bool = False
    missing: str = ""
    parts: "tuple[Collector, ...]" = ()
    boundary: str = ""


@dataclass(frozen=True)
class CheckEvidence:
    """What is known of one check that fails: its verdict and observations as the ledger has them, and its packets.

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
        seconds: bound for a command; not for one that brings several artefacts.
        total: bound for all of them together.
        most_bytes: bound for each artefact.

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
            except Exception as broken:  # whatever a collector does, the others go on
                taking.broke(redact(str(broken))[:300] or type(broken).__name__)

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
    names = [each.name for bundle in wanted for each in bundle.parts or (bundle,)]
    notes = [finished.get(name, f"not done after {total:.0f} s") for name in names]
    notes = [redact(f"{name}: {note}") for name, note in zip(names, notes, strict=True) if note]
    _write_index(folder, notes)
    return notes


@dataclass
class _Taking:
    """Runs one collector and writes what it brings; ``notes`` gets a word on each artefact, empty where all is well."""

    folder: Path
    collector: Collector
    most: int
    running: set[subprocess.Popen[bytes]]
    closed: threading.Event
    notes: dict[str, str]

    def all_of_it(self, seconds: float, total: float) -> None:
        """Everything that it brings.

        Args:
            seconds: bound for a command that brings one artefact.
            total: bound for a command that brings several.
        """
        only, source = self.collector, self.collector.source
        if source is None:
            self._note(only, only.missing or "cannot be had")
        elif callable(source):
            self._write(only, source().encode())
        elif only.parts:
            parts = {each.name: each for each in only.parts}
            frames = Frames(
                only.boundary,
                lambda name: Kept(self.most, parts[name].tail),
                lambda name, kept, code: self._write(parts[name], kept.raw, _ended(code, kept.raw, seconds)),
            )
            said = Kept(self.most, tail=True)
            trouble, code = self._run(source, total, lambda chunk: said.take(chunk) and frames.take(chunk))
            self.broke(trouble or _ended(code, said.raw, total) or "nothing was said of it")
        else:
            kept = Kept(self.most, only.tail)
            trouble, code = self._run(source, seconds, kept.take)
            self._write(only, kept.raw, trouble or _ended(code, kept.raw, seconds))

    def broke(self, why: str) -> None:
        """Why it brings no more than it has brought."""
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
            # a line that lost its beginning goes whole: it could be the rest of a secret, which nobody would recognise
            raw = raw[-most:].partition(b"\n")[2]
        raw = redact(raw.decode(errors="replace")).encode()
        if cut and not tail:
            lines, newline, _ = raw[:most].rpartition(b"\n")  # so could a line that lost its end
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
        """Run a command for what it says, until no more of it is wanted.

        Returns:
            What went wrong, and the exit code; that is 0 where it was ended for having said enough.
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
            with suppress(subprocess.TimeoutExpired):  # it closed its output and goes on
                process.wait(1)
            _kill(process)
            process.wait()
            self.running.discard(process)
            if process.stdout is not None:
                process.stdout.close()
        return f"ended after {seconds:.0f} s" if late.is_set() else "", 0 if flood else process.returncode


def _ended(code: int, said: bytes, seconds: float) -> str:
    """What an exit code says, with the last words; nothing of 0."""
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
        text = ["bytes      what was collected; [redacted: …] stands for tokens, keys and certificates", *lines]
        (folder / "index.txt").write_text("\n".join([*text, "", "missing or not whole:", *missing, ""]))


# ------------------------------------------------------------------------------------------------ check by check


def write_checks(folder: Path, checks: Sequence[CheckEvidence], *, shared: str = "artefacts") -> list[str]:
    """Write ``rows/ID/`` of each failing check: verdict, observations, packets, and a README that points to the rest.

    Args:
        folder: the run's folder.
        checks: the most important first; those beyond the first twenty are only named, in ``rows/README.txt``.
        shared: the folder of what was collected once, beside ``rows``.

    Returns:
        What could not be written or was left out, a sentence each.
    """
    notes = []
    for check in checks[:MOST_CHECKS]:
        try:
            notes += _write_check(folder / "rows" / file_name(check.id), check, shared)
        except OSError as broken:
            notes.append(f"{check.id}: {broken}")
    left = [check.id for check in checks[MOST_CHECKS:]]
    if left:
        notes.append(f"{len(left)} more checks have no folder of their own; they are named in rows/README.txt")
    if checks:
        lines = [f"{file_name(check.id)}/" for check in checks[:MOST_CHECKS]]
        if left:
            lines += ["", f"without a folder (at most {MOST_CHECKS} have one), see ../ledger.jsonl:", *left]
        with suppress(OSError):
            (folder / "rows").mkdir(parents=True, exist_ok=True)
            (folder / "rows" / "README.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return notes


def _write_check(folder: Path, check: CheckEvidence, shared: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    notes = []
    observations = check.observations[:MOST_OBSERVATIONS]
    if len(observations) < len(check.observations):
        notes.append(f"{check.id}: {MOST_OBSERVATIONS} of {len(check.observations)} observations; the ledger has all")
    verdict = json.dumps(KNOWN.value(check.verdict), indent=1)
    (folder / "verdict.json").write_text(f"{verdict}\n", encoding="utf-8")
    lines = "".join(f"{KNOWN.line(json.dumps(each))}\n" for each in observations)
    (folder / "observations.jsonl").write_text(lines, encoding="utf-8")
    said = ["verdict.json        what was required, expected and seen", "observations.jsonl  every probe of the check"]
    if check.packets:
        (folder / "packets.txt").write_text(redact(check.packets.rstrip("\n")) + "\n", encoding="utf-8")
        said.append("packets.txt         what packets tell of the sampled connections")
    for node, raw in check.pcaps.items():
        if len(raw) > MOST_BYTES:
            notes.append(f"{check.id}: the packets of {node} are left out, they are {len(raw)} bytes")
            continue
        name = f"{file_name(redact(node))}.pcap"
        (folder / name).write_bytes(raw)
        said.append(f"{name:<19} the same, for tcpdump -r and wireshark")
    said += ["", f"../../{shared}/index.txt lists what was collected once for the whole run: objects, logs, nodes."]
    (folder / "README.txt").write_text("\n".join([f"evidence for {check.id}", "", *said, *notes, ""]), encoding="utf-8")
    return notes
