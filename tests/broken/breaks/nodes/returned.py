"""What goes wrong once a node, an agent or an API server was away, or while it is."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from threading import Event

from esipp.base.json import Json
from esipp.checks.check import Check
from esipp.checks.continuity import NODEPORT, Phase, Way, What
from esipp.checks.disruption import Disruption
from esipp.checks.model import Balancer, Family, Protocol, Role, TrafficPolicy
from esipp.cluster.client import ApiError, UnreachableError
from esipp.disruption.agents import api_servers, starts_of
from esipp.judging.topology import family_of
from esipp.scenarios.continuity.objects import service_name
from esipp.scenarios.service_change.subject import At, Claim, service_of
from suites.streams import UDP_NEW, UDP_ONE_WAY, UDP_SOCKET
from tests.broken.breakage import Apply, Break, Group, RunOptions
from tests.broken.breaks.delivery.streams import at_the_node_port, by_chance, stream_of
from tests.broken.during import (
    Happens,
    When,
    at_bare_node,
    at_control_plane,
    at_controller,
    at_endpoint_node,
    effect_of,
    end_of,
    for_seconds_once,
    of_change,
    of_phase,
    once_so,
    restart_of,
    restarted,
    run_of,
    run_of_change,
    run_once,
    while_so,
)
from tests.broken.forwarding import handed_on
from tests.broken.lost import RESET, connections_ended, nobody_takes
from tests.broken.matching import DROP, MASQUERADE, came_by, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.shells import shell

AT_NODE, AT_OWN_VIP = Way(NODEPORT, TrafficPolicy.LOCAL), Way(Balancer.DEFAULT.value, TrafficPolicy.LOCAL)
AT_CLUSTER_VIP = Way(Balancer.DEFAULT.value, TrafficPolicy.CLUSTER)
THROUGH_NODE = Way(NODEPORT, TrafficPolicy.CLUSTER)
EMPTY = 5.0
"""Seconds without Services: a connection is lost if its first SYN and two more are."""
DELETED, DELETED_VIP, LEFT = "node-deleted", "node-deleted-vip", "node-left"
SLOW, CONTROLLER = "api-slow", "controller-stopped"

TIMES = 8
"""How often nodes forget: each time, a flow goes on to another pod with a chance of a half."""

CONNTRACK = "for f in ipv4 ipv6; do conntrack -D -f $f -p udp --orig-port-dst {port} >/dev/null 2>&1; done; true"
FORGET = """table inet {mark} {{
  set old4 {{ type ipv4_addr . inet_service; flags dynamic; size 65535; }}
  set old6 {{ type ipv6_addr . inet_service; flags dynamic; size 65535; }}
  chain ports {{
    type filter hook prerouting priority -190;
    udp dport {port} ct state established add @old4 {{ ip saddr . udp sport }}
    udp dport {port} ct state established add @old6 {{ ip6 saddr . udp sport }}
    udp dport {port} ct state new ip saddr . udp sport @old4 drop
    udp dport {port} ct state new ip6 saddr . udp sport @old6 drop
  }}
}}"""
"""After connection tracking (-200): what was known and is new again."""


def rewriting(nodes: Nodes, live: Live, way: Way) -> list[Rule]:
    """Masquerade what comes by one way, on its way to a pod."""
    service = live.service(service_name(way))
    (port,) = service["spec"]["ports"]
    if way.balancer is None:
        there = (nodes.roles[Role.ENDPOINT_NODE],)
        words = (*came_by(port, port["nodePort"]), *MASQUERADE)
        return [Rule(family, "POSTROUTING", words, there) for family in Family]
    return [
        Rule(family_of(vip), "POSTROUTING", (*came_by(port, port["port"], vip), *MASQUERADE)) for vip in vips(service)
    ]


def rewritten_once(happens: Happens, way: Way) -> Apply:
    """The source is rewritten from when something happens on."""
    return lambda nodes: once_so(nodes, (service_name(way),), happens(nodes), lambda live: rewriting(nodes, live, way))


def wrong_once(happens: Happens, way: Way, made: Callable[[Nodes, Json], Iterator[Rule]]) -> Apply:
    """Rules are in effect for some seconds once something happens; ``made`` makes them for a way's Service."""
    return lambda nodes: for_seconds_once(
        nodes, service_name(way), happens(nodes), lambda service: made(nodes, service), EMPTY
    )


