"""report.json: all results of a run for programs. Its types come first: report.schema.json is generated from them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from esipp.base.json import Json
from esipp.base.schema import EXACTLY, CheckId, Count, note, schema_of
from esipp.checks.check import Binding, Level, Profile, Status
from esipp.checks.known_differences import Nature
from esipp.checks.model import AddressClass, Family, Protocol
from esipp.checks.path import Spread
from esipp.checks.reference import Reference
from esipp.judging.scenario import Numbers, scenarios
from esipp.ledger.codec import record_of
from esipp.ledger.conclusion import Result
from esipp.ledger.reading import LEDGER, RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.ledger.records import Component, Fact, Feature, Implementation, Note, Obstacle, Settled
from esipp.report.causes import TROUBLE, reasons
from esipp.report.profiles import ended, faults, missing, moment, parts, settings
from esipp.report.rendering.json import Section, as_json
from esipp.report.sections import sections

FORMAT: Literal["esipp-report/3"] = "esipp-report/3"
"""Format version. An incompatible change raises it, and changes the ``$id`` of the schema."""

SCHEMA = Path(__file__).with_name("report.schema.json")

Moment = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$")]
"""RFC 3339 in UTC."""

Positive = Annotated[int, Field(ge=1)]
Verdicts = Annotated[
    dict[Status | Literal["not judged"], Positive],
    note("the number of checks by verdict; absent verdicts are left out"),
]
Levels = Annotated[dict[Level, Positive], note("the number of checks by level; absent levels are left out")]


class Cited(TypedDict):
    """A document with its address."""

    title: Annotated[str, Field(min_length=1)]
    url: Annotated[str, note("empty in older ledgers")]


class Settings(TypedDict):
    """How the run was asked; older ledgers have fewer fields."""

    context: str
    created_with: NotRequired[list[str]]
    image: str
    samples: Count
    outside: str
    without: list[str]
    fail_on: Binding
    accept_known_defects: NotRequired[bool]
    require: NotRequired[list[str]]
    moves: Count
    seed: int
    allow_disruptive: bool
    redact_cloud_ids: NotRequired[bool]
    implementation: NotRequired[Implementation]
    provider: NotRequired[str]
    bound: NotRequired[float | None]


class Run(TypedDict):
    """The run."""

    id: str
    lane: Annotated[str, note("name of the lane: the tested set-up")]
    suite_version: Annotated[str, note("version of esipp")]
    began: Moment
    ended: Annotated[Moment | None, note("null for a run that was killed")]
    seconds: Annotated[float | None, note("from the first record to the last")]
    command: Annotated[str, note("repeats the run; ids of checks can be appended")]
    settings: Settings


class Tally(TypedDict):
    """How checks ended; known differences by nature."""

    asked: Count
    required: Annotated[int, Field(ge=0), note("as required")]
    recorded: Annotated[int, Field(ge=0), note("observed; nothing is required")]
    allowed: Annotated[int, Field(ge=0), note("known differences that the API allows")]
    defects: Annotated[int, Field(ge=0), note("known defects of a product")]
    findings: Annotated[int, Field(ge=0), note("known differences without an agreed cause")]
    waived: NotRequired[Annotated[int, Field(ge=1), note("failures that a waiver covers")]]
    failed: Count
    flaky: Count
    undecided: Count
    errors: Annotated[int, Field(ge=0), note("suite errors: no verdict on the cluster")]
    not_asked: Count


class ByLevel(TypedDict):
    """The checks of the cluster by level."""

    core: Tally
    extended: Tally
    record: Tally


class Catalogue(TypedDict):
    """The core checks."""

    core: Annotated[int, Field(ge=0), note("all core checks of the suite, selected or not")]
    asked: Annotated[int, Field(ge=0), note("core checks that were tested")]


class Concluded(TypedDict):
    """What the run comes to."""

    result: Result
    exit_code: Annotated[int, Field(ge=0, le=5)]
    why: str
    lines: Annotated[list[str], note("the counts in words")]
    power: Annotated[str, note("what the run may have missed, in words")]
    counts: Verdicts
    levels: ByLevel
    catalogue: Catalogue
    rows: Count
    left_out_core_rows: Annotated[int, Field(ge=0), note("core checks that were not selected")]


class Ledger(TypedDict):
    """The file from which this is rendered."""

    file: str
    schema: Positive
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$"), note("digest of the whole file")]
    whole: Annotated[bool, note("false: truncated or damaged, and this document does not describe the whole run")]
    faults: list[str]


class Node(TypedDict):
    """A node."""

    internal: dict[str, str]
    addresses: list[str]


class Backend(TypedDict):
    """A pod behind Services."""

    node: str | None
    addresses: list[str]


class Client(Backend):
    """A client."""

    vantage: str
    behind_nat: NotRequired[dict[str, str]]
    only_vips: NotRequired[list[str]]


class Topology(TypedDict):
    """The owners of addresses."""

    nodes: dict[str, Node]
    roles: dict[str, str]
    clients: dict[str, Client]
    backends: dict[str, Backend]
    balancers: dict[str, list[str]]


class Part(TypedDict):
    """The checks of a profile and a level."""

    rows: Count
    verdicts: Verdicts


class OfProfile(TypedDict):
    """A kind of Service."""

    name: Profile
    core: Part
    extended: Part
    record: Part


class Instrument(TypedDict):
    """The checks of the reference load balancer; no profile and no count of the conclusion includes them."""

    rows: Count
    verdicts: Verdicts
    not_fine: list[CheckId]


class KnownDifference(TypedDict):
    """A known difference, with the checks that show it."""

    reason: str
    references: list[Cited]
    nature: Nature
    levels: Levels
    rows: list[CheckId]


class Undecided(TypedDict):
    """A reason why checks are inconclusive."""

    reason: str
    levels: Levels
    rows: list[CheckId]


class NotTested(TypedDict):
    """A missing feature, with the checks that need it."""

    feature: str
    why: str
    ours: bool
    rows: list[CheckId]


class OnPath(TypedDict):
    """Client, entry and Service of a path check."""

    id: str
    accepts: list[AddressClass]
    service: str | None
    policy: str | None
    internal_policy: str | None
    protocol: Protocol
    family: Family
    client: str
    entry: str
    told: str | None
    spread: Spread


class Row(TypedDict):
    """A check with its verdict; without a verdict, the status is null and the observation empty."""

    id: CheckId
    suite: str
    profile: Profile
    level: Level
    status: Annotated[Status | None, note("null: no verdict, the run ended early")]
    requirement: str
    references: Annotated[list[Cited], Field(min_length=1)]
    features: list[str]
    fails_if: Annotated[str, note("a data plane defect that makes the check fail")]
    path: Annotated[OnPath | None, note("null for other checks")]
    expected: str
    observed: str
    reason: str
    difference_references: Annotated[list[Cited], note("references of a known difference")]
    likely: Annotated[str, note("where to look first")]
    tally: Annotated[dict[str, Count], note("the observations with their counts")]
    shown: list[AddressClass]
    ports: str
    change: Annotated[str, note("where packets show a change of the source")]
    witnesses: Annotated[str, note("the witnesses that the verdict is based on")]
    left_out: Annotated[bool, note("unsupported because the user excluded it")]
    sees: Annotated[str, note("the precision of the check: what it can and cannot detect")]
    nature: Annotated[Nature | Literal[""], note("of a known difference")]
    missing: Annotated[list[str], note("missing features that prevent the check")]
    instrument: Annotated[bool, note("a check of the reference load balancer, not of the cluster")]
    files: Annotated[list[str], note("files of evidence, relative to the run's folder")]


class Phase(TypedDict):
    """A part of the run."""

    name: str
    seconds: float
    ended: Moment


@with_config(EXACTLY)
class Document(TypedDict):
    """All results of a run for programs, rendered from its ledger.

    Times are RFC 3339 in UTC, durations are seconds. Lists have a fixed order; the same ledger gives the same bytes.
    """

    format: Literal["esipp-report/3"]
    run: Run
    conclusion: Concluded
    ledger: Ledger
    facts: list[Fact]
    components: list[Component]
    features: list[Feature]
    topology: Topology | None
    profiles: Annotated[list[OfProfile], note("all three, also profiles without checks")]
    instrument: Instrument
    known_differences: list[KnownDifference]
    undecided: Annotated[list[Undecided], note("inconclusive checks by reason")]
    not_tested: Annotated[
        list[NotTested], note("by missing feature; a check that lacks two features appears with both")
    ]
    rows: list[Row]
    sections: Annotated[list[Section], note("what the page shows of each scenario, as text and tables")]
    phases: list[Phase]
    settled: list[Settled]
    obstacles: list[Obstacle]
    notes: list[Note]


def _numbers() -> list[Numbers]:
    """The parts of scenarios."""
    return [found for each in scenarios() if (found := each.part("numbers", "NUMBERS"))]


def schema() -> str:
    """The text of report.schema.json: the document, with each scenario's own numbers."""
    measured = {each.name: each.of for each in _numbers()}
    whole: Any = TypedDict("Document", {**Document.__annotations__, **measured})  # type: ignore[misc]  # its fields are known at run time
    whole.__doc__ = Document.__doc__
    return schema_of(with_config(EXACTLY)(whole), "report-3", "report.json of an esipp run")


