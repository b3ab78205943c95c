"""Nodes that cut connections after some seconds or as soon as the pod terminates, or have no room for new ones."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

from esipp.base.labels import RUN_LABEL
from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, What
from esipp.checks.model import Family
from esipp.judging.topology import family_of
from esipp.scenarios.continuity.objects import SELECTOR, service_name
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.delivery.streams import DELETED, LOCAL, OWN_VIP, QUIET, at_the_node_port, by_chance, nft
from tests.broken.matching import vips
from tests.broken.nodes import Nodes, Placed, Rule, new_mark
from tests.broken.policy_changes import in_background, in_own_rules, set_up_run


def forget(to4: str = "", to6: str = "") -> str:
    """Rules that forget connections to a port after four seconds: all of them, or those to these addresses."""
    return f"""table inet {{mark}} {{{{
  set young4 {{{{ type ipv4_addr . inet_service; flags dynamic, timeout; timeout 4s; size 65535; }}}}
  set young6 {{{{ type ipv6_addr . inet_service; flags dynamic, timeout; timeout 4s; size 65535; }}}}
  chain ports {{{{
    type filter hook prerouting priority -250;
    {to4} tcp dport {{port}} tcp flags & (syn | ack) == syn update @young4 {{{{ ip saddr . tcp sport }}}}
    {to6} tcp dport {{port}} tcp flags & (syn | ack) == syn update @young6 {{{{ ip6 saddr . tcp sport }}}}
    {to4} tcp dport {{port}} ip saddr . tcp sport != @young4 drop
    {to6} tcp dport {{port}} ip6 saddr . tcp sport != @young6 drop
  }}}}
}}}}"""


ROLLING = f"continuity.{Phase.ROLLING_UPDATE.value}."

FULL = """table inet {mark} {{
  set had4 {{ type ipv4_addr . inet_service; flags dynamic, timeout; timeout 120s; size 100; }}
  set had6 {{ type ipv6_addr . inet_service; flags dynamic, timeout; timeout 120s; size 100; }}
  chain ports {{
    type filter hook prerouting priority -190;
    tcp dport {port} ct state new add @had4 {{ ip saddr . tcp sport }} accept
    tcp dport {port} ct state new add @had6 {{ ip6 saddr . tcp sport }} accept
    tcp dport {port} ct state new drop
  }}
}}"""
"""As a table of 100 entries: each is there for two minutes, and what is new when all are taken is dropped."""


@contextmanager
def forgetting_at_the_vip(nodes: Nodes) -> Iterator[Placed]:
    """Every node forgets connections to a VIP of the cluster's own load balancer."""
    placed, mark, name = Placed(), new_mark(), service_name(OWN_VIP)

    def work(ended: Event) -> None:
        live = set_up_run(nodes, {name}, ended)
        if live is None:
            return
        service = live.service(name)
        there = {family_of(vip): vip for vip in vips(service)}
        to4, to6 = there.get(Family.IPV4, "0.0.0.0"), there.get(Family.IPV6, "::")
        rules = forget(f"ip daddr {to4}", f"ip6 daddr {to6}").format(
            mark=mark, port=service["spec"]["ports"][0]["port"]
        )
        for node in nodes.containers:
            nft(node, rules)
        placed.at = time.time()

    with in_own_rules(nodes, mark, work):
        yield placed


@contextmanager
def resetting_what_leaves(nodes: Nodes) -> Iterator[Placed]:
    """Every node resets connections to a pod from the moment on at which it terminates."""
    placed, stack, seen = Placed(), ExitStack(), set[str]()

    def work(ended: Event) -> None:
        live = set_up_run(nodes, {service_name(LOCAL)}, ended)
        if live is None:
            return
        selector = f"{RUN_LABEL}={live.run},{SELECTOR}"
        while not ended.wait(0.05):
            for pod in nodes.cluster.list(f"/api/v1/namespaces/{live.namespace}/pods", labelSelector=selector):
                if pod["metadata"].get("deletionTimestamp") and pod["metadata"]["name"] not in seen:
                    seen.add(pod["metadata"]["name"])
                    stack.enter_context(nodes.rules(*reset(pod["status"].get("podIPs") or [])))
                    placed.at = placed.at or time.time()

    with stack, in_background(work):
        yield placed


def reset(addresses: list[dict[str, str]]) -> Iterator[Rule]:
    """The rules that reset connections to a pod."""
    for each in addresses:
        to_pod = ("--destination", each["ip"], "--protocol", "tcp")
        words = (*to_pod, "--match", "conntrack", "--ctstate", "ESTABLISHED", "--jump", "REJECT")
        yield Rule(family_of(each["ip"]), "FORWARD", (*words, "--reject-with", "tcp-reset"), (), "filter")


def is_lasting(check: Check, phase: Phase) -> bool:
    """Checks that connections stay open in a phase."""
    return is_about(check, Continuity) and (check.subject.phase, check.subject.what) == (phase, What.LASTING)


BREAKS = (
    Break(
        "connections-forgotten-after-seconds",
        Group.DELIVERY,
        "the endpoint node forgets connections to a nodePort after four seconds, and drops what belongs to them",
        RunOptions(("continuity",), (QUIET,)),
        at_the_node_port(forget()),
        lambda check: is_lasting(check, Phase.QUIET) and is_about(check, Continuity) and check.subject.way == LOCAL,
        names="flushes connection tracking",
        may=by_chance,
        at_once=False,
        scoped=True,
    ),
    Break(
        "vip-connections-forgotten-after-seconds",
        Group.DELIVERY,
        "every node forgets connections to a VIP after four seconds, and drops what belongs to them",
        RunOptions(("continuity",), (QUIET, ROLLING)),
        forgetting_at_the_vip,
        lambda check: (
            is_lasting(check, Phase.ROLLING_UPDATE) and is_about(check, Continuity) and check.subject.way == OWN_VIP
        ),
        names="flushes connection tracking",
        # The quiet time is 4 s long: what is forgotten in it is reported 3 s later, in the next phase.
        may=by_chance,
        at_once=False,
        scoped=True,
    ),
    Break(
        "connection-table-full",
        Group.DELIVERY,
        "the endpoint node has room for 100 connections to a nodePort in two minutes, and drops further ones",
        RunOptions(("continuity",), (QUIET,)),
        at_the_node_port(FULL),
        lambda check: (
            is_about(check, Continuity)
            and (check.subject.phase, check.subject.way, check.subject.what) == (Phase.QUIET, LOCAL, What.NO_LOSS)
        ),
        names="a node drops a connection",
        may=lambda check: by_chance(check) or (is_about(check, Continuity) and check.subject.way == LOCAL),
        at_once=False,
        scoped=True,
    ),
    Break(
        "connections-to-terminating-pods-reset",
        Group.DELIVERY,
        "nodes reset connections to a pod as soon as it terminates, although it still serves",
        RunOptions(("continuity",), (QUIET, DELETED)),
        resetting_what_leaves,
        lambda check: is_lasting(check, Phase.DELETED) and is_about(check, Continuity) and check.subject.way == LOCAL,
        names="flushes connection tracking",
        # What is open by other ways may lead to another pod than the one that is deleted.
        may=lambda check: by_chance(check) or (is_about(check, Continuity) and check.subject.phase is Phase.DELETED),
        at_once=False,
        scoped=True,
    ),
)
