"""A defect of any one node, address or endpoint is noticed by the right checks, and named; nothing else is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from esipp.checks.check import Status
from esipp.checks.model import Family, Outcome, Protocol, TrafficPolicy
from esipp.judging.frame import OVERLOADED, run_queue
from esipp.judging.link_owners import LinkAnswer
from esipp.judging.observation import Tracked, Witness
from esipp.scenarios.every_node.evidence import (
    CLUSTER,
    HEALTH,
    LISTENER,
    LOCAL,
    PROXY,
    SOME,
    Answer,
    Dialled,
    EveryNodeEvidence,
    vip_service,
)
from esipp.scenarios.every_node.sections import asked
from esipp.scenarios.every_node.subject import Entrance
from tests.unit.every_node_world import NODE, SILENCE, SOON, answered, changed, of_link, seen, verdicts

FINE = {Status.PASS, Status.RECORDED}
FIFTH = "node-5"


def red(known: EveryNodeEvidence) -> dict[str, str]:
    """The checks that are neither passed nor recorded, with the reason."""
    return {name: said.reason for name, said in verdicts(known).items() if said.status not in FINE}


def status(known: EveryNodeEvidence, check: str) -> Status:
    return verdicts(known)[check].status


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 12])
def test_where_all_is_well_no_check_is_red(nodes: int) -> None:
    assert red(seen(nodes)) == {}


def udp_at_the_fifth(row: Dialled) -> bool:
    """UDP of the fifth node's Local nodePort, over IPv4."""
    wanted = (LOCAL, Entrance.NODE_PORT, Protocol.UDP, Family.IPV4, FIFTH)
    return (row.service, row.entrance, row.protocol, row.family, row.node) == wanted


def rewritten(row: Dialled) -> tuple[Answer, ...]:
    return tuple(replace(each, classes=NODE, source="10.0.0.5 = node node-5") for each in row.answers)


def test_udp_that_one_node_without_a_role_rewrites_is_reported_with_its_name() -> None:
    found = red(changed(seen(), udp_at_the_fifth, rewritten))
    assert set(found) == {"nodes.nodeport.local.udp.ipv4.source"}
    assert "1 of 5 targets differ: node-5 (10.0.0.5): every-node-5 saw 10.0.0.5 = node node-5" in next(
        iter(found.values())
    )


def test_nodeports_that_one_node_drops_are_a_failure_and_its_silence_no_pass() -> None:
    def dropped(row: Dialled) -> bool:
        return row.node == FIFTH and row.entrance is Entrance.NODE_PORT and row.service != LISTENER

    found = verdicts(changed(seen(), dropped, lambda row: (replace(SILENCE, count=row.total),)))
    for family in ("ipv4", "ipv6"):
        assert found[f"nodes.nodeport.cluster.tcp.{family}.answers"].status is Status.FAIL
        assert found[f"nodes.nodeport.local.tcp.{family}.source"].status is Status.FAIL
        silent = found[f"nodes.nodeport.local.tcp.{family}.silent"]
        assert (silent.status, "silence proves nothing" in silent.reason) == (Status.INCONCLUSIVE, True)


@pytest.mark.parametrize(
    ("silent", "wrong", "queue", "expected"),
    [
        (1, 0, OVERLOADED, Status.INCONCLUSIVE),
        (1, 0, OVERLOADED - 1.0, Status.FLAKY),
        (2, 0, OVERLOADED, Status.FLAKY),
        (1, 1, OVERLOADED, Status.FLAKY),
    ],
    ids=["one", "on a machine with less to do", "two", "another source as well"],
)
def test_one_connection_of_twenty_without_an_answer_proves_nothing_on_an_overloaded_machine(
    silent: int, wrong: int, queue: float, expected: Status
) -> None:
    def some(row: Dialled) -> tuple[Answer, ...]:
        (good,) = row.answers
        shares = (
            replace(good, count=20 - silent - wrong),
            replace(SILENCE, count=silent),
            replace(good, count=wrong, classes=NODE),
        )
        return tuple(each for each in shares if each.count)

    found = verdicts(changed(seen(), udp_at_the_fifth, some), {run_queue("every_node"): f"{queue}"})
    assert found["nodes.nodeport.local.udp.ipv4.source"].status is expected


