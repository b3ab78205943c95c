"""``esipp trend`` and ``esipp site``: several runs over time, and implementations with the evidence of each verdict."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from esipp.app.cli import main
from esipp.base.errors import ExitCode
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report.comparing.diff import compare
from esipp.report.comparing.trend import trend
from esipp.report.html import render as report_html
from esipp.report.sections import figures
from tests.frozen.cut import unpack

NAMES = ("kind-iptables", "kind-nftables", "kind-cilium")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = []
    for name in NAMES:
        made.append(tmp_path_factory.mktemp(name) / "run")
        unpack(name, made[-1])
    return made


@pytest.fixture(scope="module")
def runs(folders: list[Path]) -> list[RecordedRun]:
    return [read_run(each) for each in folders]


@pytest.fixture
def read(folders: list[Path], runs: list[RecordedRun], monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands get the runs as they were read before: reading takes longer than all that they do with them."""
    monkeypatch.setattr("esipp.ledger.reading.read_run", dict(zip(folders, runs, strict=True)).__getitem__)


def test_runs_are_ordered_by_time(runs: list[RecordedRun]) -> None:
    began = [run.header["at"] for run in trend(reversed(runs)).runs]
    assert began == sorted(began)


def test_what_became_worse_is_what_diff_says_with_the_first_bad_run(runs: list[RecordedRun]) -> None:
    found = trend(runs)
    assert [each.since for each in found.worse] == [2] * len(found.worse)
    assert {each.id for each in found.worse} == compare(runs[1], runs[2]).regressed | compare(
        runs[0], runs[1]
    ).regressed
    assert found.worse
    assert all(each.still for each in found.worse)
    assert "3 checks became worse since kind-cilium" in found.sentence


def test_a_report_compares_a_run_with_its_baseline(folders: list[Path], runs: list[RecordedRun]) -> None:
    compared = replace(runs[2], baseline=runs[1])
    page = report_html(compared)
    assert "Since the baseline" in page
    assert trend(runs[1:]).sentence in unescape(page)
    assert "Since the baseline" not in report_html(runs[2])
    before, beside = dict(figures(runs[1])), dict(figures(compared))
    assert before
    for label, words in figures(runs[2]):
        assert beside[label] == words + (f" [before: {before[label]}]" if label in before else "")


def test_a_baseline_that_is_no_run_is_refused_at_once(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["report", str(folders[0])], ["run", "--context", "nowhere", "--image", "x:1"]):
        assert main([*command, "--baseline", str(tmp_path)]) == ExitCode.USAGE
        assert f"Cannot read a ledger at {tmp_path}" in capsys.readouterr().err


def test_what_is_as_required_again_is_reported_as_fixed(runs: list[RecordedRun]) -> None:
    healthy, broken = runs[1], runs[2]
    again = read_run(healthy.folder)
    again.header = {**again.header, "at": broken.header["at"] + 60}
    found = trend([healthy, broken, again])
    assert found.worse
    assert not any(each.still for each in found.worse)
    assert not found.fails
    assert "no check that was asked again is worse than it was" in found.sentence


@pytest.mark.usefixtures("read")
def test_the_exit_code_is_of_what_binds(folders: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trend", str(folders[0]), str(folders[0])]) == ExitCode.CONFORMANT
    assert main(["trend", *map(str, folders), "--format", "json"]) == ExitCode.NOT_CONFORMANT
    data = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert [each["result"] for each in data["runs"]] == ["partial", "partial", "known defects"]
    assert {each["first_bad_run"] for each in data["worse"]} == {data["runs"][2]["run"]}
    assert data["distributions"]


@pytest.mark.usefixtures("read")
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_form_has_the_figures_of_each_run(
    form: str, folders: list[Path], runs: list[RecordedRun], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["trend", *map(str, folders), "--format", form])
    said = " ".join(unescape(capsys.readouterr().out).split())
    for run in runs:
        value = dict(figures(run))["longest black hole"].split(" (")[0]
        assert value.split(" of ")[0].split(" without ")[0] in said


def test_the_head_of_a_report_has_the_figures_before_the_facts(runs: list[RecordedRun]) -> None:
    page = unescape(report_html(runs[0]))
    head, _, rest = page.partition("Verdict by profile")
    for label, words in figures(runs[0]):
        assert label in head
        assert words in head
    assert "asked of the catalogue" in head
    assert "What was tested" in rest


# ------------------------------------------------------------------------------------------------------------ the site
@pytest.fixture(scope="module")
def site(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert main(["site", str(folder), *map(str, folders)]) == ExitCode.CONFORMANT
    return folder


def test_every_link_of_the_site_leads_to_a_page_and_to_the_check_there(site: Path) -> None:
    pages = sorted(site.glob("*.html"))
    assert len(pages) > 5
    reports: dict[Path, str] = {}
    seen = 0
    for page in pages:
        for target, row in re.findall(r'href="([\w./-]+\.html)(?:#row=([^"]+))?"', page.read_text()):
            there = page.parent / target
            assert there.is_file(), target
            if row:
                seen += 1
                assert unescape(row) in reports.setdefault(there, there.read_text()), row
    assert seen > 1000


def test_a_suites_page_has_each_verdict(site: Path, runs: list[RecordedRun]) -> None:
    page = (site / "source_ip.html").read_text()
    for run in runs:
        known = [v for v in run.verdicts.values() if v.status.value == "known"]
        ids = {check.id for check in run.checks if check.suite == "source_ip"} & {v.check_id for v in known}
        for name in sorted(ids)[:5]:
            assert f'#row={name}">known</a>' in page


@pytest.mark.usefixtures("read")
def test_a_folder_that_cannot_be_written_is_reported(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["site", str(tmp_path / "file"), str(folders[0])]) == ExitCode.USAGE
    assert "Cannot write" in capsys.readouterr().err
