"""report.html in a real browser: WCAG 2.1 AA by axe, light and dark; what a phone shows; what is printed.

Chromium prints the document after our script has put the answer there. The page stands in a frame, which may be
narrower than a window. Its policy allows no script but its own, so the copy that axe looks at has no policy.
"""

import html
import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from ci import samples
from esipp.base.document import Document
from esipp.base.json import Json
from esipp.report.formats import FORMATS
from esipp.report.rendering import render
from esipp.report.sections import sections
from tests.tools import needs_tool
from tests.unit.drawings_world import everything, recorded

pytestmark = [needs_tool("chromium"), pytest.mark.timeout(240)]

AXE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
PHONE = (390, 844)
DESK = (1400, 1000)
LEAST_PIXELS = 7.0
"""The smallest text in a drawing; a tenth of an inch is 9.6."""

ASK = """
const say = found => {
  const answer = document.createElement('pre');
  answer.id = 'answer';
  answer.textContent = JSON.stringify(found);
  document.body.replaceChildren(answer);
};
(async () => {
  const frame = document.createElement('iframe');
  frame.style.cssText = `border: 0; width: ${WIDTH}px; height: ${HEIGHT}px`;
  frame.srcdoc = PAGE;
  document.body.append(frame);
  await new Promise(done => { frame.onload = done; });
  const page = frame.contentDocument, there = frame.contentWindow;
  const found = {dark: there.matchMedia('(prefers-color-scheme: dark)').matches};
  const of = each => each.outerHTML.slice(0, 200);
  found.matrix = page.querySelector('.profiles, main').getBoundingClientRect().top;
  page.querySelectorAll('details').forEach(each => { each.open = true; });
  found.outside = [...page.querySelectorAll('body *')].filter(each => {
    const box = each.getBoundingClientRect();
    return box.width && box.right > WIDTH + 1 && !each.parentElement.closest('.scroll, .toc, pre');
  }).map(of);
  found.small = [...page.querySelectorAll('svg text')].map(each => [
    parseFloat(there.getComputedStyle(each).fontSize) * each.getScreenCTM().a, of(each)]);
  if (!LOOK) return say(found);
  // axe decides nothing on what is scrolled away or not yet laid out
  const style = page.createElement('style');
  style.textContent = '* { content-visibility: visible !important; contain: none !important } ' +
    '.scroll { overflow: visible !important }';
  page.head.append(style);
  frame.style.height = `${page.documentElement.scrollHeight}px`;
  const result = await there.axe.run(page, {runOnly: RULES});
  const nodes = of => of.map(rule => [rule.id, rule.nodes.map(each => each.html.slice(0, 200))]);
  found.violations = nodes(result.violations);
  found.undecided = nodes(result.incomplete);
  found.passes = result.passes.length;
  say(found);
})();
"""


def browse(folder: Path, *options: str) -> str:
    """Run the browser on the page of a folder, and return what it prints."""
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile"]
    command += ["--virtual-time-budget=100000", *options, (folder / "page.html").as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=True).stdout


def ask(page: str, folder: Path, size: tuple[int, int], *, dark: bool, axe: bool = True) -> Json:
    """What the browser and axe say of a page."""
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    given = {"PAGE": bare.replace("</body>", f"<script>{AXE}</script></body>"), "RULES": RULES, "LOOK": axe}
    given |= {"WIDTH": size[0], "HEIGHT": size[1]}
    constants = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in given.items())
    script = (constants + ASK).replace("</script", "<\\/script").replace("<!--", "<\\!--")
    (folder / "page.html").write_text(f"<!doctype html><body><script>{script}</script></body>", encoding="utf-8")
    printed = browse(folder, "--dump-dom", f"--blink-settings=preferredColorScheme={0 if dark else 1}")
    answer = re.search(r'<pre id="answer">(.*?)</pre>', printed, re.DOTALL)
    assert answer, printed[-2000:]
    found: Json = json.loads(html.unescape(answer[1]))
    assert found["dark"] is dark
    return found


@pytest.mark.parametrize(("size", "dark"), [(DESK, False), (PHONE, True)], ids=["desk-light", "phone-dark"])
def test_everybody_can_read_it(size: tuple[int, int], dark: bool, tmp_path: Path) -> None:
    found = ask(FORMATS["html"].render(samples.run(samples.BROKEN)), tmp_path, size, dark=dark)
    assert found["violations"] == []
    assert found["passes"] > 20, "axe looked at something"
    undecided = dict(found["undecided"])
    assert len(undecided.get("color-contrast", ())) < 20, undecided
    assert found["matrix"] < size[1], "what comes before the matrix takes one screen at most"


def test_what_axe_would_not_let_pass(tmp_path: Path) -> None:
    page = (
        '<!doctype html><html lang="en"><title>x</title><body><p class="profiles" style="color: #999">faint</p></body>'
    )
    found = ask(page, tmp_path, PHONE, dark=False)
    assert [rule for rule, _ in found["violations"]] == ["color-contrast"]


def test_a_phone_shows_all_of_it(tmp_path: Path) -> None:
    """Of a run with drawings: what is wide scrolls within its frame, and can be read."""
    page = render(Document("Drawings", blocks=tuple(sections(recorded(everything())))), "html")
    found = ask(page, tmp_path, PHONE, dark=False, axe=False)
    assert found["outside"] == [], "nothing is cut off that cannot be scrolled to"
    assert len(found["small"]) > 100, "labels of drawings"
    assert min(found["small"])[0] >= LEAST_PIXELS, min(found["small"])
