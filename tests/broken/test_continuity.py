"""One connection that a node loses while pods are replaced is found, by the row that is about it and by no other."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from esipp.continuity.rows import Phase, Way
from esipp.continuity.scene import DEPLOYMENT, PORT, ROLLED, service_name
from esipp.errors import ExitCode
from esipp.labels import MANAGED_BY
from esipp.model import Balancer, Family, TrafficPolicy
from esipp.topology import by_family
from tests.broken.nodes import Nodes, Placed, Result, Rule

pytestmark = [pytest.mark.timeout(600), pytest.mark.by_hand]

SUITE = "continuity"
WAY = Way(Balancer.ECMP.value, TrafficPolicy.CLUSTER)
"""Its VIP's routes stay as they are: what is sent again goes to the same node, and is not saved by a change."""
ROWS = (f"{SUITE}.{Phase.QUIET.value}.", f"{SUITE}.{Phase.ROLLING_UPDATE.value}.")
NOTICES = f"{SUITE}.{Phase.ROLLING_UPDATE.value}.{WAY.slug}.ipv4.no-loss"

CONNECTION = "0x2000000/0x2000000"
"""The bit of a connection's mark by which the node knows the one that it loses."""


def losing_one(vip: str, node: str) -> list[Rule]:
    """The first SYN to a VIP marks its connection and passes; whatever belongs to that afterwards is dropped.

    So every SYN that is sent again meets the same fate. Rules are put in front of each other.
    """
    first = ("--match", "limit", "--limit", "1/day", "--limit-burst", "1")
    to_vip = ("--protocol", "tcp", "--destination", vip, "--dport", str(PORT), "--syn")
    mark = ("--jump", "CONNMARK", "--set-xmark", CONNECTION)
    drop = ("--match", "connmark", "--mark", CONNECTION, "--jump", "DROP")
    return [Rule(Family.IPV4, "PREROUTING", words, (node,), "mangle") for words in ((*to_vip, *first, *mark), drop)]


@contextmanager
def while_rolling(nodes: Nodes) -> Iterator[Placed]:
    """The bare node loses one connection, from the moment on at which a run begins its rolling update."""
    placed, ended = Placed(), threading.Event()
    broken: list[BaseException] = []
    with ExitStack() as stack:

        def watch() -> None:
            try:
                while not ended.wait(0.1):
                    vip = rolling(nodes)
                    if vip:
                        stack.enter_context(nodes.rules(*losing_one(vip, nodes.bare)))
                        placed.at = time.time()
                        return
            except BaseException as error:  # told below, in the test's own thread
                broken.append(error)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield placed
        finally:
            ended.set()
            thread.join()
        assert not broken, broken


def rolling(nodes: Nodes) -> str:
    """The VIP of the run whose Deployment is being updated; empty while none is."""
    selector = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
    for item in nodes.cluster.list("/apis/apps/v1/deployments", labelSelector=selector):
        template = item["spec"]["template"]["metadata"]
        if item["metadata"]["name"] == DEPLOYMENT and template.get("annotations", {}).get(ROLLED) == "1":
            path = f"/api/v1/namespaces/{item['metadata']['namespace']}/services/{service_name(WAY)}"
            told = nodes.cluster.request("GET", path)["status"]["loadBalancer"]["ingress"]
            return by_family(each["ip"] for each in told)[Family.IPV4]
    return ""


@pytest.fixture(scope="module")
def healthy(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The cluster as it is: nothing is lost."""
    result = nodes.qualify(tmp_path_factory.mktemp("healthy") / "run", suites=[SUITE], rows=ROWS, binding="timed")
    assert result.worse() == {}, result.text
    return result


def test_one_lost_connection_in_a_rolling_update_is_found(healthy: Result, nodes: Nodes, tmp_path: Path) -> None:
    with while_rolling(nodes) as placed:
        result = nodes.qualify(tmp_path / "run", suites=[SUITE], rows=ROWS, binding="timed")
    assert placed.at > 0, "no rolling update was seen"
    assert result.worse() == {NOTICES: "fail"}, result.text
    assert result.exit_code == ExitCode.NOT_CONFORMANT
    assert healthy.statuses[NOTICES] in ("pass", "known")
