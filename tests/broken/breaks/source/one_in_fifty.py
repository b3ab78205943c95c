"""One in fifty connections that enter the pod network is masqueraded."""

from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import changed_into_pod_network, into_own_pods

EVERY_FIFTIETH = ("--match", "statistic", "--mode", "nth", "--every", "50", "--packet", "0")

BREAK = Break(
    "source-rewritten-one-in-fifty",
    Group.SOURCE,
    "every node masquerades one in fifty connections that enter the pod network",
    RunOptions(("source_ip",), samples=200),
    into_own_pods(*EVERY_FIFTIETH),
    path_checks(lambda path_check: changed_into_pod_network(path_check) and not path_check.subject.path.one_socket),
    names="that node masquerades",
    may=path_checks(changed_into_pod_network),  # all datagrams of one socket are one connection, that one or another
    share=0.9,  # of checks with 200 connections each, one in sixty has no such connection
    scoped=True,
)
