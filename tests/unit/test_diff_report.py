"""What ``esipp diff`` prints, writes and exits with."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from esipp.app.cli import main
from esipp.base.document import WIDTH, Code, Document, Table
from esipp.checks.check import Level, Status
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing import diff_report
from esipp.report.comparing.diff import compare
from esipp.report.rendering.html import as_html
from esipp.report.rendering.markdown import as_markdown
from esipp.report.rendering.terminal import MOST_IDS, as_text
from tests.unit.comparing_world import run_of, said
from tests.unit.report_world import HOSTILE, failing, made, some_checks, write
from tests.unit.test_diff_times import joined, probed

P, F, U = Status.PASS, Status.FAIL, Status.UNSUPPORTED


def many(status: Status, number: int = 112, **fields: str) -> RecordedRun:
    ids = [f"nodeport.local.{protocol}.ipv4.c{i}-to-x" for i in range(number // 2) for protocol in ("tcp", "udp")]
    return run_of([said(name, status, **fields) for name in ids])


def text(old: RecordedRun, new: RecordedRun) -> str:
    return as_text(diff_report.report(compare(old, new)))


def test_many_checks_that_regressed_alike_are_joined_with_where_to_look() -> None:
    found = text(many(P), many(F, likely="kube-proxy masquerades"))
    assert found.startswith("112 core checks regressed, none fixed.\n")
    assert found.count("nodeport.local.") == 1
    assert "nodeport.local.{tcp,udp}.ipv4." in found
    assert "kube-proxy masquerades" in found
    assert len(found.splitlines()) < 40


def test_lines_keep_the_width_and_ids_are_whole_when_put_together() -> None:
    found = text(many(P), many(F))
    assert all(len(line) <= WIDTH for line in found.splitlines())
    start = found.index("nodeport.local")
    folded = re.sub(r"\s", "", found[start:])
    assert folded == "nodeport.local.{tcp,udp}.ipv4.{" + ",".join(f"c{i}" for i in range(56)) + "}-to-x"


def test_a_loss_of_coverage_names_the_reason() -> None:
    found = text(many(P), many(U, observed="not asked", reason="needs SCTP: the kernel lacks it"))
    assert "112 core checks (112 of them no longer shown to hold) regressed" in found
    assert "needs SCTP: the kernel lacks it" in found


def test_an_incomplete_ledger_is_reported_right_below_the_first_sentence() -> None:
    new = many(P)
    new.end = None
    assert text(many(P), new).splitlines()[1].startswith("INCOMPLETE: NEW is incomplete")
    assert "**INCOMPLETE**" in as_markdown(diff_report.report(compare(many(P), new)))


def test_a_significant_difference_is_reported_with_numbers_of_both_sides() -> None:
    took = [0.010 + number / 1000 for number in range(12)]
    old, new = (
        joined(probed(took), probed(took, "IPv6"), probed([slower * each for each in took], service="clusterip"))
        for slower in (1, 8)
    )
    found = text(old, new)
    assert "3 distributions were tested" in found
    assert "; 1 differs." in re.sub(r"\s+", " ", found)
    assert "12, 12" in found


def test_no_difference_is_not_called_equality() -> None:
    found = re.sub(r"\s+", " ", text(probed([0.01] * 5), probed([0.01] * 5)))
    assert "need not be equal" in found


class Strict(HTMLParser):
    """Counts tags, and checks that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.urls += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def hostile() -> Document:
    old = run_of([said("a.row", P, observed="x")], lane=HOSTILE)
    new = run_of([said("a.row", F, observed=HOSTILE, reason=HOSTILE, likely=HOSTILE)], facts={"kernel": HOSTILE})
    return diff_report.report(compare(old, new))


def test_the_page_loads_nothing_runs_nothing_and_escapes_everything() -> None:
    page = as_html(hostile())
    parser = Strict()
    parser.feed(page)
    assert parser.open == []
    assert {"script", "img", "iframe"}.isdisjoint(parser.tags)
    assert all(url.startswith("#") or url == "data:," for url in parser.urls)
    assert "default-src 'none'" in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert len(page) < 30_000


def test_the_page_lets_itself_have_its_own_style_only() -> None:
    import base64
    import hashlib

    page = as_html(hostile())
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page


