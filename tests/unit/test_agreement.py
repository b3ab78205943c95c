"""All reports of one run agree: the result, the exit code, and how many checks got which verdict."""

import html
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from esipp.checks.check import Binding, Level, Status
from esipp.checks.known_differences import Nature
from esipp.checks.reference import Reference
from esipp.ledger.reading import RecordedRun, read_run
from esipp.ledger.run import Run, Settings
from esipp.report.formats import FORMATS
from tests.unit.report_world import COMPONENTS, failing, made, write

Make = Callable[[Path], RecordedRun]


def mixed(folder: Path) -> RecordedRun:
    """Every verdict at once, of extended checks too."""
    said = failing(Status.FAIL) | failing(Status.INCONCLUSIVE, Level.EXTENDED) | failing(Status.RECORDED, Level.RECORD)
    return made(folder, said=said)


def known(folder: Path, nature: Nature) -> RecordedRun:
    return made(
        folder, said=failing(Status.KNOWN, nature=nature.value, reason="so it is", references=(Reference("issue 1"),))
    )


def killed(folder: Path) -> RecordedRun:
    run = write(folder, said=failing(Status.KNOWN))
    assert run.ledger is not None
    run.ledger.close()
    return read_run(folder)


def cut_off(folder: Path) -> RecordedRun:
    made(folder)
    ledger = folder / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-3000])
    return read_run(folder)


def interrupted(folder: Path) -> RecordedRun:
    run = write(folder)
    run.interrupted = True
    run.end()
    return read_run(folder)


def empty(folder: Path) -> RecordedRun:
    run = Run(Settings("kind-test", image="echo:1", out=str(folder)), say=lambda _: None)
    run.begin([], 7)
    for each in COMPONENTS:
        run.record("component", **{"decided": "imageID of its pods", "version": "1", **each})
    run.end()
    return read_run(folder)


RUNS: dict[str, tuple[Make, str, str]] = {
    "conformant": (made, "conformant", "PASSED"),
    "partial": (lambda folder: made(folder, left_out=3), "partial", "WARNED"),
    "left out": (lambda folder: made(folder, said=failing(Status.UNSUPPORTED, left_out=True)), "partial", "WARNED"),
    "failing": (lambda folder: made(folder, said=failing()), "nonconformant", "FAILED"),
    "flaky": (lambda folder: made(folder, said=failing(Status.FLAKY)), "nonconformant", "FAILED"),
    "allowed": (lambda folder: known(folder, Nature.ALLOWED), "conformant with known differences", "WARNED"),
    "known defect": (lambda folder: known(folder, Nature.DEFECT), "known defects", "FAILED"),
    "finding": (lambda folder: known(folder, Nature.FINDING), "known defects", "FAILED"),
    "instrument": (lambda folder: made(folder, said=failing(instrument=True)), "conformant", "PASSED"),
    "inconclusive": (lambda folder: made(folder, said=failing(Status.INCONCLUSIVE)), "inconclusive", "FAILED"),
    "error": (lambda folder: made(folder, said=failing(Status.ERROR)), "error", "FAILED"),
    "extended": (lambda folder: made(folder, said=failing(level=Level.EXTENDED)), "nonconformant", "FAILED"),
    "core only": (
        lambda folder: made(folder, said=failing(level=Level.EXTENDED), fail_on=Binding.CORE),
        "conformant",
        "WARNED",
    ),
    "mixed": (mixed, "nonconformant", "FAILED"),
    "killed": (killed, "incomplete", "FAILED"),
    "cut off": (cut_off, "incomplete", "FAILED"),
    "interrupted": (interrupted, "incomplete", "FAILED"),
    "empty": (empty, "empty", "FAILED"),
}
GREEN = ("conformant", "conformant with known differences", "partial")


