"""Whether the client reaches the nodes at all, and as itself: their reference listeners, with no Service in the way."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from esipp.health.asking import Asker
from esipp.health.model import Place
from esipp.health.props import OUTSIDE
from esipp.health.seen import Node
from esipp.model import AddressClass, Entry, EntryKind, Family, Path, Protocol, Role
from esipp.observe import ANSWER_TIMEOUT
from esipp.probing.jobs import Job
from esipp.reading import read
from esipp.topology import Topology
from esipp.vantage import Counts

COUNT, SPACING = 20, 0.05
"""Requests to each listener: connections that are lost are held against what the client's own way loses."""

BOUND = 60.0

ROLES: Mapping[Place, Role] = {Place(role.value): role for role in Role}
"""The nodes that are dialled: one that is only left out by load balancers has another place, too."""


@dataclass(frozen=True)
class Ways:
    """What the client's way to each node is worth.

    Args:
        reached: whether its reference listener answered at all.
        strange: what it saw instead of the client's own address, in words; empty where it saw just that.
        counts: how many requests to it were lost.
    """

    reached: Mapping[Node, bool] = field(default_factory=dict)
    strange: Mapping[Node, str] = field(default_factory=dict)
    counts: Mapping[Node, Counts] = field(default_factory=dict)

    def lost(self, family: Family | None) -> Counts:
        """What the way to all nodes lost, over one family or any."""
        own = [counts for (_, of), counts in self.counts.items() if family in (None, of)]
        return Counts(sum(each.lost for each in own), sum(each.requests for each in own))


def listen(asker: Asker, topology: Topology) -> Ways:
    """Dial every node's reference listener.

    Raises:
        StoppedError: the session ends.
        HarnessError: the prober is gone.
    """
    prober, flying = asker.clients.probers[OUTSIDE.name], {}
    for place, name in asker.places.items():
        port = asker.stage.listeners.get(name, {}).get(Protocol.TCP)
        for family in asker.families:
            host = asker.address(place, family)
            if host and port and place in ROLES:
                path = Path(OUTSIDE, Entry(EntryKind.NODE_LISTENER, ROLES[place]), Protocol.TCP, family)
                job = Job(path.key, "tcp", host, port, COUNT, ANSWER_TIMEOUT, SPACING)
                flying[place, family] = path, prober.submit(job)
    reached, strange, counts = {}, {}, {}
    for node, (path, future) in flying.items():
        read_as = [read(path, each, topology) for each in asker.stop.result(future, BOUND)]
        lost = sum(each.count for each in read_as if each.classes == frozenset({AddressClass.DROPPED}))
        counts[node] = Counts(lost, sum(each.count for each in read_as if not each.harness_fault))
        answers = [each for each in read_as if each.classes - {AddressClass.DROPPED, AddressClass.REFUSED}]
        reached[node] = bool(answers)
        strange[node] = next((each.words for each in answers if AddressClass.CLIENT not in each.classes), "")
    return Ways(reached, strange, counts)
