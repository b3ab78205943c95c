"""Some connections of host processes to pods are lost, independent of port collisions."""

import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from esipp.checks.check import Level
from esipp.checks.model import Family, Protocol, Vantage
from esipp.checks.path import PathCheck
from tests.broken.breakage import CILIUM, KUBE_PROXY, Break, Group, RunOptions, path_checks
from tests.broken.masquerading import grouped
from tests.broken.nodes import Live, Nodes, Placed, new_mark
from tests.broken.ways import into_pods

TABLES = {Family.IPV4: "ip", Family.IPV6: "ip6"}
SOME_PORTS = "tcp sport & 0x1e == 4"
"""One source port in sixteen, odd ones and even ones alike: all packets of such a connection meet the same fate."""


@contextmanager
def losing_some(nodes: Nodes, live: Live) -> Iterator[None]:
    """Each node drops all packets of these connections of its own to the run's pods.

    It does so as packets leave: then whoever balances, netfilter or a program at the socket, has chosen the pod.
    """
    mark, commands = new_mark(), []
    for family, pods in grouped(live.backends).items():
        table = f"{TABLES[family]} {mark}"
        commands += [f"add table {table}", f"add chain {table} out {{ type filter hook postrouting priority mangle; }}"]
        to_pods = f"{TABLES[family]} daddr {{ {', '.join(pods)} }}"
        commands.append(f"add rule {table} out fib saddr type local {to_pods} {SOME_PORTS} drop")
    script = " && ".join(f"nft {shlex.quote(command)}" for command in commands)
    try:
        nodes.on_nodes(lambda _: script)
        yield
    finally:
        nodes.take_away(mark)


def losing(nodes: Nodes) -> AbstractContextManager[Placed]:
    return nodes.once_arranged(lambda live: losing_some(nodes, live))


def of_hosts(path_check: PathCheck) -> bool:
    """Paths of host processes over TCP into the pod network."""
    return (
        path_check.subject.path.client.vantage is Vantage.NODE
        and path_check.subject.path.protocol is Protocol.TCP
        and into_pods(path_check.subject.path)
    )


def notices(path_check: PathCheck) -> bool:
    """Where no Service is in the way. All others rest on these as their controls."""
    return of_hosts(path_check) and path_check.subject.path.service is None and path_check.level is not Level.RECORD


BREAK = Break(
    "host-connections-lost-at-random",
    Group.DELIVERY,
    "nodes drop one in sixteen connections of their own processes to pods, depending only on the source port",
    RunOptions(("source_ip",), samples=60),
    losing,
    path_checks(notices),
    names="no answer|drops|dropped",
    may=lambda check: True,  # every other check of hosts: its control lost connections, too
    share=0.7,  # of checks with 60 connections each, one in fifty has no such connection
    scoped=True,
    data_planes=(CILIUM, KUBE_PROXY),
)
