"""Ledger reader: from a ledger to a run for reports, line by line, trusted only as far as it is whole.

A ledger that was cut off, has lines that are none, or does not agree with its own closing record is reported as
incomplete, and can never come out as conformant.
"""

import hashlib
import io
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from errno import EINVAL
from functools import cached_property
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, TypeVar

from esipp.base.errors import ExitCode, PreflightError
from esipp.base.hashing import file_name
from esipp.base.plural import counted
from esipp.checks.check import OWN_REFERENCE, Binding, Fact, Feature, Status, Verdict
from esipp.checks.power import say_run
from esipp.checks.waivers import recorded
from esipp.judging.observation import Witness
from esipp.ledger.codec import EvidenceError, read_judged, read_record
from esipp.ledger.conclusion import Conclusion, Scale, conclude, scale_of
from esipp.ledger.file import READABLE, Ledger
from esipp.ledger.older import Older
from esipp.ledger.recorded_checks import RecordedCheck, read_check

LEDGER = "ledger.jsonl"

MOST_TROUBLE = 20
"""The most faults of a ledger with their own lines."""

ONE_SOCKET = ".one-socket"
"""A part of the names of paths whose datagrams share one source port."""

DAMAGED = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""What reading a line that is none of ours may end with."""


T = TypeVar("T")
A = TypeVar("A")


class Component(NamedTuple):
    """A part of what was tested.

    ``digest`` is ``sha256:`` and 64 digits; it is empty if it is unknown or there is no image. ``decided`` says how it
    was determined, on which nodes or in which pods if they differ, and whether a registry knows the digest.
    """

    name: str
    kind: str
    image: str
    digest: str
    version: str
    decided: str


class Probe(NamedTuple):
    """One probe of a path, or ``times`` equal ones, with what reports need.

    Addresses and ports are as in ``Observation``; ``backend`` and ``node`` answered; ``started`` and ``ended``
    are the prober's monotonic seconds.
    """

    seq: int
    times: int
    outcome: str
    source: tuple[str, int] | None
    dialled: tuple[str, int] | None
    seen: tuple[str, int] | None
    backend: str
    node: str
    started: float
    ended: float
    detail: str


class Phase(NamedTuple):
    """A part of the run, how long it took in seconds, and when it was over, in Unix seconds."""

    name: str
    seconds: float
    at: float


class RecordedEvent(NamedTuple):
    """An event of a phase: what it touched, when it began, in Unix seconds, and how long it took."""

    phase: str
    name: str
    touches: str
    began: float
    seconds: float


@dataclass
class RecordedRun:
    """A run as its ledger describes it.

    Args:
        folder: where the ledger is; the evidence of single checks may be below it.
        header: the settings of the run.
        checks, verdicts, judged_at: the checks in their order, their verdicts, and the Unix time of each, by id.
        facts, features: the facts and features by name; the last record counts.
        obstacles: why a path could not be dialled.
        probes, witnesses: the observations by path.
        judged: what the judge of each scenario was given, by the scenario's name; ``unread``: why some cannot be read;
            ``broken_off``: those that broke off, as by an interrupt: their evidence is for reports only.
        end: the closing record; None without one.
        concluded: the conclusion of a run that is judged, and only clears up; its ledger has no closing record yet.
        trouble: the faults of the ledger itself; empty if it is whole.
        sha256: the hex digest of all bytes of the ledger, its closing record among them.
        baseline: an earlier run that reports compare this one with.
    """

    folder: Path
    header: dict[str, Any]
    checks: list[RecordedCheck]
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    features: dict[str, Feature] = field(default_factory=dict)
    components: list[Component] = field(default_factory=list)
    topology: dict[str, Any] = field(default_factory=dict)
    obstacles: dict[str, str] = field(default_factory=dict)
    settled: list[dict[str, Any]] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    events: list[RecordedEvent] = field(default_factory=list)
    probes: dict[str, list[Probe]] = field(default_factory=dict)
    witnesses: dict[str, list[Witness]] = field(default_factory=dict)
    judged: dict[str, Any] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    broken_off: set[str] = field(default_factory=set)
    notes: list[tuple[str, str]] = field(default_factory=list)
    judged_at: dict[str, float] = field(default_factory=dict)
    end: dict[str, Any] | None = None
    concluded: Conclusion | None = None
    trouble: list[str] = field(default_factory=list)
    sha256: str = ""
    baseline: "RecordedRun | None" = None
    _analysed: dict[Callable[[Any], Any], Any] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether the ledger is complete and consistent."""
        return self.end is not None and not self.trouble

    @cached_property
    def conclusion(self) -> Conclusion:
        """The conclusion: the run's own if the ledger is whole; otherwise ``incomplete``, whatever its lines say."""
        if self.concluded is not None and not self.trouble:
            return self.concluded
        said = self.by_verdicts
        if self.end is not None and not self.trouble:
            code = ExitCode(self.end["exit_code"])  # _check held it against the verdicts
            return replace(said, result=self.end["result"], exit_code=code, why=self.end["why"])
        faults = [*self.trouble[:1], *([] if self.end else ["the ledger has no closing record: the run was killed"])]
        why = "; ".join(faults[:1])
        if said.exit_code is ExitCode.NOT_CONFORMANT:
            why += f"; so far, {said.why}"
            return replace(said, result="incomplete", exit_code=ExitCode.NOT_CONFORMANT, why=why)
        return replace(said, result="incomplete", exit_code=ExitCode.HARNESS, why=why)

    @property
    def by_verdicts(self) -> Conclusion:
        """What its verdicts say by themselves."""
        left_out, accepted = int(self.header["left_out_core_rows"]), bool(self.header["accept_known_defects"])
        fail_on = Binding(self.header["fail_on"])
        return conclude(
            self.verdicts.values(), left_out, fail_on, accept_known_defects=accepted, waivers=recorded(self.header)
        )

    @property
    def scale(self) -> Scale:
        """What its result hangs on."""
        accepted = bool(self.header["accept_known_defects"])
        fail_on = Binding(self.header["fail_on"])
        return scale_of(self.verdicts.values(), fail_on, accept_known_defects=accepted, waivers=recorded(self.header))

    @property
    def qualified(self) -> list[RecordedCheck]:
        """The checks that its verdict is about: those of the cluster."""
        beside = {check.id for check in self.instruments}
        return [check for check in self.checks if check.id not in beside]

    @property
    def instruments(self) -> list[RecordedCheck]:
        """The checks about our own reference load balancer, which are outside of the verdict."""
        found = [check for check in self.checks if self._is_instrument(check)]
        return found if len(found) < len(self.checks) else []

    def _is_instrument(self, check: RecordedCheck) -> bool:
        verdict = self.verdicts.get(check.id)
        if verdict is not None:
            return verdict.instrument
        role = self.facts.get(OWN_REFERENCE)
        return check.instrument and (role is None or role.value != "own")

    @property
    def power(self) -> str:
        """What it can have missed, for the whole of it: a sentence about the paths of the cluster that held.

        Datagrams of one socket are one flow, and say nothing of others.
        """
        held = (
            check.path for check in self.qualified if check.path and self._held(check) and ONE_SOCKET not in check.path
        )
        return say_run(sum(each.times for each in self.probes.get(path, ())) for path in dict.fromkeys(held))

    def _held(self, check: RecordedCheck) -> bool:
        verdict = self.verdicts.get(check.id)
        return verdict is not None and verdict.status is Status.PASS

    @property
    def command(self) -> str:
        """The command that repeats the run: ``header['command']`` alone is what a check's id is put behind."""
        asked = (shlex.quote(str(word)) for word in self.header.get("asked", ()))
        return " ".join([str(self.header["command"]), *asked])

    def evidence_of(self, of: type[T]) -> T | None:
        """The evidence of this type, as its judge was given it; None if the run has none."""
        return next((each for each in self.judged.values() if isinstance(each, of)), None)

    def analysed(self, of: type[T], analyse: Callable[[T], A]) -> A | None:
        """What a judge makes of the evidence of this type, made once; None if the run has none."""
        if analyse not in self._analysed:
            seen = self.evidence_of(of)
            self._analysed[analyse] = None if seen is None else analyse(seen)
        made: A | None = self._analysed[analyse]
        return made

    def files(self, check: str) -> list[Path]:
        """The artefacts of a check, relative to the folder."""
        kept = self.folder / "rows" / file_name(check)
        return sorted(each.relative_to(self.folder) for each in kept.rglob("*") if each.is_file())


