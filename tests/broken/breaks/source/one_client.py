"""The traffic of one of two clients outside is masqueraded."""

from contextlib import AbstractContextManager

from suites.clients import OUTSIDE_1
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import (
    NAMES_THE_NODE,
    PROXY,
    changed_into_pod_network,
    grouped,
)
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Live, Nodes, Placed, Rule


def masquerading_one(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        own = grouped(filter(None, live.addresses_of(OUTSIDE_1.name)))
        return [
            Rule(
                family,
                "POSTROUTING",
                ("--source", address, "--destination", nodes.pod_cidrs[family], *MASQUERADE),
            )
            for family, addresses in own.items()
            for address in addresses
        ]

    return nodes.live(rules)


BREAK = Break(
    "source-rewritten-one-client",
    Group.SOURCE,
    "every node masquerades traffic of one of two clients outside to the pod network",
    RunOptions(("source_ip",)),
    masquerading_one,
    path_checks(
        lambda path_check: (
            changed_into_pod_network(path_check)
            and path_check.subject.accept != PROXY
            and path_check.subject.path.client == OUTSIDE_1
        )
    ),
    names=NAMES_THE_NODE,
    scoped=True,
)
