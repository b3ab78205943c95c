"""Nodes that fail streams which new TCP connections do not show: kept ports, large packets, single datagrams."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from esipp.base.labels import RUN_LABEL
from esipp.checks.check import Check, is_about
from esipp.checks.continuity import NODEPORT, Continuity, Phase, Way, What
from esipp.checks.model import Balancer, Family, Protocol, Role, TrafficPolicy
from esipp.judging.topology import family_of
from esipp.scenarios.continuity.objects import SELECTOR, service_name
from suites.streams import BULK, DATAGRAMS, ONE_PORT, SCTP_PORT, STORM, UDP_NEW, UDP_ONE_WAY, UDP_SOCKET
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.matching import AT_THE_NODE, DROP, TAKEN, to_port, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule, new_mark
from tests.broken.policy_changes import in_own_rules, set_up_run
from tests.broken.shells import shell

LOCAL, CLUSTER = Way(NODEPORT, TrafficPolicy.LOCAL), Way(NODEPORT, TrafficPolicy.CLUSTER)
OWN_VIP = Way(Balancer.DEFAULT.value, TrafficPolicy.LOCAL)
KEPT, STEADY = (UDP_SOCKET, UDP_ONE_WAY), (UDP_SOCKET, UDP_ONE_WAY, UDP_NEW)
QUIET, DELETED = f"continuity.{Phase.QUIET.value}.", f"continuity.{Phase.DELETED.value}."


def stream_of(check: Check, *names: str) -> bool:
    """A check of one of these streams."""
    return is_about(check, Continuity) and check.subject.stream is not None and check.subject.stream.name in names


def by_chance(check: Check) -> bool:
    """What a forwarder's own changes of routes break, a VIP that moves, SCTP entries that stay: known, and chance."""
    if not is_about(check, Continuity):
        return False
    moves = check.subject.way.by == Balancer.DEFAULT.value and check.subject.what is What.LASTING
    return moves or check.subject.way.by == Balancer.ECMP.value or check.subject.stream == SCTP_PORT


# -------------------------------------------------------------------------- a port that a node still ties to a pod
LEARN = """table inet {mark} {{
  set old4 {{ type ipv4_addr . inet_service; flags dynamic; size 65535; }}
  set old6 {{ type ipv6_addr . inet_service; flags dynamic; size 65535; }}
  chain ports {{
    type filter hook prerouting priority -250;
    udp dport {port} add @old4 {{ ip saddr . udp sport }}
    udp dport {port} add @old6 {{ ip6 saddr . udp sport }}
  }}
}}"""
LOSE = """flush chain inet {mark} ports
add rule inet {mark} ports udp dport {port} ip saddr . udp sport @old4 drop
add rule inet {mark} ports udp dport {port} ip6 saddr . udp sport @old6 drop"""


@contextmanager
def losing_ports_of_gone_pods(nodes: Nodes) -> Iterator[Placed]:
    """The endpoint node remembers from which ports a nodePort was reached, and drops them once the pod is gone."""
    placed, node, mark = Placed(), nodes.roles[Role.ENDPOINT_NODE], new_mark()
    name = service_name(LOCAL, Protocol.UDP)

    def work(ended: Event) -> None:
        live = set_up_run(nodes, {name}, ended)
        if live is None:
            return
        port = live.service(name)["spec"]["ports"][0]["nodePort"]
        nft(node, LEARN.format(mark=mark, port=port))
        first = ""
        while not ended.wait(0.1):
            found = pods_on(nodes, live, node)
            first = first or next(iter(found), "")
            if first and first not in found:
                nft(node, LOSE.format(mark=mark, port=port))
                placed.at = time.time()
                return

    with in_own_rules(nodes, mark, work):
        yield placed


def nft(node: str, rules: str) -> None:
    """Load rules of nftables on a node."""
    shell(node).run(f"nft -f - <<'END'\n{rules}\nEND")


def at_the_node_port(
    rules: str, protocol: Protocol = Protocol.TCP
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Rules of nftables on the endpoint node about a Local nodePort; they name the table ``mark`` and the ``port``."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        placed, node, mark = Placed(), nodes.roles[Role.ENDPOINT_NODE], new_mark()
        name = service_name(LOCAL, protocol)

        def work(ended: Event) -> None:
            live = set_up_run(nodes, {name}, ended)
            if live is not None:
                nft(node, rules.format(mark=mark, port=live.service(name)["spec"]["ports"][0]["nodePort"]))
                placed.at = time.time()

        with in_own_rules(nodes, mark, work):
            yield placed

    return apply


def pods_on(nodes: Nodes, live: Live, node: str) -> list[str]:
    """The names of the run's pods of continuity on a node."""
    selector = f"{RUN_LABEL}={live.run},{SELECTOR}"
    pods = nodes.cluster.list(f"/api/v1/namespaces/{live.namespace}/pods", labelSelector=selector)
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node]


