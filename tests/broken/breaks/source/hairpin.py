"""A pod that reaches itself through its service is not masqueraded: it takes its own packets for forged ones."""

from contextlib import AbstractContextManager

from esipp.checks.model import AddressClass, Role
from esipp.judging.topology import family_of
from tests.broken.breakage import Asked, Break, Group, path_checks
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
    "the endpoint node does not masquerade what a pod sends to itself through its service",
    Asked(("source_ip",)),
    leaving_hairpins,
    path_checks(lambda path_check: path_check.accept == HAIRPIN),
    names="cannot reach itself|did not masquerade",
    scoped=True,
    fixed=True,
)
