"""Fixtures for tests on a kept kind cluster: ``./ci/enter python -m pytest tests/hostile --context kind-esipp``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from esipp.cluster.client import Cluster
from tests.hostile.running import Place, clean
from tests.hostile.tried import Tried


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip these tests without a cluster."""
    return True if config.getoption("context") is None and collection_path.name.startswith("test_") else None


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster, with the rights of whoever made it."""
    return Cluster(request.config.getoption("context"), request.config.getoption("kubeconfig"))


@pytest.fixture
def place(cluster: Cluster, tmp_path: Path) -> Iterator[Place]:
    """Where runs are started; whatever becomes of the test, its cluster is looked after."""
    yield Place(cluster, tmp_path)
    clean(cluster)


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Tried:
    """The recorder of a test's result for docs/environments.md."""
    module = request.node.path.stem.removeprefix("test_")
    return Tried(str(request.node.name).removeprefix("test_"), module)
