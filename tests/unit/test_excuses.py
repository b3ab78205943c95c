"""An excuse covers the connections whose evidence it has, and no others: tables of lies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from esipp.checks.check import AT_VIPS, Status, Verdict
from esipp.checks.ingress import facts_at, ingress_facts
from esipp.checks.model import AddressClass, Family, Outcome, Path, Vantage
from esipp.judging.ingress import MOST, strangers, why_not_its_own
from esipp.judging.observation import Observation, Witness
from esipp.judging.topology import parse_address
from esipp.scenarios.paths.evidence import MOST_BY_CHANCE, PORTS_GIVEN, Ports, Steer
from tests.unit.world import (
    BACKEND_ADDRESSES,
    CHECKS,
    CLIENT_ADDRESSES,
    GATEWAYS,
    NOBODY,
    NODE_ADDRESSES,
    NODES,
    POD_BACKEND,
    VIP,
    answer,
    by_id,
    show,
    topology,
    verdict,
)

V4 = Family.IPV4
LOCAL = "loadbalancer.local.tcp.ipv4.outside-1-to-vip"
SERVICE = "loadbalancer-local-tcp"
HOSTNAME, PROXY = ({f"load-balancer.ingress.{SERVICE}": way} for way in ("hostname", "Proxy"))
NAMED_FORWARDER = {"load-balancer.class.named": "forwarder"}
NAMED_PROXY = {"load-balancer.class.named": "proxy"}
OWN, OTHERS = CLIENT_ADDRESSES["outside-1"][V4], CLIENT_ADDRESSES["outside-2"][V4]
NODE, POD = NODE_ADDRESSES[NODES[1]][V4], BACKEND_ADDRESSES[POD_BACKEND][V4]
HOSTS = NODE_ADDRESSES[NODES[2]][V4]
UNKNOWN, ANOTHER = NOBODY[V4], "203.0.113.10"
MANY = 20


def others(path: Path, addresses: Sequence[str]) -> list[Observation]:
    """What pods see of all other clients outside at the same VIP."""
    same = {each.subject.path for each in CHECKS if each.subject.path.entry == path.entry}
    same = {each for each in same if each.client.vantage is Vantage.OUTSIDE and each.client != path.client}
    ours = (path.service, path.protocol, path.family, path.port)
    beside = [each for each in same if (each.service, each.protocol, each.family, each.port) == ours]
    return [answer(each, addresses[seq % len(addresses)], seq) for each in beside for seq in range(MANY)]


def seen(
    addresses: Sequence[str], facts: dict[str, str], name: str = LOCAL, beside: Sequence[str] = (UNKNOWN,)
) -> Status:
    """The verdict on a check whose connections showed these sources in turn; others outside were shown others."""
    path_check = by_id(name)
    made = [answer(path_check.subject.path, addresses[seq % len(addresses)], seq) for seq in range(MANY)]
    also = others(path_check.subject.path, beside)
    controls = {
        control.path for control in path_check.subject.controls if control.path.key not in {o.path for o in also}
    }
    also += [show(path, AddressClass.CLIENT) for path in controls]
    return verdict(path_check, *made, also=also, facts=facts).status


# ------------------------------------------------------------------------------------------- behind a proxy, or maybe
@pytest.mark.parametrize(
    ("addresses", "facts", "status"),
    [
        ([UNKNOWN], HOSTNAME, Status.KNOWN),
        ([UNKNOWN], PROXY, Status.KNOWN),
        ([UNKNOWN, ANOTHER], HOSTNAME, Status.KNOWN),
        ([UNKNOWN], {}, Status.FAIL),
        ([UNKNOWN], {"load-balancer.ingress": "hostname"}, Status.FAIL),
        ([UNKNOWN], {"load-balancer.ingress.loadbalancer-local-udp": "hostname"}, Status.FAIL),
        ([UNKNOWN], HOSTNAME | NAMED_FORWARDER, Status.FAIL),
        ([UNKNOWN], PROXY | NAMED_FORWARDER, Status.FAIL),
        ([UNKNOWN], NAMED_PROXY, Status.FAIL),
        ([UNKNOWN], HOSTNAME | NAMED_PROXY, Status.KNOWN),
        ([OWN], HOSTNAME, Status.PASS),
        ([OWN], PROXY, Status.PASS),
        ([NODE], HOSTNAME, Status.FAIL),
        ([NODE], PROXY | NAMED_PROXY, Status.FAIL),
        ([GATEWAYS[NODES[0]][V4]], PROXY, Status.FAIL),
        ([POD], HOSTNAME, Status.FAIL),
        ([OTHERS], HOSTNAME, Status.FAIL),
        ([OTHERS], PROXY | NAMED_PROXY, Status.FAIL),
        ([OWN, UNKNOWN], HOSTNAME, Status.FLAKY),
        ([OWN, UNKNOWN], PROXY | NAMED_PROXY, Status.FLAKY),
        ([NODE, UNKNOWN], HOSTNAME, Status.FLAKY),
        ([NODE, UNKNOWN], PROXY | NAMED_PROXY, Status.FLAKY),
        ([OTHERS, UNKNOWN], PROXY, Status.FLAKY),
        ([f"203.0.113.{n}" for n in range(1, MANY + 1)], HOSTNAME, Status.FAIL),
        ([f"203.0.113.{n}" for n in range(1, MOST + 2)], HOSTNAME, Status.FAIL),
        ([f"203.0.113.{n}" for n in range(1, MANY + 1)], PROXY | NAMED_PROXY, Status.KNOWN),
    ],
)
def test_behind_a_hostname_or_a_proxy_what_was_seen_at_that_service_decides(
    addresses: Sequence[str], facts: dict[str, str], status: Status
) -> None:
    assert seen(addresses, facts) is status


@pytest.mark.parametrize("facts", [HOSTNAME, PROXY, PROXY | NAMED_PROXY])
@pytest.mark.parametrize(
    ("shown", "status"), [([OTHERS], Status.FAIL), ([UNKNOWN, OTHERS], Status.FAIL), ([UNKNOWN], Status.KNOWN)]
)
def test_a_load_balancer_that_shows_one_client_its_own_address_is_no_proxy_for_another(
    shown: Sequence[str], status: Status, facts: dict[str, str]
) -> None:
    assert seen([UNKNOWN], facts, beside=shown) is status


def test_a_pod_may_leave_by_a_proxy_while_clients_outside_are_shown_their_own_address() -> None:
    """Its way goes through the cluster's own NAT to the outside, whose address nobody knows."""
    name = "loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip"
    assert seen([UNKNOWN], HOSTNAME, name, beside=[OWN]) is Status.KNOWN


