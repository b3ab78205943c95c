"""These tests need a standing kind cluster and the suite's image in its nodes: ``./ci/test --in-cluster``."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.incluster.inside import Inside


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without a cluster there is nothing to try."""
    return True if config.getoption("context") is None and collection_path.name.startswith("test_") else None


@pytest.fixture(scope="session")
def account(request: pytest.FixtureRequest) -> Inside:
    """The cluster with the account of docs/rbac.yaml, and both images."""
    images = os.environ.get("ESIPP_SUITE_IMAGE", ""), os.environ.get("ESIPP_IMAGE", "")
    if not all(images):
        pytest.fail("$ESIPP_SUITE_IMAGE and $ESIPP_IMAGE name the images: ./ci/test --in-cluster sets them")
    inside = Inside(request.config.getoption("context"), *images)
    inside.apply_account()
    return inside


@pytest.fixture
def inside(account: Inside) -> Iterator[Inside]:
    """The cluster; whatever becomes of the test, nothing of it stays."""
    account.clean()
    yield account
    account.clean()
