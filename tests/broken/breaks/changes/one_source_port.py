"""A node that takes flows of two of its pods for one; harmless: it gives each flow another source port."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.check import Check
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.subject import SECOND_INSIDE, At, Claim, service_of
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.breaks.changes.freed import of_stream
from tests.broken.matching import DROP, MASQUERADE, TAKEN, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule

EVENT = "one-source-port"
RUN = RunOptions(("changes",), (f"changes.{EVENT}.", "changes.replaced."))
KEPT = ("tcp-port", "tcp-one-port", "udp-one-port")
AT_SECOND = (At.FROM_SECOND_POD, At.CLUSTER_IP_FROM_SECOND_POD)


def of_service(live: Live) -> Iterator[tuple[Json, int, str]]:
    """What is dialled by each port: the number of its nodePort at any address, and its own at each ClusterIP."""
    spec = live.service(service_of(EVENT))["spec"]
    for port in spec["ports"]:
        yield port, port["nodePort"], ""
        yield from ((port, port["port"], own) for own in spec["clusterIPs"])


def drops_the_second(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node drops what its second client pod sends from source ports that the first one has."""

    def made(live: Live) -> Iterator[Rule]:
        (pod,) = (each for each in live.pods if each["metadata"]["name"] == SECOND_INSIDE.name)
        for address in (each["ip"] for each in pod["status"]["podIPs"]):
            for port, number, own in of_service(live):
                if own and family_of(own) is not family_of(address):
                    continue
                where = ("--source", address, *(("--destination", own) if own else ()))
                words = (*to_port(port, number), *TAKEN, *where, *DROP)
                yield Rule(family_of(address), "PREROUTING", words, (nodes.bare,), "mangle")

    return nodes.live(made)


def gives_other_ports(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node masquerades what its pods send to the nodePort, and gives each flow a source port by chance."""

    def made(live: Live) -> Iterator[Rule]:
        for port, number, own in of_service(live):
            for family, pods in nodes.pod_cidrs.items() if not own else ():
                words = (*to_port(port, number), "--source", pods, *MASQUERADE, "--random-fully")
                yield Rule(family, "POSTROUTING", words, (nodes.bare,))

    return nodes.live(made)


def undecided(check: Check) -> bool:
    """What needs an answer before the change."""
    return of_stream(EVENT, *KEPT, claims=(Claim.GONE, Claim.NO_LOSS), at=AT_SECOND)(check)


BREAKS = (
    Break(
        "source-ports-of-another-pod-dropped",
        Group.CHANGES,
        "a node drops flows of a pod from source ports that another pod of the node has, to the same Service",
        RUN,
        drops_the_second,
        of_stream(EVENT, *KEPT, claims=(Claim.SERVED,), at=AT_SECOND),
        names="takes flows of two of its pods for one",
        opens=undecided,
        at_once=False,
        scoped=True,
    ),
    Break(
        "source-ports-changed-by-a-node",
        Group.HARMLESS,
        "a node gives flows of its pods to nodePorts source ports by chance when it masquerades them",
        RUN,
        gives_other_ports,
        no_check,
        at_once=False,
        scoped=True,
    ),
)
