"""Texts of the product that tests on a cluster quote: an old one would fail only there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.broken.breaks import BREAKS

FILLED_IN = "neighbour-x"
"""What stands in a text wherever it has something to fill in: the name of a neighbour, a node or a client."""

HOSTILE = sorted(Path("tests/hostile").glob("test_*.py"))


def trees(*rooms: str) -> Iterator[ast.Module]:
    for path in sorted(each for room in rooms for each in Path(room).rglob("*.py")):
        yield ast.parse(path.read_text())


def text_of(node: ast.AST) -> str | None:
    """The text that a node stands for; None if it is none."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else FILLED_IN for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def printable() -> str:
    """Every text that the suite can print."""
    found = (text_of(node) for tree in trees("esipp", "suites") for node in ast.walk(tree))
    return "\n".join(each for each in found if each is not None)


def test_every_diagnosis_that_a_break_asks_for_can_be_printed() -> None:
    texts = printable()
    quotes = {(each.name, quote) for each in BREAKS for quote in re.split(r"\|(?![^(]*\))", each.names) if quote}
    filled = {(name, re.sub(r"\b(bare-node|outside-\d)\b", FILLED_IN, quote)) for name, quote in quotes}
    assert {(name, quote) for name, quote in filled if not re.search(quote, texts, re.IGNORECASE)} == set()


def quotes_of(tree: ast.Module) -> Iterator[str]:
    """The texts that a test asserts to be in something."""
    for asserted in (each.test for each in ast.walk(tree) if isinstance(each, ast.Assert)):
        for each in ast.walk(asserted):
            if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.In):
                quote = text_of(each.left)
                if quote is not None:
                    yield quote


def test_every_text_that_a_hostile_test_asks_for_can_be_printed() -> None:
    """What is filled in is a variable there, and so are the API server's own words."""
    texts = printable()
    quotes = {quote for path in HOSTILE for quote in quotes_of(ast.parse(path.read_text()))}
    assert {"Cannot use the kubeconfig", f"our pod {FILLED_IN}"} <= quotes
    assert {quote for quote in quotes if quote not in texts} == set()


def calls(tree: ast.Module, method: str) -> Iterator[ast.expr]:
    """The first argument of each call of a method."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == method:
            yield from each.args[:1]


def test_every_phase_that_a_hostile_test_waits_for_is_there() -> None:
    there = {text_of(name) for tree in trees("esipp", "fixtures") for name in calls(tree, "phase")}
    wanted = set[str | None]()
    for tree in trees("tests/hostile"):
        wanted |= {text_of(name) for name in calls(tree, "reach")}
        for marked in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
            if marked.args and text_of(marked.args[0]) == "phase":
                wanted |= {text_of(each) for each in ast.walk(marked.args[1])}
    assert {"observe", "teardown"} <= wanted
    assert wanted - there - {None} == set()
