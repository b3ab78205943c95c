"""Harmless: while Cilium's agents are replaced, a NetworkPolicy admits everybody."""

from tests.broken.breakage import CILIUM, Break, Group, no_check
from tests.broken.breaks.nodes.network_agent_replaced import RUN, by_chance_with_cilium, policy_meanwhile

BREAK = Break(
    "network-policy-for-all-while-cilium-is-upgraded",
    Group.HARMLESS,
    "a NetworkPolicy that admits everybody is added while Cilium's agents are replaced: agents program it on each node",
    RUN,
    policy_meanwhile({}),
    no_check,
    may=by_chance_with_cilium,
    at_once=False,
    data_planes=(CILIUM,),
)
