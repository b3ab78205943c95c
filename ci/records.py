"""Records of runs for pages in docs/: `records/NAME.jsonl`, one record per line with sorted keys."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ci.places import ROOT
from ci.step import output

Record = Mapping[str, Any]

FOLDER = ROOT / "records"


def commit() -> str:
    """The commit of the checkout, short; unknown without git."""
    return (output(["git", "-C", ROOT, "rev-parse", "--short=7", "HEAD"]) or "unknown").strip()


def read(path: Path) -> list[dict[str, Any]]:
    """All records of a file, in order; empty without a file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(path: Path, records: Iterable[Record]) -> None:
    """Replace the records of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(each, sort_keys=True, ensure_ascii=False) + "\n" for each in records]
    path.write_text("".join(lines), encoding="utf-8")
