"""These tests need a standing kind cluster: ``ci/test --broken``, or pytest tests/broken --context kind-esipp."""

import json
from pathlib import Path

import pytest

from ci import loadbalancer
from ci.places import places
from ci.surroundings import Surroundings
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
    heal_balancer()
    return found


def heal_balancer() -> None:
    """Start the reference load balancer as it was, if a killed session left it with options, faults say."""
    there = Surroundings.load(places())
    if there is None:
        return
    select = f'{{{{index .Config.Labels "{loadbalancer.OPTIONS_LABEL}"}}}}'
    told = there.ask("docker", "container", "inspect", "--format", select, loadbalancer.NAME)
    if told and told.strip() and json.loads(told):
        loadbalancer.restart(there)
