"""These tests need a standing kind cluster, root and sshd: ``./ci/test --over-ssh``."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci import lane_file, network
from ci.access import ClusterAccess
from ci.places import places
from tests.echoserver.namespaces import namespaces_work, sweep
from tests.hosts.bridged import by_family, hosts
from tests.hosts.sshd import SSH_TOOLS
from tests.overssh.kind import Kind

HOSTS = 2


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without a cluster there is nothing to try."""
    return True if config.getoption("context") is None and collection_path.name.startswith("test_") else None


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kind]:
    """The cluster and two hosts beside its nodes; what an earlier session left of these goes first."""
    there = ClusterAccess.load(places())
    if there is None or not namespaces_work() or not all(map(shutil.which, ("ip", *SSH_TOOLS))):
        pytest.fail("a kept cluster, root, iproute2 and openssh-server are needed: ./ci/test --over-ssh")
    if lane_file.load(there.lane).has_router:
        pytest.skip(f"not applicable to lane {there.lane}: its VIPs are in no subnet of the kind network")
    sweep()
    inspected, nodes = network.inspected(there), network.node_addresses(there)
    every = [address for found in nodes.values() for address in found]
    nets = network.of_the_cluster(network.subnets_of(inspected), every)
    taken = network.held(inspected)
    given = list(zip(*(network.spare_addresses(net, HOSTS, taken) for net in nets), strict=True))
    folder = tmp_path_factory.mktemp("hosts")
    with hosts(network.bridge_of(inspected), given, folder) as made:
        kind = Kind(
            request.config.getoption("context"), {name: by_family(found) for name, found in nodes.items()}, made
        )
        yield kind
        kind.clean()


@pytest.fixture
def kind(whole: Kind) -> Iterator[Kind]:
    """The same, and whatever becomes of a test, nothing of its run stays in the cluster."""
    yield whole
    if whole.namespaces():
        whole.clean()
