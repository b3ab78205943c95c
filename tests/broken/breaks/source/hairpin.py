"""Hairpin traffic is not masqueraded: the pod drops its own packets as spoofed."""

from contextlib import AbstractContextManager

from esipp.checks.model import AddressClass, Role
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.masquerading import pod_addresses
from tests.broken.nodes import Live, Nodes, Placed, Rule

HAIRPIN = frozenset({AddressClass.HAIRPIN})


def leaving_hairpins(nodes: Nodes) -> AbstractContextManager[Placed]:
    """What a pod sends to itself goes past kube-proxy's rule that masquerades."""

    def rules(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        own = (address for addresses in pod_addresses(live, here).values() for address in addresses)
        past = [("--source", each, "--destination", each, "--jump", "ACCEPT") for each in own]
        return [Rule(family_of(words[1]), "POSTROUTING", words, here) for words in past]

    return nodes.live(rules)


BREAK = Break(
    "hairpin-not-masqueraded",
    Group.SOURCE,
    "the endpoint node does not masquerade hairpin traffic, from a pod to itself through its Service",
    RunOptions(("source_ip",)),
    leaving_hairpins,
    path_checks(lambda path_check: path_check.subject.accept == HAIRPIN),
    names="cannot reach itself|did not masquerade",
    scoped=True,
    fixed=True,
)