def read_run(path: Path, baseline: Path | None = None) -> RecordedRun:
    """Read a run.

    Args:
        path: the run's folder, or its ledger.
        baseline: likewise of an earlier run that reports compare it with.

    Raises:
        PreflightError: there is no ledger, it cannot be read at all, or it is of a version this esipp does not read.
    """
    with _opened(path) as reader:
        run = reader.read()
    run.baseline = read_run(baseline) if baseline else None
    return run


def check_run(path: Path) -> None:
    """Check that there is a run to read, by the beginning of its ledger.

    Raises:
        PreflightError: as ``read_run``.
    """
    with _opened(path) as reader:
        reader.begin()


@contextmanager
def _opened(path: Path) -> Iterator["_Reader"]:
    ledger = path
    try:
        ledger = path / LEDGER if path.is_dir() else path
        if ledger.exists() and not (ledger.is_file() or ledger.is_dir()):  # a pipe may never end
            raise OSError(EINVAL, "it is not a file")
        with ledger.open("rb") as lines:
            yield _Reader(ledger, iter(lines))
    except OSError as broken:
        hint = "name a run's folder, or its ledger.jsonl; 'runs/latest' is the newest."
        raise PreflightError(f"Cannot read a ledger at {ledger}: {broken.strerror}.", hint) from None


