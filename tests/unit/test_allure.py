"""Allure results as allure-pytest writes them: a run and its replay alike, every verdict in Allure's words."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from allure_commons import model2
from allure_commons.types import LinkType, ParameterMode

from esipp.app.cli import main
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.check import Level, Status, Verdict
from esipp.checks.reference import Reference
from esipp.ledger.codec import record_of
from esipp.ledger.reading import Probe, RecordedRun, read_run
from esipp.report.allure.describing import MOST_BYTES, description, links, observations, story_of
from esipp.report.allure.replay import CATEGORIES, write, write_environment
from tests.unit.test_reading import made

KEP = "https://github.com/kubernetes/enhancements/issues/1"

HOUSE = Path(__file__).parents[2]
Results = dict[str, dict[str, Any]]

KINDS = (
    (Status.PASS, Level.CORE, "passed"),
    (Status.FAIL, Level.CORE, "failed"),
    (Status.FLAKY, Level.CORE, "failed"),
    (Status.FAIL, Level.EXTENDED, "failed"),
    (Status.KNOWN, Level.EXTENDED, "skipped"),
    (Status.UNSUPPORTED, Level.CORE, "skipped"),
    (Status.INCONCLUSIVE, Level.CORE, "broken"),
    (Status.ERROR, Level.RECORD, "broken"),
)


PARTS = {
    "statusDetails": model2.StatusDetails,
    "labels": model2.Label,
    "links": model2.Link,
    "parameters": model2.Parameter,
    "attachments": model2.Attachment,
}
"""The parts of a result in Allure's own model; no result has steps."""


def opened(kind: type, written: dict[str, Any]) -> Any:
    """Something written, as Allure's own model has it.

    Raises:
        TypeError: it has a key that the model does not know.
    """
    parts = {name: PARTS[name] for name in written.keys() & PARTS.keys()}
    made = {
        name: [opened(part, each) for each in written[name]]
        if isinstance(written[name], list)
        else opened(part, written[name])
        for name, part in parts.items()
    }
    return kind(**{**written, **made})


def results(folder: Path) -> Results:
    """The results by title, each with its attachments' contents, without what is another one each time.

    Raises:
        TypeError: Allure's own model does not know a key of one.
    """
    found = {}
    for file in folder.glob("*-result.json"):
        result = json.loads(file.read_text(encoding="utf-8"))
        opened(model2.TestResult, result)
        result["attachments"] = {
            each["name"]: (folder / each["source"]).read_bytes() for each in result.get("attachments", [])
        }
        del result["uuid"]
        found[result["name"]] = result
    return found


def labels(result: dict[str, Any], name: str) -> list[str]:
    return [each["value"] for each in result["labels"] if each["name"] == name]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    """A run with a verdict of every kind."""
    folder = tmp_path_factory.mktemp("allure") / "run"
    made(folder)
    run = read_run(folder)
    for number, (status, level, _) in enumerate(KINDS):
        check = run.checks[number]
        run.checks[number] = replace(check, level=level)
        run.verdicts[check.id] = Verdict(
            check.id,
            level,
            status,
            "the client",
            "a *node* <b>",
            "needs x: a reason",
            references=(Reference("a reference"),),
        )
    kept = folder / "rows" / run.checks[1].id
    kept.mkdir(parents=True)
    for name in ("README.txt", "worker.pcap", "verdict.json"):
        (kept / name).write_text(name)
    return run


