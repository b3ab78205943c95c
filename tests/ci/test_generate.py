"""ci/generate renders what is stale, and with --check only names it; records are kept one a line."""

import json
from pathlib import Path

import pytest

from ci import generate, records, samples
from ci.generate import PAGES, Page
from ci.places import ROOT
from esipp.checks.check import Status

SHORT = (Page("docs/one.md", lambda: "one\n"), Page("docs/two.md", lambda: "two\n"))


class Snapshots:
    """Stands for the snapshots of tests/frozen: what it was asked to write."""

    def __init__(self) -> None:
        self.written: list[bool] = []

    def __call__(self, facts: bool) -> int:
        self.written.append(facts)
        return 0 if facts else 1


def test_what_is_stale_is_named_with_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--facts"], SHORT, tmp_path, Snapshots()) == 0
    assert capsys.readouterr().out == "written: docs/one.md\nwritten: docs/two.md\n"
    (tmp_path / "docs" / "two.md").write_text("2\n")
    assert generate.main(["--check"], SHORT, tmp_path, Snapshots()) == 1
    assert capsys.readouterr().out == "docs/two.md is stale: run ci/generate and commit it.\n"
    assert (tmp_path / "docs" / "two.md").read_text() == "2\n", "--check writes nothing"


def test_what_is_current_is_not_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate.main([], SHORT, tmp_path, Snapshots())
    capsys.readouterr()
    assert generate.main(["--facts"], SHORT, tmp_path, Snapshots()) == 0
    assert generate.main(["--check"], SHORT, tmp_path, Snapshots()) == 0
    assert capsys.readouterr().out == ""


def test_snapshots_are_written_too_and_their_facts_only_on_purpose(tmp_path: Path) -> None:
    snapshots = Snapshots()
    assert generate.main(["--check"], (), tmp_path, snapshots) == 0
    assert generate.main([], (), tmp_path, snapshots) == 1, "a fact was refused"
    assert generate.main(["--facts"], (), tmp_path, snapshots) == 0
    assert snapshots.written == [False, True]


def test_every_page_that_names_the_command_is_in_its_list() -> None:
    paths = [page.path for page in PAGES]
    assert len(paths) == len(set(paths))
    result = {
        path for path in (ROOT / "docs").rglob("*.md") if "by `ci/generate`" in path.read_text().partition("\n## ")[0]
    }
    assert {str(path.relative_to(ROOT)) for path in result} <= set(paths)
    assert len(result) > 5


def test_a_healthy_sample_shows_no_failure_and_a_broken_one_does() -> None:
    healthy, broken = (samples.run(name) for name in (samples.HEALTHY, samples.BROKEN))
    assert healthy.whole
    assert broken.whole
    assert {each.status for each in healthy.verdicts.values()} == {Status.PASS, Status.KNOWN}
    assert Status.FAIL in {each.status for each in broken.verdicts.values()}
    assert healthy.verdicts.keys() == broken.verdicts.keys(), "so that a diff is about verdicts"


def test_the_folder_of_samples_has_nothing_that_is_not_rendered() -> None:
    found = {path.name for path in (ROOT / "docs" / "samples").iterdir()}
    assert found == {"README.md", *samples.PAGES}


def test_every_record_is_a_line_as_it_would_be_written(tmp_path: Path) -> None:
    files = [path for path in sorted(records.FOLDER.iterdir()) if path.is_file()]
    assert {file.suffix for file in files} == {".jsonl"}
    for file in files:
        found = records.read(file)
        assert found, file.name
        records.write(tmp_path / file.name, found)
        assert (tmp_path / file.name).read_bytes() == file.read_bytes(), file.name


def test_a_record_comes_back_whatever_its_text_is(tmp_path: Path) -> None:
    result = [{"b": "a line\u2028and a paragraph\u2029", "a": "é\n"}, {}]
    records.write(tmp_path / "made" / "x.jsonl", result)
    assert records.read(tmp_path / "made" / "x.jsonl") == result
    assert list(json.loads((tmp_path / "made" / "x.jsonl").read_bytes().split(b"\n")[0])) == ["a", "b"]
    assert records.read(tmp_path / "none.jsonl") == []
