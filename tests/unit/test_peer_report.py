"""Reading upstream's report: each state, reasons, specs never begun, names with labels; and choosing specs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ci.peer_tests import report
from ci.peer_tests.report import Outcome, SpecResult
from ci.peer_tests.specs import BY_NAME, SPECS, spec_of
from esipp.checks.catalog import all_checks

SOURCE = "Services should preserve source pod IP for traffic thru service cluster IP"
LOCAL = "LoadBalancers ExternalTrafficPolicy: Local should work for type=LoadBalancer"


def report_of(
    state: str, text: str = "should preserve source pod IP for traffic thru service cluster IP", **more: Any
) -> Any:
    """One spec of a report as ginkgo writes it, in short."""
    made = {"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-network] Services"], "State": state}
    return made | {"LeafNodeText": f"{text} [LinuxOnly]", "RunTime": 2_340_000_000} | more


def reported(folder: Path, *specs: Any) -> Path:
    where = folder / report.WHERE
    where.parent.mkdir()
    where.write_text(json.dumps([{"SpecReports": list(specs)}]))
    return folder


def read_one(folder: Path, *specs: Any) -> SpecResult:
    (result,) = report.read(reported(folder, *specs), [SOURCE])
    return result


def test_one_that_passed(tmp_path: Path) -> None:
    assert read_one(tmp_path, report_of("passed")) == SpecResult(SOURCE, Outcome.PASSED, 2.3, "")


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("failed", Outcome.FAILED),
        ("panicked", Outcome.FAILED),
        ("aborted", Outcome.FAILED),
        ("timedout", Outcome.TIMED_OUT),
        ("interrupted", Outcome.TIMED_OUT),
        ("skipped", Outcome.SKIPPED),
        ("pending", Outcome.MISSING),
    ],
)
def test_every_state(state: str, outcome: Outcome, tmp_path: Path) -> None:
    result = read_one(tmp_path, report_of(state, Failure={"Message": "why"}))
    assert (result.outcome, result.why) == (outcome, "why")
    assert result.bad is (outcome in (Outcome.FAILED, Outcome.TIMED_OUT))


def test_one_that_was_not_begun_is_no_skip(tmp_path: Path) -> None:
    assert read_one(tmp_path, report_of("skipped")).outcome is Outcome.MISSING


def test_one_that_is_not_in_the_report(tmp_path: Path) -> None:
    other = report_of("passed", "should serve a basic endpoint from pods")
    assert read_one(tmp_path, other) == SpecResult(SOURCE, Outcome.MISSING)


def test_what_is_no_spec_is_left_out(tmp_path: Path) -> None:
    assert read_one(tmp_path, report_of("failed", LeafNodeType="BeforeSuite")).outcome is Outcome.MISSING


def test_what_waited_when_the_time_was_over_tells_what_for(tmp_path: Path) -> None:
    events = [{"SpecEventType": "By", "Message": step} for step in ("creating a pod", "waiting for the VIP")]
    events.append({"SpecEventType": "Node", "Message": "It"})
    assert read_one(tmp_path, report_of("timedout", SpecEvents=events)).why == "at: waiting for the VIP"


def test_a_message_is_one_line_without_what_changes_from_run_to_run() -> None:
    assert report.brief("Timed out:\n  pod esipp-4711/x\tin services-1234") == "Timed out: pod esipp-…/x in services-…"
    long = report.brief("x" * 1000)
    assert len(long) == report.LONGEST_WHY
    assert long.endswith("…")


def test_the_order_is_that_of_what_was_asked(tmp_path: Path) -> None:
    local = report_of("passed", "should work for type=LoadBalancer")
    local["ContainerHierarchyTexts"] = [
        "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow]"
    ]
    results = report.read(reported(tmp_path, local, report_of("failed")), [SOURCE, LOCAL])
    assert [each.name for each in results] == [SOURCE, LOCAL]
    assert [each.outcome for each in results] == [Outcome.FAILED, Outcome.PASSED]


@pytest.mark.parametrize("text", ["{}", '"x"'])
def test_a_file_that_is_no_report(text: str, tmp_path: Path) -> None:
    where = reported(tmp_path) / report.WHERE
    where.write_text(text)
    with pytest.raises(ValueError, match="not a ginkgo report"):
        report.read(tmp_path, [SOURCE])


def test_no_report_at_all(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"report\.json"):
        report.read(tmp_path, [SOURCE])


# ------------------------------------------------------------------------------------------------- the table of specs
def test_names_are_distinguished() -> None:
    assert len(BY_NAME) == len(SPECS)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_focus_finds_its_spec_and_no_other(spec: Any) -> None:
    full = f"[sig-network] {spec.suite} [Feature:LoadBalancer] [Slow] {spec.text} [LinuxOnly]"
    plain = f"[sig-network] {spec.suite} {spec.text}"
    assert re.search(spec.focus, full)
    assert spec_of(full) == spec == spec_of(plain)
    assert [each.name for each in SPECS if re.search(each.focus, plain)] == [spec.name]
    assert not re.search(spec.focus, f"{plain} and more")


def test_checks_that_are_said_to_ask_the_same_are_there() -> None:
    checks = [check.id for check in all_checks()]
    parts = [part for spec in SPECS for part in spec.ours]
    assert [part for part in parts if not any(check.startswith(part) for check in checks)] == []


def test_where_no_check_asks_the_same_it_says_why() -> None:
    assert [spec.name for spec in SPECS if not spec.ours and not spec.differs] == []
