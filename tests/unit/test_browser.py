"""Our pages in a real browser: WCAG 2.1 AA by axe, light and dark; what a phone shows; what is printed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from ci import samples
from esipp.base.document import Document
from esipp.base.json import Json
from esipp.ledger.reading import read_run
from esipp.report.comparing import site
from esipp.report.comparing.trend import report, trend
from esipp.report.formats import FORMATS
from esipp.report.rendering import render
from esipp.report.sections import sections
from tests.chromium import Tab, chromium
from tests.frozen.cut import unpack
from tests.tools import needs_tool
from tests.unit.drawings_world import everything, recorded

pytestmark = [needs_tool("chromium"), pytest.mark.timeout(240)]

AXE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
PHONE = (390, 844)
DESK = (1400, 1000)
VIEWS = {"desk-light": (DESK, False), "phone-dark": (PHONE, True)}
LEAST_PIXELS = 7.0
"""The smallest text in a drawing; a tenth of an inch is 9.6."""

SHOWN = """
(() => {
  const of = each => each.outerHTML.slice(0, 200), width = document.documentElement.clientWidth;
  const found = {dark: matchMedia('(prefers-color-scheme: dark)').matches};
  found.matrix = document.querySelector('.profiles')?.getBoundingClientRect().top;
  document.querySelectorAll('details').forEach(each => { each.open = true; });
  found.width = width;
  found.outside = [...document.querySelectorAll('body *')].filter(each => {
    const box = each.getBoundingClientRect();
    return box.width && box.right > width + 1 && !each.parentElement.closest('.scroll, .toc, pre');
  }).map(of);
  found.small = [...document.querySelectorAll('svg text')].map(each => [
    parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a, of(each)]);
  return found;
})()
"""
UNFOLDED = """
new Promise(done => {  // axe decides nothing on what is scrolled away or not yet laid out
  const all = new CSSStyleSheet();
  all.replaceSync('* { content-visibility: visible !important; contain: none !important } ' +
    '.scroll { overflow: visible !important; max-height: none !important }');
  document.adoptedStyleSheets = [all];
  const size = () => done([document.documentElement.clientWidth, document.documentElement.scrollHeight]);
  requestAnimationFrame(() => requestAnimationFrame(size));
})
"""
JUDGED = """
axe.run(document, {runOnly: RULES}).then(result => {
  const nodes = (of, left = () => true) => Object.fromEntries(
    of.map(rule => [rule.id, rule.nodes.filter(left).map(each => each.html.slice(0, 200))]));
  // it cannot know what is behind a part of a table that lies beyond the right edge
  const inside = each => document.querySelector(each.target[0]).getBoundingClientRect().right <= innerWidth;
  return {
    violations: nodes(result.violations), passes: nodes(result.passes), undecided: nodes(result.incomplete, inside)
  };
})
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One browser for all tests."""
    with chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind. ``report`` has failures, known defects, and all four figures with those of its baseline.

    ``defects`` has the longest sentence.
    """
    folder = tmp_path_factory.mktemp("site")
    runs = []
    for name in ("kind-iptables", "kind-cilium-disrupted", "kind-cilium"):
        unpack(name, folder / name)
        runs.append(read_run(folder / name))
    defects = replace(runs.pop(), baseline=runs[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "REPORTS", ())
        site.write(runs, folder)
    made = {
        "broken": FORMATS["html"].render(samples.run(samples.BROKEN)),
        "report": FORMATS["html"].render(replace(runs[1], baseline=runs[0])),
        "defects": FORMATS["html"].render(defects),
        "drawings": render(Document("Drawings", blocks=tuple(sections(recorded(everything())))), "html"),
        "trend": render(report(trend(runs)), "html"),
    }
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in (*made, "index", "continuity")}


def look(tab: Tab, page: Path, size: tuple[int, int], *, dark: bool = False) -> Json:
    """What the browser shows of a page."""
    tab.open(page, size, dark=dark)
    found: Json = tab.run(SHOWN)
    assert (found["width"], found["dark"]) == (size[0], dark)
    return found


def judge(tab: Tab) -> Json:
    """What axe says of the page that is open, with all of it on the screen."""
    width, height = tab.run(UNFOLDED)
    tab.resize((width, height), mobile=False)
    tab.run(AXE)
    found: Json = tab.run(f"const RULES = {RULES};" + JUDGED)
    return found


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["broken", "trend", "index", "continuity"])
def test_everybody_can_read_it(name: str, view: str, tab: Tab, pages: dict[str, Path]) -> None:
    size, dark = VIEWS[view]
    assert look(tab, pages[name], size, dark=dark)["outside"] == [], "nothing is cut off that cannot be scrolled to"
    found = judge(tab)
    assert found["violations"] == {}
    assert {"color-contrast", "document-title", "html-has-lang"} <= found["passes"].keys(), "axe looked at something"
    undecided = found["undecided"].get("color-contrast", ())
    assert len(undecided) < len(found["passes"]["color-contrast"]) / 20, undecided


TORN = """
[...document.querySelectorAll('.figures td.num')].filter(each => {
  const range = document.createRange();
  range.selectNodeContents(each);
  return range.getClientRects().length > 1;
}).map(each => each.textContent)
"""
"""The numbers that stand on more than one line."""


def test_a_phone_shows_verdicts_beside_their_checks_and_tears_no_number(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["continuity"], PHONE)
    assert tab.run("document.querySelector('.figures td a').getBoundingClientRect().right") < PHONE[0]
    tab.open(pages["report"], PHONE)
    assert tab.run("document.querySelectorAll('.figures td.num').length") > 100
    assert tab.run(TORN) == []


def test_what_axe_would_not_let_pass(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<!doctype html><html lang="en"><title>x</title><body><p style="color: #999">faint</p></body>')
    look(tab, page, DESK)
    assert [*judge(tab)["violations"]] == ["color-contrast"]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", ["broken", "report", "defects"])
def test_what_comes_before_the_matrix_takes_one_screen_at_most(
    name: str, size: tuple[int, int], tab: Tab, pages: dict[str, Path]
) -> None:
    shown = look(tab, pages[name], size)
    parts = "[document.querySelectorAll('.keyfigures dt').length, document.querySelectorAll('.causes').length]"
    assert name != "report" or tab.run(parts) == [4, 2], "all four figures, causes and known defects"
    assert shown["matrix"] < size[1]


def test_drawings_are_whole_and_legible_on_a_phone(tab: Tab, pages: dict[str, Path]) -> None:
    """What is wide scrolls within its frame. axe cannot know what is behind their labels."""
    found = look(tab, pages["drawings"], PHONE)
    assert found["outside"] == [], "nothing is cut off that cannot be scrolled to"
    assert len(found["small"]) > 100, "labels of drawings"
    assert min(found["small"])[0] >= LEAST_PIXELS, min(found["small"])


def test_a_report_is_printed(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["report"], DESK)
    paper = tab.printed()
    assert paper.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) > 20, "without its wide tables it would have 16 pages"
    assert len(paper) > 500_000
