"""UDP stays rewritten after each policy change back to Local, when TCP is not any more."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase
from esipp.checks.model import Family, Protocol, Role, TrafficPolicy
from esipp.scenarios.continuity.objects import service_name
from suites.streams import UDP_NEW, UDP_ONE_WAY, UDP_SOCKET
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.breaks.delivery.streams import LOCAL, by_chance, stream_of
from tests.broken.matching import MASQUERADE, came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import after_each_change

RUN = RunOptions(("continuity",), (f"continuity.{Phase.POLICY_CHANGES.value}.",))
SERVICE = service_name(LOCAL, Protocol.UDP)


def rewriting_for(seconds: float) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def make(live: Live) -> list[Rule]:
            here = (nodes.roles[Role.ENDPOINT_NODE],)
            (port,) = live.service(SERVICE)["spec"]["ports"]
            words = (*came_by(port, port["nodePort"]), *MASQUERADE)
            return [Rule(family, "POSTROUTING", words, here) for family in Family]

        return after_each_change(nodes, (SERVICE,), (), make, seconds, TrafficPolicy.LOCAL)

    return apply


def new_datagrams(check: Check) -> bool:
    """New datagrams at that nodePort."""
    return stream_of(check, UDP_NEW.name) and is_about(check, Continuity) and check.subject.way == LOCAL


def kept_ports(check: Check) -> bool:
    """Kept ports at that nodePort: an entry of connection tracking that is made anew is rewritten, too."""
    kept = stream_of(check, UDP_SOCKET.name, UDP_ONE_WAY.name)
    return by_chance(check) or (kept and is_about(check, Continuity) and check.subject.way == LOCAL)


BREAKS = (
    Break(
        "udp-rewritten-for-9-s-after-a-flip",
        Group.SOURCE,
        "the endpoint node keeps masquerading UDP for nine seconds after each policy change back to Local, and TCP "
        "only as long as its rules take",
        RUN,
        rewriting_for(9.0),
        new_datagrams,
        names="wrong sources: ",
        may=kept_ports,
        at_once=False,
        scoped=True,
    ),
    Break(
        "udp-rewritten-for-3-s-after-a-flip",
        Group.HARMLESS,
        "the endpoint node keeps masquerading UDP for three seconds after each policy change back to Local, as if its "
        "rules were written some syncs after those of TCP",
        RUN,
        rewriting_for(3.0),
        no_check,
        may=kept_ports,
        at_once=False,
        scoped=True,
    ),
)
