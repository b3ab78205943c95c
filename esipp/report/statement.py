"""statement.json: an unsigned in-toto statement of the run, ready for a signature.

Statement v1 with the predicate test-result v0.1 (github.com/in-toto/attestation, spec/predicates/test-result.md). Its
subjects are the tested components by image digest; the suite's own instruments are not among them.
"""

import json
from collections.abc import Iterable

from esipp.base.errors import ExitCode
from esipp.base.json import Json
from esipp.checks.check import Status
from esipp.ledger.conclusion import BOTH, KNOWN_DEFECTS, PARTIAL, WAIVED
from esipp.ledger.reading import LEDGER, Component, RecordedRun
from esipp.report.causes import reasons
from esipp.report.profiles import faults, settings

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"

OUR_KINDS, OUR_NAMES = ("echo", "echo-image"), ("reference load balancer",)
"""Kinds and names of the suite's own components: they belong to the configuration, not to the subjects."""


def render(run: RecordedRun) -> str:
    """The statement.

    Raises:
        ValueError: no tested component has a digest, or the ledger has none.
    """
    return json.dumps(statement(run), indent=2) + "\n"


def statement(run: RecordedRun) -> Json:
    """The statement as a value. Test names are check ids.

    The predicate has no list for checks that were not asked, nor for informational ones, which neither pass nor fail:
    annotations of the ledger name them, those that were not asked by reason. Another one counts the checks of the
    reference load balancer.

    Raises:
        ValueError: no tested component has a digest, or the ledger has none.
    """
    subjects = _descriptors(each for each in run.components if not _is_ours(each))
    if not subjects:
        raise ValueError("no tested component has a digest, so the statement would have no subject")
    if not run.sha256:
        raise ValueError("the digest of the ledger is unknown")
    passed, warned, failed = _tests(run)
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "result": _result(run, warned),
            "configuration": [_ledger(run), *_descriptors(each for each in run.components if _is_ours(each))],
            "passedTests": passed,
            "warnedTests": warned,
            "failedTests": failed,
        },
    }


def _is_ours(component: Component) -> bool:
    return component.kind in OUR_KINDS or component.name in OUR_NAMES


def _result(run: RecordedRun, warned: list[str]) -> str:
    """PASSED for a complete, conformant run without known differences; FAILED if conformance is not proven.

    Known differences make it WARNED, and so do known defects that the user accepts. Other known defects make it FAILED,
    like the exit code.
    """
    said = run.conclusion
    if not run.whole or said.exit_code is not ExitCode.CONFORMANT:
        return "FAILED"
    return "WARNED" if warned or said.result in (PARTIAL, KNOWN_DEFECTS, WAIVED) else "PASSED"


def _tests(run: RecordedRun) -> tuple[list[str], list[str], list[str]]:
    """The ids of checks that passed, those that passed with a reservation or differ without binding, and those that
    failed; each sorted. Of a ledger that is not whole, no check is believed to have passed.
    """
    scale = run.scale
    passed: list[str] = []
    warned: list[str] = []
    failed: list[str] = []
    for verdict in run.verdicts.values():
        if scale.spoils(verdict):
            failed.append(verdict.check_id)
        elif scale.concerns(verdict) and verdict.level in BOTH and verdict.status is not Status.UNSUPPORTED:
            (passed if verdict.status is Status.PASS else warned).append(verdict.check_id)
    if not run.whole:
        passed, warned = [], []
    return sorted(passed), sorted(warned), sorted(failed)


def _ledger(run: RecordedRun) -> Json:
    """The ledger as evidence, annotated with facts about the run."""
    said = run.conclusion
    names = (
        "run", "lane", "context", "command", "fail_on", "accept_known_defects", "require", "without",
        "allow_disruptive",
    )  # fmt: skip
    ours = [each for each in run.verdicts.values() if run.scale.concerns(each)]
    recorded = sorted(each.check_id for each in ours if each.status is Status.RECORDED)
    undigested = [
        {name: value for name, value in each._asdict().items() if value and name != "decided"}
        for each in sorted(run.components)
        if not each.digest
    ]
    facts = {"suite_version": run.header["suite"], **settings(run, *names, "implementation")}
    facts |= {"conclusion": said.result, "why": said.why, "counts": list(said.lines), "recorded_tests": recorded}
    facts |= {"not_asked_tests": _not_asked(run)}
    facts |= {"faults": faults(run), "components_without_digest": undigested}
    kept = {f"esipp_{name}": value for name, value in facts.items() if value not in ([], {}, "")}
    return {
        "name": LEDGER,
        "digest": {"sha256": run.sha256},
        "mediaType": "application/jsonl",
        "annotations": kept,
    }


def _not_asked(run: RecordedRun) -> list[Json]:
    """The checks that were not asked, by reason; no ledger names those that were not selected, so they are counted."""
    found = reasons(run.qualified, run.verdicts, Status.UNSUPPORTED)
    made: list[Json] = [
        {
            "reason": f"needs {', '.join(each.of)}: {each.why}" if each.of else each.why,
            "number": len(each.checks),
            "tests": sorted(check.id for check in each.checks),
        }
        for each in found
    ]
    left_out = run.header["left_out_core_rows"]
    return made + ([{"reason": "core checks that were not selected", "number": left_out}] if left_out else [])


def _descriptors(components: Iterable[Component]) -> list[Json]:
    """Images with a digest, each once; a name with several digests gets the digest appended.

    An annotation says how the digest was found out: one of an image that was loaded onto the nodes is known to no
    registry.
    """
    known: dict[tuple[str, str], set[str]] = {}
    for each in components:
        if each.digest:
            known.setdefault((each.image or each.name, each.digest.removeprefix("sha256:")), set()).add(each.decided)
    names = [name for name, _ in known]
    return [
        {"name": name if names.count(name) == 1 else f"{name}@sha256:{digest}", "digest": {"sha256": digest}}
        | {"annotations": {"esipp_decided": "; ".join(sorted(decided))}}
        for (name, digest), decided in sorted(known.items())
    ]
