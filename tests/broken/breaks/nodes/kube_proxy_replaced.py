"""What goes wrong while kube-proxy of all nodes gets another mode, or another version.

Rules of the earlier mode that stay beside those of the new one; rules that are removed before the new ones are there.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, What
from esipp.checks.disruption import Disruption
from esipp.checks.model import Protocol
from esipp.disruption import daemon_sets
from esipp.scenarios.continuity.objects import service_name
from suites.known_differences.kube_proxy import CHAINS_GONE
from suites.streams import SCTP_PORT
from tests.broken.breakage import Apply, Break, Group
from tests.broken.breaks.delivery.streams import by_chance, stream_of
from tests.broken.breaks.nodes.returned import (
    AT_NODE,
    REWRITES,
    THROUGH_NODE,
    at_rest_too,
    resetting_at_node,
    rewritten_once,
    without,
    wrong_once,
)
from tests.broken.during import of_phase, restart_of, run_of, while_so
from tests.broken.lost import connections_ended
from tests.broken.matching import DROP
from tests.broken.nodes import Live, Nodes, Placed, Rule


def in_the_way(protocol: Protocol, state: str) -> Apply:
    """A node without endpoints drops packets of some state to a nodePort for as long as kube-proxy is changed."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        name = service_name(THROUGH_NODE, protocol)

        def rules(live: Live) -> Iterator[Rule]:
            (port,) = live.service(name)["spec"]["ports"]
            return connections_ended(port, (nodes.bare,), {state: DROP})

        return while_so(nodes, (name,), lambda: bool(daemon_sets.left_behind(nodes.cluster)), rules)

    return apply


def may_translate_nothing(check: Check) -> bool:
    """A known difference, by chance: what nodes reset while kube-proxy has removed the chains of its earlier mode."""
    return is_about(check, Continuity) and CHAINS_GONE in check.differences


BREAKS = (
    Break(
        "source-rewritten-after-a-change-of-kube-proxys-mode",
        Group.NODES,
        "the endpoint node masquerades what comes to a Local nodePort from the first kube-proxy in another mode on, as "
        "by rules of the earlier mode that stay",
        run_of(Phase.PROXY_MODE),
        rewritten_once(restart_of(Disruption.KUBE_PROXY), AT_NODE),
        lambda check: of_phase(check, Phase.PROXY_MODE, AT_NODE, What.SOURCE),
        names=REWRITES,
        may=lambda check: at_rest_too(AT_NODE)(check) or may_translate_nothing(check),
        at_once=False,
    ),
    Break(
        "connections-reset-by-a-change-of-kube-proxys-mode",
        Group.NODES,
        "a node without endpoints resets open TCP connections at a nodePort for five seconds from the first kube-proxy "
        "in another mode on; it goes on to answer the established UDP flow there, unlike one that translates nothing",
        run_of(Phase.PROXY_MODE),
        wrong_once(restart_of(Disruption.KUBE_PROXY), THROUGH_NODE, resetting_at_node),
        lambda check: of_phase(check, Phase.PROXY_MODE, THROUGH_NODE, What.LASTING),
        names="flushes connection tracking",
        may=lambda check: by_chance(check) or may_translate_nothing(check),
        at_once=False,
    ),
    Break(
        "nothing-served-in-kube-proxys-other-mode",
        Group.NODES,
        "a node drops new connections to a nodePort for as long as kube-proxy is in another mode",
        run_of(Phase.PROXY_MODE),
        in_the_way(Protocol.TCP, "NEW"),
        lambda check: of_phase(check, Phase.PROXY_MODE, THROUGH_NODE, What.GAP),
        names="does not serve in the other mode",
        may=lambda check: by_chance(check) or may_translate_nothing(check),
        at_once=False,
    ),
    Break(
        "known-sctp-ports-lost-in-kube-proxys-other-mode",
        Group.NODES,
        "a node drops INITs to a nodePort, but for each port's first one, for as long as kube-proxy is in another mode",
        run_of(Phase.PROXY_MODE),
        in_the_way(Protocol.SCTP, "ESTABLISHED"),
        lambda check: of_phase(check, Phase.PROXY_MODE, THROUGH_NODE, What.STREAM) and stream_of(check, SCTP_PORT.name),
        names="this port's packets",
        may=lambda check: by_chance(check) or may_translate_nothing(check),
        at_once=False,
    ),
    Break(
        "services-gone-while-kube-proxy-is-upgraded",
        Group.NODES,
        "a node drops new connections to a nodePort, and resets open ones, for five seconds from the first kube-proxy "
        "of another version on",
        run_of(Phase.PROXY_UPGRADED),
        wrong_once(restart_of(Disruption.KUBE_PROXY), THROUGH_NODE, without),
        lambda check: of_phase(
            check, Phase.PROXY_UPGRADED, THROUGH_NODE, What.NO_LOSS, What.NO_DELAY, What.LASTING
        ),
        names="flushes connection tracking|a node drops a connection",
        may=by_chance,
        at_once=False,
    ),
    Break(
        "source-rewritten-by-an-upgrade-of-kube-proxy",
        Group.NODES,
        "the endpoint node masquerades what comes to a Local nodePort from the first kube-proxy of another version on",
        run_of(Phase.PROXY_UPGRADED),
        rewritten_once(restart_of(Disruption.KUBE_PROXY), AT_NODE),
        lambda check: of_phase(check, Phase.PROXY_UPGRADED, AT_NODE, What.SOURCE),
        names=REWRITES,
        may=at_rest_too(AT_NODE),
        at_once=False,
    ),
)  # fmt: skip
