"""What hatchling puts into the wheel beside esipp/: what a run needs of the checkout, as esipp/house/.

A checkout that is installed in place (``pip install --editable``) has these files where they are.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HOUSE = "esipp/house"
"""Where esipp/checks/catalog.py looks for them."""

NEEDED = (
    "suites/test_suites.py",
    "suites/*/checks.py",
    "fixtures/plugin.py",
    "images/echoserver/Dockerfile",
    "images/echoserver/prober.py",
    "images/loadbalancer/Dockerfile",
    "docs/*.md",
    "docs/rbac.yaml",
    "deploy/job.yaml",
    "pyproject.toml",
)
"""Files, or at least one for a pattern, without which no wheel is built."""

OF_A_SUITE, NO_SUITES = ("__init__.py", "checks.py"), ("known_differences",)
"""Files that each folder of suites/ has, and the folders that are no suites."""

FOLDERS = ("suites", "fixtures", "images/echoserver", "images/loadbalancer", "deploy")
PAGES = ("docs/*.md", "docs/guides/*.md", "docs/*.yaml")
"""Pages that messages name; without pictures."""


RELEASED = "ESIPP_RELEASED_IMAGE"
"""The environment variable by which a release names its echo image, with a digest (esipp/testbed/echo_image.py)."""


class Whole(BuildHookInterface[Any]):
    """Adds what a run needs, and fails if something is not there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to a wheel that is not an editable one."""
        if version == "editable":
            return
        root = Path(self.root)
        if missing := lacking(root):
            raise FileNotFoundError(
                f"A wheel without its suites cannot test anything; there is no {', no '.join(missing)}."
            )
        pages = [str(page.relative_to(root)) for pattern in PAGES for page in sorted(root.glob(pattern))]
        if released := os.environ.get(RELEASED):
            if "@sha256:" not in released:
                raise ValueError(f"{RELEASED}={released} has no digest: a later push would change it.")
            self.place = tempfile.TemporaryDirectory()  # it goes with the hook
            file = Path(self.place.name) / "echo-image.json"
            file.write_text(json.dumps({"reference": released}), encoding="utf-8")
            build_data["force_include"][str(file)] = f"{HOUSE}/{file.name}"
        for name in (*FOLDERS, *pages, "pyproject.toml"):
            build_data["force_include"][str(root / name)] = f"{HOUSE}/{name}"


def lacking(root: Path) -> list[str]:
    """What a wheel needs and the checkout lacks, also the files that each suite has."""
    missing = [pattern for pattern in NEEDED if not any(root.glob(pattern))]
    suites = {each.parent for each in (root / "suites").glob("*/*.py")} - {root / "suites" / name for name in NO_SUITES}
    files = [suite / name for suite in sorted(suites) for name in OF_A_SUITE]
    return missing + [str(each.relative_to(root)) for each in files if not each.is_file()]
