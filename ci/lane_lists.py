"""Lists of lanes in hand-written files, rendered from ci/lanes/ by `ci/generate`.

In YAML a list lies between ``# begin lanes: PATTERN`` and ``# end``.
The list after ``# begin lanes with needs: PATTERN`` is for ``matrix.include``: it marks lanes that need what not every
machine has.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci import lane_file
from ci.lane_file import Lane
from ci.places import ROOT
from esipp.base import markdown

BLOCK = re.compile(
    r"^(?P<indent> *)# begin lanes(?P<needs> with needs)?: (?P<pattern>\S+)\n.*?^(?P=indent)# end$",
    re.DOTALL | re.MULTILINE,
)
PIPELINES = (ROOT / ".github" / "workflows" / "conformance.yaml", ROOT / "deploy" / "gitlab-ci.example.yml")


def lanes(pattern: str, folder: Path = lane_file.LANES) -> list[Lane]:
    """The lanes with names like ``kind-*``, by name."""
    return [lane_file.load(name, lanes=folder) for name in sorted(path.stem for path in folder.glob(f"{pattern}.yaml"))]


def table(patterns: Sequence[str], folder: Path = lane_file.LANES) -> Iterator[str]:
    """The lines of a Markdown table."""
    every = [lane for pattern in patterns for lane in lanes(pattern, folder)]
    needs = ["; ".join(f"`{name}`: {why}" for name, why in lane.needs.items()) for lane in every]
    rows = ((f"`{lane.name}`", lane.description, need or "-") for lane, need in zip(every, needs, strict=True))
    return markdown.table(("lane", "what it is", "what it needs"), rows)


def rewritten(text: str, folder: Path = lane_file.LANES) -> str:
    """A pipeline with its lists of lanes rendered anew."""
    return BLOCK.sub(lambda found: _block(found, folder), text)


def _block(found: re.Match[str], folder: Path) -> str:
    head = found[0].partition("\n")[0]
    every = lanes(found["pattern"], folder)
    items = [f"{{lane: {each.name}, optional: true}}" for each in every if each.needs]
    if not found["needs"]:
        items = [each.name for each in every]
    return "\n".join([head, *(f"{found['indent']}- {each}" for each in items), f"{found['indent']}# end"])