def api_server_restarted(nodes: Nodes) -> Callable[[], bool]:
    """Whether an API server has started again."""

    def starts() -> int:
        return starts_of(api_servers(nodes.cluster))[0]

    before = starts()

    def is_so() -> bool:
        with suppress(ApiError, UnreachableError):  # the connection was to the one that has just ended
            return starts() > before
        return False

    return is_so


def resetting(nodes: Nodes, service: Json) -> Iterator[Rule]:
    """All nodes reset what is open through a VIP."""
    (port,), everywhere = service["spec"]["ports"], tuple(nodes.containers)
    for vip in vips(service):
        own = (*came_by(port, port["port"], vip), "--ctdir", "ORIGINAL", "--ctstate", "ESTABLISHED")
        yield Rule(family_of(vip), "FORWARD", (*own, *RESET), everywhere, "filter")


def resetting_at_node(nodes: Nodes, service: Json) -> Iterator[Rule]:
    """The node without endpoints resets the TCP connections at a nodePort, and answers datagrams there."""
    (port,) = service["spec"]["ports"]
    return connections_ended(port, (nodes.bare,), {"ESTABLISHED": RESET})


def without(nodes: Nodes, service: Json) -> Iterator[Rule]:
    """The node without endpoints has no Service at its nodePort."""
    (port,) = service["spec"]["ports"]
    return connections_ended(port, (nodes.bare,), {"NEW": DROP, "ESTABLISHED": RESET})


