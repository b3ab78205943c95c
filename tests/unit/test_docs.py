"""What is written about the project is true of it."""

import re
import tomllib
from pathlib import Path

import pytest

from esipp.catalog import HOUSE, all_cells
from esipp.report.pages import cells_page

PAGES = sorted(
    [HOUSE / "README.md", *HOUSE.glob("docs/*.md"), *HOUSE.glob("images/*/README.md"), *HOUSE.glob("ci/*.md")]
)


def test_the_page_of_rows_is_current() -> None:
    assert (HOUSE / "docs" / "cells.md").read_text() == cells_page(all_cells()), "esipp list --format markdown"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_dependency_is_pinned_and_justified() -> None:
    text = (HOUSE / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    for requirement in wanted:
        assert "==" in requirement
        line = next(line for line in text.splitlines() if f'"{requirement}"' in line)
        assert "#" in line, f"{requirement} says not what it is for"


def test_the_locked_packages_are_hashed_and_name_no_address() -> None:
    text = (HOUSE / "requirements.txt").read_text()
    assert "://" not in text
    blocks = re.split(r"\n(?=\S)", text.partition("\n")[2])  # the first line says how it was made
    assert len(blocks) > 10
    for block in blocks:
        assert re.match(r"[a-zA-Z0-9_.-]+==\S+ \\\n", block), block[:60]
        assert "--hash=sha256:" in block, block[:60]
