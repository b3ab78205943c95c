"""conformance.yaml: the result of each profile, in the style of Gateway API's ConformanceReport.

Each profile has ``core`` and ``extended`` with a result, statistics, and the failed and skipped tests
(https://gateway-api.sigs.k8s.io/concepts/conformance/). Everything is sorted and measurements are left out: two runs
with the same outcome differ only in date and run. The types come first: conformance.schema.json is generated from them.
"""

from pathlib import Path
from typing import Annotated, Literal, NotRequired

import yaml
from pydantic import Field, with_config
from typing_extensions import TypedDict

from esipp.base.json import Json
from esipp.base.plural import counted
from esipp.base.schema import EXACTLY, CheckId, Count, note, schema_of
from esipp.checks.check import Binding, Level, Profile, Status
from esipp.checks.known_differences import Nature
from esipp.checks.reference import titles
from esipp.ledger.conclusion import Result, Tally, tally
from esipp.ledger.reading import RecordedRun
from esipp.report.causes import reasons
from esipp.report.profiles import Part, absent, ended, faults, moment, parts, present

SCHEMA = Path(__file__).with_name("conformance.schema.json")

API_VERSION, KIND = "esipp.dev/v1alpha2", "SourceIPConformanceReport"

MEASURED = ("load-balancer.steered", "pod-to-node.ipv4", "pod-to-node.ipv6")
"""Facts observed in the judged window: they belong to the run, not to the cluster."""

FAILED = (Status.FAIL, Status.FLAKY)


# -------------------------------------------------------------------------------------------------------------- types
class Suite(TypedDict):
    """What tested."""

    version: str
    lane: str
    failOn: Binding
    acceptKnownDefects: Annotated[bool, note("a run with known defects exits with code 0")]


class Implementation(TypedDict):
    """The user's description of the tested product; empty if missing."""

    organization: str
    project: str
    url: str
    version: str
    contact: list[str]


class Component(TypedDict):
    """A part of what was tested."""

    name: str
    kind: str
    image: str
    digest: str
    version: str


class Cluster(TypedDict):
    """What was tested."""

    facts: dict[str, str]
    components: list[Component]


class CoreTests(TypedDict):
    """How many core tests there are."""

    asked: Count
    inCatalogue: Annotated[int, Field(ge=0), note("all core tests of the suite, selected or not")]


class Concluded(TypedDict):
    """What the run comes to."""

    result: Result
    exitCode: Annotated[int, Field(ge=0, le=5)]
    whole: bool
    why: str
    coreTests: CoreTests
    faults: NotRequired[Annotated[list[str], Field(min_length=1)]]


class Statistics(TypedDict):
    """As in Gateway API, with capitals; passed means as required."""

    Passed: Count
    Failed: Count
    Skipped: Count


class Known(TypedDict):
    """Known differences by nature; they are neither passed nor failed."""

    allowed: Count
    defects: Count
    findings: Count


Tests = Annotated[list[CheckId], Field(min_length=1, json_schema_extra={"uniqueItems": True})]
Names = Annotated[list[str], Field(min_length=1, json_schema_extra={"uniqueItems": True})]


class OfLevel(TypedDict):
    """One level of a profile.

    known-defects: no test failed, and some differ by a known defect or finding. partial: no test failed, but a test was
    skipped or not selected, no test could run, or the run is incomplete.
    """

    result: Literal["success", "success-with-known-differences", "known-defects", "failure", "partial"]
    statistics: Statistics
    known: Known
    failedTests: NotRequired[Annotated[Tests, note("failed, or flaky: different results in one window")]]
    skippedTests: NotRequired[
        Annotated[Tests, note("excluded by the user or without a client, inconclusive, or without a verdict")]
    ]
    unsupportedTests: NotRequired[
        Annotated[Tests, note("need a feature that the cluster lacks; neither passed nor skipped")]
    ]
    supportedFeatures: NotRequired[Names]
    unsupportedFeatures: NotRequired[Names]


class OfProfile(TypedDict):
    """A kind of Service."""

    name: Profile
    core: OfLevel
    extended: OfLevel
    summary: str


