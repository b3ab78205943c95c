"""Traffic is masqueraded only if the entry node has the endpoint."""

from contextlib import AbstractContextManager

from esipp.checks.model import Role
from esipp.checks.path import PathCheck
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import CLIENT, NAMES_THE_NODE, PROXY, pod_addresses
from tests.broken.matching import MASQUERADE, SENT_ON_HERE
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import from_the_node, into_pods, sent_on_by


def masquerading_on_the_same_node(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        return [
            Rule(family, "POSTROUTING", ("--destination", ",".join(own), *SENT_ON_HERE, *MASQUERADE), here)
            for family, own in pod_addresses(live, here).items()
        ]

    return nodes.live(rules)


def notices(path_check: PathCheck) -> bool:
    """A client or a proxy that enters at the endpoint's node; its own processes keep an address of theirs."""
    here = sent_on_by(path_check.subject.path) is Role.ENDPOINT_NODE and into_pods(path_check.subject.path)
    itself = path_check.subject.accept == CLIENT and not from_the_node(path_check.subject.path, Role.ENDPOINT_NODE)
    return here and (itself or path_check.subject.accept == PROXY)


BREAK = Break(
    "source-rewritten-same-node",
    Group.SOURCE,
    "a node masquerades traffic to its own endpoints, and no traffic to another node",
    RunOptions(("source_ip",)),
    masquerading_on_the_same_node,
    path_checks(notices),
    names=NAMES_THE_NODE,
    scoped=True,
)
