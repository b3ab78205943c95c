"""Where to look first: a symptom for every wrong class of every check, and what failing checks share."""

from collections.abc import Callable
from typing import Any

import pytest

from esipp.checks.check import Level, Status, Verdict
from esipp.checks.model import AddressClass, Claim, EntryKind, Family, Outcome, Path, Port, Protocol, TrafficPolicy
from esipp.judging.observation import Observation, Witness
from esipp.report.causes import common_factor
from esipp.scenarios.paths.diagnosis import diagnose
from tests.unit.recorded_world import recorded_checks
from tests.unit.verdicts import judge
from tests.unit.world import (
    SAMPLES,
    answer,
    by_id,
    changed_evidence,
    header,
    show,
    verdict,
)
from tests.unit.world import SOURCE_IP as CHECKS

PROXIED = "loadbalancer.reference-proxy-xff.local.several-ports.tcp.ipv4.outside-1-to-vip.port-http"


def test_every_wrong_class_of_every_check_has_a_place_to_look_first() -> None:
    silent = []
    for path_check in CHECKS:
        if path_check.level is Level.RECORD:
            continue
        for shown in set(AddressClass) - path_check.subject.accept - {AddressClass.HAIRPIN}:
            made = Verdict(path_check.id, path_check.level, Status.FAIL, "", "", shown=(shown,))
            if not diagnose(path_check, made):
                silent.append((path_check.id, shown))
    assert silent == []


def test_what_is_fine_has_none() -> None:
    assert diagnose(CHECKS[0], verdict(CHECKS[0])) == ""


SEEN = [
    ("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", AddressClass.NODE, "that node masquerades"),
    ("clusterip.tcp.ipv4.pod-on-other-node-to-clusterip", AddressClass.NODE, "masqueradeAll"),
    ("pod-ip.tcp.ipv4.host-on-other-node-to-pod-ip", AddressClass.NODE, "that node masquerades"),
    (
        "nodeport.cluster.tcp.ipv4.host-on-other-node-to-bare-node",
        AddressClass.CLIENT,
        "keeps the source under Cluster",
    ),
    ("clusterip.itp-local.tcp.ipv4.pod-on-other-node-to-clusterip", AddressClass.CLIENT, "internalTrafficPolicy Local"),
    (
        "nodeport.local.tcp.ipv4.outside-1-to-bare-node",
        AddressClass.CLIENT,
        "the node without local endpoints forwards the traffic",
    ),
    ("clusterip.tcp.ipv4.backend-to-clusterip", AddressClass.DROPPED, "hairpin mode"),
    ("clusterip.tcp.ipv4.backend-to-clusterip", AddressClass.CLIENT, "its own node did not masquerade"),
    ("loadbalancer.local.source-ranges.tcp.ipv4.outside-2-to-vip", AddressClass.CLIENT, "loadBalancerSourceRanges"),
    ("nodeport.local.not-ready.tcp.ipv4.outside-1-to-endpoint-node", AddressClass.CLIENT, "not ready"),
    (
        "nodeport.local.only-ipv4.tcp.ipv6.outside-1-to-endpoint-node",
        AddressClass.CLIENT,
        "an IP family that the Service",
    ),
    (PROXIED, AddressClass.CLIENT, "the proxy is bypassed"),
    ("loadbalancer.local.tcp.ipv4.outside-1-to-vip", AddressClass.LOAD_BALANCER, "is a proxy"),
    ("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", AddressClass.DROPPED, "has no rule for this Service"),
    ("nodeport.local.tcp.ipv4.pod-on-other-node-to-other-node", AddressClass.DROPPED, "no short circuit"),
    ("loadbalancer.local.tcp.ipv4.host-on-other-node-to-vip", AddressClass.DROPPED, "no short circuit"),
    ("loadbalancer.local.tcp.ipv4.pod-on-endpoint-node-to-vip", AddressClass.DROPPED, "has no rule for this Service"),
    (
        "nodeport.local.several-ports.tcp.ipv4.outside-1-to-endpoint-node.port-http.claims-x-forwarded-for",
        AddressClass.OTHER,
        "a header that the client sends",
    ),
]


@pytest.mark.parametrize(("identity", "shown", "words"), SEEN)
def test_a_symptom_names_its_place(identity: str, shown: AddressClass, words: str) -> None:
    path_check = by_id(identity)
    assert words in diagnose(path_check, verdict(path_check, show(path_check.subject.path, shown)))


def test_a_backend_that_answers_itself_past_the_service_was_not_masqueraded() -> None:
    path_check = by_id("clusterip.udp.ipv6.backend-to-clusterip")
    reason = "the answer came from another address than the one that was dialled"
    made = Verdict(path_check.id, path_check.level, Status.FAIL, "", "", reason, shown=(AddressClass.OTHER,))
    assert "its own node did not masquerade" in diagnose(path_check, made)