def forgotten_once_restarted(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Nodes forget all UDP flows to a nodePort, again and again, from the restart of a kube-proxy on."""
    name = service_name(THROUGH_NODE, Protocol.UDP)

    def forget(live: Live, _: Event) -> None:
        port = live.service(name)["spec"]["ports"][0]["nodePort"]
        for _ in range(TIMES):
            for node in nodes.containers:
                shell(node).run(CONNTRACK.format(port=port))

    return run_once(nodes, (name,), restarted(nodes, Disruption.KUBE_PROXY), forget)


def keeps_its_endpoint(event: str, role: Role) -> Apply:
    """The node that registers again goes on sending to the endpoint of before."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def made(live: Live) -> Iterator[Rule]:
            for port, address, _, target in live.targets(live.service(service_of(event))):
                yield from handed_on(port, address, target, True, (nodes.roles[role],))

        return nodes.live(made)

    return apply


def given_up(when: When, happens: Happens, *services: str) -> Apply:
    """No node takes the VIPs of Services, ``when`` something happens: while it is so, or from then on."""
    return lambda nodes: when(
        nodes,
        services,
        happens(nodes),
        lambda live: nobody_takes(vip for name in services for vip in vips(live.service(name))),
    )


def at_rest_too(way: Way) -> Callable[[Check], bool]:
    """What chance decides, and the sources of this way while nothing changes, as it stays rewritten."""
    return lambda check: by_chance(check) or of_phase(check, Phase.QUIET, way, What.SOURCE)


GIVES_UP, REWRITES = "gives up a VIP", "masquerades even one connection"
OF_BEFORE = "does not follow a change|of its endpoints, or connection tracking|is no longer an endpoint"

BREAKS = (
    Break(
        "source-rewritten-after-a-node-was-cut-off",
        Group.NODES,
        "the endpoint node masquerades what comes to a Local nodePort from its return to the network on",
        run_of(Phase.CUT_OFF),
        rewritten_once(end_of(Disruption.CUT_OFF, at_endpoint_node), AT_NODE),
        lambda check: of_phase(check, Phase.CUT_OFF, AT_NODE, What.SOURCE),
        names=REWRITES,
        may=at_rest_too(AT_NODE),
        at_once=False,
    ),
    Break(
        "source-rewritten-after-another-node-joined",
        Group.NODES,
        "the endpoint node masquerades what comes to a Local nodePort from when a node without endpoints joins again",
        run_of(Phase.IDLE_LEFT),
        rewritten_once(end_of(Disruption.NODE_LEFT, at_bare_node), AT_NODE),
        lambda check: of_phase(check, Phase.IDLE_LEFT, AT_NODE, What.SOURCE),
        names=REWRITES,
        may=at_rest_too(AT_NODE),
        at_once=False,
    ),
    Break(
        "sockets-dropped-after-their-entries-were-deleted",
        Group.NODES,
        "the endpoint node drops datagrams to a nodePort from sockets whose connection tracking entries were deleted",
        run_of(Phase.CONNTRACK_DELETED),
        at_the_node_port(FORGET, Protocol.UDP),
        lambda check: (
            stream_of(check, UDP_SOCKET.name)
            and of_phase(check, Phase.CONNTRACK_DELETED, AT_NODE, What.STREAM)
        ),
        names="drops them or forgets",
        may=by_chance,
        at_once=False,
    ),
    Break(
        "node-registered-again-keeps-its-endpoints",
        Group.NODES,
        "a node that registers again goes on sending to the endpoint from before its Node object was deleted",
        run_of_change(DELETED),
        keeps_its_endpoint(DELETED, Role.BARE_NODE),
        lambda check: of_change(check, DELETED, At.BARE_NODE, Claim.SERVED, Claim.GONE),
        names=OF_BEFORE,
        at_once=False,
    ),
    Break(
        "node-that-joins-keeps-its-endpoints",
        Group.NODES,
        "a node that left and joins again goes on sending to the endpoint from before it left",
        run_of_change(LEFT),
        keeps_its_endpoint(LEFT, Role.OTHER_NODE),
        lambda check: of_change(check, LEFT, At.OTHER_NODE, Claim.SERVED, Claim.GONE),
        names=OF_BEFORE,
        at_once=False,
    ),
    Break(
        "vip-given-up-while-another-node-is-deleted",
        Group.NODES,
        "no node takes the VIP of a Local Service while the Node object of a node without endpoints is deleted",
        run_of_change(DELETED_VIP),
        given_up(while_so, effect_of(Disruption.NODE_DELETED, at_bare_node), service_of(DELETED_VIP)),
        lambda check: of_change(check, DELETED_VIP, At.VIP, Claim.SERVED, Claim.NO_LOSS),
        names=GIVES_UP,
        at_once=False,
    ),
    Break(
        "vip-given-up-while-the-api-server-is-slow",
        Group.NODES,
        "no node takes a Service's VIP any longer once the API server has taken seconds for its answers",
        run_of_change(SLOW),
        given_up(once_so, effect_of(Disruption.API_SLOW, at_control_plane), service_of(SLOW)),
        lambda check: of_change(check, SLOW, At.VIP, Claim.SERVED, Claim.NO_LOSS),
        names=GIVES_UP,
        at_once=False,
    ),
    Break(
        "vip-given-up-after-its-controller-was-away",
        Group.NODES,
        "no node takes a Service's VIP any longer once the load balancer's controller has started again",
        run_of_change(CONTROLLER),
        given_up(once_so, end_of(Disruption.CONTROLLER_STOPPED, at_controller), service_of(CONTROLLER)),
        lambda check: of_change(check, CONTROLLER, At.VIP, Claim.SERVED, Claim.NO_LOSS),
        names=GIVES_UP,
        at_once=False,
    ),
    Break(
        "services-gone-while-the-network-add-on-starts",
        Group.NODES,
        "a node drops new connections to a nodePort, and resets open ones, for five seconds from the restart of the "
        "network add-on's agent on another node on",
        run_of(Phase.NETWORK_AGENT),
        wrong_once(restart_of(Disruption.NETWORK_AGENT), THROUGH_NODE, without),
        lambda check: of_phase(
            check, Phase.NETWORK_AGENT, THROUGH_NODE, What.NO_LOSS, What.NO_DELAY, What.LASTING
        ),
        names="flushes connection tracking|a node drops a connection",
        may=by_chance,
        at_once=False,
    ),
    Break(
        "services-gone-while-api-servers-restart",
        Group.NODES,
        "a node drops new connections to a nodePort, and resets open ones, for five seconds from when the first of two "
        "API servers has started again on (lane `kind-2-control-planes`)",
        run_of(Phase.API_SERVERS_IN_TURN),
        wrong_once(api_server_restarted, THROUGH_NODE, without),
        lambda check: of_phase(
            check, Phase.API_SERVERS_IN_TURN, THROUGH_NODE, What.NO_LOSS, What.NO_DELAY, What.LASTING
        ),
        names="flushes connection tracking|a node drops a connection",
        may=by_chance,
        at_once=False,
    ),
    Break(
        "connections-reset-after-a-restart-of-the-speaker",
        Group.NODES,
        "nodes reset open connections through the VIP of a Cluster Service for five seconds from the restart of a "
        "speaker on",
        run_of(Phase.SPEAKER),
        wrong_once(restart_of(Disruption.SPEAKER), AT_CLUSTER_VIP, resetting),
        lambda check: of_phase(check, Phase.SPEAKER, AT_CLUSTER_VIP, What.LASTING),
        names="flushes connection tracking",
        may=by_chance,
        at_once=False,
    ),
    Break(
        "connections-reset-after-an-earlier-move-of-the-vip",
        Group.NODES,
        "nodes reset open connections through the VIP of a Cluster Service for five seconds from the restart of a "
        "speaker on, after an excluded node may have lost the VIP",
        RunOptions(
            ("continuity",), tuple(f"continuity.{each.value}." for each in (Phase.EXCLUDE, Phase.SPEAKER, Phase.QUIET)),
            disruptive=True,
        ),
        wrong_once(restart_of(Disruption.SPEAKER), AT_CLUSTER_VIP, resetting),
        lambda check: of_phase(check, Phase.SPEAKER, AT_CLUSTER_VIP, What.LASTING),
        names="flushes connection tracking",
        may=by_chance,
        at_once=False,
    ),
    Break(
        "udp-flows-forgotten-by-a-restart-of-kube-proxy",
        Group.NODES,
        "nodes forget the UDP flows to a nodePort when kube-proxy restarts, and send the next datagram to any pod",
        run_of(Phase.KUBE_PROXY),
        forgotten_once_restarted,
        lambda check: stream_of(check, UDP_SOCKET.name) and of_phase(
            check, Phase.KUBE_PROXY, THROUGH_NODE, What.STREAM
        ),
        names="forgets their pod",
        # It may last into the quiet phase.
        may=lambda check: by_chance(check) or (
            stream_of(check, UDP_SOCKET.name, UDP_ONE_WAY.name, UDP_NEW.name) and of_phase(
                check, Phase.QUIET, THROUGH_NODE, What.STREAM
            )
        ),
        at_once=False,
    ),
    Break(
        "connections-reset-after-a-node-was-cut-off",
        Group.NODES,
        "nodes reset open connections through the VIP of a Cluster Service for five seconds from the return of the "
        "endpoint node to the network on",
        run_of(Phase.CUT_OFF),
        wrong_once(end_of(Disruption.CUT_OFF, at_endpoint_node), AT_CLUSTER_VIP, resetting),
        lambda check: of_phase(check, Phase.CUT_OFF, AT_CLUSTER_VIP, What.LASTING),
        names="flushes connection tracking",
        may=by_chance,
        at_once=False,
    ),
    *(
        Break(
            f"source-rewritten-after-a-restart-of-{name}",
            Group.NODES,
            f"nodes masquerade what comes {where} of a Local Service from the restart of {noun} on",
            run_of(phase),
            rewritten_once(restart_of(what), way),
            lambda check, phase=phase, way=way: of_phase(check, phase, way, What.SOURCE),
            names=REWRITES,
            may=at_rest_too(way),
            at_once=False,
        )
        for name, noun, where, phase, what, way in (
            ("the-network-add-on", "the network add-on's agent", "to the nodePort", Phase.NETWORK_AGENT,
             Disruption.NETWORK_AGENT, AT_NODE),
            ("the-speaker", "a speaker", "to the VIP", Phase.SPEAKER_MOVES, Disruption.SPEAKER, AT_OWN_VIP),
        )
    ),
)  # fmt: skip
