"""The records of a ledger by their types, and whether a line is such a record.

ledger.schema.json is generated from these types. What a report reads it may then sort, add and join without looking
again. A value of any form is only held to be one that every report can show.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import Discriminator, Field, Strict, Tag, ValidationError, with_config
from typing_extensions import TypedDict

from esipp.base.schema import EXACTLY, CheckId, Count, Digest, adapter, note, schema_of
from esipp.checks.check import Binding, Level, Profile, Status
from esipp.checks.known_differences import Nature
from esipp.checks.model import AddressClass, Claim, Family, Outcome, Protocol, ServiceType, TrafficPolicy
from esipp.checks.path import Spread
from esipp.checks.waivers import RecordedWaivers
from esipp.judging.schedule import Touches
from esipp.ledger.conclusion import Result
from esipp.ledger.file import SCHEMA_VERSION

MOST = 2**63
"""Numbers are below this, so that all programs that read a report can read them."""

DEEPEST = 40
"""Levels that anything may be nested."""

FROM_JSON = Strict(strict=False)
"""Of enums and pairs: JSON has texts and lists for them."""

Positive = Annotated[int, Field(ge=1)]
Class = Annotated[AddressClass, FROM_JSON]
ALevel = Annotated[Level, FROM_JSON]
Endpoint = Annotated[tuple[str, int], FROM_JSON] | None
"""Address and port."""
Policy = Annotated[TrafficPolicy, FROM_JSON] | None
Since = Annotated[
    Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")] | None,
    note("the first Kubernetes version that supports the check; null if all do"),
]


# ------------------------------------------------------------------------------------------------------------- checks
class Reference(TypedDict):
    """A document."""

    title: str
    url: Annotated[str, Field(pattern=r"^(https://[^ ]+)?$", description="empty in older ledgers")]


References = list[Annotated[Reference | str, note("older ledgers have the title alone")]]
AtLeastOne = Annotated[References, Field(min_length=1)]


@with_config(EXACTLY | {"extra": "allow"})
class OtherCheck(TypedDict):
    """A check that is no path's, with what its subject says besides."""

    id: CheckId
    suite: str
    level: ALevel
    requirement: str
    features: list[str]
    since: NotRequired[Since]
    references: AtLeastOne
    profile: Annotated[Profile, FROM_JSON, note("the kind of Service it is about")]
    fails_if: Annotated[str, note("a data plane defect that makes the check fail")]
    asked: Annotated[str, note("what the run does to find out")]
    expect: NotRequired[str]


class Control(TypedDict):
    """A path that must hold in the same window, or the check is not believed."""

    path: str
    why: str


class Place(TypedDict):
    """Where a check stands in the matrix."""

    service: str
    entry: str
    kind: Annotated[str, note("only lines of one kind may be merged into one")]
    order: Annotated[list[Any], note("sorts lines")]
    client: Annotated[list[Any], note("sorts columns")]


class PathCheck(TypedDict):
    """A check of a path."""

    path: Annotated[str, note("what is dialled: the path of the observations it rests on")]
    id: CheckId
    requirement: str
    level: ALevel
    suite: str
    service: Annotated[ServiceType, FROM_JSON] | None
    policy: Annotated[Policy, note("externalTrafficPolicy, null where unset")]
    internal_policy: Annotated[Policy, note("internalTrafficPolicy, null where unset")]
    protocol: Annotated[Protocol, FROM_JSON]
    family: Annotated[Family, FROM_JSON]
    client: str
    entry: str
    expect: Annotated[list[Class], Field(min_length=1)]
    told: Annotated[
        Annotated[Claim, FROM_JSON] | None,
        note("the header that must have the client's own address"),
    ]
    spread: Annotated[Spread, FROM_JSON, note("which of several backends may answer")]
    features: list[str]
    since: NotRequired[Since]
    references: AtLeastOne
    profile: Annotated[Profile, FROM_JSON]
    fails_if: str
    asked: str
    controls: list[Control]
    place: Place
    axes: Annotated[dict[str, str], note("its value on each axis on which checks are siblings")]
    siblings: Annotated[dict[str, str], note("equal for checks that differ on that axis only")]


def _kind_of_check(value: Any) -> str:
    names = value.keys() if isinstance(value, Mapping) else ()
    return "path" if {"path", "entry", "protocol"} <= {*names} else "other"


ACheck = Annotated[
    Annotated[PathCheck, Tag("path")] | Annotated[OtherCheck, Tag("other")], Discriminator(_kind_of_check)
]


# ------------------------------------------------------------------------------------------------------------ records
class Implementation(TypedDict):
    """What the user says was tested."""

    organization: NotRequired[str]
    project: NotRequired[str]
    url: NotRequired[str]
    version: NotRequired[str]
    contact: NotRequired[Annotated[list[str], Field(min_length=1)]]


class JudgedAgain(TypedDict):
    """When verdicts that are not the run's own were made of what it saw, and which esipp had run it."""

    at: float
    run: str
    suite: str


