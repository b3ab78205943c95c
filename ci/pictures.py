"""The pictures of docs/images: `python -m ci.pictures` renders recorded runs as report.html, and photographs the pages.

It needs Chromium on PATH (Debian's package `chromium`). The runs are those of docs/samples and tests/frozen.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ci import samples
from ci.places import ROOT
from ci.step import SetupError
from esipp.app.judge import rejudge, write_rejudged
from esipp.checks.catalog import all_checks
from esipp.ledger.reading import read_run
from esipp.ledger.rejudging import read_past
from esipp.report.formats import FORMATS
from tests.frozen.cut import unpack

IMAGES = ROOT / "docs" / "images"
BROWSER = "chromium"
FAILED = "#row=nodeport.local.udp.ipv4.outside-1-to-endpoint-node"
BEGIN, END = "<h3>Black holes and their bound", "<h3>Balance"
"""The part of a report that shows how load balancers followed the pods."""


def photograph(page: str, name: str, height: int, fragment: str = "", folder: Path = IMAGES) -> None:
    """Write the top of a page as a picture.

    Args:
        page: the HTML.
        name: the name of the picture.
        height: in pixels; every picture is 1280 pixels wide.
        fragment: the fragment of the page's address.

    Raises:
        SetupError: there is no browser, or it made no picture.
    """
    if shutil.which(BROWSER) is None:
        raise SetupError(f"There is no {BROWSER} on PATH.", f"apt-get install {BROWSER}")
    picture = folder / f"{name}.png"
    picture.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "report.html"
        file.write_text(page, encoding="utf-8")
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=8000"]
        command = [BROWSER, *options, f"--window-size=1280,{height}", f"--screenshot={picture}"]
        done = subprocess.run([*command, f"{file.as_uri()}{fragment}"], capture_output=True, timeout=120, check=False)
    if not picture.is_file():
        raise SetupError(f"{BROWSER} made no picture.", done.stderr.decode(errors="replace").strip()[-300:])


def part(page: str, begin: str, end: str) -> str:
    """A page that has only a part of the body, between two headings."""
    head, body = page.split("<main", 1)
    shown = begin + body.split(begin, 1)[1].split(end, 1)[0]
    return f"{head.split('<body', 1)[0]}<body><main><section>{shown}</section></main></body></html>"


def frozen(name: str) -> str:
    """The page of a frozen ledger, judged by today's checks."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        unpack(name, folder / "then")
        write_rejudged(rejudge(read_past(folder / "then"), all_checks()), folder / "now")
        return FORMATS["html"].render(read_run(folder / "now"))


def main() -> int:
    """Make all pictures."""
    broken = FORMATS["html"].render(samples.run(samples.BROKEN))
    photograph(broken, "report-head", 820)
    photograph(broken, "report-check", 1290, FAILED)
    photograph(part(frozen("kind-iptables"), BEGIN, END), "report-endpoint-changes", 1340)
    return 0


if __name__ == "__main__":
    sys.exit(main())
