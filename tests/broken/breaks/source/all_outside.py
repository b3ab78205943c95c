"""Whatever enters the pod network from outside it is masqueraded, on every node."""

from tests.broken.breakage import Asked, Break, Group, path_checks
from tests.broken.masquerading import NAMES_THE_NODE, changed_into_pod_network, into_pod_network

BREAK = Break(
    "source-rewritten",
    Group.SOURCE,
    "every node masquerades whatever enters the pod network from outside it",
    Asked(("source_ip",)),
    into_pod_network(),
    path_checks(changed_into_pod_network),
    names=NAMES_THE_NODE,
)
