"""Commands, names, figures and symptoms of the guides are those of this checkout."""

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from ci.tables import DOCS, PARTS, planned_at, rewritten
from esipp.app.cli import check_run, understood
from esipp.checks.catalog import HOUSE
from esipp.loadbalancers.profiles.loading import names, provider
from tests.guides.commands import name_of, of_esipp, of_page, put
from tests.guides.here import own_profile

FOLDER = DOCS / "guides"
GUIDES = sorted(FOLDER.glob("*.md"))
PAGES = sorted([HOUSE / "README.md", *HOUSE.glob("docs/**/*.md")])
OWN = FOLDER / "your-own-provider.md"
CLOUDS = [FOLDER / f"{name}.md" for name in ("gke", "aks", "eks", "openstack", "bare-metal")]


def commands(page: Path) -> list[list[str]]:
    """The command lines of esipp in a page, with what its lines set put for variables."""
    return of_esipp(of_page(page))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_understood(page: Path) -> None:
    assert not [shlex.join(words) for words in (*commands(page), *mentioned(page)) if not is_taken(words)]


def mentioned(page: Path) -> list[list[str]]:
    """The command lines of esipp in a guide's sentences."""
    found = re.findall(r"`esipp ([a-z][^`]*)`", page.read_text()) if page in GUIDES else []
    lines = [[put(word, {}) for word in shlex.split(each)] for each in found]
    return [words if len(words) > 1 else [*words, "--help"] for words in lines]  # of one that is only named


def is_taken(words: list[str]) -> bool:
    try:
        return bool(understood(words))
    except SystemExit as ended:
        return not ended.code  # --help


@pytest.mark.parametrize("page", [*CLOUDS, OWN], ids=name_of)
def test_runs_plans_and_profiles_of_a_guide_are_accepted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "granite.toml").write_text(own_profile())
    monkeypatch.chdir(tmp_path)
    result = {words[0] for words in commands(page)}
    assert {"run", "plan", "doctor"} <= result
    for words in commands(page):
        options = understood(words)
        if words[0] in ("run", "doctor"):
            check_run(words[1:])
            keys = {each.key for each in provider(options.provider).annotations}
            for given in options.annotation:
                assert given.partition("=")[0] in keys, f"{options.provider} knows nothing of {given}"
        elif words[0] == "plan":
            provider(options.provider)


@pytest.mark.parametrize("page", CLOUDS, ids=name_of)
def test_a_guide_has_its_tables_and_says_what_was_not_tested(page: Path) -> None:
    text = page.read_text()
    for table in ("planned", "left out", "known"):
        assert f"<!-- {table}: " in text
    head = text.partition("\n## ")[0]
    assert "**Tested**" in head
    assert "**Not tested**" in head


def test_the_table_of_a_plan_has_all_parts_of_its_time() -> None:
    assert {each.name for each in planned_at("eks-nlb-instance", ()).parts} == {*PARTS}


def test_a_table_that_was_changed_by_hand_is_noticed() -> None:
    text = (FOLDER / "gke.md").read_text()
    made = planned_at("gke-rbs", ())
    changed = text.replace(f"**{made.made.balancers}**", "**7**")
    assert changed != text
    assert rewritten(changed) == text


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_profiles_lanes_and_files_that_are_named_are_there(page: Path) -> None:
    text = page.read_text()
    for lane in re.findall(r"`((?:as|kind)-[a-z0-9-]+)`", text):
        assert (HOUSE / "ci" / "lanes" / f"{lane}.yaml").is_file(), lane
    written = re.sub(r"<!-- \w.*?<!-- end -->", "", text, flags=re.DOTALL)  # tables cite files of other projects
    for path in re.findall(r"(?<![\w./-])(?:docs|deploy|ci|esipp|images)/[\w./-]*\w\.\w+", written):
        assert (HOUSE / path).exists(), path
    for first in re.findall(r"^\| profile \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for check in first.splitlines():
            named = re.findall(r"`([^`]+)`", check.split("|")[1])
            assert named
            assert set(named) <= set(names())


def test_a_limit_of_several_profiles_cites_all_their_sources() -> None:
    line = next(line for line in (FOLDER / "bare-metal.md").read_text().splitlines() if "`kube-vip` 6 (" in line)
    assert "kube-vip.io" in line
    assert "metallb.io" in line


def test_the_index_names_every_guide() -> None:
    text = (FOLDER / "README.md").read_text()
    for guide in GUIDES:
        assert guide.name == "README.md" or f"({guide.name})" in text


def test_the_pool_of_the_guide_is_large_enough() -> None:
    text = (FOLDER / "bare-metal.md").read_text()
    found = re.search(r"\*\*(\d+) of each family\*\*", text)
    ends = re.search(r"192\.0\.2\.(\d+)-192\.0\.2\.(\d+)", text)
    assert found
    assert ends
    assert int(ends[2]) - int(ends[1]) + 1 == int(found[1])
    for name in ("metallb-l2", "metallb-bgp", "cilium-l2", "cilium-bgp", "kube-vip"):
        assert planned_at(name, ()).made.balancers <= int(found[1])


# ------------------------------------------------------------------------------------------ a profile of your own
def test_the_profile_of_the_example_says_what_its_documents_say(tmp_path: Path) -> None:
    file = tmp_path / "granite.toml"
    file.write_text(own_profile())
    profile = provider(str(file))
    assert profile.local.bound == profile.cluster.bound == 12
    assert profile.rise == 12
    assert "(2 + 1) x 4 s = 12 s" in OWN.read_text()
    assert profile.local.timeout is not None
    assert profile.local.timeout.value == 2
    assert [source.grade.value for source in profile.local.timeout.sources] == ["documented"]
    assert profile.times.usual is not None
    assert profile.times.usual.grade.value == "reported"


# -------------------------------------------------------------------------------------------------------- symptoms
@cache
def sentences() -> str:
    """All strings of our source, one a line; what is put into one becomes …"""
    found = []
    for path in sorted((HOUSE / "esipp").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values]
                found.append("".join(parts).replace("\n", " "))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value.replace("\n", " "))
    return "\n".join(found)


def symptoms() -> list[str]:
    table = [line for line in (FOLDER / "troubleshooting.md").read_text().splitlines() if line.startswith("| ")]
    said = (each for line in table for each in re.findall(r'"([^"]+)"', line.split("|")[1] + line.split("|")[2]))
    return list(dict.fromkeys(said))  # two rows may have one symptom


@pytest.mark.parametrize("words", symptoms())
def test_a_symptom_is_said_by_the_source(words: str) -> None:
    fixed = [part for part in re.split(r"\s*…\s*", words) if len(part) > 2]
    assert fixed
    for part in fixed:
        assert part in sentences(), f"nothing says '{part}'"


def test_there_are_symptoms_of_every_part() -> None:
    assert len(symptoms()) > 30
