"""The recipes of CONTRIBUTING.md: each example is accepted as it stands there, and each file that is named is there."""

import importlib
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

from ci import lane_file
from esipp.checks.catalog import HOUSE, all_checks, all_path_checks
from esipp.checks.check import Level
from esipp.checks.model import Family, Protocol
from esipp.checks.path import PathCheck
from suites.known_differences import paths as known
from tests.unit.drawings_world import everything, html_of, recorded

TEXT = (HOUSE / "CONTRIBUTING.md").read_text()


def example(heading: str, language: str = "python") -> str:
    """The first block of a recipe."""
    _, _, recipe = TEXT.partition(f"\n### {heading}")
    found = re.search(rf"^```{language}\n(.*?)^```", recipe.partition("\n### ")[0], re.DOTALL | re.MULTILINE)
    assert found, heading
    return textwrap.dedent(found[1])


def executed(source: str, **names: Any) -> dict[str, Any]:
    exec(compile(source, "CONTRIBUTING.md", "exec"), names)  # noqa: S102 - our own page
    return names


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 190
    assert max(map(len, TEXT.splitlines())) <= 126


def test_files_and_commands_that_are_named_are_there() -> None:
    named = re.findall(r"(?<![\w/.])(?:(?:[a-z_-]+/)+|\./ci/)[\w.-]+\b/?", TEXT)
    there = [each for each in named if not re.search(r"[A-Z]", each.removesuffix("README.md"))]  # NAME is anything
    assert len(there) > 20
    assert not [each for each in there if not (HOUSE / each).exists()]


def test_the_line_of_a_check_makes_new_checks_that_judge() -> None:
    words = vars(importlib.import_module("suites.source_ip.checks"))
    source = f"def made(protocol, family):\n{textwrap.indent(example('Add a check'), '    ')}"
    made: list[PathCheck] = list(executed(source, **words)["made"](Protocol.TCP, Family.IPV4))
    assert not {check.id for check in made} & {check.id for check in all_checks()}
    assert {check.level for check in made} == {Level.CORE}


def test_the_lane_is_one(tmp_path: Path) -> None:
    lanes = shutil.copytree(lane_file.LANES, tmp_path / "lanes")
    (lanes / "kind-mine.yaml").write_text(example("Add a lane", "yaml"))
    mine, base = (lane_file.load(name, lanes=lanes) for name in ("kind-mine", "kind-nftables"))
    assert mine.kind_config == base.kind_config
    assert mine.kubernetes != base.kubernetes


def test_the_known_difference_covers_checks() -> None:
    made = executed(f"made = {example('Add a known difference')}", **vars(known))["made"]
    covered = [
        check for check in all_path_checks() if check.subject.accept == made.instead_of and made.on(check.subject.path)
    ]
    assert covered
    assert made.known not in {each for check in covered for each in check.differences}
    assert made.known.evidence
    assert made.known.hides


def test_the_section_shows_its_evidence_and_nothing_without() -> None:
    section = executed(example("Add a section"))["section"]
    assert "<table" in html_of(section(recorded(everything())))
    assert section(recorded({})).blocks == ()


@pytest.mark.parametrize("heading", re.findall(r"^### (.*)$", TEXT, re.MULTILINE))
def test_each_recipe_says_what_it_touches_and_what_fails(heading: str) -> None:
    recipe = TEXT.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    assert re.search(r"\*\*(One|report\.)", recipe)
    assert "*If it is wrong*:" in recipe