@pytest.mark.parametrize(
    ("silent", "control", "elsewhere", "queue", "expected"),
    [
        (3, 0, 3, OVERLOADED, Status.INCONCLUSIVE),
        (3, 0, 0, OVERLOADED, Status.FLAKY),
        (3, 0, 3, OVERLOADED - 1.0, Status.FLAKY),
        (12, 0, 1, OVERLOADED, Status.FLAKY),
    ],
    ids=["as elsewhere", "controls lost none", "on a machine with less to do", "far more than elsewhere"],
)
def test_on_an_overloaded_machine_losses_prove_nothing_if_the_controls_of_other_nodes_have_as_many(
    silent: int, control: int, elsewhere: int, queue: float, expected: Status
) -> None:
    def some(row: Dialled) -> tuple[Answer, ...]:
        lost = silent if udp_at_the_fifth(row) else control if row.node == FIFTH else elsewhere
        (good,) = row.answers
        shares = replace(good, count=20 - lost), replace(SILENCE, count=lost)
        return tuple(each for each in shares if each.count)

    def touched(row: Dialled) -> bool:
        return udp_at_the_fifth(row) or (row.service == LISTENER and row.protocol is Protocol.UDP)

    found = verdicts(changed(seen(), touched, some), {run_queue("every_node"): f"{queue}"})
    assert found["nodes.nodeport.local.udp.ipv4.source"].status is expected


def test_a_node_that_nobody_reaches_leaves_its_checks_undecided() -> None:
    found = verdicts(changed(seen(), lambda row: row.node == FIFTH and row.client == "outside-1", lambda _: (SILENCE,)))
    said = found["nodes.nodeport.cluster.tcp.ipv4.answers"]
    assert (said.status, "its control listener is silent as well" in said.reason) == (Status.INCONCLUSIVE, True)
    assert found["nodes.clusterip.cluster.tcp.ipv4.answers"].status is Status.PASS


def test_a_node_whose_agent_is_missing_leaves_checks_of_every_node_undecided() -> None:
    found = verdicts(replace(seen(), unasked={"node-6": "node node-6 has no ready agent"}))
    assert found["nodes.nodeport.cluster.tcp.ipv4.answers"].reason == "node-6: node node-6 has no ready agent"
    assert found["nodes.vip.cluster.tcp.ipv4.even"].status is Status.PASS


def test_an_external_ip_that_a_client_does_not_reach_without_a_service_is_not_its_node_s_fault() -> None:
    known = changed(
        seen(), lambda row: (row.address, row.client) == ("203.0.113.5", "outside-routed"), lambda _: (SILENCE,)
    )
    found = {name: said.status for name, said in verdicts(known).items() if "external-ip" in name}
    routed = {name: status for name, status in found.items() if "outside-routed" in name}
    assert {status for name, status in found.items() if name not in routed} == {Status.PASS}
    assert {status for name, status in routed.items() if name.endswith((".answers", ".source"))} == {Status.PASS}
    silent = {status for name, status in routed.items() if name.endswith(".silent")}
    assert silent == {Status.INCONCLUSIVE}, "silence of a node that this client does not reach proves nothing"