@pytest.fixture(scope="module")
def replayed(run: RecordedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    (folder / "old-result.json").write_text("{}")
    (folder / "notes.txt").write_text("somebody's")
    write(run, folder)
    return folder


def test_every_check_is_a_result_with_the_status_of_its_verdict(run: RecordedRun, replayed: Path) -> None:
    found = results(replayed)
    assert set(found) == {check.id for check in run.checks}
    statuses = [found[run.checks[number].id]["status"] for number in range(len(KINDS))]
    assert statuses == [status for _, _, status in KINDS]
    flaky = [name for name, each in found.items() if each.get("statusDetails", {}).get("flaky")]
    known = [name for name, each in found.items() if each.get("statusDetails", {}).get("known")]
    assert (flaky, known) == ([run.checks[2].id], [run.checks[4].id])


def test_allures_own_reader_opens_each_result(run: RecordedRun, replayed: Path) -> None:
    read = [opened(model2.TestResult, json.loads(file.read_text())) for file in replayed.glob("*-result.json")]
    assert len(read) == len(run.checks)
    assert {each.status for each in read} <= {value for name, value in vars(model2.Status).items() if name.isupper()}
    assert {part.mode for each in read for part in each.parameters} <= {mode.value for mode in ParameterMode}
    assert {part.type for each in read for part in each.links} <= {LinkType.ISSUE, LinkType.TEST_CASE}
    assert [each for each in read if each.steps] == []
    assert all((replayed / part.source).is_file() for each in read for part in each.attachments)


def test_allures_own_reader_refuses_what_it_does_not_know() -> None:
    with pytest.raises(TypeError, match="colour"):
        opened(model2.TestResult, {"name": "x", "labels": [{"name": "a", "value": "b", "colour": "c"}]})


def test_labels_and_severity(run: RecordedRun, replayed: Path) -> None:
    found = results(replayed)
    severity = {Level.CORE: "critical", Level.EXTENDED: "normal", Level.RECORD: "trivial"}
    for check in run.checks:
        result = found[check.id]
        assert labels(result, "epic") == [check.profile]
        assert labels(result, "feature") == [check.suite]
        assert labels(result, "story") == [story_of(check)]
        assert labels(result, "severity") == [severity[check.level]]
        assert not labels(result, "host"), "the machine that renders is nobody's business"
        assert result["parameters"][0] == {"name": "row", "value": check.id, "mode": "hidden"}
        assert {each["url"] for each in result.get("links", [])} == {url for _, url, _ in links(check.references)}
        assert result["start"] == result["stop"] == round(run.judged_at[check.id] * 1000)


def test_evidence_is_attached(run: RecordedRun, replayed: Path) -> None:
    check = run.checks[1]
    attached = results(replayed)[check.id]["attachments"]
    assert set(attached) == {
        "verdict.json", "observations.jsonl", f"rows/{check.id}/README.txt", f"rows/{check.id}/worker.pcap"
    }  # fmt: skip
    assert json.loads(attached["verdict.json"]) == record_of(run.verdicts[check.id])
    probes = [json.loads(line) for line in attached["observations.jsonl"].splitlines()]
    assert [probe["seq"] for probe in probes] == [probe.seq for probe in run.probes[check.path]]


def test_each_result_is_in_the_category_of_its_verdict(run: RecordedRun, replayed: Path) -> None:
    assert json.loads((replayed / "categories.json").read_text()) == list(CATEGORIES)
    found = results(replayed)
    listed = []
    for number in range(len(KINDS)):
        result = found[run.checks[number].id]
        message = result.get("statusDetails", {}).get("message", "")
        fits = [c["name"] for c in CATEGORIES if result["status"] in c["matchedStatuses"]
                and re.fullmatch(str(c["messageRegex"]), message)]  # fmt: skip
        listed.append(", ".join(map(str, fits)))
    wanted = ["", "Product failure", "Flaky", "Product failure", "Known difference", "Unsupported", "Inconclusive"]
    assert listed == [*wanted, "Harness error"]


def test_old_results_go_and_other_files_stay(replayed: Path) -> None:
    assert not (replayed / "old-result.json").exists()
    assert (replayed / "notes.txt").exists()


def test_a_run_that_did_not_end_is_broken_and_what_was_not_judged_skipped(run: RecordedRun, tmp_path: Path) -> None:
    checks = run.checks[:2]
    cut = replace(run, checks=checks, verdicts={checks[0].id: run.verdicts[checks[0].id]}, end=None)
    write(cut, tmp_path)
    found = results(tmp_path)
    assert {name: each["status"] for name, each in found.items()} == {
        checks[0].id: "passed",
        f"test_{checks[1].suite}[{checks[1].id}]": "skipped",
        "esipp.run": "broken",
    }
    assert "INCOMPLETE" in found["esipp.run"]["statusDetails"]["message"]


def test_a_folder_that_cannot_be_made_is_refused(run: RecordedRun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PreflightError, match="cannot be written"):
        write(run, tmp_path / "file")


def test_results_of_a_run_that_cannot_be_written_are_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    junit, out = tmp_path / "junit.xml", tmp_path / "out"
    asked = ["--context", "nowhere", "--image", "x:1", "--out", str(out), "--junit", str(junit)]
    assert main(["run", *asked, "--alluredir", str(tmp_path / "file")]) == ExitCode.USAGE
    assert "--alluredir" in capsys.readouterr().err
    assert "Allure results cannot be written" in junit.read_text()
    assert not out.exists()


def test_the_environment_is_java_properties(run: RecordedRun, tmp_path: Path) -> None:
    changed = replace(run, facts=run.facts | {"a b=c": replace(run.facts["kubernetes"], value="é\n\\")})
    write_environment(changed, tmp_path)
    lines = (tmp_path / "environment.properties").read_text(encoding="ascii").splitlines()
    assert r"a\ b\=c = \u00e9\n\\" in lines
    assert "kubernetes = v1.36.3" in lines
    (tmp_path / "executor.json").write_text("the CI's own")
    write_environment(changed, tmp_path)
    assert (tmp_path / "executor.json").read_text() == "the CI's own"


def test_references_become_links() -> None:
    issue, kep = Reference("an issue", "https://github.com/a/b/issues/1"), Reference("KEP-1", KEP)
    found = links((issue, kep, Reference("a title of an older ledger"), Reference("x", "javascript:alert(1)")))
    assert list(found) == [("issue", issue.url, issue.title), ("tms", kep.url, kep.title)]


def test_many_observations_are_cut_and_what_was_seen_is_no_markup(run: RecordedRun) -> None:
    check = run.checks[1]
    probe = Probe(1, 1, "answered", None, None, None, "b" * 200, "", 0.0, 0.0, "")
    text = observations(replace(run, probes={"p": [probe] * 1000}), "p")
    assert len(text.encode()) <= MOST_BYTES + 100
    lines = text.splitlines()
    assert json.loads(lines[-1]) == {"left out": 1000 - (len(lines) - 1)}
    assert r"a \*node\* \<b\>" in description(check, run.verdicts[check.id])


PROGRAM = """
import sys
from pathlib import Path
import pytest

from esipp.report.allure import live
from esipp.ledger.codec import record_of
from esipp.ledger.reading import read_run
from esipp.ledger.run import Run, Settings
from tests.unit.test_reading import SOME
from tests.unit.verdicts import judge
from tests.unit.world import evidence

run = Run(Settings("kind-test", image="x", out=sys.argv[1]), say=lambda _: None)
cells = [cell for cell in SOME if cell.suite == "source_ip"]
run.begin(cells, left_out=0)
for cell in cells:
    for each in evidence().observations[cell.subject.path.key]:
        run.record("observation", **record_of(each))

class Context:
    run = run

    @staticmethod
    def verdict(check):
        run.keep(judge(check, evidence()))
        return run.verdicts[check.id]

class Judging:
    @pytest.fixture
    def context(self):
        return Context

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config):
        live.attend(config, run)

    def pytest_collection_modifyitems(self, items):
        known = {cell.id for cell in cells}
        items[:] = [item for item in items if item.callspec.params["check"].id in known]

    def pytest_unconfigure(self, config):
        run.end()
        live.describe_run(config, read_run(run.folder))

options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-p", "allure_pytest.plugin", f"--alluredir={sys.argv[2]}"]
sys.exit(pytest.main([*options, "suites/test_suites.py::test_source_ip"], plugins=[Judging()]))
"""


def test_a_run_and_its_replay_give_the_same(tmp_path: Path) -> None:
    """The suite's own test, with a judge and without a cluster: the plugin describes what it finds."""
    ran, during, after = tmp_path / "run", tmp_path / "during", tmp_path / "after"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(HOUSE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, str(program), str(ran), str(during)],
        cwd=HOUSE, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    write(read_run(ran), after)
    first, second = results(during), results(after)
    assert len(first) > 3
    for each in (*first.values(), *second.values()):
        del each["start"], each["stop"]
    assert first == second
    for name in ("environment.properties", "categories.json", "executor.json"):
        assert (during / name).read_bytes() == (after / name).read_bytes()
