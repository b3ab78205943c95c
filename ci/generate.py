"""`ci/generate`: render every generated page anew, and write the snapshots of tests/frozen.

`--check` writes nothing and names the pages that are stale; tests hold the snapshots.

A page is one entry of ``PAGES``: where it lies, and the function that returns its text.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci import (
    clouds,
    data_planes,
    data_planes_page,
    endurance,
    events_page,
    excuses,
    implementations,
    lane_lists,
    records,
    samples,
    suite_requirements,
    tables,
)
from ci.peer_tests import page as peer
from ci.peer_tests.data import Comparison
from ci.places import ROOT
from esipp.app.cli import options_schema
from esipp.checks.catalog import all_checks
from esipp.ledger import records as ledger_records
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.loadbalancers.profiles.page import render as load_balancers
from esipp.report import conformance, document
from esipp.report.pages import checks_page
from tests.broken import bugs, score
from tests.broken.breaks import BREAKS, UNNOTICED
from tests.frozen.__main__ import anew as snapshots_anew
from tests.hostile import page as hostile
from tests.hostile.tried import KEPT as TRIED


@dataclass(frozen=True)
class Page:
    """A generated file: its path in the checkout, and what renders its text."""

    path: str
    render: Callable[[], str]


def _readme() -> str:
    """README with the number of checks of today."""
    count = f"[{len(all_checks()):,} checks](docs/cells.md)"
    return re.sub(r"\[[\d,]+ checks\]\(docs/cells\.md\)", count, (ROOT / "README.md").read_text(encoding="utf-8"))


def _parts(rewritten: Callable[[str], str], paths: Iterable[Path]) -> Iterator[Page]:
    """Pages that are written by hand, but for parts."""
    for path in paths:
        yield Page(str(path.relative_to(ROOT)), lambda path=path: rewritten(path.read_text(encoding="utf-8")))  # type: ignore[misc]  # mypy infers no type of a lambda with a default


PAGES = (
    Page("docs/cells.md", lambda: checks_page(all_checks())),
    Page("docs/load-balancers.md", lambda: load_balancers(all_profiles())),
    Page("docs/events.md", events_page.page),
    Page("docs/excuses.md", excuses.page),
    Page("docs/data-planes.md", lambda: data_planes_page.render(data_planes.load())),
    Page("docs/clouds.md", lambda: clouds.render(clouds.load())),
    Page("docs/implementations.md", lambda: implementations.render(data_planes.load(), clouds.load())),
    Page("docs/broken.md", lambda: score.page(BREAKS, UNNOTICED, records.read(records.FOLDER / "broken.jsonl"))),
    Page("docs/bugs.md", bugs.render),
    Page("docs/soak.md", lambda: endurance.render(endurance.load())),
    Page("docs/peer.md", lambda: peer.render(Comparison.load())),
    Page("docs/environments.md", lambda: hostile.render(records.read(TRIED))),
    Page("README.md", _readme),
    Page("esipp/ledger/ledger.schema.json", ledger_records.schema),
    Page("esipp/report/report.schema.json", document.schema),
    Page("esipp/app/esipp.schema.json", options_schema),
    Page("esipp/report/conformance.schema.json", conformance.schema),
    Page("images/esipp/requirements.txt", suite_requirements.render),
    *(Page(f"docs/samples/{name}", render) for name, render in samples.PAGES.items()),
    *_parts(tables.rewritten, tables.pages()),
    *_parts(lane_lists.rewritten, lane_lists.PIPELINES),
)


def stale(pages: Sequence[Page] = PAGES, root: Path = ROOT) -> dict[Path, str]:
    """Stale files, with their new text."""
    found = {}
    for page in pages:
        path, text = root / page.path, page.render()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            found[path] = text
    return found


def main(
    arguments: Sequence[str] | None = None,
    pages: Sequence[Page] = PAGES,
    root: Path = ROOT,
    snapshots: Callable[[bool], int] = snapshots_anew,
) -> int:
    """Write what is stale, or name it; the exit code."""
    parser = argparse.ArgumentParser(
        prog="ci/generate",
        description="Render every generated page anew, and write the snapshots of tests/frozen.",
        epilog=f"Pages: {', '.join(page.path for page in pages)}.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is stale")
    parser.add_argument(
        "--facts",
        action="store_true",
        help="also write the facts of the snapshots: ids, levels, verdicts and numbers, which change only on purpose",
    )
    options = parser.parse_args(arguments)
    found = stale(pages, root)
    for path, text in found.items():
        name = path.relative_to(root)
        if options.check:
            print(f"{name} is stale: run ci/generate and commit it.")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"written: {name}")
    if options.check:
        return 1 if found else 0
    return snapshots(options.facts)


if __name__ == "__main__":
    sys.exit(main())