class Feature(TypedDict):
    """Whether the cluster has a feature."""

    name: str
    supported: bool
    decided: Annotated[str, note("the source of the value")]
    leftOut: NotRequired[Annotated[Literal[True], note("excluded by the user")]]


class Cited(TypedDict):
    """A document with its address."""

    title: str
    url: str


class KnownDifference(TypedDict):
    """A known difference, with the tests that show it."""

    reason: str
    reference: Annotated[str, note("the titles of the references")]
    nature: Nature
    references: NotRequired[list[Cited]]
    tests: Tests


@with_config(EXACTLY)
class Report(TypedDict):
    """The result of each profile, in the style of Gateway API's ConformanceReport."""

    apiVersion: Literal["esipp.dev/v1alpha2"]
    kind: Literal["SourceIPConformanceReport"]
    date: Annotated[
        str,
        Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"),
        note("the end of the run; the start of a killed run"),
    ]
    run: str
    mode: Annotated[
        Literal["default", "disruptive"],
        note("disruptive: the run included checks that other users of the cluster can notice"),
    ]
    suite: Suite
    implementation: Implementation
    cluster: Cluster
    conclusion: Concluded
    leftOutCoreTests: Annotated[int, Field(ge=0), note("core tests that were not selected, of all profiles")]
    profiles: Annotated[list[OfProfile], Field(min_length=3, max_length=3)]
    features: list[Feature]
    knownDifferences: list[KnownDifference]
    recordedTests: Annotated[
        list[str], note("informational tests, which only record their result; no profile's statistics include them")
    ]
    instrument: NotRequired[
        Annotated[
            OfLevel,
            note("tests of the suite's reference load balancer, all levels; they say nothing about the cluster"),
        ]
    ]


def schema() -> str:
    """The text of conformance.schema.json."""
    return schema_of(Report, "conformance-2", "conformance.yaml of an esipp run")


# --------------------------------------------------------------------------------------------------------- the report
class _Dumper(yaml.SafeDumper):
    """Indents lists below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - the base class's parameters
        return super().increase_indent(flow, False)


def render(run: RecordedRun) -> str:
    """The report."""
    return yaml.dump(report(run), Dumper=_Dumper, sort_keys=True, default_flow_style=False, width=10_000)


def report(run: RecordedRun) -> Json:
    """The report as a value."""
    found, said = parts(run), run.conclusion
    features = {name for part in found.values() for name in part.features()}
    described = run.header.get("implementation", {})
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "date": moment(ended(run)) or moment(run.header["at"]),
        "run": run.header["run"],
        "mode": "disruptive" if run.header["allow_disruptive"] else "default",
        "suite": {"version": run.header["suite"], "lane": run.header["lane"], "failOn": run.header["fail_on"]}
        | {"acceptKnownDefects": run.header["accept_known_defects"]},
        "implementation": {name: described.get(name, "") for name in ("organization", "project", "url", "version")}
        | {"contact": sorted(described.get("contact", []))},
        "cluster": {
            "facts": {name: fact.value for name, fact in run.facts.items() if name not in MEASURED},
            "components": [
                {"name": each.name, "kind": each.kind, "image": each.image, "digest": each.digest}
                | {"version": each.version}
                for each in sorted(run.components)
            ],
        },
        "conclusion": {"result": said.result, "exitCode": int(said.exit_code), "whole": run.whole}
        | {"why": said.why, "coreTests": {"asked": said.levels[Level.CORE].asked, "inCatalogue": said.catalogue}}
        | _faults(run),
        "leftOutCoreTests": run.header["left_out_core_rows"],
        "profiles": [_profile(run, profile, found) for profile in sorted(Profile)],
        "features": [_feature(run, name) for name in sorted({*present(run, features), *absent(run, features)})],
        "knownDifferences": _known(run),
        "recordedTests": sorted(check.id for check in run.qualified if check.level is Level.RECORD),
    } | _instrument(run)


def _faults(run: RecordedRun) -> Json:
    found = faults(run)
    return {"faults": found} if found else {}


def _instrument(run: RecordedRun) -> Json:
    """The checks of the reference load balancer, all levels together; no profile's statistics include them."""
    checks = run.instruments
    return {"instrument": _status(run, Part("", Level.EXTENDED, checks))} if checks else {}


