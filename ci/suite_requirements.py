"""The packages that esipp runs with, of those that requirements.txt pins: ``python -m ci.suite_requirements``.

It prints images/esipp/requirements.txt: the blocks of requirements.txt, unchanged, that the dependencies in
pyproject.toml need. Which those are the installed packages tell.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ci.places import ROOT

HEAD = (
    "# Made with: python -m ci.suite_requirements; what of ../../requirements.txt a run needs, and not a developer.\n"
)


def needed(project: Mapping[str, list[str]]) -> set[str]:
    """The names of all packages that a project's dependencies need, their own included."""
    names: set[str] = set()
    todo = [Requirement(each) for each in project["dependencies"]]
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if name not in names and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            names.add(name)
            todo += [Requirement(each) for each in requires(name) or ()]
    return names


def chosen(names: set[str], pinned: str) -> str:
    """The blocks of a pinned list, one a package with its hashes, that these names mean."""
    blocks = re.split(r"^(?=[a-zA-Z0-9])", pinned, flags=re.MULTILINE)
    return "".join(block for block in blocks if canonicalize_name(re.split("[=#]", block)[0].strip()) in names)


def main() -> int:
    """Print the list."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print(HEAD + chosen(needed(project), (ROOT / "requirements.txt").read_text()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