def read_judged_run(ledger: Ledger, concluded: Conclusion, baseline: Path | None = None) -> RecordedRun:
    """Read a run that is judged while it clears up; ``baseline`` is that of ``read_run``.

    Raises:
        PreflightError: as ``read_run``.
    """
    run = _Reader(ledger.path, iter(io.BytesIO(ledger.so_far()))).read()
    run.concluded = concluded
    run.baseline = read_run(baseline) if baseline else None
    return run


class _Reader:
    """Reads one ledger; ``trouble`` has one entry for each kind of record and fault."""

    def __init__(self, path: Path, lines: Iterator[bytes]) -> None:
        from esipp.ledger import records  # commands that read no ledger need not wait for pydantic

        self._kinds, self._fault_of = records.KINDS, records.fault_of
        self.path = path
        self._lines = lines
        self._digest = hashlib.sha256()
        self._before = 0
        self._number = 0
        self._faults = 0
        self._older = Older()
        self._probed: set[tuple[str, int, float]] = set()

    def read(self) -> RecordedRun:
        run = self.begin()
        take: dict[str, Callable[[RecordedRun, dict[str, Any]], None]] = {
            name: getattr(self, f"_take_{name}") for name in self._kinds if name != "header"
        }
        for line in self._lines:
            self._number += 1
            record = self._parse(run, line)
            if record is not None:
                if run.end is not None:
                    self._fault(run, "there are lines after the closing record")
                if record["record"] == "end":
                    self._take_end(run, record)
                else:
                    self._take(run, take[record["record"]], self._older.today(record))
            self._digest.update(line)
            self._before += 1
        run.sha256 = self._digest.hexdigest()
        self._check(run)
        return run

    def begin(self) -> RecordedRun:
        line = next(self._lines, b"")
        self._number, self._before = 1, 1
        self._digest.update(line)
        hint = "the run may have been killed at its start, or the file is not from esipp."
        try:
            header = _parsed(line)
            schema = header["schema"] if header["record"] == "header" else None
        except DAMAGED:
            schema = None
        if schema is None:
            raise PreflightError(f"{self.path} does not begin with the header of a run.", hint)
        if schema not in READABLE:
            written = f"{self.path} has ledger schema {schema}, written by esipp {header.get('suite', '?')}"
            raise PreflightError(
                f"{written}; this one reads schema {' and '.join(map(str, READABLE))}.", "use the esipp that wrote it."
            )
        try:
            if fault := self._fault_of(header):
                raise ValueError(fault)
            return RecordedRun(self.path.parent, header, [read_check(check) for check in header["rows"]])
        except DAMAGED as broken:
            raise PreflightError(f"The header of {self.path} is damaged: {broken}.", hint) from None

    def _parse(self, run: RecordedRun, line: bytes) -> dict[str, Any] | None:
        if not line.endswith(b"\n"):
            self._fault(run, f"line {self._number} is cut off")
            return None
        try:
            record = _parsed(line)
            kind = record["record"]
            fault = self._fault_of(record)
        except DAMAGED:
            self._fault(run, f"line {self._number} is not a record")
            return None
        if kind == "header":
            self._fault(run, f"line {self._number} is the header of another run ({record.get('run', '?')})")
            return None
        if fault:
            self._fault(run, f"line {self._number}, a record '{kind}', is damaged: {fault}")
            return None
        return record

    def _fault(self, run: RecordedRun, what: str) -> None:
        self._faults += 1
        if self._faults <= MOST_TROUBLE:
            run.trouble.append(what)

    def _take(
        self, run: RecordedRun, take: Callable[[RecordedRun, dict[str, Any]], None], record: dict[str, Any]
    ) -> None:
        try:
            take(run, record)
        except DAMAGED as broken:
            self._fault(run, f"line {self._number}, a record '{record['record']}', is damaged: {broken!r}")

    # ---------------------------------------------------------------------------------------------- record by record
    def _take_fact(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.facts[record["name"]] = Fact(record["value"], record["decided"])

    def _take_feature(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.features[record["name"]] = Feature(record["present"], record["why"], record["ours"])

    def _take_component(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.components.append(Component(*(record[name] for name in Component._fields)))

    def _take_topology(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.topology = {name: value for name, value in record.items() if name not in ("record", "at")}

    def _take_obstacle(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.obstacles[record["path"]] = record["why"]

    def _take_settled(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.settled.append(record)

    def _take_phase(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.phases.append(Phase(record["name"], float(record["seconds"]), float(record["at"])))

    def _take_event(self, run: RecordedRun, record: dict[str, Any]) -> None:
        times = float(record["began"]), float(record["seconds"])
        run.events.append(RecordedEvent(record["phase"], record["name"], record["touches"], *times))

    def _take_observation(self, run: RecordedRun, record: dict[str, Any]) -> None:
        path = intern(record["path"])
        which = (path, record["seq"], record["started"])
        if which in self._probed:
            self._fault(run, f"line {self._number} repeats probe {record['seq']} of {path}")
            return
        self._probed.add(which)
        echo = record["echo"] or {}
        run.probes.setdefault(path, []).append(
            Probe(
                int(record["seq"]),
                int(record["count"]),
                intern(record["outcome"]),
                _end(record["source"]),
                _end(record["dialled"]),
                _end(record["seen"]),
                intern(record["backend"] or ""),
                intern(echo.get("node") or ""),
                float(record["started"]),
                float(record["ended"]),
                intern(record["detail"]),
            )
        )

    def _take_witness(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.witnesses.setdefault(record["path"], []).append(read_record(record, Witness))

    def _take_evidence(self, run: RecordedRun, record: dict[str, Any]) -> None:
        """What no judge and no report reads; older ledgers have all their evidence a second time here (older.py)."""

    def _take_judged(self, run: RecordedRun, record: dict[str, Any]) -> None:
        suite = record["suite"]
        if record.get("broken_off"):
            run.broken_off.add(suite)
        try:
            run.judged[suite] = read_judged(suite, record["seen"])
        except (EvidenceError, KeyError) as broken:
            why = "this version of esipp has no such judge" if isinstance(broken, KeyError) else broken
            run.unread[suite] = f"the evidence of {suite} cannot be read ({why})"
            self._fault(run, run.unread[suite])

    def _take_section(self, run: RecordedRun, record: dict[str, Any]) -> None:
        """Older ledgers have the sections of their summary as text; evidence has the same."""

    def _take_note(self, run: RecordedRun, record: dict[str, Any]) -> None:
        run.notes.append((record["about"], record["note"]))

    def _take_verdict(self, run: RecordedRun, record: dict[str, Any]) -> None:
        verdict = read_record(record, Verdict)
        if verdict.check_id in run.verdicts:
            self._fault(run, f"line {self._number} is a second verdict on {verdict.check_id}")
        run.verdicts[verdict.check_id] = verdict
        run.judged_at[verdict.check_id] = float(record["at"])

    def _take_end(self, run: RecordedRun, record: dict[str, Any]) -> None:
        if run.end is not None:
            return
        if record["records"] != self._before:
            self._fault(
                run, f"the closing record counts {record['records']} records before it instead of {self._before}"
            )
        elif record["sha256"] != self._digest.hexdigest():
            self._fault(run, "the closing record's digest does not match the lines before it: the ledger was changed")
        run.end = record

    # ------------------------------------------------------------------------------------------------- the whole of it
    def _check(self, run: RecordedRun) -> None:
        ids = [check.id for check in run.checks]
        if len(set(ids)) < len(ids):
            self._fault(run, "the header lists a check twice")
        strange = run.verdicts.keys() - set(ids)
        if strange:
            self._fault(run, f"there are verdicts on checks that the header does not list: {sorted(strange)[0]}")
            for each in strange:
                del run.verdicts[each]
        if run.end is not None and run.end["result"] not in ("incomplete", "error"):
            missing = [each for each in ids if each not in run.verdicts]
            if missing:
                unjudged = counted(len(missing), "check has", "checks have")
                self._fault(run, f"{unjudged} no verdict, among them {missing[0]}")
            elif not strange and (run.by_verdicts.result, run.by_verdicts.exit_code) != (
                run.end["result"],
                run.end["exit_code"],
            ):
                said = f"the closing record says {run.end['result']} ({run.end['exit_code']})"
                self._fault(run, f"{said}, the verdicts say {run.by_verdicts.result} ({run.by_verdicts.exit_code:d})")
        elif run.end is not None and not run.end["exit_code"]:
            self._fault(run, f"the closing record says {run.end['result']}, with exit code 0")
        if run.end is not None and run.end["counts"] != run.by_verdicts.counts:
            self._fault(run, "the closing record's counts do not match the verdicts")
        probed = {path: sum(each.times for each in own) for path, own in run.probes.items()}
        for each in contradictions(run.checks, run.verdicts, probed):
            self._fault(run, each)
        if self._faults > MOST_TROUBLE:
            run.trouble.append(f"and {self._faults - MOST_TROUBLE} more faults")


def _end(pair: Any) -> tuple[str, int] | None:
    """Address and port."""
    return None if pair is None else (intern(str(pair[0])), int(pair[1]))


def _parsed(line: bytes) -> dict[str, Any]:
    """The object on a line; halves of characters that JSON allows and no file can hold are replaced."""
    record = json.loads(line)
    if b"\\ud" in line or b"\\uD" in line:
        record = json.loads(json.dumps(record, ensure_ascii=False).encode(errors="replace"))
    return record  # type: ignore[no-any-return]  # each line is an object: callers check that


Disagrees = Callable[[RecordedCheck, Verdict, int], object]


def contradictions(
    checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict], probed: Mapping[str, int]
) -> Iterator[str]:
    """What cannot be, a sentence for each kind.

    Args:
        checks: all checks.
        verdicts: what was said of them, by their ids.
        probed: how many probes there are of each path.
    """
    for disagrees, what in CONTRADICTIONS:
        found = [
            check.id
            for check in checks
            if check.id in verdicts
            and disagrees(check, verdicts[check.id], probed.get(check.path, 0) if check.path else 0)
        ]
        if found:
            yield f"{len(found)} {what}, among them {found[0]}"


CONTRADICTIONS: Sequence[tuple[Disagrees, str]] = (
    (lambda check, said, _: said.level is not check.level, "verdicts have another level than their checks"),
    (lambda check, said, probes: _passed(check, said) and not probes, "checks pass without a probe"),
    (
        lambda check, said, probes: _passed(check, said) and probes and not check.accept.issuperset(said.shown),
        "checks pass with a result that they do not accept",
    ),
    (
        lambda check, said, probes: check.path and probes and sum(said.tally.values()) not in (0, probes),
        "verdicts count another number of probes than recorded",
    ),
)


def _passed(check: RecordedCheck, verdict: Verdict) -> bool:
    """Whether a check of a path passed."""
    return bool(check.path) and verdict.status is Status.PASS
