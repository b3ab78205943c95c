"""What is written about the project is true of it."""

import re
import tomllib
from collections import Counter
from functools import cache
from importlib.metadata import metadata
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from esipp.checks.catalog import HOUSE, all_checks
from esipp.checks.check import Level, Status, left_out_of
from esipp.checks.known_differences import Nature
from esipp.report.escaping import links
from esipp.report.html import legend
from esipp.report.pages import checks_page
from tests.unit.world import CHECKS

PAGES = sorted(
    each
    for pattern in ("*.md", "docs/**/*.md", "images/*/README.md", "ci/*.md", "esipp/*/README.md", "tests/*.md")
    for each in HOUSE.glob(pattern)
)


def expand(pattern: str) -> list[str]:
    """The ids that a line of the page stands for, as its reader makes them."""
    parts = [part.strip("{}").split(",") for part in re.split(r"(\{[^}]*\})", pattern)]
    return ["".join(chosen) for chosen in product(*parts)]


def test_the_page_names_every_check_once_and_is_short_enough_to_be_read() -> None:
    page = checks_page(CHECKS)
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    ids = [identity for line in lines for identity in expand(line.split("`")[1])]
    assert sorted(ids) == sorted(path_check.id for path_check in CHECKS)
    assert len(lines) < 520, "each path of a covering design has a line of its own"


def test_the_page_says_how_many_checks_of_each_level_there_are() -> None:
    page = checks_page(CHECKS)
    result = {level: sum(int(n) for n in re.findall(rf"(\d+) {level.words}", page)) for level in Level}
    assert result == {level: 2 * sum(1 for path_check in CHECKS if path_check.level is level) for level in Level}, (
        "once in all"
    )


