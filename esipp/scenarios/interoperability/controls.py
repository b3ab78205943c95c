"""Controls of interoperability: whether the client reaches the nodes' control listeners with its own address."""

from collections.abc import Mapping

from esipp.checks.health import Place
from esipp.checks.model import OUTSIDE, AddressClass, Entry, EntryKind, Path, Protocol, Role
from esipp.judging.controls import Counts
from esipp.judging.observation import read
from esipp.judging.topology import Topology
from esipp.probing.prober import Job
from esipp.scenarios.health.probes import Asker
from esipp.scenarios.interoperability.evidence import Ways
from esipp.scenarios.paths.run import ANSWER_TIMEOUT

COUNT, SPACING = 20, 0.05
"""Requests to each listener: connections that are lost are held against what the client's own way loses."""

ROLES: Mapping[Place, Role] = {Place(role.value): role for role in Role}
"""The nodes that are dialled: one that is only left out by load balancers has another place, too."""


def listen(asker: Asker, topology: Topology) -> Ways:
    """Dial every node's control listener.

    Raises:
        StoppedError: the session ends.
        HarnessError: the prober is gone.
    """
    prober, flying = asker.clients.probers[OUTSIDE.name], {}
    for place, name in asker.places.items():
        port = asker.testbed.listeners.get(name, {}).get(Protocol.TCP)
        for family in asker.families:
            host = asker.address(place, family)
            if host and port and place in ROLES:
                path = Path(OUTSIDE, Entry(EntryKind.NODE_LISTENER, ROLES[place]), Protocol.TCP, family)
                job = Job(path.key, "tcp", host, port, COUNT, ANSWER_TIMEOUT, SPACING)
                flying[place, family] = path, prober.submit(job)
    reached, strange, counts = {}, {}, {}
    for node, (path, future) in flying.items():
        read_as = [read(path, each, topology) for each in asker.stop.result(future, asker.timeouts.job_ends)]
        lost = sum(each.count for each in read_as if each.classes == frozenset({AddressClass.DROPPED}))
        counts[node] = Counts(lost, sum(each.count for each in read_as if not each.harness_fault))
        answers = [each for each in read_as if each.classes - {AddressClass.DROPPED, AddressClass.REFUSED}]
        reached[node] = bool(answers)
        strange[node] = next((each.words for each in answers if AddressClass.CLIENT not in each.classes), "")
    return Ways(reached, strange, counts)