def render(run: RecordedRun) -> str:
    """The document as text: keys in a fixed order, one check or record per line, so that documents can be compared."""
    content = document(run)
    lines = ["{"]
    for number, (name, value) in enumerate(content.items()):
        comma = "," if number < len(content) - 1 else ""
        lines.append(f"  {_json(name)}: {_fold(value)}{comma}")
    return "\n".join([*lines, "}"]) + "\n"


def _fold(value: Any) -> str:
    """A list of objects with one object per line; any other value on one line."""
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return _json(value)
    return "[\n    " + ",\n    ".join(_json(each) for each in value) + "\n  ]"


def _json(value: Any) -> str:
    """One value as JSON.

    Raises:
        ValueError: the value holds an infinity or NaN, which JSON cannot express.
    """
    return json.dumps(value, allow_nan=False)


def document(run: RecordedRun) -> Json:
    """The document as a value: a ``Document``, with each scenario's own numbers."""
    header, said = run.header, run.conclusion
    over = ended(run)
    return {
        "format": FORMAT,
        "run": {
            "id": header["run"],
            "lane": header["lane"],
            "suite_version": header["suite"],
            "began": moment(header["at"], precise=True),
            "ended": moment(over, precise=True) or None,
            "seconds": None if over is None else round(over - header["at"], 3),
            "command": run.command,
            "settings": settings(run, *Settings.__annotations__),
        },
        "conclusion": {
            "result": said.result,
            "exit_code": int(said.exit_code),
            "why": said.why,
            "lines": list(said.lines),
            "power": run.power,
            "counts": dict(sorted(said.counts.items())),
            "levels": {level.value: said.levels[level].as_json() for level in Level},
            "catalogue": {"core": said.catalogue, "asked": said.levels[Level.CORE].asked},
            "rows": len(run.checks),
            "left_out_core_rows": header["left_out_core_rows"],
        },
        "ledger": {
            "file": LEDGER,
            "schema": header["schema"],
            "sha256": run.sha256,
            "whole": run.whole,
            "faults": faults(run),
        },
        "facts": [
            {"name": name, "value": fact.value, "decided": fact.decided} for name, fact in sorted(run.facts.items())
        ],
        "components": [each._asdict() for each in sorted(run.components)],
        "features": [
            {"name": name, "present": each.present, "why": each.why, "ours": each.ours}
            for name, each in sorted(run.features.items())
        ],
        "topology": run.topology or None,
        "profiles": _profiles(run),
        "instrument": _instrument(run),
        "known_differences": [
            {"reason": each.why, "references": _cited(each.references), "nature": each.nature or Nature.DEFECT.value}
            | {"levels": each.levels, "rows": sorted(check.id for check in each.checks)}
            for each in reasons(run.qualified, run.verdicts, Status.KNOWN)
        ],
        "undecided": [
            {"reason": each.why, "levels": each.levels, "rows": sorted(check.id for check in each.checks)}
            for each in reasons(run.qualified, run.verdicts, Status.INCONCLUSIVE)
        ],
        "not_tested": [
            {"feature": each.name, "why": each.why, "ours": each.ours, "rows": list(each.checks)}
            for each in missing(run)
        ],
        "rows": _checks(run),
        "sections": as_json(sections(run)),
        **{each.name: each.make(run) for each in _numbers()},
        "phases": [
            {"name": each.name, "seconds": each.seconds, "ended": moment(each.at, precise=True)} for each in run.phases
        ],
        "settled": [{"held": each["held"], "seconds": each["seconds"], "state": each["state"]} for each in run.settled],
        "obstacles": [{"path": path, "why": why} for path, why in sorted(run.obstacles.items())],
        "notes": [{"about": about, "note": note} for about, note in run.notes],
    }