def _feature(run: RecordedRun, name: str) -> Json:
    """Whether a feature is present, and the source; ``leftOut`` if the user excluded it."""
    feature = run.features.get(name)
    entry = {"name": name, "supported": bool(feature and feature.present)}
    entry["decided"] = feature.why if feature else "not probed"
    return entry | ({"leftOut": True} if feature and feature.ours and not feature.present else {})


def _profile(run: RecordedRun, profile: Profile, found: dict[tuple[str, Level], Part]) -> Json:
    core, extended = (_status(run, found[profile.value, level]) for level in (Level.CORE, Level.EXTENDED))
    summary = f"Core tests {_say(core)}. Extended tests {_say(extended)}."
    return {"name": profile.value, "core": core, "extended": extended, "summary": summary}


def _status(run: RecordedRun, part: Part) -> Json:
    """Result, statistics and tests of a profile at one level.

    Passed tests are as required; known differences are counted separately, by nature. Skipped tests were excluded by
    the user, are inconclusive, in error or without a verdict. Tests of features that the cluster lacks are neither
    passed nor skipped: ``unsupportedTests`` lists them.
    """
    passed, failed = part.of(run, Status.PASS), part.of(run, *FAILED)
    found = tally(run.verdicts[check.id] for check in part.checks if check.id in run.verdicts)
    left_out = {check.id for check in part.checks if check.id in run.verdicts and run.verdicts[check.id].left_out}
    unjudged = {check.id for check in part.checks if check.id not in run.verdicts}
    skipped = sorted({*part.of(run, Status.INCONCLUSIVE, Status.ERROR), *left_out, *unjudged})
    lists = {
        "failedTests": failed,
        "skippedTests": skipped,
        "unsupportedTests": sorted({*part.of(run, Status.UNSUPPORTED)} - left_out),
        "supportedFeatures": present(run, part.features()),
        "unsupportedFeatures": absent(run, part.features()),
    }
    return {
        "result": _result(run, part, found, bool(skipped)),
        "statistics": {"Passed": len(passed), "Failed": len(failed), "Skipped": len(skipped)},
        "known": {"allowed": found.allowed, "defects": found.defects, "findings": found.findings},
    } | {name: value for name, value in lists.items() if value}


def _result(run: RecordedRun, part: Part, found: Tally, skipped: bool) -> str:
    """The result of a part. Failures and known defects count in any run.

    ``success`` needs a complete run, at least one tested check, none skipped, and all tested checks as required. The
    profile of checks that were not selected is unknown, so they make all profiles partial.
    """
    if found.failed or found.flaky:
        return "failure"
    if found.defects or found.findings:
        return "known-defects"
    unsure = not run.whole or run.conclusion.result in ("incomplete", "error", "empty")
    not_selected = part.level is Level.CORE and run.header["left_out_core_rows"] > 0
    if unsure or skipped or not_selected or not found.asked:
        return "partial"
    return "success-with-known-differences" if found.allowed else "success"


def _say(status: Json) -> str:
    """The result of one level in words."""
    failed, skipped = status["statistics"]["Failed"], status["statistics"]["Skipped"]
    known = ", ".join(f"{count} {nature}" for nature, count in status["known"].items() if count)
    said = {
        "success": "succeeded",
        "success-with-known-differences": f"succeeded with known differences: {known}",
        "known-defects": f"differ by known defects: {known}",
        "failure": f"failed: {counted(failed, 'test')}",
        "partial": "partially succeeded" + (f", with known differences: {known}" if known else ""),
    }
    return said[status["result"]] + (f", {skipped} skipped" if skipped else "")


def _known(run: RecordedRun) -> list[Json]:
    """Known differences with nature, reason and references; none of them counts as passed."""
    found = reasons(run.qualified, run.verdicts, Status.KNOWN)
    entries = [
        {"reason": each.why, "reference": titles(each.references), "nature": each.nature or Nature.DEFECT.value}
        | {"references": [one.as_json() for one in each.references]}
        | {"tests": sorted(check.id for check in each.checks)}
        for each in found
    ]
    return sorted(entries, key=lambda each: (str(each["reason"]), str(each["reference"])))
