"""All traffic that enters the pod network is masqueraded, on every node."""

from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import NAMES_THE_NODE, changed_into_pod_network, into_pod_network

BREAK = Break(
    "source-rewritten",
    Group.SOURCE,
    "every node masquerades all traffic that enters the pod network",
    RunOptions(("source_ip",)),
    into_pod_network(),
    path_checks(changed_into_pod_network),
    names=NAMES_THE_NODE,
)
