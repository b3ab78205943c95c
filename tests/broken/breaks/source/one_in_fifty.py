"""Of what enters the pod network one connection in fifty is masqueraded."""

from tests.broken.breakage import Asked, Break, Group, cells
from tests.broken.masquerading import changed_into_pod_network, into_own_pods

EVERY_FIFTIETH = ("--match", "statistic", "--mode", "nth", "--every", "50", "--packet", "0")

BREAK = Break(
    "source-rewritten-one-in-fifty",
    Group.SOURCE,
    "every node masquerades one in fifty connections that enter the pod network from outside it",
    Asked(("source_ip",), samples=200),
    into_own_pods(*EVERY_FIFTIETH),
    cells(lambda cell: changed_into_pod_network(cell) and not cell.path.one_socket),
    names="that node masquerades",
    may=cells(changed_into_pod_network),  # all datagrams of one socket are one connection, that one or another
    share=0.9,  # of rows with 200 connections each, one in sixty has no such connection
    scoped=True,
)
