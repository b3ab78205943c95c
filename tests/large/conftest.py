"""The demonstration takes about a minute: ``ci/test --large``."""

import os
from pathlib import Path

import pytest

WANTED = "ESIPP_LARGE"
"""Set, it is run; to ``record`` it also writes records/large-clusters.jsonl; `ci/generate` renders the page."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Only if it is asked for."""
    return True if WANTED not in os.environ and collection_path.name.startswith("test_") else None
