"""Checks of interoperability: who stands where, what must answer, what must not, and what is known to differ."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.base.document import WIDTH
from esipp.checks.check import Level, Status
from esipp.checks.explain import picture
from esipp.checks.interoperability import MANY_SERVICES, Kind
from esipp.checks.model import (
    NO_ANSWER,
    AddressClass,
    Backends,
    EntryKind,
    Family,
    Outcome,
    Role,
    TrafficPolicy,
    Vantage,
)
from esipp.checks.reference import titles
from esipp.cluster.client import ApiError, Cluster
from esipp.judging.observation import Observation
from esipp.preflight import steps as dns
from esipp.report.pages import checks_page
from esipp.report.terminal import summary
from esipp.scenarios.interoperability import scale
from esipp.scenarios.interoperability.dns import CLUSTER_DOMAIN, say, say_addresses
from esipp.scenarios.interoperability.objects import objects
from esipp.testbed.objects import Ground
from suites.interoperability import checks, inside
from suites.interoperability.checks import CHECKS as ALL
from tests.unit.recorded_world import recorded
from tests.unit.verdicts import judge
from tests.unit.world import (
    CHECKS,
    FEATURES,
    NODE_ADDRESSES,
    NODES,
    ROLES,
    SOURCE_IP,
    answer,
    by_id,
    evidence,
    show,
    topology,
    verdict,
)

BARE = tuple(each.id for each in inside.CHECKS if each.subject.path.client.role is Role.BARE_NODE)
OUTSIDE_BARE = "interop.nodeport.local.tcp.ipv4.outside-1-to-bare-node"
OWN_PORT = "interop.nodeport.local.tcp.ipv4.{}-on-bare-node-to-bare-node"
VIP = "interop.loadbalancer.local.tcp.ipv4.{}-on-bare-node-to-vip"


def test_ids_are_this_suites_own_and_collide_with_none() -> None:
    assert all(check.id.startswith("interop.") for check in ALL)
    assert [name for name, count in Counter(check.id for check in ALL).items() if count > 1] == []
    assert {check.suite for check in ALL} == {"interoperability"}
    shared = {path_check.subject.path for path_check in inside.CHECKS} & {
        path_check.subject.path for path_check in SOURCE_IP
    }
    assert shared, "some paths are those of the source IP suite, and are probed once for both"


def test_both_clients_on_the_bare_node_dial_every_kind_of_entry() -> None:
    for vantage in (Vantage.POD, Vantage.NODE):
        paths = [by_id(identity).subject.path for identity in BARE]
        entries = {(path.entry.kind, path.entry.role) for path in paths if path.client.vantage is vantage}
        assert entries == {
            (EntryKind.CLUSTER_IP, None),
            (EntryKind.VIP, None),
            (EntryKind.EXTERNAL_IP, Role.ENDPOINT_NODE),
            (EntryKind.EXTERNAL_IP, Role.BARE_NODE),
            (EntryKind.NODE_PORT, Role.ENDPOINT_NODE),
            (EntryKind.NODE_PORT, Role.BARE_NODE),
            (EntryKind.NODE_PORT, Role.OTHER_NODE),
        }


def test_what_is_served_inside_is_silent_outside_at_the_same_node_and_of_the_same_service() -> None:
    """So that a data plane which takes Local for Cluster fails, and one that drops everybody as well."""
    silent = {
        (c.subject.path.service, c.subject.path.entry, c.subject.path.protocol, c.subject.path.family)
        for c in inside.CHECKS
        if c.subject.is_negative and c.subject.path.client.vantage is Vantage.OUTSIDE
    }
    served = {
        (c.subject.path.service, c.subject.path.entry, c.subject.path.protocol, c.subject.path.family)
        for c in inside.CHECKS
        if c.id in BARE and c.subject.accept == {AddressClass.CLIENT} and c.subject.path.entry.role is Role.BARE_NODE
    }
    local = {each for each in served if each[0].policy is TrafficPolicy.LOCAL and each[0].backends is Backends.POD}
    assert local
    assert local <= silent


@pytest.mark.parametrize("identity", BARE)
def test_in_cluster_clients_that_are_dropped_on_bare_nodes_are_noticed(identity: str) -> None:
    path_check = by_id(identity)
    said = verdict(path_check, show(path_check.subject.path, AddressClass.DROPPED))
    assert said.status is (Status.PASS if path_check.subject.is_negative else Status.FAIL)


@pytest.mark.parametrize("seen", [AddressClass.NODE, AddressClass.CLIENT])
def test_a_bare_node_that_serves_clients_outside_is_noticed(seen: AddressClass) -> None:
    for path_check in (
        c for c in inside.CHECKS if c.subject.is_negative and c.subject.path.client.vantage is Vantage.OUTSIDE
    ):
        assert verdict(path_check, show(path_check.subject.path, seen)).status is Status.FAIL


@pytest.mark.parametrize("who", ["pod", "host"])
@pytest.mark.parametrize("identity", [OWN_PORT, VIP])
@pytest.mark.parametrize(
    ("version", "mode", "status"),
    [
        ("v1.33.5", "nftables", Status.KNOWN),
        ("v1.33.6", "nftables", Status.FAIL),
        ("v1.34.0", "nftables", Status.FAIL),
        ("v1.33.5", "iptables", Status.FAIL),
    ],
)
def test_nftables_had_no_short_circuit_before_1_33_6(
    identity: str, who: str, version: str, mode: str, status: Status
) -> None:
    path_check = by_id(identity.format(who))
    facts = {"kube-proxy-version": version, "proxy-mode": mode}
    said = verdict(path_check, show(path_check.subject.path, AddressClass.DROPPED), facts=facts)
    assert said.status is status
    assert ("#131765" in titles(said.references)) is (status is Status.KNOWN)


def test_silent_checks_rest_on_siblings_that_answer_and_not_on_what_is_known_to_be_missing_before_1_33_6() -> None:
    path_check = by_id(OUTSIDE_BARE)
    for control in path_check.subject.controls[1:]:
        assert verdict(path_check, also=[show(control.path, AddressClass.DROPPED)]).status is Status.INCONCLUSIVE
    *own, served = path_check.subject.controls
    assert {control.path.client for control in own} == {path_check.subject.path.client}
    assert (served.path.client.role, served.path.entry.kind) == (Role.BARE_NODE, EntryKind.CLUSTER_IP)


def test_what_a_sentence_says_of_clients_inside_is_looked_at_in_the_same_window() -> None:
    result = [
        path_check for path_check in inside.CHECKS if "Meanwhile, a pod on that node reaches" in path_check.requirement
    ]
    assert len(result) == 16
    for path_check in result:
        served = [c for c in path_check.subject.controls if c.path.client.vantage is Vantage.POD]
        assert [(c.path.client.role, c.path.service) for c in served] == [
            (path_check.subject.path.entry.role, path_check.subject.path.service)
        ]


def test_sentences_of_trials_say_of_whom_where_and_from_whom() -> None:
    for check in checks.OF_SCENARIOS:
        assert not {"{", "}"} & set(check.requirement + check.expected), check.id
        of, said = check.subject, check.requirement
        assert of.kind is None or of.claim == "gone" or checks.KINDS[of.kind] in said, check.id
        assert of.scenario != "many" or of.place is None or checks.PLACES[of.place] in said, check.id
        assert of.client is None or checks.WHO[of.client.name] in said, check.id
    expected = {check.id: check.expected for check in checks.OF_SCENARIOS}
    assert expected["interop.many.loadbalancer-local.status.endpoint-node"] == "200, from every Service"
    assert expected["interop.many.loadbalancer-local.status.control-plane"] == "503, from every Service"


def test_the_control_planes_node_is_as_any_other_but_to_load_balancers() -> None:
    own = [
        c for c in inside.CHECKS if c.subject.path.service and c.subject.path.service.backends is Backends.CONTROL_PLANE
    ]
    assert all("nodes.control-plane" in path_check.features for path_check in own)
    recorded = {(c.subject.path.client.vantage, c.subject.path.entry.kind) for c in own if c.level is Level.RECORD}
    assert recorded == {(Vantage.OUTSIDE, EntryKind.VIP)}
    asked = next(c for c in own if c.subject.path.entry.role is Role.CONTROL_PLANE)
    assert verdict(asked, show(asked.subject.path, AddressClass.NODE)).status is Status.FAIL
    elsewhere = next(c for c in own if c.subject.path.entry.role is Role.ENDPOINT_NODE)
    assert elsewhere.subject.accept == NO_ANSWER
    assert "control plane" in "\n".join(picture(asked))


def test_host_network_backends_show_masqueraded_pods_only_where_the_add_on_does_so() -> None:
    path_check = by_id("interop.nodeport.local.host-network.tcp.ipv4.pod-on-bare-node-to-bare-node")
    masqueraded = {"pod-to-node.ipv4": "masqueraded"}
    own, other = (
        answer(path_check.subject.path, NODE_ADDRESSES[NODES[of]][path_check.subject.path.family]) for of in (1, 2)
    )
    assert verdict(path_check, own).status is Status.FAIL
    assert verdict(path_check, own, facts=masqueraded).status is Status.KNOWN
    assert verdict(path_check, other, facts=masqueraded).status is Status.FAIL, (
        "a node's address, but not its own node's"
    )


def test_the_suite_is_of_a_size_that_can_be_read() -> None:
    assert 100 <= len(inside.CHECKS) <= 170
    assert len(ALL) - len(inside.CHECKS) == len(checks.OF_SCENARIOS) < 100
    assert {path_check.id for path_check in inside.CHECKS} <= {path_check.id for path_check in CHECKS}


# ----------------------------------------------------------------------------------------------------- what is needed
def ground() -> Ground:
    return Ground("0101-000000-abcd", "image", topology().nodes, ROLES, FEATURES)


def test_props_are_those_of_the_trials_that_are_asked() -> None:
    def needed(trial: str) -> tuple[set[str], set[str], set[str]]:
        made = objects([check for check in checks.OF_SCENARIOS if check.subject.scenario == trial], ground())
        pods, services = ({each["metadata"]["name"] for each in of} for of in (made.pods, made.services))
        return pods, services, {client.name for client in made.clients}

    on = {"neighbour-b-on-endpoint-node", "neighbour-b-on-bare-node"}
    assert needed("neighbours") == (on, {"neighbour-a", "neighbour-b"}, {"outside-1"})
    assert needed("many") == (set(), set(), {"outside-1"})
    pods, services, clients = needed("names")
    assert pods == {"named-ready", "named-unready"}
    assert services == {"named", "named-headless", "named-published", "named-balanced"}
    assert clients == {"pod-on-endpoint-node", "pod-on-bare-node", "pod-on-other-node"}


def test_many_are_as_many_of_each_kind_and_family_and_use_up_no_vip() -> None:
    kinds, families = list(Kind), list(Family)
    made = [scale.manifest("r", n, kinds[n % 4], families[n // 4 % 2]) for n in range(MANY_SERVICES)]
    assert len({item["metadata"]["name"] for item in made}) == MANY_SERVICES
    result = Counter((item["spec"].get("externalTrafficPolicy"), item["spec"]["type"]) for item in made)
    assert set(result.values()) == {MANY_SERVICES // 4}
    balanced = [item["spec"] for item in made if item["spec"]["type"] == "LoadBalancer"]
    assert {spec["loadBalancerClass"] for spec in balanced} == {"esipp.dev/nobody"}
    assert {spec["ipFamilies"][0] for spec in balanced} == {"IPv4", "IPv6"}


# ----------------------------------------------------------------------------------------------------------- DNS
class Lists:
    """An API server that lists these."""

    def __init__(self, services: list[str], slices: list[Any]) -> None:
        self.services, self.slices = services, slices

    def list(self, collection: str, **query: str) -> list[Any]:
        assert set(query) == {"labelSelector"}
        if collection.endswith("/services"):
            return [{"metadata": {"name": name}} for name in self.services]
        return self.slices


def feature(services: list[str], *ready: bool | None) -> Any:
    endpoints = [{"conditions": {} if each is None else {"ready": each}} for each in ready]
    return dns.dns_feature(cast(Cluster, Lists(services, [{"endpoints": endpoints}, {"endpoints": None}])))


def test_dns_is_there_where_its_service_has_a_ready_endpoint() -> None:
    assert feature(["kube-dns"], False, True).present
    assert feature(["kube-dns"], None).present, "unknown is to be taken for ready"
    assert "1 ready endpoints" in feature(["kube-dns"], False, True).why
    assert not feature(["kube-dns"], False).present
    assert "no Service with the label" in feature([]).why


def test_dns_that_cannot_be_looked_for_is_missing() -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ApiError(403, "Forbidden", "no", "GET x")

    found = dns.dns_feature(cast(Cluster, SimpleNamespace(list=refuse)))
    assert not found.present
    assert "cannot read Services and EndpointSlices of kube-system" in found.why


def test_the_cluster_domain_is_read_from_a_pods_resolver() -> None:
    usual = "nameserver 10.96.0.10\nsearch esipp-x.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5"
    own = "search ns.svc.k8s.example.com svc.k8s.example.com k8s.example.com lan"
    for text, domain in ((usual, "cluster.local"), (own, "k8s.example.com")):
        found = CLUSTER_DOMAIN.search(text)
        assert found is not None
        assert found[1] == domain
    assert CLUSTER_DOMAIN.search("search lan\nnameserver 192.0.2.1") is None


def test_lookups_are_compared_as_addresses() -> None:
    assert say_addresses(["fd00::0:1", "fd00::1"]) == "fd00::1"
    assert say_addresses(["10.0.0.9", "10.0.0.10"]) == "10.0.0.9, 10.0.0.10"
    found = Observation("x", 0, Outcome.ANSWERED, addresses=("10.0.0.10", "10.0.0.9"))
    assert say(found) == "10.0.0.9, 10.0.0.10"
    unknown = Observation("x", 0, Outcome.UNRESOLVED, detail="EAI_NONAME: Name or service not known")
    assert say(unknown) == "unresolved (EAI_NONAME)"


# ------------------------------------------------------------------------------------------------------- the reports
def test_the_summary_says_whose_matrix_it_is_where_there_are_several() -> None:
    path_checks = [*SOURCE_IP[:40], *inside.CHECKS[:40]]
    verdicts = {path_check.id: judge(path_check, evidence()) for path_check in path_checks}
    lines = summary(recorded(path_checks, verdicts))
    assert [line for line in lines if line.startswith("suite ")] == ["suite source_ip", "suite interoperability"]
    assert max(len(line) for line in lines) <= WIDTH
    own = summary(
        recorded(
            inside.CHECKS,
            {path_check.id: verdicts[path_check.id] for path_check in inside.CHECKS if path_check.id in verdicts},
        )
    )
    assert not any(line.startswith("suite ") for line in own), "one suite alone needs no name"


def test_the_page_of_checks_tells_paths_and_trials_of_this_suite_under_one_title() -> None:
    page = checks_page([*SOURCE_IP[:10], *ALL])
    own = page.partition("## Interoperability")[2]
    assert own.startswith(f"\n\n{len(ALL)} checks: ")
    assert "interop.neighbours.kept" in own
    assert "interop." not in page.partition("## Interoperability")[0]