@pytest.mark.parametrize(
    ("name", "known", "never"),
    [
        ("loadbalancer.local.tcp.ipv4.backend-to-vip", [[UNKNOWN]], [[NODE], [OTHERS]]),
        ("loadbalancer.cluster.tcp.ipv4.backend-to-vip", [[UNKNOWN], [NODE]], [[OTHERS]]),
        (
            "loadbalancer.cluster.tcp.ipv4.host-on-other-node-to-vip",
            [[UNKNOWN], [NODE], [HOSTS, NODE]],
            [[OTHERS], [POD]],
        ),
        ("loadbalancer.cluster.tcp.ipv4.outside-1-to-vip", [[UNKNOWN], [UNKNOWN, NODE]], [[OTHERS], [OWN, UNKNOWN]]),
        ("loadbalancer.cluster.tcp.ipv4.outside-1-to-vip.answers", [[UNKNOWN], [UNKNOWN, NODE]], [[OTHERS], [POD]]),
        ("loadbalancer.local.source-ranges.tcp.ipv4.outside-2-to-vip", [[VIP[V4]]], [[NODE], [OWN], [OTHERS]]),
    ],
)
def test_every_check_of_such_a_service_is_known_by_the_balancers_address_alone(
    name: str, known: list[list[str]], never: list[list[str]]
) -> None:
    facts = {f"load-balancer.ingress.{by_id(name).subject.path.object_name}": "Proxy"}
    for addresses in known:
        assert seen(addresses, facts, name, addresses) is Status.KNOWN
        assert seen(addresses, {}, name, addresses) is not Status.KNOWN or NODE in addresses
    for addresses in never:
        assert seen(addresses, facts, name) not in (Status.KNOWN, Status.PASS)


