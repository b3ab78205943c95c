"""Nodes that forget connections on which nothing comes for a while, or that are old."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.model import Family
from esipp.judging.topology import by_family
from esipp.scenarios.service_change.subject import At, Claim, ServiceChange, service_of
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.changes.freed import AT_NODES, run_of
from tests.broken.breaks.delivery.streams import nft
from tests.broken.nodes import Nodes, Placed, new_mark
from tests.broken.policy_changes import in_own_rules, set_up_run

FORGET = """table inet {mark} {{
  set live4 {{ type ipv4_addr . inet_service; flags dynamic, timeout; timeout {seconds}s; size 65535; }}
  set live6 {{ type ipv6_addr . inet_service; flags dynamic, timeout; timeout {seconds}s; size 65535; }}
  chain ports {{
    type filter hook prerouting priority -250;
    {to4} tcp flags & (syn | ack) == syn update @live4 {{ ip saddr . tcp sport }}
    {to6} tcp flags & (syn | ack) == syn update @live6 {{ ip6 saddr . tcp sport }}
    {to4} ip saddr . tcp sport != @live4 drop
    {to6} ip6 saddr . tcp sport != @live6 drop
    {renewed}
  }}
}}"""
RENEWED = """{to4} update @live4 {{ ip saddr . tcp sport }}
    {to6} update @live6 {{ ip6 saddr . tcp sport }}"""
"""What lets a connection live on for as long as it is used."""

Matches = Mapping[Family, str]


def forgetting(
    event: str, seconds: int, matches: Callable[[Json], Matches], *, renewed: bool
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Nodes drop what belongs to a connection, ``seconds`` after its first packet or (``renewed``) its last one.

    Args:
        event: the event with the Service.
        seconds: how long nodes know a connection.
        matches: the packets of such connections, from the Service.
        renewed: whether each packet lets them know it anew.
    """

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        placed, mark, name = Placed(), new_mark(), service_of(event)

        def work(ended: Event) -> None:
            live = set_up_run(nodes, {name}, ended)
            if live is not None:
                to = matches(live.service(name))
                to4, to6 = to[Family.IPV4], to[Family.IPV6]
                goes_on = RENEWED.format(to4=to4, to6=to6) if renewed else ""
                for node in nodes.containers:
                    nft(node, FORGET.format(mark=mark, seconds=seconds, to4=to4, to6=to6, renewed=goes_on))
                placed.at = time.time()

        with in_own_rules(nodes, mark, work):
            yield placed

    return apply


def to_node_port(service: Json) -> Matches:
    port = next(each for each in service["spec"]["ports"] if each["protocol"] == "TCP")["nodePort"]
    return dict.fromkeys(Family, f"tcp dport {port}")


def to_cluster_ips(service: Json) -> Matches:
    port = next(each for each in service["spec"]["ports"] if each["protocol"] == "TCP")["port"]
    words = {Family.IPV4: "ip", Family.IPV6: "ip6"}
    found = by_family(service["spec"]["clusterIPs"])
    return {family: f"{words[family]} daddr {found[family]} tcp dport {port}" for family in Family}


def lives(check: Check, event: str, *entries: At) -> bool:
    """Whether a check is that of an idle connection to one of these entries."""
    if not is_about(check, ServiceChange):
        return False
    subject = check.subject
    return subject.claim is Claim.LIVES and subject.event.name == event and subject.at in entries


NAMED = "forgets connections that are idle"

BREAKS = (
    Break(
        "idle-connections-forgotten",
        Group.CHANGES,
        "nodes forget connections to a nodePort on which nothing came for half a minute, and drop what comes then",
        run_of("idle"),
        forgetting("idle", 30, to_node_port, renewed=True),
        lambda check: lives(check, "idle", *AT_NODES),
        names=NAMED,
        at_once=False,
        scoped=True,
    ),
    Break(
        "connections-of-pods-end-after-two-minutes",
        Group.CHANGES,
        "nodes forget connections of pods to a ClusterIP 131 s after they were made, and drop what comes then",
        RunOptions(("changes",), ("changes.idle-3-min.",), options=("--long",)),
        forgetting("idle-3-min", 131, to_cluster_ips, renewed=False),
        lambda check: lives(check, "idle-3-min", At.CLUSTER_IP),
        names=NAMED,
        at_once=False,
        scoped=True,
    ),
)
