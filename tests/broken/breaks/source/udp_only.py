"""Traffic that enters the pod network is masqueraded over UDP only."""

from esipp.checks.model import Protocol
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import NAMES_THE_NODE, changed_into_pod_network, into_own_pods

BREAK = Break(
    "source-rewritten-udp-only",
    Group.SOURCE,
    "every node masquerades traffic that enters the pod network, over UDP only",
    RunOptions(("source_ip",)),
    into_own_pods("--protocol", "udp"),
    path_checks(
        lambda path_check: changed_into_pod_network(path_check) and path_check.subject.path.protocol is Protocol.UDP
    ),
    names=NAMES_THE_NODE,
    scoped=True,
    fixed=True,
)