def test_behind_a_proxy_a_backend_that_reaches_itself_unmasqueraded_is_red() -> None:
    path_check = by_id("loadbalancer.local.tcp.ipv4.backend-to-vip")
    assert verdict(path_check, show(path_check.subject.path, AddressClass.CLIENT), facts=PROXY).status is Status.FAIL


FROM_A_POD = "loadbalancer.cluster.tcp.ipv4.pod-on-endpoint-node-to-vip"
AT_HOME, ELSEWHERE, THIRD = NODES[0], NODES[1], NODES[2]


def turned_back(
    lost: int,
    back: Sequence[str],
    via: Sequence[str],
    facts: dict[str, str] | None = None,
    beside: Mapping[str, Sequence[Witness]] | None = None,
    total: int = 60,
) -> Verdict:
    """The verdict on a pod of which some connections are lost; packets show to which node those came back."""
    path_check = by_id(FROM_A_POD)
    path = path_check.subject.path
    made = [answer(path, NODE_ADDRESSES[via[seq % len(via)]][V4], seq) for seq in range(total - lost)]
    made += [replace(show(path, AddressClass.DROPPED), seq=total - lost + number) for number in range(len(back))]
    rest = lost - len(back)
    grouped = replace(show(path, AddressClass.DROPPED), seq=0, count=rest, ports=tuple((0, None) for _ in range(rest)))
    made += [grouped] * bool(rest)
    shown = [Witness(path.key, total - lost + n, seen=False, turned_back=node) for n, node in enumerate(back)]
    shown.append(Witness(path.key, 0, seen=True, delivered=("192.0.2.1", 1)))  # another one than the group's
    there = {"load-balancer.ingress.loadbalancer-cluster-tcp": "hostname"} if facts is None else facts
    return verdict(path_check, *made, facts=there, witnesses={**(beside or {}), path.key: shown})


@pytest.mark.parametrize(
    ("lost", "back", "via", "status"),
    [
        (20, [AT_HOME], [ELSEWHERE, THIRD], Status.KNOWN),
        (20, [AT_HOME] * 4, [ELSEWHERE, THIRD], Status.KNOWN),
        (20, [], [ELSEWHERE, THIRD], Status.FLAKY),  # no packets
        (20, [""], [ELSEWHERE, THIRD], Status.FLAKY),  # lost on its way
        (20, [AT_HOME, ""], [ELSEWHERE, THIRD], Status.FLAKY),  # one of two was lost on its way
        (20, [ELSEWHERE], [ELSEWHERE, THIRD], Status.FLAKY),  # another node drops it
        (20, [AT_HOME], [AT_HOME, ELSEWHERE], Status.FLAKY),  # that node does answer
        (40, [AT_HOME] * 4, [ELSEWHERE, THIRD], Status.FLAKY),  # more than go to one of three nodes
        (0, [], [ELSEWHERE, THIRD], Status.PASS),
    ],
)
def test_what_a_load_balancer_sends_back_to_the_clients_own_node_is_known_where_packets_show_it(
    lost: int, back: Sequence[str], via: Sequence[str], status: Status
) -> None:
    said = turned_back(lost, back, via)
    assert said.status is status
    if status is Status.KNOWN:
        assert said.nature == "known defect"
        assert f"packets of {len(back)} of {lost} lost connections came back to node {AT_HOME}" in said.sees


