"""Answers to host processes that are lost, as they come to the port of a nodePort."""

from contextlib import AbstractContextManager

from esipp.checks.check import Level
from esipp.checks.model import EntryKind, Protocol, Vantage
from esipp.checks.path import PathCheck
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.matching import DROP
from tests.broken.nodes import Live, Nodes, Placed, Rule

RANGE = "30000-32767"
"""Where the break has nodes choose source ports. From all ports they choose that of a nodePort 23 times less often: a
usual run has some seven thousand connections of host processes to ClusterIPs, of which six would be lost."""


def losing_answers_at_node_ports(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Nodes choose source ports from the range of nodePorts for their own connections to ClusterIPs, and lose the
    answers that come to a nodePort in use.
    """

    def rules(live: Live) -> list[Rule]:
        ports = sorted(
            {port["nodePort"] for each in live.services for port in each["spec"]["ports"] if "nodePort" in port}
        )
        found = []
        for family, cidr in nodes.service_cidrs.items():
            made = ("--match", "conntrack", "--ctorigdst", cidr)
            own = ("--protocol", "tcp", *made, "--match", "addrtype", "--src-type", "LOCAL")
            found.append(
                Rule(family, "POSTROUTING", (*own, "--jump", "MASQUERADE", "--to-ports", RANGE, "--random-fully"))
            )
            for port in ports:
                answers = ("--protocol", "tcp", "--dport", str(port), *made, "--ctdir", "REPLY")
                found.append(Rule(family, "PREROUTING", (*answers, *DROP), (), "mangle"))
        return found

    return nodes.live(rules)


def of_hosts(path_check: PathCheck) -> bool:
    """Paths of host processes to ClusterIPs."""
    path = path_check.subject.path
    return path.client.vantage is Vantage.NODE and path.entry.kind is EntryKind.CLUSTER_IP


def notices(path_check: PathCheck) -> bool:
    """Those over TCP that must be answered."""
    binding = path_check.level is not Level.RECORD and not path_check.subject.is_negative
    return binding and of_hosts(path_check) and path_check.subject.path.protocol is Protocol.TCP


BREAK = Break(
    "answers-at-node-ports-lost",
    Group.DELIVERY,
    "nodes lose answers to connections of their own processes to ClusterIPs if the source port that a node chose is a "
    "nodePort",
    RunOptions(("source_ip",), samples=200),
    losing_answers_at_node_ports,
    path_checks(notices),
    names="no answer|drops|dropped",
    may=path_checks(of_hosts),
    share=0.7,  # of 200 connections, some three are lost: in one check of twenty none
)
