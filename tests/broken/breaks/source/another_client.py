"""One client's packets get another client's address: a valid client address, but the wrong one."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from esipp.checks.model import Family, Path, Role, TrafficPolicy
from esipp.checks.path import PathCheck
from suites.clients import OUTSIDE_1, OUTSIDE_2
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import CLIENT, grouped
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import into_pods, rests_on, sent_on_by

NOT_TO_BE_MASQUERADED = ("--match", "mark", "!", "--mark", "0x4000/0x4000")
"""The mark by which kube-proxy knows what it will masquerade."""


def swapping(nodes: Nodes) -> AbstractContextManager[Placed]:
    return showing(nodes, lambda live: grouped(filter(None, live.addresses_of(OUTSIDE_2.name))))


def showing(nodes: Nodes, others: Callable[[Live], Mapping[Family, Sequence[str]]]) -> AbstractContextManager[Placed]:
    """One client's packets get one of these addresses."""

    def rules(live: Live) -> list[Rule]:
        theirs = grouped(filter(None, live.addresses_of(OUTSIDE_1.name)))
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        return [
            Rule(
                family,
                "POSTROUTING",
                (
                    *("--source", address, "--destination", nodes.pod_cidrs[family]),
                    *NOT_TO_BE_MASQUERADED,
                    *("--jump", "SNAT", "--to-source", others(live)[family][0]),
                ),
                here,
            )
            for family, addresses in theirs.items()
            for address in addresses
        ]

    return nodes.live(rules)


def spoiled(path: Path) -> bool:
    """Whether the client is one, and is kept by the endpoint node."""
    kept = path.service is not None and path.service.policy is TrafficPolicy.LOCAL
    return path.client == OUTSIDE_1 and kept and into_pods(path) and sent_on_by(path) is Role.ENDPOINT_NODE


undecided = rests_on(spoiled)
"""An answer to an address that is not the client's proves nothing, so no check that rests on one can be decided.

Session affinity is among them, although its own path is spoiled, too: its control is the same path without affinity.
"""


def notices(path_check: PathCheck) -> bool:
    """Checks that want the client's own address on a spoiled path, and rest on no other such path."""
    return path_check.subject.accept == CLIENT and spoiled(path_check.subject.path) and not undecided(path_check)


BREAK = Break(
    "source-rewritten-to-another-client",
    Group.SOURCE,
    "the endpoint node rewrites one client's address to that of another client outside where it should preserve "
    "the source",
    RunOptions(("source_ip",)),
    swapping,
    path_checks(notices),
    names="address of another client",
    opens=undecided,
    scoped=True,
)
