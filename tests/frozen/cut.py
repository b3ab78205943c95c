"""Cuts the ledger of a run down to a frozen one: fewer checks, the evidence that they need, a right end record.

Two checks stay of each kind of verdict: of one suite, level, status, nature and reason, at one kind of Service.
"""

import contextlib
import hashlib
import json
import lzma
import re
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

from esipp.app.judge import Change, rejudge
from esipp.checks.catalog import all_checks
from esipp.checks.check import Check, Level, is_about
from esipp.checks.continuity import Continuity
from esipp.checks.endpoint_change import EndpointChange
from esipp.ledger.codec import encode, read_judged, record_of
from esipp.ledger.reading import LEDGER, read_run
from esipp.ledger.rejudging import read_past, records

CONVERGENCE, CONTINUITY = "convergence", "continuity"
"""The names of their evidence in ledgers."""

LEDGERS = Path(__file__).with_name("ledgers")
PACKED = ".jsonl.xz"
SAME = 2
"""Checks that stay of each kind of verdict."""

Record = dict[str, Any]


class CannotCutError(Exception):
    """The run is no good for a frozen ledger."""


def packed(data: bytes) -> bytes:
    """The bytes, compressed: the same ones each time."""
    return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)


def unpack(name: str, folder: Path) -> None:
    """Write a frozen ledger to the folder of a run."""
    folder.mkdir(parents=True)
    (folder / LEDGER).write_bytes(lzma.decompress((LEDGERS / f"{name}{PACKED}").read_bytes()))


def names() -> list[str]:
    """The frozen ledgers."""
    return sorted(path.name.removesuffix(PACKED) for path in LEDGERS.glob(f"*{PACKED}"))


def cut(run: Path, name: str) -> Path:
    """Cut the ledger of a run.

    Raises:
        CannotCutError: the ledger is not whole, another judge is at work than then, or the cut changes a verdict.
    """
    whole = read_run(run)
    if not whole.whole:
        raise CannotCutError(f"the ledger of {run} is not whole: {whole.trouble}")
    all_records = list(records(run / LEDGER))
    header, end = all_records[0], all_records[-1]
    checks = {check.id: check for check in all_checks()}
    verdicts = {each["id"]: each for each in all_records if each["record"] == "verdict"}
    by_id = {each["id"]: each for each in header["rows"]}
    lane = header["lane"]
    only = _part(lane, all_records, checks, verdicts)
    kept = set(_spread(lane, (each for each in header["rows"] if only.keeps(checks[each["id"]])), verdicts))
    core = sum(each["level"] == Level.CORE for each in header["rows"])
    header["rows"] = [each for each in header["rows"] if each["id"] in kept]
    header["left_out_core_rows"] += core - sum(each["level"] == Level.CORE for each in header["rows"])
    dialled = {each["path"] for each in all_records if each["record"] == "observation"}
    paths = {path for identity in kept for path in _paths(by_id[identity], verdicts[identity], dialled)}
    stays = [each for record in all_records[:-1] for each in only.cut(record, kept, paths)]
    said = _judged_again(sealed(stays, end), kept)
    text = sealed([each | said[each["id"]] if each["record"] == "verdict" else each for each in stays], end)
    _check_places(text)
    to = LEDGERS / f"{name}{PACKED}"
    to.parent.mkdir(exist_ok=True)
    to.write_bytes(packed(text.encode()))
    return to


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"


def _paths(check: Record, verdict: Record, dialled: AbstractSet[str]) -> Iterator[str]:
    """The paths on which a check rests: its own, those of its controls, and those that its verdict names."""
    if "entry" in check:
        yield check["path"]
        yield from (each["path"] for each in check["controls"])
        yield from dialled & set(re.findall(r"[\w.-]+", json.dumps(verdict)))


# ----------------------------------------------------------------------------------------------------- which checks
def _spread(lane: str, checks: Iterable[Record], verdicts: Mapping[str, Record]) -> Iterator[str]:
    """Some checks of each kind of verdict; which of equal ones, the lane's name decides."""
    kinds: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for check in checks:
        said = verdicts[check["id"]]
        reason = re.sub(r"[\d.]+", "#", said["reason"])[:60]
        first = ".".join(check["id"].split(".")[:2])
        kinds[check["suite"], check["level"], said["status"], said["nature"], reason, first].append(check["id"])
    for same in kinds.values():
        yield from sorted(same, key=lambda identity: crc32(f"{lane} {identity}".encode()))[:SAME]


