"""What GitHub shows: commands that nobody can forge, annotations a cause, a summary that fits."""

import re
from pathlib import Path

import pytest

from esipp.checks.check import Level, Status
from esipp.checks.model import AddressClass
from esipp.checks.reference import Reference
from esipp.report import github
from esipp.report.github import Fold, annotations, append_summary, command, runs_here
from tests.unit.report_world import made, some_checks, verdict

CORE = [check for check in some_checks() if check.level is Level.CORE]
EXTENDED = [check for check in some_checks() if check.level is Level.EXTENDED]
FORGED = "it says\r\n::set-output name=a::b\n##[error]x 100%, a:b"


@pytest.mark.parametrize(
    ("environment", "here"),
    [({"GITHUB_ACTIONS": "true"}, True), ({"GITHUB_ACTIONS": "false"}, False), ({"CI": "true"}, False), ({}, False)],
)
def test_it_is_github_only_where_github_says_so(environment: dict[str, str], here: bool) -> None:
    assert runs_here(environment) is here


def test_texts_are_encoded_as_githubs_rules_say() -> None:
    assert (
        command("error", "50% a:b, c\r\nd", title="x: 1,2\n%") == "::error title=x%3A 1%2C2%0A%25::50%25 a:b, c%0D%0Ad"
    )
    assert command("endgroup", "") == "::endgroup::"
    assert command("notice", "x", title="") == "::notice::x"


def test_an_encoded_percent_is_not_encoded_again() -> None:
    assert command("error", "%0A") == "::error::%250A"


def test_a_fold_takes_no_command_and_its_token_cannot_be_guessed() -> None:
    folded = Fold("a title\n::error::x").around(["::error::forged"])
    opening, stop, line, go_on, closing = folded
    token = stop.removeprefix("::stop-commands::")
    assert opening == "::group::a title%0A::error::x"
    assert (line, go_on, closing) == ("::error::forged", f"::{token}::", "::endgroup::")
    assert len(token) >= 32
    assert token != Fold("").token


def test_each_cause_is_one_annotation_and_the_last_word_a_notice(tmp_path: Path) -> None:
    said = {
        check.id: verdict(check, Status.FAIL, shown={AddressClass.NODE: 20}, reason="rewritten") for check in CORE[:4]
    }
    lines = annotations(made(tmp_path / "run", CORE, said))
    assert len([line for line in lines if line.startswith("::error ")]) < 4
    assert re.search(r"\d more checks?%0A", lines[0])
    assert "repeat: " in lines[0]
    assert lines[-1].startswith("::notice title=esipp::NONCONFORMANT")


def test_what_a_cluster_says_stays_within_its_annotation(tmp_path: Path) -> None:
    said = {CORE[0].id: verdict(CORE[0], Status.FAIL, reason=FORGED)}
    lines = annotations(made(tmp_path / "run", CORE, said))
    assert len(lines) == 2
    assert all("\n" not in line and "\r" not in line for line in lines)
    assert "%0D%0A::set-output name=a::b%0A##[error]x 100%25" in lines[0]


def test_doubts_are_warnings(tmp_path: Path) -> None:
    said = {CORE[0].id: verdict(CORE[0], Status.INCONCLUSIVE, reason="mixed")}
    lines = annotations(made(tmp_path / "run", CORE, said))
    assert lines[0].startswith(f"::warning title=inconclusive (core) {CORE[0].id}::")


@pytest.mark.parametrize("status", [Status.FAIL, Status.FLAKY])
def test_an_extended_check_is_an_error_only_where_it_binds(tmp_path: Path, status: Status) -> None:
    check = EXTENDED[0]
    run = made(tmp_path / "run", [*CORE, check], {check.id: verdict(check, status, reason="other")})
    assert annotations(run)[0].startswith("::error ")
    run.header["fail_on"] = "core"
    assert annotations(run)[0].startswith("::warning ")


def test_known_defects_are_an_error_only_where_they_are_not_accepted(tmp_path: Path) -> None:
    said = {
        CORE[0].id: verdict(
            CORE[0], Status.KNOWN, reason="so it is", references=(Reference("issue 1"),), nature="known defect"
        )
    }
    assert annotations(made(tmp_path / "one", CORE, said))[-1].startswith("::error title=esipp::KNOWN DEFECTS")
    accepted = made(tmp_path / "two", CORE, said, accept_known_defects=True)
    assert annotations(accepted)[-1].startswith("::notice title=esipp::KNOWN DEFECTS")


def test_our_own_instrument_is_no_annotation(tmp_path: Path) -> None:
    said = {CORE[0].id: verdict(CORE[0], Status.FAIL, reason="ours", instrument=True)}
    (last,) = annotations(made(tmp_path / "run", CORE, said))
    assert "1 failed" in last
    assert last.startswith("::notice title=esipp::CONFORMANT")


def test_no_more_than_ten_causes_and_how_many_there_are_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = CORE[:6]
    reasons = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    said = {r.id: verdict(r, Status.ERROR, reason=why) for r, why in zip(checks, reasons, strict=True)}
    run = made(tmp_path / "run", CORE, said)
    monkeypatch.setattr(github, "MOST_ANNOTATIONS", 4)
    lines = annotations(run)
    assert [line.partition(" ")[0] for line in lines] == ["::error"] * 5 + ["::notice"]
    assert "2 more causes (2 checks)" in lines[4]


def test_errors_come_before_warnings(tmp_path: Path) -> None:
    said = {CORE[0].id: verdict(CORE[0], Status.FLAKY), CORE[1].id: verdict(CORE[1], Status.ERROR, reason="ours")}
    lines = annotations(made(tmp_path / "run", CORE, said))
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::error", "::notice"]
    said = {CORE[0].id: verdict(CORE[0], Status.INCONCLUSIVE), CORE[1].id: verdict(CORE[1], Status.ERROR)}
    lines = annotations(made(tmp_path / "doubt", CORE, said))
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::warning", "::notice"]


def test_the_summary_is_appended_and_cut_where_github_would_refuse_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    append_summary(page, "# one")
    append_summary(page, "# two\n")
    assert page.read_text() == "# one\n# two\n"
    monkeypatch.setattr(github, "MOST_SUMMARY", 300)
    append_summary(page, "a line\u00e9\n" * 100)
    text = page.read_text()
    assert len(text.encode()) <= 300
    assert text.startswith("# one\n# two\na line\u00e9\n")
    assert text.endswith("The report of the run has all of it.\n")