class Header(TypedDict):
    """The first line: what was asked."""

    schema: Annotated[Literal[5, 6], note("version of this schema")]
    suite: Annotated[str, note("version of esipp")]
    run: str
    lane: str
    context: str
    command: Annotated[str, note("repeats the run; ids of checks can be appended")]
    asked: NotRequired[Annotated[list[str], note("suites and checks as on the command line; empty for all")]]
    created_with: NotRequired[
        Annotated[list[str], note("customisation of all created objects, as options; of a secret only its name")]
    ]
    image: str
    samples: Positive
    outside: str
    without: list[str]
    fail_on: Annotated[Binding, FROM_JSON]
    accept_known_defects: Annotated[bool, note("known defects end with exit code 0")]
    require: Annotated[list[str], note("features without which the run is refused")]
    moves: Positive
    allow_disruptive: bool
    redact_cloud_ids: NotRequired[Annotated[bool, note("pseudonyms stand for what names a cloud's account")]]
    provider: NotRequired[Annotated[str, note("the load balancer that --provider named; empty for none")]]
    bound: NotRequired[
        Annotated[float | None, note("seconds within which it must follow endpoints, as the user gave them")]
    ]
    implementation: NotRequired[Implementation]
    seed: Annotated[int, note("from which all random choices follow")]
    rows: list[ACheck]
    left_out_core_rows: Count
    waivers: NotRequired[RecordedWaivers]
    judged_again: NotRequired[JudgedAgain]


class Note(TypedDict):
    """Something that could not be done, or that contradicts what was expected; no verdict rests on it."""

    about: str
    note: str


class Fact(TypedDict):
    """Something found out about the cluster, and how."""

    name: str
    value: str
    decided: Annotated[str, note("the source of the value")]


class Feature(TypedDict):
    """What the cluster and its environment offer."""

    name: str
    present: bool
    why: str
    ours: Annotated[bool, note("missing because the user left it out, not because the cluster lacks it")]


class Topology(TypedDict):
    """Who owned which address."""

    nodes: dict[str, Any]
    roles: dict[str, Any]
    clients: dict[str, Any]
    backends: dict[str, Any]
    balancers: dict[str, Any]


class Obstacle(TypedDict):
    """A path that could not be dialled at all."""

    path: str
    why: str


class Settled(TypedDict):
    """How the wait for the data plane ended, before the judged window."""

    held: bool
    seconds: float
    state: str


class Event(TypedDict):
    """When an event of a phase ran, and what it touched."""

    phase: str
    name: str
    touches: Annotated[Touches, FROM_JSON]
    began: Annotated[float, note("Unix seconds")]
    seconds: float


class Phase(TypedDict):
    """A part of the run that is over."""

    name: str
    seconds: float


class Observation(TypedDict):
    """One probe of the judged window, or count of them that all showed the same.

    Source, seen and started are then the first's. Times are the prober's: started and ended monotonic, time wall.
    """

    path: str
    seq: Count
    count: Positive
    outcome: Annotated[Outcome, FROM_JSON]
    source: Annotated[Endpoint, note("the client's own view of its address and port")]
    dialled: Endpoint
    seen: Annotated[Endpoint, note("the source as the backend saw it")]
    ports: Annotated[
        list[Annotated[tuple[int, int | None], FROM_JSON]],
        note("for several probes, the source port of each: the client's own, and the one that the backend saw"),
    ]
    backend: str | None
    observer: Literal["echo"]
    nonce: Annotated[str, note("empty if several probes are merged into one line")]
    tag: Annotated[int | None, note("the initiate tag of an SCTP INIT")]
    started: float
    connected: Annotated[float | None, note("when the connection was accepted, if it ever was")]
    ended: float
    connection: NotRequired[
        Annotated[int, Field(ge=0), note("of a job with established connections, the number of the connection")]
    ]
    addresses: NotRequired[Annotated[list[str], note("what a name was resolved to")]]
    moments: NotRequired[
        Annotated[
            list[Annotated[tuple[float, float], FROM_JSON]],
            note("when each of several probes began and ended; only where a known difference asks"),
        ]
    ]
    irregular: NotRequired[
        Annotated[
            list[Annotated[tuple[float, float | None, float, int, int], FROM_JSON]],
            note(
                "answers that came late or more than once, or for which the SYN was sent again: start, when it was "
                "accepted (null for datagrams), end, SYNs after the first, further copies of the answer"
            ),
        ]
    ]
    time: float
    detail: str
    echo: dict[str, Any] | None


class Witness(TypedDict):
    """What packets tell of one observation: the second witness."""

    path: str
    seq: Count
    seen: Annotated[bool, note("whether the connection was found among the packets")]
    words: Annotated[str, note("who sent what to whom, on which node and interface")]
    delivered: Annotated[Endpoint, note("the source with which its request went to a backend")]
    change: Annotated[str, note("node and interfaces between which the source changed")]
    contradiction: Annotated[str, note("where packets and echo server cannot both be right")]
    doubt: Annotated[str, note("why its packets could not be distinguished from another connection's")]
    turned_back: NotRequired[Annotated[str, note("the client's node, where the request left it and came back")]]


