"""Traffic that enters the pod network is masqueraded over SCTP only."""

from esipp.checks.model import Protocol
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import NAMES_THE_NODE, changed_into_pod_network, into_own_pods

BREAK = Break(
    "source-rewritten-sctp-only",
    Group.SOURCE,
    "every node masquerades traffic that enters the pod network, over SCTP only",
    RunOptions(("source_ip",)),
    into_own_pods("--protocol", "sctp"),
    path_checks(
        lambda path_check: changed_into_pod_network(path_check) and path_check.subject.path.protocol is Protocol.SCTP
    ),
    names=NAMES_THE_NODE,
    scoped=True,
    fixed=True,  # the captures join SCTP by a way of its own, which nothing else would miss
)
