"""kube-proxy that starts badly after it was stopped, or hides that it cannot write its rules."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.disruption import Disruption
from esipp.checks.stream import Reuse
from esipp.disruption.agents import agent_pods
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.subject import At, Claim, ServiceChange, service_of
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.changes.freed import SEEN_BEFORE
from tests.broken.during import for_seconds_once
from tests.broken.forwarding import as_other_proxy, handed_on
from tests.broken.health_proxies import lying
from tests.broken.lost import node_port_dropped
from tests.broken.matching import AT_THE_NODE, hands_to, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule

STOPPED, SICK, GONE = "proxy-stopped", "proxy-sick", "proxy-stopped-deleted"
RUN = RunOptions(("changes",), (f"changes.{STOPPED}.",), disruptive=True)
EMPTY = 5.0
"""Seconds without rules: a connection is lost if its first SYN and two more are."""


def stale(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Datagrams from sockets in use go on to the pod of before, at the node whose kube-proxy was stopped."""

    def made(live: Live) -> Iterator[Rule]:
        for port, address, _, target in live.targets(live.service(service_of(STOPPED))):
            if port["protocol"] == "UDP":
                first, *others = handed_on(port, address, target, True, (nodes.bare,))
                words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *SEEN_BEFORE, *hands_to(address, target))
                yield Rule(family_of(address), first.chain, words, first.nodes)
                yield from others

    return nodes.live(made)


def lives_on(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node whose kube-proxy was stopped goes on serving the nodePorts of the Service that is deleted."""

    def made(live: Live) -> Iterator[Rule]:
        for port, address, _, target in live.targets(live.service(service_of(GONE))):
            yield from handed_on(port, address, target, True, (nodes.bare,))

    return nodes.live(made)


def empty_at_first(nodes: Nodes) -> AbstractContextManager[Placed]:
    """No rules for some seconds from the start of kube-proxy on."""

    def starts() -> int:
        pods = agent_pods(nodes.cluster, Disruption.KUBE_PROXY)
        states = [state for pod in pods for state in pod["status"].get("containerStatuses") or []]
        return sum(int(state["restartCount"]) for state in states)

    def rules(service: Json) -> Iterator[Rule]:
        for port in service["spec"]["ports"]:
            if port["protocol"] == "TCP":
                yield from node_port_dropped(port, (nodes.bare,), nodes.pod_cidrs)

    before = starts()
    return for_seconds_once(nodes, service_of(STOPPED), lambda: starts() > before, rules, EMPTY)


@contextmanager
def says_well(nodes: Nodes) -> Iterator[Placed]:
    """Health checks of Services say 200 everywhere; the endpoint node answers as another node's kube-proxy does."""
    with nodes.rules(*as_other_proxy(nodes)), lying("200")(nodes) as placed:
        yield placed


def at_bare_node(check: Check, *claims: Claim, reuse: Reuse, protocol: str) -> bool:
    if not is_about(check, ServiceChange):
        return False
    subject = check.subject
    there = subject.event.name == STOPPED and subject.at is At.BARE_NODE and subject.claim in claims
    return there and (subject.stream.reuse, subject.stream.protocol.value) == (reuse, protocol)


BREAKS = (
    Break(
        "stale-entries-after-the-start-of-a-proxy",
        Group.CHANGES,
        "kube-proxy of a node that starts after an endpoint was replaced leaves the connection tracking entries of the "
        "endpoint of before",
        RUN,
        stale,
        lambda check: at_bare_node(check, Claim.SERVED, Claim.GONE, reuse=Reuse.ONE_SOCKET, protocol="UDP"),
        names="connection tracking still",
        at_once=False,
    ),
    Break(
        "no-rules-at-the-start-of-a-proxy",
        Group.CHANGES,
        "a node has no rules for five seconds from the start of its kube-proxy on",
        RUN,
        empty_at_first,
        lambda check: at_bare_node(check, Claim.NO_LOSS, reuse=Reuse.NEW, protocol="TCP"),
        names="kube-proxy removes rules before it writes others",
        at_once=False,
    ),
    Break(
        "deleted-service-lives-on-after-the-start-of-a-proxy",
        Group.CHANGES,
        "kube-proxy of a node that starts after a Service was deleted leaves its rules, so that the node serves it on",
        RunOptions(("changes",), (f"changes.{GONE}.",), disruptive=True),
        lives_on,
        lambda check: (
            is_about(check, ServiceChange)
            and (check.subject.event.name, check.subject.at, check.subject.claim) == (GONE, At.BARE_NODE, Claim.GONE)
        ),
        names="keeps the rules of a deleted Service",
        at_once=False,
    ),
    Break(
        "sick-proxy-says-that-it-is-well",
        Group.CHANGES,
        "health checks of nodes, and of Services at nodes, say 200 while kube-proxy cannot write its rules",
        RunOptions(("changes",), (f"changes.{SICK}.",), disruptive=True),
        says_well,
        lambda check: is_about(check, ServiceChange) and check.subject.claim is Claim.STATUS,
        names="while it must say 503",
        at_once=False,
    ),
)
