"""These tests need a standing kind cluster: ``ci/test --broken``, or pytest tests/broken --context kind-esipp."""

from pathlib import Path

import pytest

from tests.broken.nodes import Nodes

LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without a cluster there is nothing to break."""
    return True if config.getoption("context") is None and collection_path.name.startswith("test_") else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "by_hand: takes long, or is much like another: ci/test --broken all, or by name")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Say what is left out: what was not tried has not been seen to be noticed."""
    config = items[0].config
    if not config.option.keyword:  # else those that run were chosen by name
        names = [item.name.partition("[")[2].rstrip("]") or item.name for item in items]
        config.stash[LEFT_OUT] = [*config.stash.get(LEFT_OUT, []), *names]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """One line, before anything runs."""
    names = config.stash.get(LEFT_OUT, [])
    return [f"left out, ./ci/test --broken all runs them: {', '.join(names)}"] if names else []


@pytest.fixture(scope="session")
def nodes(request: pytest.FixtureRequest) -> Nodes:
    """The nodes of the cluster, as containers; whole, whatever an earlier session left."""
    found = Nodes.of(request.config.getoption("context"), request.config.getoption("kubeconfig"))
    found.heal()
    return found
