"""Nodes that go wrong once a Service has changed: endpoints, ports or source ranges of before still count."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from threading import Event

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.model import Family
from esipp.checks.stream import Reuse
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.subject import At, Claim, Pods, ServiceChange, service_of
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.changes.freed import AT_NODES, SEEN_BEFORE, at_node_ports, lives_on, of_stream, run_of
from tests.broken.during import so_for
from tests.broken.lost import node_port_dropped
from tests.broken.matching import AT_THE_NODE, DROP, hands_to, to_port, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import in_background, set_up_run, states_of

UNANSWERED_ONCE = (
    *("--match", "conntrack", "--ctstate", "NEW", "--match", "hashlimit", "--hashlimit-above", "1/minute"),
    *("--hashlimit-burst", "3", "--hashlimit-mode", "srcip,srcport", "--hashlimit-htable-expire", "60000"),
    *("--hashlimit-name", "esipp-unanswered"),
)
"""Datagrams of a flow that sent three before, of which none was answered."""

AFTER_REFUSALS = 5.0
"""Seconds without endpoints after which enough requests have been refused, and a kept flow has shown where it goes."""

Make = Callable[[Nodes, Live, Json], Iterator[Rule]]
"""The rules, from the Service as it is after the change."""


def once(
    event: str,
    changed: Callable[[Json], bool],
    make: Make,
    until: Callable[[Json], bool] | None = None,
    *,
    watched: str | None = None,
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Rules from the moment on at which an event's Service is as ``changed`` says, until it is as ``until`` says.

    ``watched`` is what is looked at instead of this Service; empty for the list of all Services.
    """
    name = service_of(event)
    own = name if watched is None else watched

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        placed, stack = Placed(), ExitStack()

        def work(ended: Event) -> None:
            live = set_up_run(nodes, {name}, ended)
            if live is None:
                return
            path = "/".join(filter(None, (f"/api/v1/namespaces/{live.namespace}/services", own)))
            for service in states_of(nodes, path, ended):
                if placed.at and until is not None and until(service):
                    stack.close()
                    return
                if not placed.at and changed(service):
                    stack.enter_context(nodes.rules(*make(nodes, live, service)))
                    placed.at = time.time()
                if placed.at and until is None:
                    return

        with stack, in_background(work):
            yield placed

    return apply


def selects(pods: Pods) -> Callable[[Json], bool]:
    """Whether a Service selects these pods by now."""
    return lambda service: f"esipp.dev/changes-{pods.value}" in service["spec"]["selector"]


def namesake_selects_none(services: Json) -> bool:
    """Whether the Service whose name begins another one's selects no pods by now."""
    is_empty = selects(Pods.NONE)
    return any(each["metadata"]["name"] == "changes-namesake" and is_empty(each) for each in services["items"])


def namesakes_lost(nodes: Nodes, live: Live, _: Json) -> Iterator[Rule]:
    """The Service with the longer name is served no more."""
    yield from dropped_everywhere(nodes, live, live.service(service_of("namesake")))


