"""Nodes that forget connections on which nothing comes for a while."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from esipp.checks.check import Check, is_about
from esipp.scenarios.service_change.subject import Claim, ServiceChange, service_of
from tests.broken.breakage import Break, Group
from tests.broken.breaks.changes.freed import AT_NODES, run_of
from tests.broken.breaks.delivery.streams import nft
from tests.broken.nodes import Nodes, Placed, new_mark
from tests.broken.policy_changes import in_own_rules, set_up_run

SECONDS = 30
FORGET = """table inet {mark} {{
  set live4 {{ type ipv4_addr . inet_service; flags dynamic, timeout; timeout {seconds}s; size 65535; }}
  set live6 {{ type ipv6_addr . inet_service; flags dynamic, timeout; timeout {seconds}s; size 65535; }}
  chain ports {{
    type filter hook prerouting priority -250;
    tcp dport {port} tcp flags & (syn | ack) == syn update @live4 {{ ip saddr . tcp sport }}
    tcp dport {port} tcp flags & (syn | ack) == syn update @live6 {{ ip6 saddr . tcp sport }}
    tcp dport {port} ip saddr . tcp sport != @live4 drop
    tcp dport {port} ip6 saddr . tcp sport != @live6 drop
    tcp dport {port} update @live4 {{ ip saddr . tcp sport }}
    tcp dport {port} update @live6 {{ ip6 saddr . tcp sport }}
  }}
}}"""


@contextmanager
def forgetting(nodes: Nodes) -> Iterator[Placed]:
    """Nodes drop what belongs to a connection to the nodePort on which nothing came for half a minute."""
    placed, mark, name = Placed(), new_mark(), service_of("idle")

    def work(ended: Event) -> None:
        live = set_up_run(nodes, {name}, ended)
        if live is not None:
            port = next(each for each in live.service(name)["spec"]["ports"] if each["protocol"] == "TCP")["nodePort"]
            for node in nodes.containers:
                nft(node, FORGET.format(mark=mark, port=port, seconds=SECONDS))
            placed.at = time.time()

    with in_own_rules(nodes, mark, work):
        yield placed


def notices(check: Check) -> bool:
    if not is_about(check, ServiceChange):
        return False
    subject = check.subject
    return subject.claim is Claim.LIVES and subject.event.name == "idle" and subject.at in AT_NODES


BREAK = Break(
    "idle-connections-forgotten",
    Group.CHANGES,
    "nodes forget connections to a nodePort on which nothing came for half a minute, and drop what comes then",
    run_of("idle"),
    forgetting,
    notices,
    names="forgets connections that are idle",
    at_once=False,
    scoped=True,
)