@pytest.mark.parametrize(
    ("seen", "words"),
    [("172.18.0.7 = client outside-2", "address of another client"), ("192.0.2.1 = unknown address", "NAT device")],
)
def test_another_clients_address_is_not_nobodys(seen: str, words: str) -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    tally = {"172.18.0.6 = client outside-1": 3, seen: 5}
    shown = (AddressClass.CLIENT, AddressClass.OTHER)
    made = Verdict(path_check.id, path_check.level, Status.FLAKY, "", "", tally=tally, shown=shown)
    assert words in diagnose(path_check, made)


def test_a_forged_header_that_is_believed_is_the_load_balancers_doing() -> None:
    path_check = by_id(PROXIED + ".claims-x-forwarded-for")
    said = verdict(
        path_check, answer(path_check.subject.path, "172.18.255.1", **header(Claim.FORWARDED_FOR, "203.0.113.7"))
    )
    assert said.status is Status.FAIL
    assert "trusts an address that the client claims" in diagnose(path_check, said)


def test_packets_at_a_backend_are_the_bare_nodes_doing() -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.outside-1-to-bare-node")
    seen = {path_check.subject.path.key: [Witness(path_check.subject.path.key, 0, True, "words", ("192.0.2.1", 7))]}
    assert "forwards the traffic" in diagnose(path_check, verdict(path_check, witnesses=seen))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome.RESET, "connection tracking"),
        (Outcome.INVALID, "another listener"),
        (Outcome.MISDIRECTED, "bypasses the node"),
    ],
)
def test_a_broken_answer_is_no_nat_device(outcome: Outcome, words: str) -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    assert words in diagnose(path_check, verdict(path_check, Observation(path_check.subject.path.key, 0, outcome)))


# ------------------------------------------------------------------------------------------- what failing checks share
def factor(test: Callable[[Path], bool], what: AddressClass = AddressClass.NODE, **fields: Any) -> str:
    """What is said where every client of a Local service that the test picks is rewritten."""
    wanted = frozenset({AddressClass.CLIENT})
    hit = {
        path_check.subject.path
        for path_check in CHECKS
        if path_check.subject.accept == wanted
        and path_check.subject.path.entry.kind is not EntryKind.CLUSTER_IP
        and test(path_check.subject.path)
    }
    assert hit
    changes = {path.key: [show(path, what, seq) for seq in range(SAMPLES)] for path in hit}
    made = changed_evidence(changes, **fields)
    verdicts = {path_check.id: judge(path_check, made) for path_check in CHECKS}
    failing = [path_check for path_check in CHECKS if verdicts[path_check.id].status is Status.FAIL]
    assert failing
    return common_factor(recorded_checks(failing), recorded_checks(CHECKS), verdicts)


def outside(path: Path) -> bool:
    return path.client.name.startswith("outside")


def test_one_protocol() -> None:
    assert factor(lambda path: outside(path) and path.protocol is Protocol.UDP) == "over UDP, not SCTP or TCP"


def test_one_family() -> None:
    assert factor(lambda path: outside(path) and path.family is Family.IPV6) == "over IPv6, not IPv4"


def test_one_of_two_outside_clients() -> None:
    assert factor(lambda path: path.client.name == "outside-2") == "for outside-2, not 5 others"


def test_one_client_over_one_family() -> None:
    said = factor(lambda path: path.client.name == "outside-2" and path.family is Family.IPV6)
    assert said == "over IPv6, not IPv4; for outside-2, not 5 others"


def test_one_port() -> None:
    named = factor(lambda path: path.port is Port.NAMED)
    assert "at port named, not 3 others" in named


def test_one_kind_of_backend() -> None:
    host = factor(lambda p: outside(p) and p.service is not None and p.service.backends.value == "host-network")
    assert "with backend host-network, not pod" in host


def test_everything_shares_nothing() -> None:
    assert factor(outside) == ""


def test_siblings_that_fail_as_well_take_the_factor_away() -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    sibling = by_id("nodeport.local.udp.ipv4.outside-1-to-endpoint-node")
    changes = {
        each.subject.path.key: [show(each.subject.path, AddressClass.NODE, seq) for seq in range(SAMPLES)]
        for each in (path_check, sibling)
    }
    made = changed_evidence(changes)
    verdicts = {each.id: judge(each, made) for each in CHECKS}
    assert verdicts[sibling.id].status is Status.FAIL
    assert "over TCP" not in common_factor(recorded_checks([path_check]), recorded_checks(CHECKS), verdicts)
    assert "over IPv4, not IPv6" in common_factor(recorded_checks([path_check]), recorded_checks(CHECKS), verdicts)


def test_what_was_not_asked_proves_nothing() -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    assert path_check.subject.path.service is not None
    assert path_check.subject.path.service.policy is TrafficPolicy.LOCAL
    assert (
        common_factor(
            recorded_checks([path_check]),
            recorded_checks([path_check]),
            {path_check.id: verdict(path_check, show(path_check.subject.path, AddressClass.NODE))},
        )
        == ""
    )
