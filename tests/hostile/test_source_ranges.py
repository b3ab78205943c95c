"""Source ranges of VIPs: they admit only the run's own clients."""

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.model import EntryKind, Path, Protocol
from esipp.cluster.client import Cluster
from esipp.judging.topology import with_control_plane
from esipp.ledger.run import Settings
from esipp.preflight.preflight import examine
from esipp.probing.outside import OutsideContainers
from esipp.testbed.source_ranges import SourceRanges
from esipp.testbed.testbed import Testbed
from tests.unit.world import CHECKS

ANSWERED = Budget("an answer", 60.0, need=1, spacing=0.5)
ASK = (
    "import os, socket, sys; sock = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); "
    "sock.sendall(os.environ['ESIPP_TOKEN'].encode() + b'/n1\\n'); sys.exit(not sock.recv(9))"
)
IDS = [
    f"loadbalancer.{policy}.tcp.{family}.outside-1-to-vip"
    for policy in ("local", "cluster")
    for family in ("ipv4", "ipv6")
]


@dataclass
class Scene:
    """A testbed with source ranges, a client inside them, and a client outside them."""

    testbed: Testbed
    containers: OutsideContainers

    def asks(self, client: str, address: str, port: int) -> bool:
        """Whether a client is answered."""
        name = self.containers.name_of(client)
        command = ["docker", "exec", name, "python3", "-c", ASK, address, str(port)]
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


def path_of(identity: str) -> Path:
    return next(path_check.subject.path for path_check in CHECKS if path_check.id == identity)


@pytest.fixture(scope="module")
def objects(cluster: Cluster) -> Iterator[Scene]:
    options = Settings(cluster.context, image=os.environ["ESIPP_IMAGE"])
    found = examine(cluster, options)
    if not found.outside_network:
        pytest.skip("clients outside are containers beside kind's nodes")
    run = f"ranges-{secrets.token_hex(2)}"
    containers = OutsideContainers(run, found.outside_network, options.image, cluster.server)
    roles = with_control_plane(found.nodes.values(), found.roles)
    testbed = Testbed(cluster, run, options.image, found.nodes, roles, ranges=SourceRanges(clients=True))
    try:
        testbed.outside = {"outside-1": containers.start("outside-1")}
        containers.start("stranger")
        testbed.set_up([path_of(identity) for identity in IDS])
        yield Scene(testbed, containers)
    finally:
        containers.remove()
        testbed.tear_down()


@pytest.mark.parametrize("identity", IDS)
def test_a_stranger_is_not_admitted(objects: Scene, identity: str) -> None:
    path = path_of(identity)
    assert (path.protocol, path.entry.kind) == (Protocol.TCP, EntryKind.VIP)
    where = objects.testbed.address(path)
    assert not isinstance(where, str), where

    def look() -> Reading:
        return Reading(objects.asks("outside-1", *where), f"outside-1 at {where}")

    assert converge(look, ANSWERED).held, "the client that is named is served"
    assert not objects.asks("stranger", *where)
    item = objects.testbed.services[path.object_name]
    here = objects.testbed.nodes[objects.testbed.pods["backend"].node].internal[path.family]
    (port,) = item["spec"]["ports"]
    assert objects.asks("stranger", here, port["nodePort"]), "it is there, and the ranges alone keep it out"
    assert json.dumps(item["spec"]["loadBalancerSourceRanges"]) == json.dumps(list(objects.testbed.admitted))
