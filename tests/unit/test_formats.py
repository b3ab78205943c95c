"""Every report is written, the same ledger gives the same bytes, and one that cannot be made hinders no other."""

from pathlib import Path
from unittest import mock

import pytest

from esipp.ledger.reading import read_run
from esipp.report.ending import Detail
from esipp.report.formats import FORMATS, Format, said_of, write_reports, written
from tests.unit.test_reading import made


@pytest.fixture(scope="module", params=["whole", "cut off"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ran") / "run"
    made(folder)
    if request.param == "cut off":
        ledger = folder / "ledger.jsonl"
        ledger.write_bytes(ledger.read_bytes()[:-700])
    return folder


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_ledger_gives_the_same_bytes_wherever_it_lies(ran: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "ledger.jsonl").write_bytes((ran / "ledger.jsonl").read_bytes())
    here, there = (FORMATS[name].render(read_run(folder)) for folder in (ran, tmp_path))
    assert here.replace(str(ran), "") == there.replace(str(tmp_path), "")
    assert name == "terminal" or str(ran) not in here, "a report is looked at elsewhere"


def test_one_report_that_cannot_be_made_hinders_no_other(ran: Path) -> None:
    broken = Format("broken.txt", "cannot be made", "esipp.report.nowhere")
    with mock.patch.dict(FORMATS, {"broken": broken, "html": FORMATS["html"]}):
        lines = write_reports(read_run(ran))
    assert [line for line in lines if "broken" in line] == ["no broken report: No module named 'esipp.report.nowhere'"]
    for name, form in FORMATS.items():
        assert name in ("broken", "in-toto") or (ran / form.file).stat().st_size, name
    assert not list(ran.glob(".*.half"))


def test_a_report_that_stumbles_hinders_no_other(ran: Path) -> None:
    def stumble(_run: object) -> str:
        raise RuntimeError("a template, say")

    with mock.patch("esipp.report.html.render", stumble), mock.patch("esipp.report.formats.ending", stumble):
        lines = [*said_of(read_run(ran), Detail.SHORT), *write_reports(read_run(ran))]
    assert "no html report: a template, say" in lines
    assert any("CONFORMANT" in line or "INCOMPLETE" in line for line in lines)
    assert any("report.json" in line for line in lines)


def test_a_full_disk_leaves_no_half_report(tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")
    with mock.patch.object(Path, "replace", side_effect=full), pytest.raises(OSError, match="No space left"):
        written(tmp_path / "report.md", "text")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone_is_reported(ran: Path, tmp_path: Path) -> None:
    run = read_run(ran)
    run.folder = tmp_path / "gone"
    lines = write_reports(run)
    assert sum(1 for line in lines if line.startswith("no ") and "report: " in line) == len(FORMATS)