@pytest.mark.parametrize(
    ("hit", "change", "noticed"),
    [
        (
            lambda row: (row.service, row.node) == (HEALTH, FIFTH),
            lambda _: (Answer(Outcome.ANSWERED, 20, detail="200", took=(SOON,) * 20),),
            {"nodes.health.ipv4.status", "nodes.health.ipv6.status"},
        ),
        (
            lambda row: (row.service, row.node) == (PROXY, FIFTH),
            lambda _: (Answer(Outcome.REFUSED, 20, took=(SOON,) * 20),),
            {f"nodes.proxy-health.{family}.{part}" for family in ("ipv4", "ipv6") for part in ("status", "in-time")},
        ),
        (
            lambda row: (row.address, row.service, row.family) == ("10.9.0.5", LOCAL, Family.IPV4),
            rewritten,
            {f"nodes.other-address.local.{protocol}.ipv4.source" for protocol in ("tcp", "udp", "sctp")},
        ),
        (
            lambda row: (row.address, row.service, row.client) == ("203.0.113.5", LOCAL, "outside-routed"),
            rewritten,
            {
                f"nodes.external-ip.local.{protocol}.{family}.outside-routed.source"
                for protocol in ("tcp", "udp", "sctp")
                for family in ("ipv4", "ipv6")
            },
        ),
        (
            lambda row: (row.address, row.service, row.client) == ("203.0.113.5", CLUSTER, "outside-1"),
            lambda _: (SILENCE,),
            {
                f"nodes.external-ip.{rest}"
                for protocol in ("tcp", "udp", "sctp")
                for family in ("ipv4", "ipv6")
                for rest in (f"cluster.{protocol}.{family}.answers", f"local.{protocol}.{family}.silent")
            },
        ),
        (
            lambda row: (row.entrance, row.service, row.node) == (Entrance.EXTERNAL_IP, SOME, FIFTH),
            lambda _: (answered("every-node-1", "node-1"),),
            {
                f"nodes.external-ip.local.{protocol}.{family}{client}.silent"
                for protocol in ("tcp", "udp", "sctp")
                for family in ("ipv4", "ipv6")
                for client in ("", ".outside-routed")
            },
        ),
        (
            lambda row: (row.address, row.service) == ("192.0.2.11", vip_service(TrafficPolicy.LOCAL, Protocol.TCP)),
            rewritten,
            {f"nodes.vip.local.tcp.{family}.every-address" for family in ("ipv4", "ipv6")},
        ),
        (
            lambda row: (row.address, row.service) == ("192.0.2.11", vip_service(TrafficPolicy.CLUSTER, Protocol.UDP)),
            lambda _: (SILENCE,),
            {f"nodes.vip.cluster.udp.{family}.every-address" for family in ("ipv4", "ipv6")},
        ),
        (
            lambda row: (row.entrance, row.service, row.node) == (Entrance.NODE_PORT, SOME, FIFTH),
            lambda _: (answered("every-node-1", "node-1"),),
            {
                f"nodes.nodeport.local.{protocol}.{family}.silent"
                for protocol in ("tcp", "udp", "sctp")
                for family in ("ipv4", "ipv6")
            },
        ),
        (
            lambda row: (row.entrance, row.service, row.node) == (Entrance.CLUSTER_IP, LOCAL, FIFTH),
            lambda _: (answered("every-node-5", FIFTH, (), 15), answered("every-node-1", "node-1", (), 5)),
            {
                f"nodes.clusterip.itp-local.{protocol}.{family}.own-endpoint"
                for protocol in ("tcp", "udp", "sctp")
                for family in ("ipv4", "ipv6")
            },
        ),
        (
            lambda row: (row.entrance, row.service, row.node) == (Entrance.LOOPBACK, LOCAL, FIFTH),
            lambda _: (SILENCE,),
            {f"nodes.loopback.local.{protocol}.ipv4.answers" for protocol in ("tcp", "udp")},
        ),
        (
            lambda row: (row.entrance, row.node) == (Entrance.SERVICE_PORT, FIFTH),
            lambda _: (answered("every-node-5", FIFTH),),
            {
                f"nodes.service-port.local.{protocol}.{family}.unserved"
                for protocol in ("tcp", "udp")
                for family in ("ipv4", "ipv6")
            },
        ),
    ],
    ids=[
        "health",
        "kube-proxy",
        "second address",
        "external IP rewrites",
        "external IP drops",
        "external IP forwards",
        "second VIP",
        "silent VIP",
        "forwards",
        "leaks inside",
        "loopback",
        "port of a VIP",
    ],
)
def test_each_defect_is_noticed_by_its_own_checks(
    hit: Callable[[Dialled], bool], change: Callable[[Dialled], tuple[Answer, ...]], noticed: set[str]
) -> None:
    assert set(red(changed(seen(), hit, change))) == noticed