class Evidence(TypedDict):
    """What was seen and is no observation of a path; the suite says what data holds."""

    suite: str
    kind: str
    data: dict[str, Any]


class Component(TypedDict):
    """A part of what was tested, and how that was found out."""

    name: str
    kind: str
    image: str
    digest: Digest
    version: str
    decided: str


class Judged(TypedDict):
    """What the judge of a suite was given, exactly: 'esipp judge' gives it to the judge of today."""

    suite: str
    seen: dict[str, Any]
    broken_off: NotRequired[
        Annotated[Literal[True], note("the run was interrupted meanwhile: reports show it, no check is judged by it")]
    ]


class OlderSection(TypedDict):
    """Older ledgers only: a section of the summary as text."""

    suite: str
    lines: list[str]


class Verdict(TypedDict):
    """The verdict on a check."""

    id: str
    level: ALevel
    status: Annotated[Status, FROM_JSON]
    expected: str
    observed: str
    reason: str
    tally: dict[str, Count]
    references: NotRequired[References]
    reference: NotRequired[Annotated[str, note("in older ledgers, instead of references")]]
    shown: list[Class]
    left_out: Annotated[bool, note("unsupported because the user left it out")]
    ports: Annotated[str, note("whether source ports were kept; recorded, never judged")]
    change: Annotated[str, note("where packets saw the source change")]
    witnesses: Annotated[str, note("the witnesses that the verdict is based on")]
    likely: Annotated[str, note("where to look first, if it is not fine")]
    sees: Annotated[str, note("what the check can and cannot detect; the resolution reached")]
    nature: Annotated[Annotated[Nature, FROM_JSON] | Literal[""], note("of a known difference")]
    missing: Annotated[list[str], note("missing features that prevent the check")]
    instrument: Annotated[bool, note("about the reference load balancer, not about the cluster")]


class End(TypedDict):
    """The closing record; a ledger without it is of a run that was killed."""

    result: Result
    why: str
    counts: dict[str, Positive]
    exit_code: Annotated[int, Field(ge=0, le=5)]
    records: Annotated[int, Field(ge=1), note("lines before this one")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), note("of all bytes before this line")]
    seconds: dict[str, Annotated[float, Field(ge=0)]]


def _line(kind: str, of: Any) -> Any:
    """The type of the lines that hold a kind of record."""
    at = Annotated[float, Field(ge=0, le=253402300799), note("Unix seconds at which the line was written")]
    line: Any = TypedDict(of.__name__, {"at": at, "record": Literal[kind], **of.__annotations__})  # type: ignore[misc]  # its fields are known at run time
    line.__doc__ = of.__doc__
    return with_config(EXACTLY)(line)


KINDS: Mapping[str, Any] = {
    kind: _line(kind, of)
    for kind, of in {
        "header": Header,
        "note": Note,
        "fact": Fact,
        "feature": Feature,
        "topology": Topology,
        "obstacle": Obstacle,
        "settled": Settled,
        "event": Event,
        "phase": Phase,
        "observation": Observation,
        "witness": Witness,
        "evidence": Evidence,
        "component": Component,
        "judged": Judged,
        "section": OlderSection,
        "verdict": Verdict,
        "end": End,
    }.items()
}
"""The kinds of lines by name."""

Record: Any = Annotated[Union[tuple(KINDS.values())], Discriminator("record")]  # noqa: UP007 - of a tuple that is known at run time
"""One line of a ledger."""


def schema() -> str:
    """The text of ledger.schema.json."""
    return schema_of(Record, f"ledger-{SCHEMA_VERSION}", "One line of an esipp ledger")


def fault_of(record: Mapping[str, Any]) -> str:
    """What is wrong with a record, and where; empty if nothing is.

    Raises:
        KeyError: there is no such kind of record.
    """
    try:
        adapter(KINDS[record["record"]]).validate_python(record)
    except ValidationError as found:
        first = found.errors(include_url=False, include_context=False)[0]
        what = first["msg"].removeprefix("Input ")
        value = "" if first["type"] in ("missing", "extra_forbidden") else f", not {first['input']!r:.40}"
        return f"{'.'.join(map(str, first['loc']))}: {what}{value}"
    return _too_much(record)


PLAIN = frozenset({str, bool, type(None)})
"""The types of values that every report can show."""

NUMBERS = frozenset({int, float})


def _too_much(value: Any, depth: int = 0) -> str:
    """Why a report cannot show a value of any form: its numbers are not finite, or it is nested too deep."""
    if type(value) in PLAIN:
        return ""
    if isinstance(value, int | float):
        return "" if -MOST < value < MOST else "a number out of range"
    if depth > DEEPEST:
        return "nested too deep"
    within = value.values() if isinstance(value, dict) else value
    kinds = {*map(type, within)}
    if kinds <= PLAIN:
        return ""
    if kinds <= NUMBERS and -MOST < min(within) <= max(within) < MOST and isfinite(sum(within)):
        return ""  # most of a large ledger, without a call for each number; the sum shows what is not one
    for each in within:
        if type(each) not in PLAIN and (fault := _too_much(each, depth + 1)):
            return fault
    return ""
