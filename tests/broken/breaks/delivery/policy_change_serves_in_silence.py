"""The node without local endpoint goes on handing traffic to the pod under Local, and drops the replies.

The client gets no answer, as Local requires: only packets show it. The rules come after kube-proxy's own, so nothing
reaches them under Cluster, and connections from then stay as they are.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.model import Family
from esipp.checks.policy_change import At, ChangingService, PolicyClaim
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group
from tests.broken.matching import AT_THE_NODE, DROP, MASQUERADE, hands_to, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, is_change_check

SERVICE = ChangingService.NODE_PORT

MARK = "0x5e1f"
"""The mark of connections that only these rules send on."""

MARKED = ("--match", "connmark", "--mark", MARK)
REPLIES = ("--match", "conntrack", "--ctdir", "REPLY")


def handed_on_in_silence(port: Json, address: str, target: int, there: tuple[str, ...]) -> Iterator[Rule]:
    """The rules for a nodePort and one address of the pod."""
    family, dialled = family_of(address), (*to_port(port, port["nodePort"]), *AT_THE_NODE)
    yield Rule(family, "PREROUTING", (*dialled, "--jump", "CONNMARK", "--set-mark", MARK), there, last=True)
    yield Rule(family, "PREROUTING", (*dialled, *hands_to(address, target)), there, last=True)


def serving_in_silence(nodes: Nodes) -> AbstractContextManager[Placed]:
    def make(live: Live) -> list[Rule]:
        here = (nodes.bare,)
        rules = [
            rule
            for port, address, _, target in live.targets(live.service(SERVICE.object_name))
            for rule in handed_on_in_silence(port, address, target, here)
        ]
        for family in Family:
            rules += [
                Rule(family, "POSTROUTING", (*MARKED, *MASQUERADE), here),
                Rule(family, "PREROUTING", (*MARKED, *REPLIES, *DROP), here, "mangle"),
            ]
        return rules

    return nodes.live(make)


BREAK = Break(
    "flip-bare-node-serves-in-silence",
    Group.DELIVERY,
    "under Local, the node without local endpoint hands a Service's traffic to the endpoint node, and drops the "
    "replies",
    OF_POLICY_CHANGES,
    serving_in_silence,
    lambda check: is_change_check(check, SERVICE, At.BARE_NODE, PolicyClaim.SETTLES, PolicyClaim.PROMPT),
    names="no answer, but packets reached a backend",
    may=lambda check: is_change_check(check, SERVICE, At.BARE_NODE, PolicyClaim.OTHERWISE),
    at_once=False,
    scoped=True,
)