def _instrument(run: RecordedRun) -> Json:
    """The checks of the reference load balancer, which no profile and no count of the conclusion includes."""
    ids = {check.id for check in run.instruments}
    found = Counter(each.status.value for each in run.verdicts.values() if each.check_id in ids)
    wrong = [each for each in run.verdicts.values() if each.check_id in ids and each.status in TROUBLE]
    return {
        "rows": len(ids),
        "verdicts": dict(sorted(found.items())),
        "not_fine": sorted(each.check_id for each in wrong),
    }


def _profiles(run: RecordedRun) -> list[Json]:
    counts = {key: {"rows": len(part.checks), "verdicts": part.counts(run)} for key, part in parts(run).items()}
    return [
        {"name": profile.value} | {level.value: counts[profile.value, level] for level in Level} for profile in Profile
    ]


def _cited(references: Iterable[Reference]) -> list[Json]:
    return [each.as_json() for each in references]


def _checks(run: RecordedRun) -> list[Json]:
    kept = (run.folder / "rows").is_dir()
    return [_check(run, check, kept) for check in run.checks]


def _check(run: RecordedRun, check: RecordedCheck, kept: bool) -> Json:
    """A check with its verdict; without a verdict, the status is null and the observation empty."""
    verdict = run.verdicts.get(check.id)
    said: Mapping[str, Any] = UNSAID | {"expected": check.expect} | (record_of(verdict) if verdict else {})
    own: Json = {
        "id": check.id,
        "suite": check.suite,
        "profile": check.profile,
        "level": check.level.value,
        "requirement": check.requirement,
        "references": _cited(check.references),
        "features": list(check.features),
        "fails_if": check.fails_if,
        "path": _path(check),
        "difference_references": said["references"],
        "files": [path.as_posix() for path in run.files(check.id)] if kept else [],
    }
    return {name: own[name] if name in own else said[name] for name in Row.__annotations__}


UNSAID: Json = {
    **{"status": None, "tally": {}, "left_out": False, "instrument": False},
    **{name: [] for name in ("references", "shown", "missing")},
    **dict.fromkeys(("observed", "reason", "likely", "ports", "change", "witnesses", "sees", "nature"), ""),
}
"""What stands in the place of a verdict's fields, where there is none or it leaves them out."""


def _path(check: RecordedCheck) -> Json | None:
    """The path of a path check: client, entry and Service; null for any other check."""
    if check.place is None:
        return None
    own = {"id": check.path, "accepts": sorted(check.accept)}
    return {name: own[name] if name in own else check.data[name] for name in OnPath.__annotations__}
