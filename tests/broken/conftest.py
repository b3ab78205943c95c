"""These tests need a standing kind cluster: ``ci/test --broken``, or pytest tests/broken --context kind-esipp."""

from pathlib import Path

import pytest

from tests.broken.nodes import Nodes


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without a cluster there is nothing to break."""
    return True if config.getoption("context") is None and collection_path.name.startswith("test_") else None


@pytest.fixture(scope="session")
def nodes(request: pytest.FixtureRequest) -> Nodes:
    """The nodes of the cluster, as containers; whole, whatever an earlier session left."""
    found = Nodes.of(request.config.getoption("context"), request.config.getoption("kubeconfig"))
    found.heal()
    return found
