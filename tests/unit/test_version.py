"""One version: code, images, the wheel, the changelog, and every command that a user copies name the same one."""

import re
from itertools import chain
from pathlib import Path

import pytest

from esipp import __version__

ROOT = Path(__file__).parents[2]

DEFINED = {
    "pyproject.toml": r'^version = "(.*)"$',
    "images/echoserver/documents.py": r'^VERSION = "(.*)"$',
    "images/echoserver/prober.py": r'^VERSION = "(.*)"$',
    "images/loadbalancer/balancer/__init__.py": r'^VERSION = "(.*)"$',
    "CHANGELOG.md": r"^## \[([0-9.]+)\]",
}
"""Where the version stands; of the changelog its newest section."""

COPIED = r"(?:suite:v?|echoserver:v?|/esipp@v|esipp-)(\d+\.\d+\.\d+)"
"""The version of an image, of the action and of the wheel, in text and manifests."""


@pytest.mark.parametrize("path", sorted(DEFINED))
def test_every_part_has_the_version_of_the_package(path: str) -> None:
    found = re.search(DEFINED[path], (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    assert found[1] == __version__


def test_every_command_and_manifest_names_it() -> None:
    folders = ((ROOT / "deploy").rglob("*"), (ROOT / "docs").glob("*.md"), (ROOT / "images").rglob("*"))
    places = [ROOT / "action.yml", *chain.from_iterable(folders)]
    named = {
        (path.relative_to(ROOT), version)
        for path in places
        if path.is_file() and (path.suffix in (".md", ".yaml", ".yml") or path.name == "Dockerfile")
        for version in re.findall(COPIED, path.read_text(encoding="utf-8"))
    }
    assert len(named) > 5
    assert {version for _, version in named} == {__version__}, named