def dropped_everywhere(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """A Service is served no more, at nodePorts and at its ClusterIPs."""
    yield from dropped_at_node_ports(nodes, live, service)
    yield from dropped_at_cluster_ips(nodes, live, service)


def to_the_first_pod(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """All that comes to the nodePorts goes to the pod that was the only endpoint before."""
    first = [pod for pod in live.pods if pod["metadata"]["name"] in Pods.FIRST.names]
    for port, address, _, target in Live(live.run, first, live.services).targets(service):
        yield from lives_on(port, address, target, nodes)


def dropped_at_node_ports(_: Nodes, __: Live, service: Json) -> Iterator[Rule]:
    for port in service["spec"]["ports"]:
        yield from node_port_dropped(port)


def unanswered_dropped(_: Nodes, __: Live, service: Json) -> Iterator[Rule]:
    for port in service["spec"]["ports"]:
        if port["protocol"] == "UDP":
            words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *UNANSWERED_ONCE, *DROP)
            yield from (Rule(family, "PREROUTING", words, (), "mangle") for family in Family)


def dropped_at_cluster_ips(_: Nodes, __: Live, service: Json) -> Iterator[Rule]:
    for port in service["spec"]["ports"]:
        for own in service["spec"]["clusterIPs"]:
            yield Rule(family_of(own), "PREROUTING", ("--destination", own, *to_port(port), *DROP), (), "mangle")


def shares_a_number(service: Json) -> bool:
    """Whether two ports of a Service have one nodePort."""
    numbers = [port["nodePort"] for port in service["spec"]["ports"]]
    return len(set(numbers)) < len(numbers)


def dropped_over_udp(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    yield from (rule for rule in dropped_at_node_ports(nodes, live, service) if "udp" in rule.words)


def has_many_ranges(service: Json) -> bool:
    """Whether a Service admits more ranges than a handful."""
    return len(service["spec"].get("loadBalancerSourceRanges") or []) > 40


def dropped_at_vips(_: Nodes, __: Live, service: Json) -> Iterator[Rule]:
    """As nodes do that know only the first ranges: the client is in none of these."""
    for port in service["spec"]["ports"]:
        for vip in vips(service):
            yield Rule(family_of(vip), "PREROUTING", ("--destination", vip, *to_port(port), *DROP), (), "mangle")


def dropped_at_used_ports(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """Connections from source ports that had one before are dropped at nodePorts."""
    del nodes, live
    for port in service["spec"]["ports"]:
        if port["protocol"] == "TCP":
            words = (*to_port(port, port["nodePort"]), "--syn", *AT_THE_NODE, *SEEN_BEFORE, *DROP)
            yield from (Rule(family, "PREROUTING", words, (), "mangle") for family in Family)


def turns(live: Live) -> Iterator[tuple[Live, tuple[str, ...]]]:
    """Each of five pods, and which connections it gets if the rules of the later ones come first."""
    chosen = [pod for pod in live.pods if pod["metadata"]["name"] in Pods.ALL.names]
    for at, pod in enumerate(chosen):
        words = ("--match", "statistic", "--mode", "nth", "--packet", "0", "--every", str(at + 1))
        yield Live(live.run, [pod], live.services), words


def in_turn(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """Connections to nodePorts go to the pods in turn, whoever makes them."""
    for one, words in turns(live):
        for port, address, _, target in one.targets(service):
            if port["protocol"] == "TCP":
                first, *others = lives_on(port, address, target, nodes)
                yield replace(first, words=(*to_port(port, port["nodePort"]), *words, *first.words[4:]))
                yield from others


def in_turn_everywhere(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """The same, and connections to VIPs."""
    yield from in_turn(nodes, live, service)
    for one, words in turns(live):
        for port, address, _, target in one.targets(service):
            for vip in (each for each in vips(service) if family_of(each) is family_of(address)):
                matched = (*to_port(port), "--destination", vip, *words)
                yield Rule(family_of(vip), "PREROUTING", (*matched, *hands_to(address, target)))


def has_internal_policy(service: Json) -> bool:
    """Whether a Service has internalTrafficPolicy Local by now."""
    return bool(service["spec"].get("internalTrafficPolicy") == "Local")


def at_cluster_ips(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """The bare node sends what its pods send to ClusterIPs to the pod on another node."""
    for port, address, _, target in live.targets(service):
        for own in (each for each in service["spec"]["clusterIPs"] if family_of(each) is family_of(address)):
            words = ("--destination", own, *to_port(port), *hands_to(address, target))
            yield Rule(family_of(own), "PREROUTING", words, (nodes.bare,))


def has_one_family(service: Json) -> bool:
    """Whether a Service is SingleStack by now."""
    return bool(service["spec"]["ipFamilyPolicy"] == "SingleStack")


def lives_on_over_ipv4(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    """What comes to the nodePorts over IPv4 goes to the pod, which the Service serves over IPv6 alone."""
    for port, address, _, target in live.targets(service):
        if family_of(address) is Family.IPV4:
            yield from lives_on(port, address, target, nodes)


def dropped_over_ipv4(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    yield from (rule for rule in dropped_everywhere(nodes, live, service) if rule.family is Family.IPV4)


def over_ipv4(notices: Callable[[Check], bool]) -> Callable[[Check], bool]:
    """Those of these checks that are about IPv4."""
    return lambda check: notices(check) and is_about(check, ServiceChange) and check.subject.family is Family.IPV4


def dropped_at_the_bare_node(nodes: Nodes, live: Live, service: Json) -> Iterator[Rule]:
    yield from (replace(rule, nodes=(nodes.bare,)) for rule in dropped_at_node_ports(nodes, live, service))


def has_affinity(service: Json) -> bool:
    """Whether a Service has an affinity by now."""
    return bool(service["spec"]["sessionAffinity"] == "ClientIP")


def cut_off_from_vips(nodes: Nodes, _: Live, service: Json) -> Iterator[Rule]:
    """Processes of the node without endpoints do not reach VIPs."""
    for port in service["spec"]["ports"]:
        for vip in vips(service):
            words = ("--destination", vip, *to_port(port), *DROP)
            yield Rule(family_of(vip), "OUTPUT", words, (nodes.bare,), "mangle")


def after(earlier: Callable[[Json], bool]) -> Callable[[Json], bool]:
    """A test whether a Service no longer is as it was at an earlier stage."""
    had: list[bool] = []

    def changed(service: Json) -> bool:
        had.append(earlier(service))
        return any(had) and not had[-1]

    return changed


def served(event: str, *entries: At, protocols: tuple[str, ...] = ("TCP", "UDP")) -> Callable[[Check], bool]:
    """Checks that an event's Service is served at these entries."""

    def notices(check: Check) -> bool:
        if not is_about(check, ServiceChange):
            return False
        subject = check.subject
        own = subject.event.name == event and subject.at in entries
        return own and subject.claim is Claim.SERVED and subject.stream.protocol.value in protocols

    return notices


NODE_PORTS = (At.ENDPOINT_NODE, At.BARE_NODE, At.OTHER_NODE, At.CONTROL_PLANE)

BREAKS = (
    Break(
        "added-endpoints-get-no-rules",
        Group.CHANGES,
        "nodes never send what comes to the nodePort of a Service to endpoints that were added to the first one",
        RunOptions(("changes",), ("changes.scaled-up-and-down.", "changes.replaced.")),
        once("scaled-up-and-down", selects(Pods.ALL), to_the_first_pod),
        lambda check: (
            at_node_ports("scaled-up-and-down", Reuse.NEW, protocol="TCP", claims=(Claim.SPREAD,))(check)
            or at_node_ports("scaled-up-and-down", Reuse.NEW, protocol="UDP", claims=(Claim.SPREAD,))(check)
        ),
        names="leaves out an endpoint that was added",
        at_once=False,
        scoped=True,
    ),
    Break(
        "endpoint-lost-with-a-namesake",
        Group.CHANGES,
        "nodes take the endpoint of a Service away when another one loses it, whose name is the beginning of its name "
        "(cilium/cilium#43619)",
        run_of("namesake"),
        once("namesake", namesake_selects_none, namesakes_lost, watched=""),
        served("namesake", At.ENDPOINT_NODE, At.BARE_NODE, At.CLUSTER_IP),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "not-served-again-after-no-endpoints",
        Group.CHANGES,
        "nodes drop what comes to the nodePort of a Service that had no endpoints for five seconds, and has one",
        run_of("scaled-to-zero"),
        once("scaled-to-zero", so_for(AFTER_REFUSALS, selects(Pods.NONE)), dropped_at_node_ports),
        served("scaled-to-zero", *NODE_PORTS),
        names="does not follow a change",
        # It also drops flows that kube-proxy still sends to the pod of before: these are known.
        may=of_stream("scaled-to-zero", "udp-socket", "udp-one-way", claims=(Claim.GONE,)),
        at_once=False,
        scoped=True,
    ),
    Break(
        "one-way-flow-lost-after-a-change",
        Group.CHANGES,
        "nodes drop a flow that nothing answers at the nodePort of a Service whose only endpoint was replaced",
        run_of("replaced"),
        once("replaced", selects(Pods.SECOND), unanswered_dropped, selects(Pods.FIRST)),
        of_stream("replaced", "udp-one-way", claims=(Claim.SERVED,), at=AT_NODES),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "udp-lost-at-a-number-shared-with-tcp",
        Group.CHANGES,
        "nodes drop datagrams to a nodePort whose number TCP has, too",
        RunOptions(("changes",), ("changes.one-node-port.", "changes.replaced.")),
        once("one-node-port", shares_a_number, dropped_over_udp),
        served("one-node-port", At.SHARED_PORT, protocols=("UDP",)),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "last-of-many-source-ranges-dropped",
        Group.CHANGES,
        "nodes admit only the first of more than forty source ranges to a VIP",
        RunOptions(("changes",), ("changes.source-ranges.", "changes.replaced.")),
        once("source-ranges", has_many_ranges, dropped_at_vips),
        served("source-ranges", At.VIP),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "node-cut-off-by-source-ranges-that-hold-it",
        Group.CHANGES,
        "a node drops what its own processes send to a VIP whose source ranges hold its address",
        RunOptions(("changes",), ("changes.source-ranges.", "changes.replaced.")),
        once("source-ranges", has_many_ranges, cut_off_from_vips),
        served("source-ranges", At.VIP_FROM_NODE),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "vip-dead-after-a-later-update",
        Group.CHANGES,
        "a load balancer drops what comes to a VIP once its Service was updated a third time",
        RunOptions(("changes",), ("changes.source-ranges.", "changes.replaced.")),
        lambda nodes: once("source-ranges", after(has_many_ranges), dropped_at_vips)(nodes),
        served("source-ranges", At.VIP),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "affinity-ignored-once-it-is-on",
        Group.CHANGES,
        "nodes send a client's connections to the pods in turn, although the Service got an affinity meanwhile",
        RunOptions(("changes",), ("changes.affinity.", "changes.replaced.")),
        once("affinity", has_affinity, in_turn),
        of_stream("affinity", "tcp-new", claims=(Claim.STICKY,), at=AT_NODES),
        names="ignore sessionAffinity",
        opens=of_stream("affinity", "tcp-new", claims=(Claim.SERVED, Claim.GONE), at=AT_NODES),
        at_once=False,
        scoped=True,
    ),
    Break(
        "affinity-ignored-once-it-is-on-at-vips",
        Group.CHANGES,
        "nodes send a client's connections, also those to a VIP, to the pods in turn, although the Local Service got "
        "an affinity meanwhile",
        RunOptions(("changes",), ("changes.affinity-local.", "changes.replaced.")),
        once("affinity-local", has_affinity, in_turn_everywhere),
        of_stream("affinity-local", "tcp-new", claims=(Claim.STICKY,)),
        names="ignore sessionAffinity",
        opens=of_stream("affinity-local", "tcp-new", claims=(Claim.SERVED, Claim.GONE)),
        at_once=False,
        scoped=True,
    ),
    Break(
        "internal-policy-not-followed",
        Group.CHANGES,
        "a node without endpoints goes on sending its pods to a ClusterIP's endpoint elsewhere when "
        "internalTrafficPolicy becomes Local",
        run_of("internal-policy"),
        once("internal-policy", has_internal_policy, at_cluster_ips),
        of_stream("internal-policy", "tcp-new", "udp-new", claims=(Claim.GONE,)),
        names="after internalTrafficPolicy became Local",
        at_once=False,
        scoped=True,
    ),
    Break(
        "family-of-before-goes-on-being-served",
        Group.CHANGES,
        "nodes go on serving the nodePorts of a Service over IPv4 when it keeps IPv6 alone",
        run_of("families"),
        once("families", has_one_family, lives_on_over_ipv4),
        over_ipv4(of_stream("families", "tcp-new", "udp-new", claims=(Claim.GONE,), at=NODE_PORTS)),
        names="keeps the rules of a deleted Service",
        at_once=False,
        scoped=True,
    ),
    Break(
        "second-family-not-served-again",
        Group.CHANGES,
        "nodes drop what comes over IPv4 to a Service that has both families again after it had IPv6 alone",
        run_of("families"),
        lambda nodes: once("families", after(has_one_family), dropped_over_ipv4)(nodes),
        over_ipv4(served("families", *NODE_PORTS, At.CLUSTER_IP)),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "endpoint-not-served-where-it-has-come",
        Group.CHANGES,
        "a node does not serve the nodePort of a Local Service whose only endpoint has come to it",
        run_of("moved-local"),
        once("moved-local", selects(Pods.ELSEWHERE), dropped_at_the_bare_node),
        served("moved-local", At.BARE_NODE),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "udp-vip-not-served-again-after-no-endpoints",
        Group.CHANGES,
        "nodes drop the datagrams that come to the VIP of a Service that has an endpoint again after it had none",
        run_of("vip-udp"),
        once("vip-udp", selects(Pods.SECOND), dropped_at_vips),
        served("vip-udp", At.VIP),
        names="does not follow a change",
        may=of_stream("vip-udp", "udp-socket", claims=(Claim.GONE,)),  # known, and chance
        at_once=False,
        scoped=True,
    ),
    Break(
        "vip-stays-where-no-pod-is",
        Group.CHANGES,
        "a VIP stays at a node without an endpoint, which drops what comes to it, when the endpoint is another one",
        run_of("vip"),
        once("vip", selects(Pods.SECOND), dropped_at_vips),
        served("vip", At.VIP),
        names="does not follow a change",
        at_once=False,
        scoped=True,
    ),
    Break(
        "used-ports-dropped-after-a-replacement",
        Group.CHANGES,
        "nodes drop new connections from a source port that was used before, once pods were replaced",
        run_of("replaced"),
        once("replaced", selects(Pods.SECOND), dropped_at_used_ports),
        of_stream("replaced", "tcp-port", claims=(Claim.SERVED,), at=AT_NODES),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
    Break(
        "affinity-over-too-soon",
        Group.CHANGES,
        "nodes forget a client's affinity, whose timeout is a minute, within three seconds",
        run_of("affinity-held"),
        once("affinity-held", selects(Pods.ALL), in_turn),
        of_stream("affinity-held", "tcp-rare", claims=(Claim.STICKY,), at=AT_NODES),
        names="forget clients at once",
        at_once=False,
        scoped=True,
    ),
)
