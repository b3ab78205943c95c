"""One in five connections that enter the pod network is masqueraded."""

from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import changed_into_pod_network, into_own_pods

EVERY_FIFTH = ("--match", "statistic", "--mode", "nth", "--every", "5", "--packet", "0")

BREAK = Break(
    "source-rewritten-one-in-five",
    Group.SOURCE,
    "every node masquerades one in five connections that enter the pod network",
    RunOptions(("source_ip",), samples=50),
    into_own_pods(*EVERY_FIFTH),
    path_checks(lambda path_check: changed_into_pod_network(path_check) and not path_check.subject.path.one_socket),
    names="that node masquerades",
    may=path_checks(changed_into_pod_network),  # all datagrams of one socket are one connection, that one or another
    share=0.98,  # a check may be one of those that had no fifth among its own fifty
    scoped=True,
    fixed=True,
)
