"""The house: every room has a short README, and the script that measures the tree sees what is wrong with one."""

import os
from pathlib import Path

import pytest

from ci import house
from ci.places import ROOT
from tests.warm import run_module

ROOMS = sorted(path.parent for path in (ROOT / "esipp").glob("*/__init__.py"))
LAYERS = """
[[tool.importlinter.contracts]]
type = "layers"
layers = ["app", "packets | loadbalancers", "base"]
"""


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_says_what_is_in_it(room: Path) -> None:
    lines = (room / "README.md").read_text().splitlines()
    assert 5 < len(lines) <= 30
    assert lines[0] == f"# {room.name}"
    named = [each.strip(" `") for line in lines if line.startswith("| `") for each in line.split("|")[1].split(",")]
    missing = [name for name in named if not list(room.glob(name.rstrip("/")))]
    assert named
    assert not missing


def test_this_tree_has_no_knot() -> None:
    found = house.measure(ROOT)
    assert (found.loose, found.upward, found.knot, found.cycles) == ((), 0, (), ())


def test_what_is_wrong_with_a_tree_is_seen(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(LAYERS)
    for name, text in {
        "esipp/__init__.py": "",
        "esipp/loose.py": "from esipp.base import clock\nis_about(check, Path) or isinstance(check.subject, Path)\n",
        "esipp/base/__init__.py": "",
        "esipp/base/clock.py": "def now():\n    from esipp.app import cli\n",
        "esipp/app/__init__.py": "",
        "esipp/app/cli.py": "import esipp.base.clock\nfrom suites.paths import CHECKS\n",
        "suites/paths.py": "CHECKS = checks_about(Path, ())\nisinstance(check.subject, self.subjects)\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = house.measure(tmp_path)
    assert (found.rooms, found.loose, found.upward, found.knot) == (("app", "base"), ("loose",), 1, ("app", "base"))
    assert found.cycles == (("esipp.app.cli", "esipp.base.clock"),)
    assert (found.files, found.lines) == (7, 8)
    assert found.kinds == (3, 2), "the registry's own test names no kind"


def test_tests_that_need_a_cluster_can_be_collected() -> None:
    """They are not run here: a name that has changed would show only on a cluster."""
    folders = [f"tests/{name}" for name in ("broken", "hostile", "incluster", "large", "overssh")]
    env = {**os.environ, "ESIPP_LARGE": "1"}
    done = run_module("pytest", "--collect-only", "-q", "--context=none", *folders, cwd=ROOT, env=env)
    assert done.returncode == pytest.ExitCode.OK, done.stdout[-3000:]
