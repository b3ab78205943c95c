"""Whether the client reaches the nodes at all, and as itself: their reference listeners, with no Service in the way."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from esipp.health.asking import Asker
from esipp.health.model import Place
from esipp.health.props import OUTSIDE
from esipp.health.seen import Node
from esipp.model import AddressClass, Entry, EntryKind, Path, Protocol, Role
from esipp.observe import ANSWER_TIMEOUT
from esipp.probing.jobs import Job
from esipp.reading import read
from esipp.topology import Topology

COUNT = 3
BOUND = 60.0

ROLES: Mapping[Place, Role] = {Place(role.value): role for role in Role}
"""The nodes that are dialled: one that is only left out by load balancers has another place, too."""


@dataclass(frozen=True)
class Ways:
    """What the client's way to each node is worth.

    Args:
        reached: whether its reference listener answered at all.
        strange: what it saw instead of the client's own address, in words; empty where it saw just that.
    """

    reached: Mapping[Node, bool] = field(default_factory=dict)
    strange: Mapping[Node, str] = field(default_factory=dict)


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
                job = Job(path.key, "tcp", host, port, COUNT, ANSWER_TIMEOUT)
                flying[place, family] = path, prober.submit(job)
    reached, strange = {}, {}
    for node, (path, future) in flying.items():
        read_as = [read(path, each, topology) for each in asker.stop.result(future, BOUND)]
        answers = [each for each in read_as if each.classes - {AddressClass.DROPPED, AddressClass.REFUSED}]
        reached[node] = bool(answers)
        strange[node] = next((each.words for each in answers if AddressClass.CLIENT not in each.classes), "")
    return Ways(reached, strange)