class _Part:
    """The part that stays of what takes most space: one load balancer of convergence, one family of continuity."""

    def __init__(self, balancer: str, family: str) -> None:
        self._balancer, self._family = balancer, family

    def keeps(self, check: Check) -> bool:
        if is_about(check, EndpointChange):
            return check.subject.balancer.value == self._balancer
        return not is_about(check, Continuity) or check.subject.family.value == self._family

    def cut(self, record: Record, kept: set[str], paths: set[str]) -> Iterator[Record]:
        """The record as it stays, if it does."""
        kind = record["record"]
        if kind in ("observation", "witness", "obstacle"):
            stays = record["path"] in paths
        elif kind == "verdict":
            stays = record["id"] in kept
        elif kind == "evidence":
            stays = self._tells(record["suite"], record["data"])
        else:
            stays = True
        if stays:
            yield record | {"seen": self._seen(record)} if kind == "judged" else record

    def _tells(self, suite: str, data: Record) -> bool:
        if suite == CONVERGENCE:
            stream = data.get("stream", "")
            of_stream = not stream or stream.startswith((f"moves-{self._balancer}:", f"moves-{self._balancer} "))
            return data.get("balancer", self._balancer) == self._balancer and of_stream
        return suite != CONTINUITY or data.get("family") in (None, "", self._family)

    def _seen(self, record: Record) -> Any:
        suite = record["suite"]
        if suite not in (CONVERGENCE, CONTINUITY):
            return record["seen"]
        seen: Any = read_judged(suite, record["seen"])
        if suite == CONVERGENCE:
            results = {each: found for each, found in seen.results.items() if each.value == self._balancer}
            return encode(replace(seen, results=results))
        own = {
            name: {asked: found for asked, found in getattr(seen, name).items() if asked[1].value == self._family}
            for name in ("streams", "lasting", "obstacles")
        }
        return encode(replace(seen, **own))


def _part(
    lane: str, all_records: Iterable[Record], checks: Mapping[str, Check], verdicts: Mapping[str, Record]
) -> _Part:
    """What stays: the load balancer and family with most trouble; of equal ones, the lane's name decides."""
    trouble: dict[str, int] = defaultdict(int)
    for identity, check in checks.items():
        said = verdicts.get(identity, {}).get("status", "")
        if is_about(check, EndpointChange):
            trouble[check.subject.balancer.value] += said in ("fail", "flaky", "inconclusive", "error")
        elif is_about(check, Continuity):
            trouble[check.subject.family.value] += said in ("fail", "flaky", "inconclusive", "error")

    def most(found: list[str]) -> str:
        return max(found, key=lambda each: (trouble[each], crc32(f"{lane} {each}".encode())))

    moved = [each for record in all_records if _is(record, CONVERGENCE) for each in record["seen"]["results"]]
    return _Part(most(moved) if moved else "", most([each for each in trouble if each.startswith("IP")]))


def _is(record: Record, suite: str) -> bool:
    return record["record"] == "judged" and record["suite"] == suite


# --------------------------------------------------------------------------------------------------- a whole ledger
def sealed(stays: Iterable[Record], end: Record) -> str:
    """The ledger with an end record that agrees with what stayed."""
    lines = [_line(each) for each in stays]
    with _run_of("".join(lines)) as run:
        said = read_run(run).by_verdicts
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    own = {"result": said.result, "why": said.why, "counts": dict(said.counts), "exit_code": int(said.exit_code)}
    return "".join(lines) + _line(end | own | {"records": len(lines), "sha256": digest})


@contextlib.contextmanager
def _run_of(text: str) -> Iterator[Path]:
    """The folder of a run with this ledger."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / LEDGER).write_text(text, encoding="utf-8")
        yield Path(place)


def _judged_again(text: str, kept: Collection[str]) -> Mapping[str, Record]:
    """The verdicts on the cut ledger. Some words count what the whole run saw; all else must be as the run said.

    Raises:
        CannotCutError: a verdict is another one, or the cut ledger is not whole.
    """
    with _run_of(text) as run:
        past = read_past(run)
        again = rejudge(past, all_checks(), kept)
    other = [each for each, change in again.changes.items() if change not in (Change.SAME, Change.WORDS)]
    if past.run.trouble or other or again.verdicts.keys() != set(kept):
        raise CannotCutError(f"the cut ledger is not as the run was: {past.run.trouble} {other[:5]} ({len(other)})")
    for each, change in again.changes.items():
        if change is Change.WORDS:
            print(f"other words, as they count the connections of other checks: {each}")
    return {identity: record_of(found) for identity, found in again.verdicts.items()}


def _check_places(text: str) -> None:
    """Refuse paths of this machine.

    Raises:
        CannotCutError: the ledger names one.
    """
    ours = {str(Path.home()), tempfile.gettempdir(), "/" + Path(__file__).resolve().parts[1]}
    found = re.search(rf"({'|'.join(map(re.escape, sorted(ours)))})/[^\"\s]*", text)
    if found:
        raise CannotCutError(f"the ledger names a path of this machine: {found[0]}")
