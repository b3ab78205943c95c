"""The guides on a standing kind cluster: ``./ci/test --guides``. Tests of their commands need none."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci import network
from ci.access import ClusterAccess
from ci.places import places
from tests.echoserver.namespaces import namespaces_work, sweep
from tests.guides.running import Done
from tests.hosts.bridged import Hosts, hosts
from tests.hosts.sshd import SSH_TOOLS

HOSTS = 2
DONE = pytest.StashKey[list[Done]]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without a cluster there is nothing to try."""
    return True if config.getoption("context") is None and collection_path.name == "test_on_kind.py" else None


@pytest.fixture(scope="session")
def there() -> ClusterAccess:
    """The kept cluster."""
    found = ClusterAccess.load(places())
    if found is None or not namespaces_work() or not all(map(shutil.which, ("ip", *SSH_TOOLS))):
        pytest.fail("a kept cluster, root, iproute2 and openssh-server are needed: ./ci/test --guides")
    return found


@pytest.fixture(scope="session")
def clients(there: ClusterAccess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Two hosts beside the nodes, which ssh knows; what an earlier session left of these goes first."""
    sweep()
    inspected = network.inspected(there)
    every = [address for found in network.node_addresses(there).values() for address in found]
    nets = network.of_the_cluster(network.subnets_of(inspected), every)
    taken = network.held(inspected)
    given = list(zip(*(network.spare_addresses(net, HOSTS, taken) for net in nets), strict=True))
    with hosts(network.bridge_of(inspected), given, tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture
def done(request: pytest.FixtureRequest) -> list[Done]:
    """All steps of the session, for the summary."""
    return request.config.stash.setdefault(DONE, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List each command of each page: how it ended, what was replaced, or why it cannot run here."""
    found = config.stash.get(DONE, [])
    if found:
        terminalreporter.section("commands of the guides")
        for each in found:
            terminalreporter.write_line(each.line)
        ran = [each for each in found if each.step.text]
        good = sum(each.as_wanted for each in ran)
        terminalreporter.write_line(
            f"{good} of {len(ran)} commands ended as they must; {len(found) - len(ran)} not here"
        )
