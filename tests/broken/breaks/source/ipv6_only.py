"""Traffic that enters the pod network is masqueraded over IPv6 only."""

from esipp.checks.model import Family
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import NAMES_THE_NODE, changed_into_pod_network, into_own_pods

BREAK = Break(
    "source-rewritten-ipv6-only",
    Group.SOURCE,
    "every node masquerades traffic that enters the pod network, over IPv6 only",
    RunOptions(("source_ip",)),
    into_own_pods(families=(Family.IPV6,)),
    path_checks(
        lambda path_check: changed_into_pod_network(path_check) and path_check.subject.path.family is Family.IPV6
    ),
    names=NAMES_THE_NODE,
    scoped=True,
)
