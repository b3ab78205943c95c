"""Waivers: they cover failures until a day, are counted apart, and fail when they are expired or cover nothing."""

import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.catalog import HOUSE
from esipp.checks.check import Level, Status, Verdict
from esipp.checks.waivers import Waiver, Waivers, merged, read_waivers, recorded
from esipp.ledger.conclusion import conclude
from esipp.ledger.reading import read_run
from esipp.report import junit, statement
from tests.unit.test_exit_codes import CHECK, command, environment

TODAY = "2026-11-24"
FILE = """
waivers:
- check: {check}
  reason: the kernel has no such thing
  owner: someone@example.com
  expires: {expires}
  reference: https://example.com/1
"""


def waiver(check: str, expires: str = TODAY) -> Waiver:
    return Waiver(check, "a reason", "an owner", expires, "https://example.com/1")


def verdict(check: str, status: Status, level: Level = Level.CORE, **more: str) -> Verdict:
    return Verdict(check, level, status, "this", "that", **more)


GOOD, BAD = verdict("a.good", Status.PASS), verdict("a.bad", Status.FAIL)


def concluded(verdicts: list[Verdict], *waivers: Waiver) -> tuple[str, ExitCode]:
    said = conclude(verdicts, 0, waivers=Waivers(waivers, TODAY))
    return said.result, said.exit_code


def test_a_failure_that_is_covered_does_not_decide_and_is_not_as_required() -> None:
    said = conclude([GOOD, BAD], 0, waivers=Waivers((waiver("a.bad"),), TODAY))
    assert (said.result, said.exit_code) == ("waived", ExitCode.CONFORMANT)
    core = said.levels[Level.CORE]
    assert (core.required, core.waived, core.failed, core.asked) == (1, 1, 0, 2)
    assert "1 of 2 as required, 1 waived" in said.sentence
    assert "a.bad: a reason (an owner, until 2026-11-24, https://example.com/1)" in said.sentence


@pytest.mark.parametrize(
    ("status", "more"), [(Status.FAIL, {}), (Status.FLAKY, {}), (Status.KNOWN, {"nature": "known defect"})]
)
def test_what_a_waiver_covers(status: Status, more: dict[str, str]) -> None:
    wrong = verdict("a.bad", status, **more)
    assert concluded([GOOD, wrong])[1] is ExitCode.NOT_CONFORMANT
    assert concluded([GOOD, wrong], waiver("a.*"))[1] is ExitCode.CONFORMANT


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.ERROR])
def test_what_was_not_decided_is_not_waived(status: Status) -> None:
    assert concluded([GOOD, verdict("a.bad", status)], waiver("a.bad"))[1] is ExitCode.HARNESS


def test_other_failures_still_fail() -> None:
    other = replace(BAD, check_id="b.bad")
    assert concluded([GOOD, BAD, other], waiver("a.bad")) == ("nonconformant", ExitCode.NOT_CONFORMANT)


@pytest.mark.parametrize(
    ("verdicts", "given"),
    [
        ([GOOD, BAD], waiver("a.*", "2026-11-23")),  # expired: the failure counts, too
        ([GOOD], waiver("a.good", "2026-11-23")),
        ([GOOD], waiver("a.*")),  # unused
    ],
)
def test_an_expired_or_unused_one_fails(verdicts: list[Verdict], given: Waiver) -> None:
    assert concluded(verdicts, given)[1] is ExitCode.NOT_CONFORMANT


def test_one_that_cannot_be_judged_here_is_left_alone() -> None:
    """Another cluster, or a smaller selection, may not show the failure."""
    assert concluded([GOOD], waiver("b.*"))[0] == "conformant"
    assert concluded([GOOD, verdict("a.x", Status.UNSUPPORTED)], waiver("a.*"))[0] == "conformant"
    assert concluded([GOOD], waiver("b.*", "2020-01-01"))[0] == "conformant"


def test_runs_together_have_the_waivers_of_all() -> None:
    both = merged([Waivers((waiver("a.x"),), "2026-01-01"), Waivers((waiver("a.y"), waiver("a.x")), TODAY)])
    assert (both.day, [each.check for each in both.entries]) == (TODAY, ["a.x", "a.y"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("waivers: 3", "waivers: expected a list"),
        ("- check: x", "expected"),
        ("waivers: [", "is not YAML"),
        (FILE.format(check="a.good", expires="2026-11-31"), "expected a day as YYYY-MM-DD"),
        (FILE.format(check="a.good", expires="soon"), "expected a day as YYYY-MM-DD"),
        (FILE.format(check="no.such*", expires=TODAY), "no check matches 'no.such*'"),
        (FILE.format(check="a good", expires=TODAY), "expected the id of a check"),
        (FILE.format(check="a.good", expires=TODAY).replace("  owner: someone@example.com\n", ""), "owner: missing"),
        (FILE.format(check="a.good", expires=TODAY).replace("https", "ftp"), "expected a URL"),
    ],
)
def test_a_file_of_another_form_is_reported(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(text)
    with pytest.raises(PreflightError) as refused:
        read_waivers(str(tmp_path / "w.yaml"), ["a.good"])
    assert said in str(refused.value)


def test_a_run_keeps_them_and_its_reports_name_them(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(FILE.format(check=CHECK[:-6] + "*", expires="2999-01-01"))
    line = [*command("fail", "esipp", tmp_path / "run"), "--waivers", str(tmp_path / "w.yaml")]
    done = subprocess.run(line, cwd=HOUSE, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == ExitCode.CONFORMANT, done.stdout[-2000:] + done.stderr[-2000:]
    run = read_run(tmp_path / "run")
    assert recorded(run.header).entries[0].owner == "someone@example.com"
    assert run.verdicts[CHECK].status is Status.FAIL
    assert "WAIVED: 1 check fails and is waived" in done.stdout
    assert "someone@example.com" in (tmp_path / "run" / "report.html").read_text()
    cases = list(ElementTree.fromstring(junit.render(run)).iter("testcase"))  # noqa: S314 - our own
    (skipped,) = [case.find("skipped") for case in cases if case.get("name") == CHECK]
    assert skipped is not None
    assert str(skipped.get("message")).startswith("waived: ")
    passed, warned, failed = statement._tests(run)
    assert (passed, warned, failed, statement._result(run, [])) == ([], [CHECK], [], "WARNED")
