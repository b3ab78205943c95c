"""What the commands say of frozen ledgers, of all checks and of themselves is what the snapshots hold (README.md)."""

import json
import re
from difflib import unified_diff
from functools import cache
from pathlib import Path

import pytest

from tests.frozen import __main__ as command
from tests.frozen import snapshots
from tests.frozen.cut import names
from tests.frozen.snapshots import FACTS, PARTS, TEXTS, in_repository, kept, on_disk

MOST = 40
"""Lines of a difference that a failure shows."""

ANEW = {
    FACTS: "A fact changes: an id, a level, a verdict, a number or an exit code. If that is meant: "
    "ci/generate --facts, and say why in the commit.",
    TEXTS: "If the new words are right: ci/generate, then read git diff.",
}
"""How the snapshots of each kind are written anew: facts are held first."""
WHOLE = "Of the reports in digests.txt, --render DIR writes all: compare those of two commits by diff -r."


@cache
def made(part: str) -> dict[str, str]:
    return in_repository(PARTS[part]())


def difference(path: str, now: str) -> str:
    lines = list(unified_diff(kept(path).splitlines(), now.splitlines(), "kept", "now", lineterm="", n=0))
    more = [f"and {len(lines) - MOST} more lines"] if len(lines) > MOST else []
    return "\n".join([f"tests/frozen/{path}:", *(line[:300] for line in lines[:MOST]), *more])


@pytest.mark.parametrize("part", PARTS)
def test_what_is_said_is_what_the_snapshots_hold(part: str) -> None:
    for kind, anew in ANEW.items():
        changed = {path: now for path, now in made(part).items() if path.startswith(kind) and now != kept(path)}
        differences = "\n\n".join(difference(path, now) for path, now in changed.items())
        assert not changed, f"{anew} {WHOLE}\n{differences}"


def test_each_snapshot_is_one_that_is_made() -> None:
    folders = {f"{TEXTS}/{name}/" for name in names()} | {f"{TEXTS}/help/"}
    parts = {f"{kind}/{part}." for kind in (FACTS, TEXTS) for part in (*PARTS, *MORE)}
    stale = [path for path in on_disk() if not path.startswith((*folders, *parts))]
    assert not stale, f"python -m tests.frozen --write removes them: {stale}"


MORE = ("features", "explain", "diff", "merge")
"""Snapshots that are not called as their part."""


LATER = {"changes", "nodes", "vantages"}
"""Suites that are younger than the frozen ledgers."""


def test_the_frozen_ledgers_have_all_suites_and_statuses() -> None:
    facts = [kept(f"{FACTS}/{name}.txt") for name in names()]
    statuses = {line.split()[1] for text in facts for line in text.splitlines() if re.match(r"\S+\.\S+ [a-z]+ ", line)}
    assert statuses >= {"pass", "fail", "flaky", "known", "recorded", "inconclusive", "unsupported"}
    asked = {
        json.loads(line)["id"]: json.loads(line)["suite"] for line in kept(f"{FACTS}/checks.jsonl.xz").splitlines()
    }
    suites = [{asked.get(line.split()[0]) for line in text.splitlines()} - {None} for text in facts]
    assert sum(each == set(asked.values()) - LATER for each in suites) >= 4
    assert all(suites)


# --------------------------------------------------------------------------------------------- the snapshots themselves
@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for snapshots of its own."""
    monkeypatch.setattr(snapshots, "HERE", tmp_path)
    monkeypatch.setattr(command, "HERE", tmp_path)
    return tmp_path


def test_write_refuses_to_change_a_fact(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {"facts/a.txt": "a pass\n", "texts/a.txt": "words\n", "texts/gone.txt": "words\n"}
    assert command.write(before, facts=True) == 0
    after = {"facts/a.txt": "a fail\n", "texts/a.txt": "other words\n"}
    assert command.write(after, facts=False) == 1
    assert "facts/a.txt" in capsys.readouterr().err
    assert {path: kept(path) for path in before} == {"facts/a.txt": "a pass\n", "texts/a.txt": "other words\n"} | {
        "texts/gone.txt": ""
    }
    assert command.write(after, facts=True) == 0
    assert kept("facts/a.txt") == "a fail\n"


def test_other_words_change_no_fact() -> None:
    verdict = {"id": "a.b", "status": "known", "level": "core", "nature": "defect", "shown": ["node", "client"]}
    verdict |= {"tally": {"10.0.0.1 = a node": 3, "the client": 37}, "missing": [], "left_out": False}
    verdict |= {"instrument": True, "reason": "words"}
    fact = snapshots._fact(verdict, "pass")
    assert fact == "a.b known core defect node,client 37+3 instrument recorded as pass"
    assert snapshots._fact(verdict | {"reason": "other words"}, "pass") == fact


def test_one_text_of_many_checks_is_one_line_that_names_them_by_a_digest() -> None:
    lines = snapshots._distinct([("a", "reason", "late"), ("b", "reason", "late"), ("c", "reason", "")])
    assert re.fullmatch(r"reason x2 [0-9a-f]{8} late\n", lines)
    others = snapshots._distinct([("a", "reason", "late"), ("c", "reason", "late")])
    assert others != lines
    assert snapshots._distinct([("a", "reason", "too late"), ("b", "reason", "too late")]) == lines.replace(
        " late", " too late"
    )
