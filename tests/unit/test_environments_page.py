"""docs/environments.md says what the tests of tests/hostile saw, and says it of each of them."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci import records
from esipp.base.errors import ExitCode
from esipp.checks.catalog import HOUSE
from esipp.cluster.client import ApiError
from esipp.testbed.refusals import hint_for
from tests.hostile import page
from tests.hostile.tried import KEPT, Tried, steady

TRIED = {each["name"]: each for each in records.read(KEPT)}
TESTS = {
    node.name.removeprefix("test_"): path.stem.removeprefix("test_")
    for path in (HOUSE / "tests" / "hostile").glob("test_*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    if path.stem.removeprefix("test_") in page.GROUPS
}


def test_every_test_was_run_and_none_is_listed_that_is_gone() -> None:
    assert {re.sub(r"\[.*", "", key): found["group"] for key, found in TRIED.items()} == TESTS


@pytest.mark.parametrize("key", TRIED)
def test_what_is_reported_is_a_sentence_with_an_exit_code(key: str) -> None:
    found = TRIED[key]
    assert found["code"] in set(ExitCode)
    assert found["code"] != ExitCode.NOT_CONFORMANT, "nothing of this is the product's failure"
    assert found["message"]
    assert "Traceback" not in found["message"]
    assert found["hint"] or re.match(r"[A-Z]{5,}: ", found["message"]), (
        "a hint, or the last word of a run that was judged"
    )
    for text in (found["message"], found["hint"]):
        assert steady(text) == text, "what is only one run's is left out"


REFUSED = {key: found for key, found in TRIED.items() if found["message"].startswith("Cannot set up the testbed: ")}


@pytest.mark.parametrize("key", REFUSED)
def test_the_hint_for_a_refusal_is_the_one_that_a_run_gives_today(key: str) -> None:
    refusal = REFUSED[key]["message"].partition(": ")[2]
    assert REFUSED[key]["hint"] == steady(hint_for(ApiError(403, "Forbidden", refusal, "POST")))


def test_the_last_word_of_a_run_is_the_one_of_today() -> None:
    last = {found["message"] for found in TRIED.values() if re.match(r"[A-Z]{5,}: ", found["message"])}
    assert last == {
        "PARTIAL: no binding check fails, but N core checks were left out",
        "INCONCLUSIVE: 1 core check could not be decided",
    }


def test_a_new_record_takes_the_place_of_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "records.jsonl"
    monkeypatch.setattr("tests.hostile.tried.KEPT", kept)
    for name, message in (("b", "one"), ("a", "two"), ("b", "three\n  hint: four")):
        ended: Any = SimpleNamespace(message=message, messages=[message], code=4)
        Tried(name, "input").keep(ended, what="", how="", left=[])
    assert [(each["name"], each["message"], each["hint"]) for each in records.read(kept)] == [
        ("a", "two", ""),
        ("b", "three", "four"),
    ]


def test_what_is_only_one_runs_is_taken_out() -> None:
    said = "esipp-1121-164649-995a still exists after 94.2 s; see /tmp/x/run/ledger.jsonl at 172.18.0.4:6443"
    assert steady(said) == "esipp-RUN still exists after N s; see .../ledger.jsonl at ADDRESS:PORT"
