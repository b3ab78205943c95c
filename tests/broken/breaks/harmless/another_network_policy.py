"""Harmless: another NetworkPolicy for the same pod admits clients elsewhere."""

from tests.broken.breakage import CILIUM, Break, Group, no_check
from tests.broken.breaks.changes.network_policies import NOBODY, RUN, admit, once_there

BREAK = Break(
    "another-network-policy",
    Group.HARMLESS,
    "a further NetworkPolicy for the pod of a Service admits clients elsewhere",
    RUN,
    once_there("others", lambda nodes, live, like: admit(nodes, live, like, NOBODY)),
    no_check,
    at_once=False,
    scoped=True,
    data_planes=(CILIUM,),
)