def test_text_and_markdown_cannot_be_taken_over_by_what_others_wrote() -> None:
    found = as_text(hostile())
    assert "\x1b" not in found
    assert "\u202e" not in found
    markdown = as_markdown(hostile())
    assert "<img" not in re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", markdown)
    assert "\n# head" not in markdown


def test_a_table_keeps_its_columns_whatever_is_in_a_path_check() -> None:
    document = Document("", blocks=(Table(("a", "b"), ((Code("x|y"), "p\nq"), (Code("z" * 200), ""))),))
    lines = as_markdown(document).splitlines()
    checks = [line for line in lines if line.startswith("|")]
    assert len(checks) == 4
    assert {len(re.findall(r"(?<!\\)\|", check)) for check in checks} == {3}
    assert "z" * 60 in as_text(document)


def test_json_has_every_check_and_both_verdicts() -> None:
    found = json.loads(diff_report.as_json(compare(many(P), many(F))))
    assert (found["kind"], found["exit_code"], len(found["regressed"])) == ("esipp.diff", 1, 112)
    assert len(found["rows"]) == found["counts"]["regressed"] == 112
    assert [found["rows"][0][which]["status"] for which in ("old", "new")] == ["pass", "fail"]


def test_what_is_left_out_for_room_is_said() -> None:
    names = [f"{letter}.{number}.x" for number, letter in enumerate("abcdefghij")]
    found = text(run_of([said(name, P) for name in names]), run_of([said(name, F) for name in names]))
    assert f"and {len(names) - MOST_IDS} more patterns of ids" in found


# ------------------------------------------------------------------------------------------------ the command
@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diff") / "good"
    made(folder)
    return folder


@pytest.mark.parametrize("form", ["text", "markdown", "json", "html"])
def test_a_ledger_compared_with_itself_shows_nothing_in_any_form(
    form: str, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(good), str(good / "ledger.jsonl"), "--format", form]) == 0
    assert "Nothing changed" in capsys.readouterr().out


def test_a_core_check_that_fails_exits_with_1_and_is_written_to_a_file(good: Path, tmp_path: Path) -> None:
    made(tmp_path / "bad", said=failing())
    out = tmp_path / "diff.md"
    assert main(["diff", str(good), str(tmp_path / "bad"), "--format", "markdown", "--out", str(out)]) == 1
    assert "**1 core check regressed, none fixed" in out.read_text()
    assert main(["diff", str(tmp_path / "bad"), str(good)]) == 0


def test_extended_checks_fail_unless_only_core_ones_are_asked(good: Path, tmp_path: Path) -> None:
    made(tmp_path / "bad", said=failing(level=Level.EXTENDED))
    assert main(["diff", str(good), str(tmp_path / "bad")]) == 1
    assert main(["diff", str(good), str(tmp_path / "bad"), "--fail-on", "core"]) == 0


def test_a_ledger_without_an_end_exits_with_3(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "killed").ledger.close()
    assert main(["diff", str(good), str(tmp_path / "killed")]) == 3
    assert "INCOMPLETE: NEW is incomplete" in capsys.readouterr().out
    assert main(["diff", str(tmp_path / "killed"), str(good)]) == 3


def test_what_cannot_be_read_or_written_exits_with_4(good: Path, tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_text((good / "ledger.jsonl").read_text().replace('"schema": 6', '"schema": 4', 1))
    assert main(["diff", str(good), str(tmp_path)]) == 4
    assert main(["diff", str(good), str(tmp_path / "nothing")]) == 4
    assert main(["diff", str(good), str(good), "--out", str(tmp_path / "no" / "folder")]) == 4


def test_runs_of_other_checks_are_compared_in_what_they_share(good: Path, tmp_path: Path) -> None:
    made(tmp_path / "few", checks=some_checks()[:5])
    assert main(["diff", str(good), str(tmp_path / "few")]) == 0


def test_the_same_runs_give_the_same_bytes(good: Path, tmp_path: Path) -> None:
    made(tmp_path / "bad", said=failing())
    for form in ("text", "markdown", "json", "html"):
        found = []
        for name in ("one", "two"):
            main(["diff", str(good), str(tmp_path / "bad"), "--format", form, "--out", str(tmp_path / name)])
            found.append((tmp_path / name).read_bytes())
        assert found[0] == found[1]
