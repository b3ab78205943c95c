"""One in twenty connections of host processes to pods is lost, whichever ports they have."""

from contextlib import AbstractContextManager

from esipp.cell import Cell
from esipp.model import Protocol, Vantage
from esipp.rows import Level
from tests.broken.breakage import CILIUM, KUBE_PROXY, Asked, Break, Group, cells
from tests.broken.masquerading import grouped
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import into_pods, sent_on_by

LOST = "0x4000000/0x4000000"
"""The bit of a connection's mark by which a node knows those that it loses; none of kube-proxy's or Cilium's."""

ONE_IN_TWENTY = ("--match", "statistic", "--mode", "random", "--probability", "0.05")


def losing(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Each node marks so many of its own connections as they begin, and drops all that belongs to these.

    It does so as packets leave: then whoever balances, netfilter or a program at the socket, has chosen the pod.
    """

    def rules(live: Live) -> list[Rule]:
        found = []
        for family, pods in grouped(live.backends).items():
            for pod in pods:
                to_pod = ("--protocol", "tcp", "--destination", pod, "--match", "addrtype", "--src-type", "LOCAL")
                first = (*to_pod, "--syn", "--match", "conntrack", "--ctstate", "NEW", *ONE_IN_TWENTY)
                drop = (*to_pod, "--match", "connmark", "--mark", LOST, "--jump", "DROP")
                found += [
                    Rule(family, "POSTROUTING", drop, table="mangle"),
                    Rule(family, "POSTROUTING", (*first, "--jump", "CONNMARK", "--set-xmark", LOST), table="mangle"),
                ]
        return found

    return nodes.live(rules)


def of_hosts(cell: Cell) -> bool:
    """Paths of host processes over TCP into the pod network."""
    return cell.path.client.vantage is Vantage.NODE and cell.path.protocol is Protocol.TCP and into_pods(cell.path)


def notices(cell: Cell) -> bool:
    """Where the client's own node chooses the pod, and another one has it."""
    path = cell.path
    chosen_here = path.service is None or sent_on_by(path) is path.client.role
    return of_hosts(cell) and chosen_here and not cell.is_negative and cell.level is not Level.RECORD


BREAK = Break(
    "host-connections-lost-at-random",
    Group.DELIVERY,
    "nodes lose one in twenty connections of their own processes to pods, whatever ports these have",
    Asked(("source_ip",), samples=60),
    losing,
    cells(notices),
    names="no answer|drops|dropped",
    may=lambda row: True,  # every other row of hosts, and those whose controls are hosts' connections
    share=0.8,  # of rows with 60 connections each, one in twenty has no such connection
    scoped=True,
    data_planes=(CILIUM, KUBE_PROXY),
)
