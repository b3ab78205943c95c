"""Of what enters the pod network one connection in five is masqueraded."""

from tests.broken.breakage import Asked, Break, Group, cells
from tests.broken.masquerading import changed_into_pod_network, into_own_pods

EVERY_FIFTH = ("--match", "statistic", "--mode", "nth", "--every", "5", "--packet", "0")

BREAK = Break(
    "source-rewritten-one-in-five",
    Group.SOURCE,
    "every node masquerades one in five connections that enter the pod network from outside it",
    Asked(("source_ip",), samples=50),
    into_own_pods(*EVERY_FIFTH),
    cells(lambda cell: changed_into_pod_network(cell) and not cell.path.one_socket),
    names="that node masquerades",
    may=cells(changed_into_pod_network),  # all datagrams of one socket are one connection, that one or another
    share=0.98,  # a row may be one of those that had no fifth among its own fifty
    scoped=True,
    fixed=True,
)
