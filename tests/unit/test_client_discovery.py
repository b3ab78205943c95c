"""By which address the nodes see a client outside: what proves it, and what does not."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.checks.catalog import all_checks
from esipp.checks.check import NAT as BEHIND_NAT
from esipp.checks.check import OUTSIDE, ROUTED, Feature, Status, Verdict, checks_about, missing_features, of_nodes
from esipp.checks.model import AddressClass, Client, Family, Outcome, Protocol, Vantage
from esipp.judging.client_addresses import (
    Answer,
    DiscoveredAddress,
    Finding,
    Owners,
    addresses,
    answers_of,
    at_vips,
    behind_nat,
    checked,
    distinct_clients,
    features,
)
from esipp.judging.client_addresses import find as decide
from esipp.judging.frame import Decision, Known, give_verdict
from esipp.judging.observation import Observation, origin_of
from esipp.judging.topology import IPAddress, Stand, parse_address
from esipp.scenarios.every_node.subject import INSIDE, EveryNode
from esipp.scenarios.paths.evidence import Evidence
from esipp.scenarios.paths.judge import decide as decide_check
from esipp.testbed.client_discovery import reference_listeners
from esipp.testbed.clients import Clients
from tests.unit.world import NODES, ROLES, by_id, show, topology, verdict
from tests.unit.world import answer as made_answer

OWN, NAT, OTHER = "10.1.0.2", "192.0.2.9", "192.0.2.10"


def answer(node: str, seen: str, own: str = OWN, claimed: str = "") -> Answer:
    return Answer(node, parse_address(own), parse_address(seen), claimed)


def find(*answers: Answer, owner: Callable[[IPAddress], str] = lambda address: "") -> DiscoveredAddress:
    return decide("outside-1", Family.IPV4, ["a", "b"], answers, owner)


def test_a_client_that_is_seen_as_itself_needs_one_word() -> None:
    found = find(answer("a", OWN), answer("a", OWN))
    assert (found.finding, str(found.seen)) == (Finding.DIRECT, OWN)
    assert found.said == "outside-1 reaches node a with its own address 10.1.0.2: nothing rewrites it on the way"


def test_nat_needs_two_nodes() -> None:
    found = find(answer("a", NAT), answer("b", NAT))
    assert (found.finding, str(found.own), str(found.seen)) == (Finding.NAT, OWN, NAT)
    assert found.said == "outside-1 is behind NAT: its own address is 10.1.0.2, and nodes a and b see 192.0.2.9"
    assert behind_nat([found], "outside-1") == {parse_address(OWN): parse_address(NAT)}
    assert behind_nat([found], "outside-2") == {}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([], "reaches no control listener over IPv4 (dialled: a, b)"),
        ([], "firewall that admits only nodePorts blocks them; open the nodes' TCP ports"),
        ([answer("a", NAT)], "one witness is no proof"),
        ([answer("a", NAT), answer("b", OTHER)], "with different addresses"),
        ([answer("a", NAT), answer("b", OWN)], "with different addresses"),
        (
            [answer("a", NAT), answer("a", OTHER)],
            "with the addresses 192.0.2.10 and 192.0.2.9: a proxy, or NAT with several addresses",
        ),
        ([answer("a", OWN, claimed="a PROXY protocol header naming 10.1.0.2")], "a proxy is between"),
        ([answer("a", OWN), answer("b", "10.7.0.2", own="10.7.0.2")], "dials from several addresses"),
        ([answer(node, NAT, own="9.9.9.9") for node in "ab"], "has the public address 9.9.9.9"),
    ],
)
def test_what_proves_nothing(answers: list[Answer], words: str) -> None:
    found = find(*answers)
    assert (found.finding, found.seen) == (Finding.UNPROVEN, None)
    assert words in found.said


# ------------------------------------------------------------------------- other listeners, and what the user says
def given(address: str, *answers: Answer) -> DiscoveredAddress:
    return decide("outside-1", Family.IPV4, ["a", "b"], answers, lambda address: "", parse_address(address))


def test_listeners_outside_are_witnesses_as_nodes_are() -> None:
    found = find(answer("a", NAT), answer("outside-2", NAT))
    assert (found.finding, found.at_nodes) == (Finding.NAT, True)
    assert found.said.endswith("node a and outside-2 see 192.0.2.9")
    assert find(answer("a", NAT), answer("outside-2", OTHER)).finding is Finding.UNPROVEN


def test_a_client_that_reaches_no_node_needs_two_listeners_outside() -> None:
    assert find(answer("outside-2", NAT)).finding is Finding.UNPROVEN
    assert find(answer("outside-2", OWN)).finding is Finding.UNPROVEN
    for seen in (NAT, OWN):
        found = find(answer("outside-2", seen), answer("outside-3", seen))
        assert (str(found.seen), found.at_nodes) == (seen, False)


def test_what_the_user_says_counts_where_no_listener_can_see_the_client() -> None:
    found = given(NAT)
    assert (found.finding, found.own, str(found.seen), found.at_nodes) == (Finding.GIVEN, None, NAT, False)
    assert found.said.startswith("outside-1 is seen as 192.0.2.9, according to --outside")
    assert behind_nat([found], "outside-1", map(parse_address, (OWN, "2001:db8::1"))) == {
        parse_address(OWN): parse_address(NAT)
    }


def test_what_the_user_says_makes_one_witness_enough() -> None:
    found = given(NAT, answer("a", NAT))
    assert (found.finding, found.at_nodes) == (Finding.NAT, True)
    assert found.said.endswith("as --outside says")


def test_what_the_user_says_must_not_contradict_a_listener() -> None:
    found = given(NAT, answer("a", OTHER))
    assert (found.finding, found.seen) == (Finding.UNPROVEN, None)
    assert found.said == "--outside says that outside-1 is seen as 192.0.2.9, but node a sees 192.0.2.10"
    world = topology()
    node = next(iter(world.nodes.values()))
    owner = Owners(world.nodes, world.backends, {}).of
    whose = decide("outside-1", Family.IPV4, ["a"], [], owner, parse_address(node.internal[Family.IPV4]))
    assert whose.finding is Finding.UNPROVEN, "a node's address is no client's"


def test_a_client_that_reaches_no_node_is_asked_at_vips_only() -> None:
    found = features([given(NAT)])
    assert found["vantage.outside.ipv4"].present
    assert not found["vantage.outside.nodes.ipv4"].present
    assert found["vantage.outside.nodes.ipv4"].ours
    for name, asked in (
        ("loadbalancer.local.tcp.ipv4.outside-1-to-vip", True),
        ("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", False),
        ("loadbalancer.local.tcp.ipv6.outside-1-to-vip", True),
        ("nodeport.local.tcp.ipv4.pod-on-other-node-to-endpoint-node", True),
    ):
        check = by_id(name)
        there = {each: Feature(True, "there") for each in check.features}
        assert (not missing_features(check, there | found)) is asked, name


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("nodes.vip.local.tcp.ipv4.every-address", True),
        ("nodes.vip.cluster.udp.ipv4.even", True),
        ("nodes.external-ip.local.tcp.ipv4.source", True),
        ("nodes.external-ip.cluster.tcp.ipv4.outside-routed.answers", True),
        ("nodes.clusterip.cluster.tcp.ipv4.answers", True),
        ("nodes.nodeport.cluster.tcp.ipv4.answers", False),
        ("nodes.other-address.cluster.tcp.ipv4.answers", False),
        ("nodes.service-port.local.tcp.ipv4.unserved", False),
        ("nodes.health.ipv4.status", False),
        ("healthcheck.profile.default.local.port", True),
        ("vantage.connections.loadbalancer.tcp.ipv4.first", True),
        ("vantage.connections.loadbalancer.tcp.ipv4.late", False),  # nothing to compare with
        ("vantage.connections.nodeport.tcp.ipv4.first", False),
    ],
)  # fmt: skip
def test_what_such_clients_dial_at_no_internal_ip_is_asked(name: str, asked: bool) -> None:
    check = next(check for check in all_checks() if check.id == name)
    there = {each: Feature(True, "there") for each in (*check.features, "family.ipv4")}
    unreached = {of_nodes(each, "ipv4"): Feature(False, "no node is reached") for each in (OUTSIDE, ROUTED, BEHIND_NAT)}
    assert (not missing_features(check, there | unreached)) is asked
    assert not missing_features(check, there)


def test_what_agents_dial_needs_no_client_outside() -> None:
    inside = [check for check in checks_about(EveryNode, all_checks()) if check.subject.entrance in INSIDE]
    assert {check.subject.entrance for check in inside} == INSIDE
    for check in inside:
        assert not any(name.startswith("vantage.") for name in check.features), check.id
        assert all(path.client.vantage is Vantage.NODE for path in check.subject.paths), check.id


@pytest.mark.parametrize(("seen", "status"), [(NAT, Status.PASS), ("172.18.0.2", Status.FAIL), (OTHER, Status.FAIL)])
def test_its_address_at_a_vip_needs_no_listener(seen: str, status: Status) -> None:
    check = by_id("loadbalancer.local.tcp.ipv4.outside-1-to-vip")
    world = topology()
    client = check.subject.path.client
    nat, only = {parse_address(OWN): parse_address(NAT)}, frozenset({Family.IPV4})
    stand = Stand(client, frozenset({parse_address(NAT)}), None, nat, only)
    world = replace(world, stands={**world.stands, client.name: stand})
    made = [replace(made_answer(check.subject.path, seen, seq), source=(OWN, 40000 + seq)) for seq in range(3)]
    evidence = Evidence(observations={check.subject.path.key: made}, topology=world, features={}, samples=len(made))
    assert decide_check(check, evidence).status is status
    whole = replace(
        evidence, topology=replace(world, stands={**world.stands, client.name: replace(stand, only_vips=frozenset())})
    )
    assert decide_check(check, whole).status is Status.INCONCLUSIVE, "who reaches nodes needs its listener"


def test_where_no_listener_stands_nobody_is_asked() -> None:
    found = decide("outside-1", Family.IPV6, [], [], lambda address: "")
    assert found.said == "no node has a control listener that outside-1 could dial over IPv6"


def test_an_address_of_the_cluster_is_never_the_client_s() -> None:
    world = topology()
    node = next(iter(world.nodes.values()))
    pod = next(iter(world.backends.values()))
    owners = Owners(world.nodes, world.backends, {"balanced": {Family.IPV4: "172.18.255.77"}})
    for address, whose in (
        (node.internal[Family.IPV4], f"node {node.name}"),
        (pod.addresses[Family.IPV4], f"pod {pod.name}"),
        ("172.18.255.77", "the load balancer of balanced"),
    ):
        found = find(answer("a", address), answer("b", address), owner=owners.of)
        assert found.finding is Finding.UNPROVEN
        assert f"the address of {whose}: something on the way rewrites it" in found.said
    assert find(answer("a", NAT), answer("b", NAT), owner=owners.of).finding is Finding.NAT


def test_what_is_learnt_later_takes_back_what_was_believed() -> None:
    found = find(answer("a", NAT), answer("b", NAT))
    (kept,) = checked([found], lambda address: "node b" if str(address) == NAT else "")
    assert (kept.finding, kept.seen) == (Finding.UNPROVEN, None)
    assert checked([found], lambda address: "") == [found]


def test_two_that_are_seen_alike_are_one_client() -> None:
    first = find(answer("a", NAT), answer("b", NAT))
    second = decide("outside-2", Family.IPV4, ["a"], [answer("a", NAT, own=NAT)], lambda address: "")
    one, other = distinct_clients([second, first])
    assert (one, other.finding) == (first, Finding.UNPROVEN)
    assert addresses([one, other]) == {"outside-1": [NAT], "outside-2": []}
    found = features([one, other])
    assert found["vantage.outside.ipv4"].present
    assert not found["vantage.outside.two-addresses.ipv4"].present
    assert found["vantage.outside.two-addresses.ipv4"].ours


def test_what_a_listener_says_is_read() -> None:
    echo = {"proxy_protocol": {"source_address": "10.9.9.9"}}
    made = [
        Observation("p", 0, Outcome.ANSWERED, (OWN, 1), None, (NAT, 2)),
        Observation("p", 1, Outcome.TIMEOUT, (OWN, 1)),
        Observation("p", 2, Outcome.ANSWERED, (OWN, 1), None, (NAT, 2), echo),
        Observation("p", 3, Outcome.ANSWERED, (OWN, 1), None, (NAT, 2), {"x_forwarded_for": [OWN]}),
    ]
    assert answers_of("a", made) == [
        answer("a", NAT),
        answer("a", NAT, claimed="a PROXY protocol header naming 10.9.9.9"),
        answer("a", NAT, claimed=f"X-Forwarded-For: {OWN}"),
    ]


def test_the_class_of_a_client_behind_nat_is_by_what_the_cluster_sees() -> None:
    world, path = topology(), by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").subject.path
    client = Client("outside-1", Vantage.OUTSIDE)
    nat = {parse_address(OWN): parse_address(NAT)}
    behind = Stand(client, frozenset(nat.values()), None, nat)
    world = replace(world, stands={**world.stands, "outside-1": behind})
    assert origin_of(world, path, NAT, OWN).classes == {AddressClass.CLIENT}
    assert origin_of(world, path, OWN, OWN).classes == {AddressClass.OTHER}
    assert world.as_json()["clients"]["outside-1"]["behind_nat"] == {OWN: NAT}
    assert "behind_nat" not in world.as_json()["clients"]["outside-2"]


def test_listeners_of_nodes_with_a_role_are_asked_first() -> None:
    nodes = topology().nodes
    ports = {name: {Protocol.TCP: 41000} for name in reversed(NODES)} | {NODES[2]: {Protocol.UDP: 1}}
    found = reference_listeners(nodes, ROLES, ports)
    assert list(found[Family.IPV4])[:2] == list(NODES[:2])
    assert found[Family.IPV6][NODES[0]] == (nodes[NODES[0]].internal[Family.IPV6], 41000)
    assert NODES[2] not in found[Family.IPV4], "it has no port for TCP"


def test_clients_know_by_which_addresses_they_are_seen() -> None:
    world = topology()
    found = [
        find(answer("a", NAT), answer("b", NAT)),
        DiscoveredAddress("outside-2", Family.IPV4, Finding.UNPROVEN, "no"),
    ]
    owners: list[str] = []

    def check(owner: Callable[[IPAddress], str]) -> list[DiscoveredAddress]:
        owners.append(owner(parse_address("172.18.255.77")))
        return found

    vips = {"balanced": {Family.IPV4: "172.18.255.77"}}
    testbed = SimpleNamespace(nodes=world.nodes, roles=ROLES, pods={}, vips=vips, second_addresses={})
    clients = Clients(cast(Any, testbed), cast(Any, SimpleNamespace(check=check)))
    hello = SimpleNamespace(hello=lambda: {"addresses": [OWN]})
    clients.probers |= dict.fromkeys(("outside-1", "outside-2"), cast(Any, hello))
    made = clients._topology(Client(name, Vantage.OUTSIDE) for name in ("outside-1", "outside-2"))
    assert owners == ["the load balancer of balanced"]
    assert clients.addresses("outside-1") == {parse_address(NAT)}
    assert clients.addresses("outside-2") == frozenset()
    assert made.shown("outside-1", OWN) == parse_address(NAT)
    assert made.shown("outside-2", OWN) == parse_address(OWN)


def test_an_agent_whose_prober_ended_gets_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(cast(Any, None), None, {})
    first, second = SimpleNamespace(ended=False), SimpleNamespace(ended=False)
    monkeypatch.setattr(clients, "_agent", lambda node: {"a": second}[node])
    clients.agents["a"] = cast(Any, first)
    assert clients.agent("a") is cast(Any, first)
    first.ended = True
    assert clients.agent("a") is cast(Any, second)
    assert clients.agent("a") is cast(Any, second)


def test_probers_in_pods_that_ended_are_replaced_and_those_outside_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(cast(Any, SimpleNamespace(roles=ROLES)), None, {})
    node = next(iter(ROLES.values()))
    role = next(role for role, name in ROLES.items() if name == node)
    clients._clients = (
        Client("pod", Vantage.POD), Client("idle", Vantage.POD), Client("host", Vantage.NODE, role),
        Client("outside", Vantage.OUTSIDE),
    )  # fmt: skip
    gone, there = SimpleNamespace(ended=True), SimpleNamespace(ended=False)
    clients.agents[node] = cast(Any, gone)
    clients.probers = {"pod": gone, "idle": there, "host": gone, "outside": gone}
    monkeypatch.setattr(clients, "_agent", lambda name: f"another agent on {name}")
    monkeypatch.setattr(clients, "_in_pod", lambda name: f"another in {name}")
    clients.renew()
    another = f"another agent on {node}"
    assert clients.agents == {node: another}
    assert clients.probers == {"pod": "another in pod", "idle": there, "host": another, "outside": gone}


# ---------------------------------------------------------------------------------- nodes one way, VIPs another
PRIVATE, PUBLIC = "10.8.0.2", "11.22.33.44"
VIP_CHECK = "loadbalancer.local.tcp.ipv4.outside-1-to-vip"
SAID = "vantage.outside.vips.ipv4"


def seen_by(address: str) -> list[DiscoveredAddress]:
    own = parse_address(address)
    return [DiscoveredAddress("outside-1", Family.IPV4, Finding.DIRECT, "made up", own, own)]


@pytest.mark.parametrize(
    ("seen", "vip", "doubted"),
    [
        (PRIVATE, "10.9.0.1", False),
        (PUBLIC, "11.0.0.1", False),
        (PRIVATE, "11.0.0.1", True),
        (PUBLIC, "10.9.0.1", True),
    ],
)
def test_where_vips_are_another_way_than_nodes_the_nodes_word_is_no_proof(seen: str, vip: str, doubted: bool) -> None:
    doubts = at_vips(seen_by(seen), [{Family.IPV4: vip}, {Family.IPV6: "2a00:1450:4001::7"}])
    assert list(doubts) == ([SAID] if doubted else [])
    assert all(seen in why and vip in why for why in doubts.values())
    assert at_vips([], [{Family.IPV4: vip}]) == {}, "containers stand beside the nodes"


def judged(check: str, seen: AddressClass | str, facts: dict[str, str]) -> Verdict:
    path_check = by_id(check)
    made = (
        show(path_check.subject.path, seen)
        if isinstance(seen, AddressClass)
        else made_answer(path_check.subject.path, seen)
    )
    return verdict(path_check, made, facts=facts)


@pytest.mark.parametrize(
    ("check", "seen", "status"),
    [
        (VIP_CHECK, AddressClass.CLIENT, Status.PASS),
        (VIP_CHECK, "11.22.33.44", Status.INCONCLUSIVE),
        (VIP_CHECK, AddressClass.NODE, Status.FAIL),
        (VIP_CHECK, AddressClass.DROPPED, Status.FAIL),
        ("loadbalancer.local.source-ranges.tcp.ipv4.outside-1-to-vip", AddressClass.DROPPED, Status.INCONCLUSIVE),
        ("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", "11.22.33.44", Status.FAIL),
    ],
)
def test_what_may_be_nat_before_the_load_balancer_is_not_the_products_fault(
    check: str, seen: AddressClass | str, status: Status
) -> None:
    said = judged(check, seen, {SAID: "another way leads there"})
    assert said.status is status, said.reason
    assert (said.reason == "another way leads there") is (status is Status.INCONCLUSIVE)
    if status is Status.INCONCLUSIVE:
        assert judged(check, seen, {}).status is Status.FAIL, "nothing speaks against the vantage"


def test_checks_of_other_suites_about_the_source_at_vips_go_by_the_same_fact() -> None:
    sourced = [check for check in all_checks() if check.subject.source_at_vips == {"ipv4"}]
    assert {check.suite for check in sourced} == {
        "source_ip",
        "vantages",
        "interoperability",
        "compatibility",
        "convergence",
        "continuity",
    }
    for check in (next(check for check in sourced if check.suite == suite) for suite in ("convergence", "continuity")):
        has = {name: Feature(True, "there") for name in check.features}
        foreign = Decision(Status.FAIL, "x", "y", foreign=True)
        failed = give_verdict(check, Known({SAID: "another way"}, has), lambda seen=foreign: seen)
        assert (failed.status, failed.reason) == (Status.INCONCLUSIVE, "another way")
        assert give_verdict(check, Known({}, has), lambda: Decision(Status.FAIL, "x", "y")).status is Status.FAIL