def test_packets_of_the_same_client_at_another_vip_show_it_too() -> None:
    other = by_id("loadbalancer.local.tcp.ipv4.pod-on-endpoint-node-to-vip").subject.path.key
    for node, status in ((AT_HOME, Status.KNOWN), (ELSEWHERE, Status.FLAKY), ("", Status.FLAKY)):
        beside = {other: [Witness(other, 0, seen=False, turned_back=node)]}
        assert turned_back(20, [], [ELSEWHERE, THIRD], beside=beside).status is status
        assert turned_back(20, [""], [ELSEWHERE, THIRD], beside=beside).status is Status.FLAKY, "one was lost elsewhere"


def test_without_a_hostname_nodes_know_the_vip_and_nothing_comes_back() -> None:
    assert turned_back(20, [AT_HOME], [ELSEWHERE, THIRD], facts={}).status is Status.FLAKY


def test_a_pod_that_goes_to_a_hostname_may_be_masqueraded_as_its_own_node_and_no_other() -> None:
    path_check = by_id("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip")
    for own, status in ((NODES[2], Status.KNOWN), (NODES[1], Status.FAIL)):
        shown = answer(path_check.subject.path, NODE_ADDRESSES[own][V4])
        assert verdict(path_check, shown, facts=HOSTNAME | NAMED_FORWARDER).status is status
        assert verdict(path_check, shown, facts=PROXY).status is Status.FAIL, "kube-proxy knows such an address"


def test_an_address_that_is_rare_is_no_balancers() -> None:
    known = {parse_address(NODE)}
    assert why_not_its_own({UNKNOWN: 2}, known) == ""
    assert "1 addresses in 1" in why_not_its_own({UNKNOWN: 1}, known)
    assert NODE in why_not_its_own({UNKNOWN: 9, NODE: 1}, known)
    assert why_not_its_own({}, known)


def test_strangers_are_distinguished_for_checks_that_are_no_path() -> None:
    known = {parse_address(NODE)}
    assert strangers({UNKNOWN: 9}, known) == strangers({UNKNOWN: 4, ANOTHER: 4}, known)
    assert strangers({UNKNOWN: 9}, known).proxied
    assert not strangers({UNKNOWN: 9, NODE: 1}, known).foreign
    assert strangers({UNKNOWN: 1}, known).foreign
    assert not strangers({UNKNOWN: 1}, known).proxied
    assert not strangers({}, known).foreign


def test_facts_about_services_are_kept_where_they_say_more_than_an_address() -> None:
    ways = {"a": "VIP", "b": "hostname", "c": "Proxy", "d": "none"}
    facts = ingress_facts(ways)
    assert facts == {"load-balancer.ingress.b": "hostname", "load-balancer.ingress.c": "Proxy"}
    assert "service.load-balancer" in facts_at("b", facts)
    assert "service.load-balancer" not in facts_at("a", facts)
    assert facts_at("", facts) == facts


# --------------------------------------------------------------------------------------------- a private client (E33)
@pytest.mark.parametrize(
    ("addresses", "facts", "status"),
    [
        ([UNKNOWN], {}, Status.INCONCLUSIVE),
        ([UNKNOWN], HOSTNAME, Status.INCONCLUSIVE),
        ([UNKNOWN], PROXY, Status.KNOWN),
        ([UNKNOWN], HOSTNAME | NAMED_PROXY, Status.KNOWN),
        ([OWN], HOSTNAME, Status.PASS),
        ([NODE], {}, Status.FAIL),
        ([OTHERS], {}, Status.FAIL),
        ([POD], {}, Status.FAIL),
        ([UNKNOWN, NODE], {}, Status.FAIL),
    ],
)
def test_a_private_client_at_a_public_vip_leaves_only_unknown_addresses_open(
    addresses: Sequence[str], facts: dict[str, str], status: Status
) -> None:
    assert seen(addresses, facts | {f"{AT_VIPS}ipv4": "the VIP is public and the client is not"}) is status


