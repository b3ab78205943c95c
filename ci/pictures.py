"""The pictures of docs/images: `python -m ci.pictures` renders recorded runs as report.html, and photographs the pages.

It needs Chromium on PATH (Debian's package `chromium`). The runs are those of docs/samples and tests/frozen.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ci import samples
from ci.places import ROOT
from ci.step import SetupError
from esipp.app.judge import rejudge, write_rejudged
from esipp.checks.catalog import all_checks
from esipp.ledger.reading import RecordedRun, read_run
from esipp.ledger.rejudging import read_past
from esipp.report.comparing import site, trend
from esipp.report.formats import FORMATS
from esipp.report.rendering import render
from tests.frozen.cut import unpack

IMAGES = ROOT / "docs" / "images"
BROWSER = "chromium"
WIDE, PHONE = 1400, 390
"""Widths in pixels."""

FAILED = "#row=nodeport.local.udp.ipv4.outside-1-to-endpoint-node"
BEGIN, END = "<h3>Black holes and their bound", "<h3>Balance"
"""The part of a report that shows how load balancers followed the pods."""


def photograph(page: str | Path, name: str, height: int, fragment: str = "", width: int = WIDE) -> None:
    """Write the top of a page as a picture of docs/images.

    Args:
        page: the HTML, or the file that has it.
        name: the name of the picture.
        height, width: in pixels.
        fragment: the fragment of the page's address.

    Raises:
        SetupError: there is no browser, or it made no picture.
    """
    if shutil.which(BROWSER) is None:
        raise SetupError(f"There is no {BROWSER} on PATH.", f"apt-get install {BROWSER}")
    picture = IMAGES / f"{name}.png"
    picture.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        file = page if isinstance(page, Path) else Path(temporary) / "report.html"
        if isinstance(page, str):
            file.write_text(page, encoding="utf-8")
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=8000"]
        command = [BROWSER, *options, f"--window-size={width},{height}", f"--screenshot={picture}"]
        done = subprocess.run([*command, f"{file.as_uri()}{fragment}"], capture_output=True, timeout=120, check=False)
    if not picture.is_file():
        raise SetupError(f"{BROWSER} made no picture.", done.stderr.decode(errors="replace").strip()[-300:])


def part(page: str, begin: str, end: str) -> str:
    """A page that has only a part of the body, between two headings."""
    head, body = page.split("<main", 1)
    shown = begin + body.split(begin, 1)[1].split(end, 1)[0]
    return f"{head.split('<body', 1)[0]}<body><main><section>{shown}</section></main></body></html>"


@contextlib.contextmanager
def frozen(*names: str) -> Iterator[list[RecordedRun]]:
    """Frozen ledgers, judged by today's checks."""
    with tempfile.TemporaryDirectory() as temporary:
        runs = []
        for name in names:
            folder = Path(temporary) / name
            unpack(name, folder / "then")
            write_rejudged(rejudge(read_past(folder / "then"), all_checks()), folder / "now")
            runs.append(read_run(folder / "now"))
        yield runs


def main() -> int:
    """Make all pictures."""
    broken = FORMATS["html"].render(samples.run(samples.BROKEN))
    photograph(broken, "report-check", 1290, FAILED)
    with frozen("kind-iptables", "kind-nftables", "kind-cilium") as runs, tempfile.TemporaryDirectory() as temporary:
        whole = FORMATS["html"].render(runs[0])
        photograph(part(whole, BEGIN, END), "report-endpoint-changes", 1340)
        (index, *_) = site.write(runs, Path(temporary))
        pages: dict[str, str | Path] = {
            "report-head": broken,
            "trend": render(trend.report(trend.trend(runs)), "html"),
            "site": index,
        }
        for name, page in pages.items():
            photograph(page, name, 900)
            photograph(page, f"{name}-phone", 1100, width=PHONE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
