"""Harmless: while Cilium's agents are replaced, a NetworkPolicy admits everybody."""

from tests.broken.breakage import CILIUM, Break, Group, no_check
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.breaks.nodes.network_agent_replaced import RUN, policy_meanwhile

BREAK = Break(
    "network-policy-for-all-while-cilium-is-upgraded",
    Group.HARMLESS,
    "a NetworkPolicy that admits everybody is added while Cilium's agents are replaced: agents program it on each node",
    RUN,
    policy_meanwhile({}),
    no_check,
    may=by_chance,
    at_once=False,
    data_planes=(CILIUM,),
)
