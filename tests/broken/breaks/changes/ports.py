"""Nodes that do not follow the ports of a Service: those of before live on, or new ones are not served."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.stream import Reuse
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.objects import LATER_PORT, SECOND_TARGETS
from esipp.scenarios.service_change.subject import At, Claim, service_of
from tests.broken.breakage import Break, Group
from tests.broken.breaks.changes.freed import (
    AT_NODES,
    at_node_ports,
    at_ports_of,
    goes_on,
    keeps_vips,
    lives_on,
    of_stream,
    run_of,
)
from tests.broken.breaks.changes.not_followed import dropped_at_cluster_ips, dropped_at_node_ports, once, served
from tests.broken.matching import hands_to, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule


def has_later_port(service: Json) -> bool:
    """Whether a Service has its later port by now."""
    return any(port["port"] == LATER_PORT for port in service["spec"]["ports"])


def has_no_udp(service: Json) -> bool:
    """Whether a Service has lost its UDP port."""
    return all(port["protocol"] != "UDP" for port in service["spec"]["ports"])


def has_second_target(service: Json) -> bool:
    """Whether the second server of its pods is the target of a Service by now."""
    return any(port["targetPort"] in SECOND_TARGETS.values() for port in service["spec"]["ports"])


def keeps_cluster_ips(event: str, protocol: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """What pods send to the first port of ClusterIPs goes to the first pod for ever."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def made(live: Live) -> Iterator[Rule]:
            service = live.service(service_of(event))
            for port, address, _, target in live.targets(service):
                for own in service["spec"]["clusterIPs"] if port["protocol"] == protocol else ():
                    if family_of(own) is family_of(address):
                        words = ("--destination", own, *to_port(port), *hands_to(address, target))
                        yield Rule(family_of(own), "PREROUTING", words)

        return nodes.live(made)

    return apply


def to_the_first_target(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """Connections to nodePorts go to the target of before."""
    before = live.service(service["metadata"]["name"])
    for port, address, _, target in live.targets(before):
        if port["protocol"] == "TCP":
            yield from lives_on(port, address, target, nodes)


LIVES_ON = "keeps the rules of a deleted Service"
NOT_FOLLOWED = "does not follow a change"

BREAKS = (
    Break(
        "port-of-before-lives-on",
        Group.CHANGES,
        "nodes go on serving the port that a Service had, at its ClusterIPs, over TCP",
        run_of("port-changed"),
        keeps_cluster_ips("port-changed", "TCP"),
        of_stream("port-changed", "tcp-new", claims=(Claim.GONE,), at=(At.CLUSTER_IP,)),
        names=LIVES_ON,
        at_once=False,
        scoped=True,
    ),
    Break(
        "later-port-not-served",
        Group.CHANGES,
        "nodes drop what comes to the ClusterIPs of a Service at the port that it got later",
        run_of("port-changed"),
        once("port-changed", has_later_port, dropped_at_cluster_ips),
        served("port-changed", At.CLUSTER_IP_LATER),
        names="does not serve a port that a Service gets later",
        at_once=False,
        scoped=True,
    ),
    Break(
        "vip-serves-its-port-of-before",
        Group.CHANGES,
        "nodes go on serving the port that a LoadBalancer Service had, at its VIP",
        run_of("vip-port-changed"),
        keeps_vips("vip-port-changed"),
        of_stream("vip-port-changed", "tcp-new", claims=(Claim.GONE,), at=(At.VIP,)),
        names=LIVES_ON,
        at_once=False,
        scoped=True,
    ),
    Break(
        "removed-port-lives-on",
        Group.CHANGES,
        "nodes go on serving the nodePort of a UDP port that a Service has lost",
        run_of("port-removed"),
        at_ports_of("port-removed", "UDP", lives_on),
        at_node_ports("port-removed", Reuse.NEW, protocol="UDP", claims=(Claim.GONE,)),
        names=LIVES_ON,
        may=at_node_ports("port-removed", Reuse.ONE_SOCKET, protocol="UDP", claims=(Claim.GONE,)),
        at_once=False,
        scoped=True,
    ),
    Break(
        "kept-port-goes-with-the-removed-one",
        Group.CHANGES,
        "nodes drop what comes to the nodePort of a Service's TCP port once its UDP port is removed",
        run_of("port-removed"),
        once("port-removed", has_no_udp, dropped_at_node_ports),
        served("port-removed", *AT_NODES, protocols=("TCP",)),
        names=NOT_FOLLOWED,
        at_once=False,
        scoped=True,
    ),
    Break(
        "target-port-not-followed",
        Group.CHANGES,
        "nodes go on sending connections to the port of a pod that was a Service's targetPort before",
        run_of("target-port"),
        once("target-port", has_second_target, to_the_first_target),
        at_node_ports("target-port", Reuse.NEW, protocol="TCP"),
        names=f"{LIVES_ON}|{NOT_FOLLOWED}",
        at_once=False,
        scoped=True,
    ),
    Break(
        "socket-goes-on-to-the-target-port-of-before",
        Group.CHANGES,
        "nodes go on sending datagrams from a socket that is in use to the port of a pod that was a Service's "
        "targetPort before (kubernetes/kubernetes#130542)",
        run_of("target-port"),
        at_ports_of("target-port", "UDP", goes_on),
        at_node_ports("target-port", Reuse.ONE_SOCKET, protocol="UDP"),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
)