# ------------------------------------------------------------------------------------------------ resets while steering
ECMP = by_id("loadbalancer.reference-ecmp.local.tcp.ipv4.outside-1-to-vip")
STEERED = {"load-balancer.steered": "yes"}
CLOCKS = {"outside-1": 100.0}


def resets(
    steers: Iterable[Steer], count: int = 1, clocks: dict[str, float] = CLOCKS, facts: dict[str, str] = STEERED
) -> Status:
    """The verdict where some of the connections, open from 10 to 11 by our clock, were reset."""
    made = [show(ECMP.subject.path, AddressClass.CLIENT, seq) for seq in range(MANY)]
    reset = {"outcome": Outcome.RESET, "seen": None, "echo": None, "started": 110.0, "ended": 111.0}
    made[:count] = [replace(each, **reset) for each in made[:count]]
    return verdict(ECMP, *made, facts=facts, steers=tuple(steers), clocks=clocks).status


def test_a_reset_is_known_only_while_the_routes_of_that_service_and_family_changed() -> None:
    at = Steer(ECMP.subject.path.object_name, V4, 10.5)
    assert resets([at]) is Status.KNOWN
    assert resets([at], count=MANY // 2) is Status.KNOWN, "each of them was open then"
    assert resets([at], count=MANY) is Status.FAIL, "not one was as it must be"
    assert resets([]) is Status.FLAKY
    assert resets([replace(at, at=9.9)]) is Status.FLAKY, "before"
    assert resets([replace(at, at=11.1)]) is Status.FLAKY, "after"
    assert resets([replace(at, service="loadbalancer-reference-ecmp-cluster-tcp")]) is Status.FLAKY, "another Service"
    assert resets([replace(at, family=Family.IPV6)]) is Status.FLAKY, "another family"
    assert resets([at], clocks={}) is Status.FLAKY, "whose clock nobody read"
    assert resets([at], facts={"load-balancer.steered": "no"}) is Status.FLAKY


def test_resets_grouped_are_held_each_against_its_own_time() -> None:
    first = show(ECMP.subject.path, AddressClass.CLIENT, 0)
    good = [show(ECMP.subject.path, AddressClass.CLIENT, seq) for seq in range(3, MANY)]
    two = ((50001, None), (50002, None))
    group = replace(
        first, outcome=Outcome.RESET, seen=None, echo=None, count=3, ports=((50000, None), *two),
        moments=((110.0, 111.0), (110.2, 110.9), (110.4, 111.2)),
    )  # fmt: skip
    steers = (Steer(ECMP.subject.path.object_name, V4, 10.5),)
    assert verdict(ECMP, group, *good, facts=STEERED, steers=steers, clocks=CLOCKS).status is Status.KNOWN
    late = replace(group, moments=((110.0, 111.0), (110.2, 110.9), (130.0, 131.0)))
    assert verdict(ECMP, late, *good, facts=STEERED, steers=steers, clocks=CLOCKS).status is Status.FLAKY
    assert verdict(ECMP, replace(group, moments=()), *good, facts=STEERED, steers=steers, clocks=CLOCKS).status is (
        Status.FLAKY
    ), "nobody kept their times"


# --------------------------------------------------------------------------------------------- collisions of ports
BARE = by_id("nodeport.cluster.tcp.ipv4.outside-1-to-bare-node")
HOST = by_id("interop.nodeport.local.tcp.ipv4.host-on-bare-node-to-endpoint-node").subject.path
SNAT = {"service-proxy": "cilium", "cilium.load-balancer-mode": "snat"}
BOTH = {"outside-1": 0.0, "host-on-bare-node": 1000.0}


def held(path: Path = HOST, seq: int = 0, began: float = 1010.0, ended: float = 1010.1) -> Observation:
    """A connection of a host process that was answered, from the port 40000 + seq."""
    one = show(path, AddressClass.CLIENT, seq)
    return replace(one, echo={**(one.echo or {}), "protocol": "tcp"}, started=began, ended=ended)


def lost(seq: int = 0, began: float = 12.0) -> Observation:
    """One of a client outside that had no answer."""
    shown = show(BARE.subject.path, AddressClass.NODE, seq)
    return replace(shown, outcome=Outcome.TIMEOUT, seen=None, echo=None, started=began, ended=began + 10)


def collisions(made: Sequence[Observation], others: Sequence[Observation], facts: dict[str, str] = SNAT) -> Verdict:
    """The verdict on what a client outside saw beside connections of a host process."""
    return verdict(BARE, *made, also=others, facts=facts, clocks=BOTH)


def test_a_lost_connection_is_known_by_the_one_that_had_its_port_at_that_time() -> None:
    good = [
        replace(show(BARE.subject.path, AddressClass.NODE, seq), started=12.0, ended=12.1) for seq in range(2, MANY)
    ]
    hosts = [held(seq=seq) for seq in range(MANY)]
    said = collisions([lost(0), lost(1), *good], hosts)
    assert said.status is Status.KNOWN
    assert "port 40000" in said.sees
    assert "0.1% of all ports would collide by chance" in said.sees
    assert collisions([lost(0), lost(1, 60.0), *good], hosts).status is Status.FLAKY, "one of two met nobody"
    assert collisions([lost(0), *good, lost(1)], hosts, {**SNAT, "cilium.load-balancer-mode": "dsr"}).status is (
        Status.FLAKY
    )
    assert collisions([lost(0), lost(1), *good], hosts, {"service-proxy": "kube-proxy"}).status is Status.FLAKY
    dead = [lost(seq) for seq in range(MANY)]
    assert collisions(dead, hosts).status is Status.FAIL, "nothing was as it must be"


def collided(other: Observation, mine: Observation, clocks: dict[str, float] = BOTH) -> bool:
    return Ports([[other]], clocks).collided(BARE.subject.path, mine, topology()).explained


@pytest.mark.parametrize(
    ("began", "ended", "met"),
    [
        (1010.0, 1010.1, True),
        (1002.0, 1002.1, True),
        (1001.0, 1001.9, False),
        (1012.9, 1013.0, True),
        (1013.1, 1013.2, False),
        (1000.0, 1011.0, True),
    ],
)
def test_the_other_connection_or_its_state_was_there_at_that_time(began: float, ended: float, met: bool) -> None:
    assert collided(held(began=began, ended=ended), lost(began=12.0)) is met


def test_two_connections_are_one_only_by_protocol_family_pod_address_and_port() -> None:
    one = held()
    assert one.source
    assert one.seen
    assert collided(one, lost())
    assert not collided(replace(one, seen=(one.seen[0], one.seen[1] + 1)), lost()), "another port"
    assert not collided(replace(one, seen=lost().source), lost()), "no node's address"
    assert not collided(replace(one, source=(OTHERS, one.source[1])), lost()), "no process of that node"
    assert not collided(replace(one, echo={**(one.echo or {}), "pod": "somebody-else"}), lost()), "another pod"
    assert not collided(replace(one, echo={**(one.echo or {}), "protocol": "udp"}), lost()), "another protocol"
    own = replace(lost(), source=one.source)
    assert not collided(one, own), "the client's own"
    assert not collided(one, replace(lost(), outcome=Outcome.RESET))
    assert not collided(one, lost(), {"outside-1": 0.0}), "whose clock nobody read"
    elsewhere = NODE_ADDRESSES[NODES[2]][V4]
    assert not collided(replace(one, source=(elsewhere, 40000), seen=(elsewhere, 40000)), lost()), (
        "not the node dialled"
    )


def test_ipv6_never_excuses_ipv4() -> None:
    six = by_id("interop.nodeport.local.tcp.ipv6.host-on-bare-node-to-endpoint-node").subject.path
    assert not collided(held(six), lost())


def test_where_many_ports_are_taken_a_port_that_is_among_them_is_no_evidence() -> None:
    most = int(MOST_BY_CHANCE * PORTS_GIVEN)
    for taken, explained in ((most - 100, True), (most + 100, False)):
        first = held()
        ports = tuple((40000 + n, 40000 + n) for n in range(taken))
        many = replace(first, count=taken, ports=ports, moments=((1010.0, 1010.1),) * taken)
        found = Ports([[many]], BOTH).collided(BARE.subject.path, lost(), topology())
        assert found.explained is explained
        assert f"{taken / PORTS_GIVEN:.1%} of all ports" in found.words


# --------------------------------------------------------------------------------------------------- what hangs
PROXIED = by_id("loadbalancer.reference-proxy.local.several-ports.tcp.ipv4.outside-1-to-vip")
REPORTING = by_id("loadbalancer.reference-proxy-v1.local.several-ports.tcp.ipv4.outside-1-to-vip").subject.path
BALANCER = "172.18.255.1"


def hangs(*witnesses: Witness, began: float = 11.0, facts: dict[str, str] | None = None) -> Status:
    """The verdict where the first connection of a proxied path hung, and another Service's was there from ``began``."""
    made = [
        replace(show(PROXIED.subject.path, AddressClass.LOAD_BALANCER, seq), started=12.0, ended=12.1)
        for seq in range(MANY)
    ]
    made[0] = replace(made[0], outcome=Outcome.TIMEOUT, seen=None, echo=None, connected=12.0, ended=22.0)
    shown = answer(REPORTING, BALANCER)
    shown = replace(shown, echo={**(shown.echo or {}), "protocol": "tcp"}, started=began, ended=began + 0.1)
    facts = {"service-proxy": "cilium"} if facts is None else facts
    seen_packets = {PROXIED.subject.path.key: list(witnesses)}
    return verdict(PROXIED, *made, also=[shown], facts=facts, clocks={"outside-1": 0.0}, witnesses=seen_packets).status


def test_a_hung_connection_is_known_only_where_packets_show_its_port_and_another_service_had_it() -> None:
    came = Witness(PROXIED.subject.path.key, 0, seen=True, delivered=(BALANCER, 40000))
    assert hangs(came) is Status.KNOWN
    assert hangs() is Status.FLAKY, "without packets nobody knows its port"
    assert hangs(replace(came, delivered=(BALANCER, 50000))) is Status.FLAKY, "another port"
    assert hangs(replace(came, delivered=(UNKNOWN, 40000))) is Status.FLAKY, "another address"
    assert hangs(came, began=30.0) is Status.FLAKY, "later"
    assert hangs(came, facts={"service-proxy": "kube-proxy"}) is Status.FLAKY


# ------------------------------------------------------------------------------------------- the source under Cluster
@pytest.mark.parametrize(
    ("entry", "facts", "status"),
    [
        ("endpoint-node", {"service-proxy": "kube-proxy"}, Status.KNOWN),
        ("bare-node", {"service-proxy": "kube-proxy"}, Status.FAIL),
        ("bare-node", {"service-proxy": "unknown"}, Status.FAIL),
        ("bare-node", {"service-proxy": "unknown", "kube-proxy": "absent"}, Status.KNOWN),
        ("bare-node", {"service-proxy": "none"}, Status.KNOWN),
        ("bare-node", SNAT, Status.FAIL),
        ("bare-node", {**SNAT, "cilium.load-balancer-mode": "dsr"}, Status.KNOWN),
    ],
)
def test_a_bare_node_keeps_the_source_only_where_no_kube_proxy_rewrites_it(
    entry: str, facts: dict[str, str], status: Status
) -> None:
    path_check = by_id(f"nodeport.cluster.tcp.ipv4.outside-1-to-{entry}")
    assert verdict(path_check, show(path_check.subject.path, AddressClass.CLIENT), facts=facts).status is status