def test_the_port_of_a_vip_is_served_at_announced_addresses_and_by_others_than_our_pods() -> None:
    known = changed(
        seen(),
        lambda row: (row.entrance, row.node) == (Entrance.SERVICE_PORT, FIFTH),
        lambda _: (answered("every-node-5", FIFTH),),
    )
    row = next(row for row in known.dialled if row.entrance is Entrance.SERVICE_PORT and row.node == FIFTH)
    vip = replace(row, entrance=Entrance.VIP, node="", answers=(answered("every-node-5", FIFTH),))
    found = red(replace(known, dialled=(*known.dialled, vip)))
    assert "nodes.service-port.local.tcp.ipv4.unserved" not in found
    strangers = changed(
        seen(), lambda row: row.entrance is Entrance.SERVICE_PORT, lambda _: (answered("ingress", FIFTH),)
    )
    assert red(strangers) == {}


def test_some_connections_make_it_flaky_and_a_network_that_loses_as_many_leaves_it_open() -> None:
    def some(row: Dialled) -> tuple[Answer, ...]:
        return (replace(row.answers[0], count=15), Answer(Outcome.TIMEOUT, 5))

    known = changed(seen(), udp_at_the_fifth, some)
    assert status(known, "nodes.nodeport.local.udp.ipv4.source") is Status.FLAKY
    lossy = changed(known, lambda row: (row.service, row.node, row.protocol) == (LISTENER, FIFTH, Protocol.UDP), some)
    assert status(lossy, "nodes.nodeport.local.udp.ipv4.source") is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("service", "protocols", "requires", "fault", "called"),
    [
        (CLUSTER, [Protocol.TCP], "cluster.{}.resent", "resent", "after a repeated SYN"),
        (LOCAL, [Protocol.UDP, Protocol.SCTP], "local.{}.copies", "copies", "answered more than once"),
        (LOCAL, list(Protocol), "local.{}.ports", "moved", "with another source port"),
    ],
    ids=["lost SYNs", "copies", "moved ports"],
)
def test_a_fault_beside_correct_answers_is_noticed_where_one_node_has_it_and_not_where_the_network_has_it(
    service: str, protocols: list[Protocol], requires: str, fault: str, called: str
) -> None:
    def faulty(row: Dialled) -> tuple[Answer, ...]:
        return tuple(replace(each, **{fault: each.count // 4}) for each in row.answers)

    at_one = changed(
        seen(), lambda row: (row.service, row.entrance, row.node) == (service, Entrance.NODE_PORT, FIFTH), faulty
    )
    found = red(at_one)
    assert set(found) == {
        f"nodes.nodeport.{requires.format(f'{protocol.value.lower()}.{family}')}"
        for protocol in protocols
        for family in ("ipv4", "ipv6")
    }
    assert all("node-5: " in why and f" {called}; without a Service 0 of 500" in why for why in found.values())
    assert red(changed(at_one, lambda row: (row.service, row.node) == (LISTENER, FIFTH), faulty)) == {}


def test_few_repeated_syns_are_no_fault() -> None:
    def one(row: Dialled) -> tuple[Answer, ...]:
        return (replace(row.answers[0], resent=4), *row.answers[1:])

    assert red(changed(seen(), lambda row: (row.service, row.node) == (CLUSTER, FIFTH), one)) == {}


def test_first_connections_that_one_node_rewrites_are_noticed_although_later_ones_are_not() -> None:
    known = seen()
    dialled = tuple(replace(row, first=rewritten(replace(row, answers=row.first))) if udp_at_the_fifth(row) else row
                    for row in known.dialled)  # fmt: skip
    found = red(replace(known, dialled=dialled))
    assert set(found) == {"nodes.nodeport.local.udp.ipv4.first"}
    assert "1 of 5 targets differ: node-5 (10.0.0.5): every-node-5 saw 10.0.0.5 = node node-5 x3" in found.popitem()[1]


def test_inside_too_a_node_with_several_endpoints_uses_them_equally() -> None:
    def skewed(row: Dialled) -> tuple[Answer, ...]:
        return tuple(replace(each, count=count) for each, count in zip(row.answers, (150, 50), strict=True))

    def several(row: Dialled) -> bool:
        wanted = (Entrance.CLUSTER_IP, LOCAL, Protocol.UDP, Family.IPV4, "node-1")
        return (row.entrance, row.service, row.protocol, row.family, row.node) == wanted

    assert set(red(changed(seen(), several, skewed))) == {"nodes.clusterip.itp-local.udp.ipv4.even"}
    cilium = {"service-proxy": "cilium", "cilium.sockets-of-hosts": "balanced"}
    name = "nodes.clusterip.itp-local.udp.ipv4.even"
    assert verdicts(changed(seen(), several, skewed), cilium)[name].status is Status.KNOWN

    def over_tcp_too(row: Dialled) -> bool:
        wanted = (Entrance.CLUSTER_IP, LOCAL, Family.IPV4, "node-1")
        return (row.entrance, row.service, row.family, row.node) == wanted and row.protocol in (
            Protocol.TCP,
            Protocol.UDP,
        )

    assert verdicts(changed(seen(), over_tcp_too, skewed), cilium)[name].status is Status.FAIL, "so are those of TCP"

    no_tcp = replace(
        changed(seen(), several, skewed),
        dialled=tuple(row for row in changed(seen(), several, skewed).dialled if row.protocol is not Protocol.TCP),
    )
    assert verdicts(no_tcp, cilium)[name].status is Status.FAIL, "nothing shows that TCP is even"

    def to_one(row: Dialled) -> tuple[Answer, ...]:
        return tuple(replace(each, count=count) for each, count in zip(row.answers, (200, 0), strict=True))

    assert verdicts(changed(seen(), several, to_one), cilium)[name].status is Status.FAIL, "one has no share"


def test_shares_are_unequal_only_beyond_chance() -> None:
    def skewed(*counts: int) -> EveryNodeEvidence:
        def change(row: Dialled) -> tuple[Answer, ...]:
            pods = zip(seen().endpoints.items(), counts, strict=True)
            return tuple(answered(pod, node, NODE, count) for (pod, node), count in pods)

        vip = vip_service(TrafficPolicy.CLUSTER, Protocol.TCP)
        return changed(seen(), lambda row: (row.service, row.family) == (vip, Family.IPV4), change)

    stem = "nodes.vip.cluster.tcp.ipv4"
    assert red(skewed(45, 38, 34, 31, 28, 24)) == {}
    found = red(skewed(150, 10, 10, 10, 10, 10))
    assert set(found) == {f"{stem}.even"}
    assert "every-node-1 on node-1 got 300 of 400 (p = " in found[f"{stem}.even"]
    left_out = red(skewed(40, 40, 40, 40, 0, 40))
    assert set(left_out) == {f"{stem}.even", f"{stem}.every-endpoint"}
    assert left_out[f"{stem}.every-endpoint"] == "no connection reached every-node-5 on node-5"
    assert "is noticed with 95 % probability" in verdicts(seen())[f"{stem}.even"].sees


def test_a_node_without_the_family_of_others_fails_one_check() -> None:
    known = replace(seen(), nodes=dict(seen().nodes) | {FIFTH: (Family.IPV4,)})
    assert red(known) == {"nodes.addresses.ipv6.family": "not node-5"}


def test_the_fall_back_of_ipvs_is_known() -> None:
    def hit(row: Dialled) -> bool:
        return (row.entrance, row.service) == (Entrance.CLUSTER_IP, SOME) and row.answers == (SILENCE,)

    known = changed(seen(), hit, lambda _: (answered("every-node-1", "node-1", ()),))
    check = "nodes.clusterip.itp-local.tcp.ipv4.silent"
    assert verdicts(known)[check].status is Status.FAIL
    assert verdicts(known, {"proxy-mode": "ipvs"})[check].status is Status.KNOWN


def test_kube_proxy_elsewhere_is_no_failure() -> None:
    known = changed(seen(), lambda row: row.service == PROXY, lambda _: (Answer(Outcome.REFUSED, 20),))
    assert status(known, "nodes.proxy-health.ipv4.status") is Status.INCONCLUSIVE


def test_why_there_is_no_vip_is_reported() -> None:
    known = seen()
    dialled = tuple(row for row in known.dialled if row.entrance is not Entrance.VIP)
    vip = vip_service(TrafficPolicy.CLUSTER, Protocol.TCP)
    found = red(replace(known, dialled=dialled, obstacles={f"{vip} IPv4": "timed out after 60 s waiting for a VIP"}))
    assert found["nodes.vip.cluster.tcp.ipv4.even"] == "timed out after 60 s waiting for a VIP"
    assert found["nodes.vip.cluster.tcp.ipv6.every-endpoint"] == "only 0 connections were answered"
    assert all(name.startswith("nodes.vip.") for name in found)


def test_a_failed_prober_is_our_own() -> None:
    known = changed(seen(), udp_at_the_fifth, lambda _: (Answer(Outcome.ERROR, 20, detail="no descriptors"),))
    assert status(known, "nodes.nodeport.local.udp.ipv4.source") is Status.ERROR


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (5, "5 of 5 nodes asked: node-1, node-2, node-3, node-4, node-5; 6 endpoints on 5 nodes, "
            "of the Services on some nodes none on node-3, node-4, node-5"),
        (2, "2 of 2 nodes asked: node-1, node-2; 5 endpoints on 2 nodes, of the Services on some nodes none on node-2"),
    ],
)  # fmt: skip
def test_the_report_says_which_nodes_were_asked(nodes: int, words: str) -> None:
    assert asked(seen(nodes)) == words


def test_the_report_says_which_were_not() -> None:
    many = dict.fromkeys([*seen().nodes, *(f"other-{number}" for number in range(12))], tuple(Family))
    said = asked(replace(seen(), nodes=many))
    assert said.startswith("5 of 17 nodes asked: node-1")
    assert "; not asked: other-0, other-1" in said
    assert "and 2 more" in said


# ------------------------------------------------------------------------------------------------------- two witnesses
LIE = "the backend reports the peer 192.0.2.1:7, the packet to it came from 10.0.0.5:7 (captured on node-5 out veth1)"
AT_POD = ("10.0.0.5", 7)


def followed(hit: Callable[[Dialled], bool], *those: Witness, blind: str = "") -> EveryNodeEvidence:
    """All is well, and packets say this of some targets; of others they saw both connections that they follow."""
    known = seen()
    usual = (Witness("", 0, seen=True), Witness("", 1, seen=True))
    return replace(known, blind=blind, witnesses={row.key: those if hit(row) else usual for row in known.dialled})


def test_a_verdict_says_on_which_witnesses_it_rests() -> None:
    found = verdicts(followed(lambda _: False))
    said = found["nodes.nodeport.local.udp.ipv4.source"]
    assert (said.status, said.witnesses) == (Status.PASS, "echo server, and packets of 10 of 1000 connections")
    assert found["nodes.health.ipv4.status"].witnesses == ""
    at_one = next(row for row in seen().dialled if udp_at_the_fifth(row))
    tracked = {at_one.key: Tracked(180)}
    said = verdicts(replace(followed(lambda _: False), tracked=tracked))["nodes.nodeport.local.udp.ipv4.source"]
    assert said.witnesses.endswith(
        "packets of 10 of 1000 connections, and connection tracking of 180 of 1000 connections"
    )


@pytest.mark.parametrize(
    ("lies", "expected"), [((True, True), Status.ERROR), ((True, False), Status.PASS), ((True,), Status.ERROR)], ids=str
)
def test_packets_that_contradict_the_echo_server_at_one_node_leave_its_checks_unjudged(
    lies: tuple[bool, ...], expected: Status
) -> None:
    words = [Witness("", seq, seen=not lie, contradiction=LIE if lie else "") for seq, lie in enumerate(lies)]
    found = verdicts(followed(udp_at_the_fifth, *words))
    said = found.pop("nodes.nodeport.local.udp.ipv4.source")
    assert said.status is expected
    assert expected is Status.PASS or said.reason == f"node-5 (10.0.0.5): {LIE}"
    others = {name for name, each in found.items() if each.status not in FINE}
    assert all(name.startswith("nodes.nodeport.local.udp.ipv4.") for name in others)


def test_a_control_that_packets_contradict_controls_nothing() -> None:
    def control(row: Dialled) -> bool:
        return (row.service, row.entrance, row.protocol, row.family, row.node) == (
            LISTENER, Entrance.NODE_PORT, Protocol.UDP, Family.IPV4, FIFTH,
        )  # fmt: skip

    found = verdicts(followed(control, *(Witness("", seq, seen=False, contradiction=LIE) for seq in range(2))))
    assert found["nodes.nodeport.local.udp.ipv4.source"].status is Status.ERROR
    assert found["nodes.nodeport.local.tcp.ipv4.source"].status is Status.PASS


def test_tables_that_contradict_the_echo_server_at_one_node_leave_its_checks_unjudged() -> None:
    at_one = next(row for row in seen().dialled if udp_at_the_fifth(row))
    found = verdicts(replace(seen(), tracked={at_one.key: Tracked(3, 2, "connection tracking on node-5 has another")}))
    said = found["nodes.nodeport.local.udp.ipv4.source"]
    assert (said.status, said.reason) == (Status.ERROR, f"{at_one.where}: connection tracking on node-5 has another")
    assert found["nodes.nodeport.local.tcp.ipv4.source"].status is Status.PASS


@pytest.mark.parametrize(
    ("delivered", "expected"),
    [((AT_POD, AT_POD), Status.FAIL), ((AT_POD, None), Status.FLAKY), ((None, None), Status.PASS)],
    ids=["both", "one of two", "none"],
)
def test_silence_of_a_node_that_hands_requests_to_a_backend_is_no_pass(
    delivered: tuple[tuple[str, int] | None, ...], expected: Status
) -> None:
    def silent(row: Dialled) -> bool:
        return row.service == SOME and row.node == FIFTH and row.entrance is Entrance.NODE_PORT

    words = [Witness("", at, seen=True, words="at the pod: x", delivered=came) for at, came in enumerate(delivered)]
    found = {name: said for name, said in verdicts(followed(silent, *words)).items() if said.status not in FINE}
    wanted = {f"nodes.nodeport.local.{protocol}.{family}.silent" for protocol in ("tcp", "udp", "sctp")
              for family in ("ipv4", "ipv6")}  # fmt: skip
    assert set(found) == (wanted if expected is not Status.PASS else set())
    assert all(said.status is expected for said in found.values())
    assert all("no answer, but packets reached a backend: at the pod: x" in said.reason for said in found.values())


def test_captures_that_lost_packets_witness_nothing() -> None:
    lost = Witness("", 0, seen=False, words="the captures lost 3 packets: some may belong to it")
    found = verdicts(followed(lambda _: True, lost, blind="the kernel of node-5 lost 3 packets"))
    assert {said.status for said in found.values()} <= FINE
    said = found["nodes.nodeport.local.udp.ipv4.silent"]
    assert said.witnesses == "echo server only: the kernel of node-5 lost 3 packets"


LINK_LOCAL = ("nodes.link-local-health.ipv6.as-globally", "nodes.link-local-proxy-health.ipv6.as-globally")


@pytest.mark.parametrize("entrance", [Entrance.LINK_LOCAL_HEALTH, Entrance.LINK_LOCAL_PROXY])
def test_a_node_that_does_not_answer_health_checks_from_link_local_addresses_is_named(entrance: Entrance) -> None:
    at_the_fifth = changed(
        seen(), lambda row: (row.entrance, row.node) == (entrance, FIFTH), lambda row: (replace(SILENCE, count=20),)
    )
    (check,) = (each for each in LINK_LOCAL if each.split(".")[1] == entrance)
    assert red(at_the_fifth) == {check: "1 of 5 targets differ: node-5 (10.0.0.5): no answer x20"}


def test_a_node_that_answers_link_local_addresses_something_else_is_reported() -> None:
    other = changed(
        seen(),
        lambda row: (row.entrance, row.node) == (Entrance.LINK_LOCAL_HEALTH, FIFTH),
        lambda row: (Answer(Outcome.ANSWERED, 20, detail="200"),),
    )
    assert set(red(other)) == {LINK_LOCAL[0]}


def test_what_no_node_answers_globally_leaves_the_link_local_address_undecided() -> None:
    silent = changed(
        seen(),
        lambda row: row.service == PROXY and row.family is Family.IPV6,
        lambda row: (replace(SILENCE, count=20),),
    )
    found = verdicts(silent)[LINK_LOCAL[1]]
    assert (found.status, "from its global address" in found.reason) == (Status.INCONCLUSIVE, True)


VIP = "192.0.2.10"
ONE_NODE = {
    f"nodes.vip.{policy}.tcp.{family}.one-node" for policy in ("cluster", "local") for family in ("ipv4", "ipv6")
}


def asked_link(*told: LinkAnswer) -> EveryNodeEvidence:
    known = seen()
    return replace(known, has_vip={**known.has_vip, VIP: told})


def test_a_second_node_that_answers_for_a_vip_is_named() -> None:
    found = red(asked_link(*[of_link("node-1")] * 9, of_link("node-2", "node-1")))
    assert set(found) == ONE_NODE
    assert all(
        "several nodes answer for one VIP: node-1 and node-2 for 192.0.2.10, 1 of" in each for each in found.values()
    )


def test_a_machine_that_is_no_node_and_answers_for_a_vip_is_named_by_its_link_address() -> None:
    found = red(asked_link(*[of_link("node-1", "machine-99")] * 10))
    assert all("02:00:00:00:00:99" in each for each in found.values())
    assert set(found) == ONE_NODE


@pytest.mark.parametrize(
    "told",
    [
        [of_link("node-1")] * 5 + [of_link("node-2")] * 5,
        [of_link("node-1", "node-1")] * 10,
        [of_link("node-1")] * 9 + [of_link()],
    ],
    ids=["it moved", "the same node twice", "one question without an answer"],
)
def test_one_node_at_a_time_is_right(told: list[LinkAnswer]) -> None:
    assert red(asked_link(*told)) == {}


@pytest.mark.parametrize(
    ("told", "status", "reason"),
    [
        ([of_link()] * 10, Status.INCONCLUSIVE, "nobody on the client's link answers for 192.0.2.10"),
        ([of_link("node-1")], Status.INCONCLUSIVE, "questions were asked"),
        ([LinkAnswer(1.0, Outcome.ERROR, (), "EPERM")] * 10, Status.ERROR, "the prober failed: EPERM"),
    ],
    ids=["nobody", "too few", "ours"],
)
def test_who_has_a_vip_may_be_unknown(told: list[LinkAnswer], status: Status, reason: str) -> None:
    found = verdicts(asked_link(*told))
    assert {found[name].status for name in ONE_NODE} == {status}
    assert all(reason in found[name].reason for name in ONE_NODE)


def test_silence_proves_nothing_where_no_node_answers_for_its_own_address() -> None:
    found = verdicts(replace(seen(), has_own={}))
    assert {found[name].status for name in ONE_NODE} == {Status.INCONCLUSIVE}