def test_a_line_names_the_levels_and_references_of_its_checks() -> None:
    path_check = next(
        path_check for path_check in CHECKS if path_check.id == "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
    )
    page = checks_page(CHECKS)
    start = "| `nodeport.local.{tcp,udp,sctp}.{ipv4,ipv6}.outside-1-to-endpoint-node` "
    line = next(line for line in page.splitlines() if line.startswith(start))
    assert "| core, SCTP: extended | client |" in line
    numbers = line.split("|")[-2].split(", ")
    listed = dict(re.findall(r"^(\d+)\. (.*)$", page, re.MULTILINE))
    assert [listed[number.strip()] for number in numbers] == [links([each]) for each in path_check.references]


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link may name in a page: its headings, as GitHub makes anchors of them."""
    found: Counter[str] = Counter()
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ +(.+)$", text, re.MULTILINE):
        found[re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")] += 1
    return frozenset(name if n == 0 else f"{name}-{n}" for name, count in found.items() for n in range(count))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" in target:
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(there.resolve()), f"{page.name} links to {target}#{anchor}"


def test_a_walk_names_files_that_are_there_counts_them_and_is_short() -> None:
    text = (HOUSE / "docs/walks.md").read_text()
    for walk in text.split("\n## ")[1:]:
        folders, named = [HOUSE, HOUSE / "esipp"], list[Path]()
        for name in re.findall(r"`([\w/]+\.py)`", walk):
            there = [path for folder in reversed(folders) if (path := folder / name).exists()]
            assert there, f"{name}, in {walk.splitlines()[0]}"
            named.append(there[0])
            folders.append(there[0].parent)
        said = re.search(r"^(\d+) files, and (\w+) forms", walk, re.MULTILINE)
        assert len({*named}) == (int(said[1]) if said else 11) <= 25 - 11, f"{walk.splitlines()[0]}: {len({*named})}"
        assert said is None or said[2] in ("four", "five")


def test_every_dependency_is_bounded_and_justified() -> None:
    text = (HOUSE / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", (HOUSE / "requirements.txt").read_text(), re.MULTILINE))
    users, ours = project["dependencies"], project["optional-dependencies"]["dev"]
    for requirement in [*users, *ours]:
        wanted = Requirement(requirement)  # a user's have ranges: esipp is installed beside other packages
        assert {each.operator for each in wanted.specifier} == ({">=", "<"} if requirement in users else {"=="})
        assert locked[canonicalize_name(wanted.name)] in wanted.specifier, "what we test is what we ask for"
        line = next(line for line in text.splitlines() if f'"{requirement}"' in line)
        assert "#" in line, f"{requirement} says not what it is for"


def test_the_locked_packages_are_hashed_and_name_no_address() -> None:
    text = (HOUSE / "requirements.txt").read_text()
    assert "://" not in text
    blocks = re.split(r"\n(?=\S)", text.partition("\n")[2])  # the first line says how it was made
    assert len(blocks) > 10
    for block in blocks:
        assert re.match(r"[a-zA-Z0-9_.-]+(\[\w+\])?==\S+ \\\n", block), block[:60]
        assert "--hash=sha256:" in block, block[:60]


def test_the_sample_in_the_readme_adds_up() -> None:
    page = (HOUSE / "README.md").read_text()
    sample = page.partition("./ci/conformance --wheel -- ")[2].partition("```")[0].replace(",", "")
    shares = re.search(r"as required +(\d+) of (\d+) core checks (\d+) of (\d+) extended checks", sample)
    covered = re.search(r"coverage: (\d+) of the catalogue's (\d+) core checks", sample)
    assert shares
    assert covered
    required, judged, *extended = map(int, shares.groups())
    assert (required, judged) == (int(covered[1]), int(covered[1]))
    assert f"CONFORMANT: all {required} core checks that could run are as required" in sample
    wrapped = re.sub(r"\n +(?=findings)", " ", sample)
    known = re.search(r"extended: (\d+) of (\d+) as required.* (\d+) known.*?(?: (\d+) undecided)?\n", wrapped)
    assert known
    *counts, differ, undecided = (int(each or 0) for each in known.groups())
    assert [*counts, differ + undecided] == [*extended, extended[1] - extended[0]]
    assert int(covered[2]) == left_out_of(all_checks(), set()), "the sample is of a run of today's checks"


def test_the_readme_fits_and_every_other_page_is_found_from_it() -> None:
    assert len((HOUSE / "README.md").read_text().splitlines()) <= 130
    assert len((HOUSE / "docs" / "architecture.md").read_text().split()) <= 1500
    found, left = set[Path](), [HOUSE / "README.md"]
    while left:
        page = left.pop()
        targets = re.findall(r"\]\(([^)#:]*\.md)(?:#[^)]*)?\)", page.read_text())
        new = {(page.parent / target).resolve() for target in targets} - found
        found |= new
        left += new
    assert not {page for page in PAGES if page.resolve() not in found} - {HOUSE / "README.md"}


def test_the_glossary_is_sorted_and_has_the_words_of_the_legend() -> None:
    page = (HOUSE / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^\| (?!term \|)([^|]+) \| .+ \|$", page, re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)
    levels = {"informational" if level is Level.RECORD else level.value for level in Level}
    assert {*levels, *Status, *Nature} <= set(terms)
    for letter, _ in legend.LETTERS:
        assert f"`{letter}`" in page


def test_the_licence_of_every_package_of_a_run_is_reported() -> None:
    page = (HOUSE / "docs" / "dependencies.md").read_text().lower()
    packages = re.findall(r"^([\w.-]+)==", (HOUSE / "images/esipp/requirements.txt").read_text(), re.MULTILINE)
    assert [name for name in packages if not re.search(rf"[ ,|]{re.escape(name)}[ ,]", page)] == []
    assert f"all {len(packages)}." in page
    copyleft = []
    for name in packages:
        about: Any = metadata(name)  # a message, which has more than its type
        first = (about.get("License-Expression") or about.get("License") or "").partition("\n")[0]  # some have the text
        if any(re.search(r"\bA?GPL", line) for line in (first, *about.get_all("Classifier", []))):
            copyleft.append(name)
    assert copyleft == ["scapy"], "docs/dependencies.md says what this licence means for those who ship it"
    importing = [path for path in (HOUSE / "esipp").rglob("*.py") if "from scapy" in path.read_text()]
    assert [path.name for path in importing] == ["capture.py"]