# ------------------------------------------------------------------------------------------- datagrams, large packets
def losing_datagrams(*how_many: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Both nodes with a nodePort of UDP lose some datagrams."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        there = {LOCAL: nodes.roles[Role.ENDPOINT_NODE], CLUSTER: nodes.bare}

        def rules(live: Live) -> list[Rule]:
            found = []
            for way, node in there.items():
                port = live.service(service_name(way, Protocol.UDP))["spec"]["ports"][0]["nodePort"]
                words = ("--protocol", "udp", "--dport", str(port), *AT_THE_NODE, *how_many, *DROP)
                found += [Rule(family, "PREROUTING", words, (node,), "mangle") for family in Family]
            return found

        return nodes.live(rules)

    return apply


def on_large_packets(
    chain: str, table: str, *words: str, only: tuple[str, ...] = ()
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """What happens on every node to packets of more than 1,400 bytes on their way to pods."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        large = (*only, "--match", "length", "--length", "1401:65535")
        rules = [
            Rule(family, chain, ("--destination", cidr, *large, *words), (), table)
            for family, cidr in nodes.pod_cidrs.items()
        ]
        return nodes.live(lambda _: rules)

    return apply


def losing_taken_ports(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The endpoint node loses connections from source ports that connections on other ways have, too."""

    def rules(live: Live) -> list[Rule]:
        port = live.service(service_name(LOCAL))["spec"]["ports"][0]["nodePort"]
        words = ("--protocol", "tcp", "--dport", str(port), *TAKEN, *AT_THE_NODE, *DROP)
        return [Rule(family, "PREROUTING", words, (nodes.roles[Role.ENDPOINT_NODE],), "mangle") for family in Family]

    return nodes.live(rules)


def losing_taken_ports_at_a_vip(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Nodes lose connections to a VIP from source ports that connections to another VIP of the same pods have, too."""

    def rules(live: Live) -> list[Rule]:
        service = live.service(service_name(OWN_VIP))
        (port,) = service["spec"]["ports"]
        return [
            Rule(family_of(vip), "PREROUTING", (*to_port(port), "--destination", vip, *TAKEN, *DROP), (), "mangle")
            for vip in vips(service)
        ]

    return nodes.live(rules)


def large_and_judged(check: Check) -> bool:
    """Datagrams of each size and the smaller transfers, but for fragments over IPv6, of which nothing is required."""
    fragments = is_about(check, Continuity) and check.subject.stream == DATAGRAMS[2]
    recorded = fragments and is_about(check, Continuity) and check.subject.family is Family.IPV6
    return stream_of(check, BULK[0].name, *(kind.name for kind in DATAGRAMS)) and not recorded


BREAKS = (
    Break(
        "udp-ports-tied-to-a-pod-that-is-gone",
        Group.DELIVERY,
        "the endpoint node goes on to lose datagrams from ports that had reached a pod which is gone, as with a stale "
        "entry of connection tracking; other ports reach the new pod",
        RunOptions(("continuity",), (QUIET, DELETED)),
        losing_ports_of_gone_pods,
        lambda check: (
            stream_of(check, *(kind.name for kind in KEPT))
            and is_about(check, Continuity)
            and (check.subject.phase, check.subject.way) == (Phase.DELETED, LOCAL)
        ),
        names="; the last answer was from ",
        may=by_chance,
        at_once=False,
        scoped=True,
    ),
    Break(
        "one-datagram-in-five-lost",
        Group.DELIVERY,
        "nodes lose one in five datagrams at nodePorts; TCP is not affected",
        RunOptions(("continuity",), (QUIET,)),
        losing_datagrams("--match", "statistic", "--mode", "random", "--probability", "0.2"),
        lambda check: stream_of(check, *(kind.name for kind in STEADY)),
        names="probes were lost while nothing changed|silent for",
        may=lambda check: by_chance(check) or stream_of(check, *(kind.name for kind in DATAGRAMS)),
        at_once=False,
        share=0.75,
        scoped=True,
    ),
    Break(
        "large-packets-dropped",
        Group.DELIVERY,
        "nodes drop packets of more than 1,400 bytes on their way to pods, and do not say so",
        RunOptions(("continuity",), (QUIET,)),
        on_large_packets("FORWARD", "mangle", *DROP),
        large_and_judged,
        names="while new TCP connections|stalled",
        opens=lambda check: stream_of(check, BULK[1].name),
        may=by_chance,
        at_once=False,
    ),
    Break(
        "large-segments-reset",
        Group.DELIVERY,
        "nodes reset one in sixty connections' large segments on their way to pods",
        RunOptions(("continuity",), (QUIET,)),
        on_large_packets(
            "FORWARD", "filter", "--match", "statistic", "--mode", "nth", "--every", "60", "--packet", "0",
            "--jump", "REJECT", "--reject-with", "tcp-reset", only=("--protocol", "tcp"),
        ),
        lambda check: stream_of(check, *(kind.name for kind in BULK)),
        names=" came back",
        unsure=lambda check: stream_of(check, BULK[1].name),
        may=by_chance,
        at_once=False,
        share=0.3,
    ),
    Break(
        "source-ports-of-other-ways-dropped",
        Group.DELIVERY,
        "the endpoint node drops connections to a nodePort from source ports that connections to other Services have",
        RunOptions(("continuity",), (QUIET,)),
        losing_taken_ports,
        lambda check: (
            stream_of(check, ONE_PORT.name, STORM.name) and is_about(check, Continuity) and check.subject.way == LOCAL
        ),
        names="from other ports were answered",
        may=by_chance,
        at_once=False,
        scoped=True,
    ),
    Break(
        "source-ports-of-another-vip-dropped",
        Group.DELIVERY,
        "nodes drop connections to a VIP from source ports that connections to another VIP of the same pods have",
        RunOptions(("continuity",), (QUIET, "continuity.rolling-update.")),
        losing_taken_ports_at_a_vip,
        lambda check: (
            stream_of(check, ONE_PORT.name) and is_about(check, Continuity) and check.subject.way == OWN_VIP
        ),
        names="from other ports were answered",
        may=by_chance,
        at_once=False,
        scoped=True,
    ),
    Break(
        "one-datagram-in-a-hundred-lost",
        Group.HARMLESS,
        "nodes lose one in a hundred datagrams at nodePorts, as any network may",
        RunOptions(("continuity",), (QUIET, DELETED)),
        losing_datagrams("--match", "statistic", "--mode", "random", "--probability", "0.01"),
        no_check,
        may=by_chance,
        at_once=False,
        scoped=True,
    ),
)  # fmt: skip