@pytest.mark.parametrize("name", RUNS)
def test_all_reports_agree(name: str, tmp_path: Path) -> None:
    make, result, attested = RUNS[name]
    run = make(tmp_path / "run")
    said = {form: FORMATS[form].render(run) for form in FORMATS}
    ours = {check.id for check in run.instruments}
    about = {name: each for name, each in run.verdicts.items() if name not in ours}
    counts = Counter(verdict.status.value for verdict in about.values())

    assert run.conclusion.result == result
    assert (int(run.conclusion.exit_code) == 0) is (result in GREEN)

    answer = json.loads(said["json"])
    assert (answer["conclusion"]["result"], answer["conclusion"]["exit_code"]) == (result, run.conclusion.exit_code)
    assert answer["conclusion"]["counts"] == counts
    assert Counter(check["status"] for check in answer["rows"] if check["id"] in about) == counts
    assert answer["instrument"]["rows"] == len(ours)
    assert answer["ledger"]["whole"] is run.whole

    lines = said["terminal"].splitlines()
    assert " ".join(run.conclusion.headline.split()) in " ".join(said["terminal"].split())
    lines = lines[: next((at for at, line in enumerate(lines) if "(an instrument of the suite" in line), None)]
    unwrapped = " ".join(" ".join(lines).partition(" checks ")[2].split())
    levels = re.findall(r"\b(?:core|extended|informational) \d+ checks?: ((?:\d+ \w+(?:, )?)+)", unwrapped)
    assert summed(", ".join(levels)) == counts

    assert said["markdown"].startswith(f"# Source IP qualification: {result.upper()}\n")
    assert said["markdown"].count("\n**" + result.upper() + "**") == 1

    (title,) = re.findall(r"<title>(.*?)</title>", said["html"], re.DOTALL)
    assert html.unescape(title).startswith(result.upper())

    report = yaml.safe_load(said["conformance"])
    whole = {"result": result, "exitCode": int(run.conclusion.exit_code), "whole": run.whole}
    assert {key: report["conclusion"][key] for key in whole} == whole
    wanted: Counter[str] = Counter()
    for check in run.checks:
        if check.level is not Level.RECORD and check.id in about:
            wanted[CALLED[run.verdicts[check.id].status]] += 1
    found: Counter[str] = Counter()
    for profile in report["profiles"]:
        for level in ("core", "extended"):
            found.update(profile.get(level, {}).get("statistics", {}))
            found["known"] += sum(profile[level]["known"].values())
    found["Skipped"] -= sum(check.level is not Level.RECORD and check.id not in run.verdicts for check in run.checks)
    assert +found == wanted
    if result not in GREEN:
        assert {profile[level]["result"] for profile in report["profiles"] for level in ("core", "extended")} != {
            "success"
        }

    root = ElementTree.fromstring(said["junit"])  # noqa: S314 - our own
    red = [case for case in root.iter("testcase") if case.find("failure") is not None or case.find("error") is not None]
    assert bool(red) is (result not in GREEN), "CI is red exactly where the exit code is not 0"
    spoiling = sum(run.scale.spoils(verdict) for verdict in run.verdicts.values())
    own = [case for case in red if case.get("name") in run.verdicts]
    assert len(own) == spoiling

    statement = json.loads(said["in-toto"])["predicate"]
    assert statement["result"] == attested
    judged = [check for check in run.checks if check.level is not Level.RECORD and check.id in about and run.whole]
    assert len(statement["passedTests"]) == sum(run.verdicts[check.id].status is Status.PASS for check in judged)


def summed(text: str) -> Counter[str]:
    """``3 pass, 1 fail, 2 pass`` as counts."""
    found: Counter[str] = Counter()
    for number, status in re.findall(r"(\d+) (\w+)", text):
        found[status] += int(number)
    return found


CALLED = {
    Status.PASS: "Passed",
    Status.KNOWN: "known",
    Status.FAIL: "Failed",
    Status.FLAKY: "Failed",
    Status.UNSUPPORTED: "Skipped",
    Status.INCONCLUSIVE: "Skipped",
    Status.ERROR: "Skipped",
}
"""What Gateway API's words are for verdicts."""
