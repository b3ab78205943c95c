"""Structure metrics: `python -m ci.house [TREE…]` prints packages, loose modules, import cycles, files and lines.

A tree is a checkout of this project, by default this one. Two trees show the effect of a change.
"""

import argparse
import ast
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.places import ROOT

PRODUCT = ("esipp", "suites", "fixtures")


@dataclass(frozen=True)
class House:
    """A tree, measured.

    Args:
        rooms: packages directly in `esipp/`.
        loose: modules directly in `esipp/`, which lie in no room.
        upward: imports from a lower room to a higher one; None where the tree names no order.
        knot: the largest set of rooms and loose modules that all import each other, by way of others too.
        cycles: sets of files that all import each other, in the same way.
        kinds: places where the kind of a check is tested, by its subject's class; those outside of `scenarios/` and
            `suites/`, which know their own, second.
        files: Python files of the product.
        lines: their lines.
    """

    rooms: tuple[str, ...]
    loose: tuple[str, ...]
    upward: int | None
    knot: tuple[str, ...]
    cycles: tuple[tuple[str, ...], ...]
    kinds: tuple[int, int]
    files: int
    lines: int

    @property
    def figures(self) -> dict[str, str]:
        """The figures, by their names."""
        return {
            "rooms": str(len(self.rooms)),
            "modules without a room": str(len(self.loose)),
            "upward imports": "no order is named" if self.upward is None else str(self.upward),
            "largest knot": str(len(self.knot)),
            "files in cycles": str(sum(map(len, self.cycles))),
            "tests of a check's kind": f"{self.kinds[0]}, {self.kinds[1]} elsewhere",
            "files": str(self.files),
            "lines": f"{self.lines:,}",
        }


def measure(tree: Path) -> House:
    """Measure a checkout."""
    sources = {_module(path, tree): path for top in PRODUCT for path in sorted((tree / top).rglob("*.py"))}
    texts = {name: path.read_text() for name, path in sources.items()}
    imports, kinds = dict[str, set[str]](), dict[str, int]()
    for name, text in texts.items():
        nodes = list(ast.walk(ast.parse(text)))
        imports[name], kinds[name] = set(_imports(nodes, sources)), sum(map(_tests_a_kind, nodes))
    packages = {path.parent.name for path in (tree / "esipp").glob("*/*.py")}
    loose = {path.stem for path in (tree / "esipp").glob("*.py")} - {"__init__", "__main__"}
    between = {(_room(one), _room(other)) for one, others in imports.items() for other in others}
    rooms_only = {(one, other) for one, other in between if one != other and {one, other} <= packages | loose}
    of_files = {(one, other) for one, others in imports.items() for other in others if one != other}
    return House(
        tuple(sorted(packages)),
        tuple(sorted(loose)),
        _upward(tree, imports),
        max(_knots(rooms_only), key=len, default=()),
        tuple(sorted(_knots(of_files))),
        (sum(kinds.values()), sum(kinds[name] for name in kinds if _room(name) not in ("scenarios", "suites"))),
        len(texts),
        sum(len(text.splitlines()) for text in texts.values()),
    )


def _module(path: Path, tree: Path) -> str:
    name = ".".join(path.relative_to(tree).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _imports(nodes: Iterable[ast.AST], known: Collection[str]) -> Iterator[str]:
    """The modules of this project that a file imports, anywhere in it."""
    for node in nodes:
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in named:
            found = name if name in known else name.rpartition(".")[0]
            if found in known:
                yield found


def _tests_a_kind(node: ast.AST) -> bool:
    """Whether this calls `is_about`, `checks_about`, or `isinstance` of a subject, with a class."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
        return False
    of_subject = isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "subject"
    tests = node.func.id in ("is_about", "checks_about") or (node.func.id == "isinstance" and of_subject)
    names = (each.id for argument in node.args for each in ast.walk(argument) if isinstance(each, ast.Name))
    return tests and any(name[0].isupper() and not name.isupper() for name in names)


def _room(module: str) -> str:
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == "esipp" else top


def _upward(tree: Path, imports: Mapping[str, Iterable[str]]) -> int | None:
    """Imports that run against the layers in pyproject.toml."""
    tools = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]
    contracts = tools.get("importlinter", {}).get("contracts", [])
    layers = next((each["layers"] for each in contracts if each["type"] == "layers"), None)
    if layers is None:
        return None
    floor = {name.strip(): number for number, layer in enumerate(layers) for name in layer.split("|")}
    pairs = [(_room(one), _room(other)) for one, others in imports.items() for other in others]
    return sum(floor[one] > floor[other] for one, other in pairs if one in floor and other in floor)


def _knots(arrows: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Sets of nodes that all reach each other, of two or more."""
    after: dict[str, set[str]] = {}
    for one, other in arrows:
        after.setdefault(one, set()).add(other)
        after.setdefault(other, set())
    reached = {node: _reach(node, after) for node in after}
    knots = {
        tuple(other for other in sorted(after) if other == node or (other in reached[node] and node in reached[other]))
        for node in after
    }
    return [knot for knot in knots if len(knot) > 1]


def _reach(start: str, after: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        for other in after[todo.pop()] - found:
            found.add(other)
            todo.append(other)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of one or several trees."""
    parser = argparse.ArgumentParser(prog="python -m ci.house", description="Print structure metrics of checkouts.")
    parser.add_argument("tree", nargs="*", type=Path, default=[ROOT], help="a checkout (this one)")
    houses = [measure(tree) for tree in parser.parse_args(arguments).tree]
    for name in houses[0].figures:
        print(f"{name:<24}" + "".join(f"{house.figures[name]:>22}" for house in houses))
    return 0


if __name__ == "__main__":
    sys.exit(main())
