"""What a cluster offers: families, as a dry run of a Service tells it; nodes at which health checks can run."""

from dataclasses import replace
from typing import Any, cast

import pytest

from esipp.app.plan.assumed_cluster import Asked, imagine
from esipp.base.errors import PreflightError
from esipp.checks.catalog import all_checks
from esipp.checks.check import HEALTH_VIEW, HOST_NETWORK, OWN_REFERENCE, Feature, is_instrument
from esipp.checks.health import Place
from esipp.checks.model import Family, Role
from esipp.checks.profile import LoadBalancer
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.rights import all_rights
from esipp.disruption.marks import CORDONED_BY
from esipp.judging.topology import MARKS, Node, read_node
from esipp.ledger.run import Settings
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.loadbalancers.views import CLOUDS, cloud_of
from esipp.preflight.preflight import Findings, _features, _service_families, examine, health_view_feature, role_of
from esipp.scenarios.health.objects import places_of
from tests.unit import rights_world
from tests.unit.world import NODES, ROLES, topology


class Admitting:
    """An API server that answers a dry run with these families, or fails."""

    def __init__(self, answer: list[str] | Exception | None) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, Any]]] = []

    def request(self, method: str, path: str, *, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((method, query["dryRun"], body["spec"]))
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"spec": {"ipFamilies": self.answer} if self.answer is not None else {}}


def families(answer: list[str] | Exception | None) -> list[str] | None:
    return _service_families(cast(Cluster, Admitting(answer)))


def features(services: set[str] | None) -> dict[str, Feature]:
    found = _features(topology().nodes, ROLES, services)
    return {name: found[name] for name in ("family.ipv4", "family.ipv6", "families.dual")}


def test_it_is_asked_with_a_dry_run_for_both_families() -> None:
    asked = Admitting(["IPv4"])
    assert _service_families(cast(Cluster, asked)) == ["IPv4"]
    ((method, dry_run, spec),) = asked.requests
    assert (method, dry_run, spec["ipFamilyPolicy"]) == ("POST", "All", "PreferDualStack")


@pytest.mark.parametrize("order", [["IPv4", "IPv6"], ["IPv6", "IPv4"]])
def test_families_of_services_are_in_the_order_of_the_cluster(order: list[str]) -> None:
    assert families(order) == order


@pytest.mark.parametrize("answer", [ApiError(403, "Forbidden", "no", "POST"), UnreachableError("gone"), [], None])
def test_what_does_not_tell_decides_nothing(answer: Any) -> None:
    assert families(answer) is None
    assert all(feature.present for feature in features(None).values())


def test_services_of_both_families() -> None:
    assert all(feature.present for feature in features({"IPv4", "IPv6"}).values())


@pytest.mark.parametrize(("has", "lacks"), [("IPv4", "IPv6"), ("IPv6", "IPv4")])
def test_single_stack_services_on_dual_stack_nodes_lack_a_family(has: str, lacks: str) -> None:
    found = features({has})
    assert found[f"family.{has.lower()}"].present
    missing = found[f"family.{lacks.lower()}"]
    assert not missing.present
    assert not missing.ours, "the cluster lacks it, not we"
    assert missing.why == f"every node has an InternalIP, but a Service gets only {has} (dry run)"
    assert not found["families.dual"].present


# ------------------------------------------------------------------------------------------- nodes that are marked
def node(name: str, *marks: str, usable: bool = True) -> Node:
    return Node(name, {}, frozenset(), usable=usable, marks=frozenset(marks))


K3S = {Role.ENDPOINT_NODE: "a", Role.BARE_NODE: "b", Role.OTHER_NODE: "c"}
CONTROL, EXCLUDED = MARKS


@pytest.mark.parametrize(
    ("nodes", "where"),
    [
        ([node("a", CONTROL), node("b"), node("c")], {}),  # k3s: the control plane takes pods
        ([node("a", CONTROL), node("b"), node("c"), node("d", CONTROL)], {Place.CONTROL_PLANE: "d"}),
        ([node("a"), node("b", EXCLUDED), node("c"), node("d", EXCLUDED, usable=False)], {}),
        (  # kind: one node is both
            [node("a"), node("b"), node("c"), node("d", CONTROL, EXCLUDED)],
            {Place.CONTROL_PLANE: "d", Place.EXCLUDED: "d"},
        ),
    ],
)
def test_a_marked_node_that_plays_a_role_is_no_place_of_its_own(nodes: list[Node], where: dict[Place, str]) -> None:
    found = places_of(iter(nodes), K3S)
    assert {place: found.get(place) for place in (Place.CONTROL_PLANE, Place.EXCLUDED) if place in found} == where
    result = _features({each.name: each for each in nodes}, K3S, None)
    assert result["nodes.control-plane"].present is (Place.CONTROL_PLANE in where)
    assert result["nodes.excluded"].present is (Place.EXCLUDED in where)


class Small:
    """A cluster with one node that takes pods; the other is cordoned, by a run or not."""

    context = "home"

    def __init__(self, annotations: dict[str, str] | None) -> None:
        self.annotations = annotations

    def version(self) -> str:
        return "v1.36.0"

    def may(self, verb: str, resource: str, **_: object) -> bool:
        return True

    def list(self, path: str) -> list[dict[str, Any]]:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        cordoned = {"name": "b", "annotations": self.annotations}
        return [
            {"metadata": {"name": "a"}, "status": ready},
            {"metadata": cordoned, "spec": {"unschedulable": True}, "status": ready},
        ]


@pytest.mark.parametrize(
    ("annotations", "hint"),
    [
        ({CORDONED_BY: "host/1"}, "a run left b cordoned: 'esipp clean --context home' undoes that."),
        ({"other": "x"}, "remove its taint or cordon"),
        (None, "remove its taint or cordon"),
    ],
)
def test_what_a_killed_run_left_cordoned_is_said(annotations: dict[str, str] | None, hint: str) -> None:
    with pytest.raises(PreflightError) as refused:
        examine(cast(Cluster, Small(annotations)), Settings(context="home"))
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("scheme", "on_path", "reference", "present", "ours", "why"),
    [
        ("kind", True, {}, False, False, "esipp cannot query the load balancer of provider 'kind'"),
        ("aws", True, {}, True, False, "'aws' is on PATH"),
        ("gce", False, {}, False, True, "'gcloud', which queries the load balancer, is not on PATH"),
        ("kind", False, {"default": "reference-ecmp"}, True, False, "the reference load balancer serves Services"),
        ("kind", False, {"period": 1.0}, False, False, "esipp cannot query"),
    ],
)
def test_whether_the_own_balancer_can_be_asked(
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
    reference: dict[str, Any],
    why: str,
    *,
    on_path: bool,
    present: bool,
    ours: bool,
) -> None:
    monkeypatch.setattr("esipp.preflight.preflight.shutil.which", lambda name: f"/bin/{name}" if on_path else None)
    nodes = [Node(name, {}, frozenset(), provider_id=f"{scheme}://x/{name}") for name in "ab"]
    found = health_view_feature(nodes, reference)
    assert (found.present, found.ours) == (present, ours)
    assert found.why.startswith(why)


@pytest.mark.parametrize("scheme", [*CLOUDS, "kind", ""])
@pytest.mark.parametrize("profile", all_profiles(), ids=lambda profile: profile.name)
def test_a_run_and_a_plan_ask_the_same_load_balancers_for_their_view(
    monkeypatch: pytest.MonkeyPatch, profile: LoadBalancer, scheme: str
) -> None:
    monkeypatch.setattr("esipp.preflight.preflight.shutil.which", lambda name: f"/bin/{name}")
    nodes = [Node(name, {}, frozenset(), provider_id=f"{scheme}://x/{name}" if scheme else "") for name in "ab"]
    planned = imagine(Asked(profile, all_checks())).features[HEALTH_VIEW]
    found = health_view_feature(nodes, {}, profile)
    assert found.present == (planned.present and scheme == cloud_of(profile))
    assert profile.name in found.why or found.present
    assert health_view_feature(nodes, {}).present == (scheme in CLOUDS), "nobody said whose it is"


def test_every_cloud_that_can_be_asked_has_a_profile() -> None:
    assert {cloud_of(profile) for profile in all_profiles()} == {*CLOUDS, ""}


# ---------------------------------------------------------------------------------------------- which nodes are asked
class Large(rights_world.Guarded):
    """A cluster of so many nodes."""

    def __init__(self, nodes: int) -> None:
        super().__init__(all_rights())
        self.nodes = [rights_world.node(f"n{number:03}", number % 250 + 1) for number in range(nodes)]

    def list(self, path: str, **query: str) -> list[dict[str, Any]]:
        return self.nodes if path == "/api/v1/nodes" else super().list(path, **query)


def sampled(nodes: int, **settings: Any) -> Findings:
    result = Settings(context="home", outside="none", **settings)
    return examine(cast(Cluster, Large(nodes)), result, ["source_ip"])


def test_the_sample_is_a_fact_with_how_it_was_chosen() -> None:
    found = sampled(300, seed=7, sample_nodes=20)
    assert len(found.sample.nodes) == 20
    assert found.facts["nodes.sampled"] == f"20 of 300: {', '.join(found.sample.nodes)}"
    assert found.decided["nodes.sampled"].startswith("--sample-nodes 20: nodes with a role, and 17 of the 297")
    assert found.decided["nodes.sampled"].endswith("--seed 7")
    assert set(found.roles.values()) <= set(found.sample.nodes)


def test_of_few_nodes_it_is_all_whatever_the_seed() -> None:
    for seed in (0, 1, 2):
        assert sorted(sampled(4, seed=seed).sample.nodes) == ["n000", "n001", "n002", "n003"]
    assert sampled(4).sample.remark == ""


@pytest.mark.parametrize(("version", "hosted"), [("v1.11.9", False), ("v1.12.0", True), ("v1.36.3", True)])
def test_agents_need_a_server_that_places_them(version: str, hosted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Large, "version", lambda _: version)
    feature = sampled(4).features[HOST_NETWORK]
    assert feature.present is hosted
    assert hosted or "1.12" in feature.why


@pytest.mark.parametrize(
    ("settings", "role"),
    [({}, "instrument"), ({"period": 1.0}, "instrument"), ({"default": "reference-ecmp"}, "own")],
)
def test_the_reference_balancer_is_the_clusters_own_where_it_serves_services_without_a_class(
    settings: dict[str, Any], role: str
) -> None:
    assert role_of(settings) == role
    check = next(check for check in all_checks() if check.instrument)
    assert is_instrument(check, {OWN_REFERENCE: role}) is (role == "instrument")
    assert is_instrument(check, {})


# ------------------------------------------------------------------------------------------ nodes without an InternalIP
def addressed(name: str, **addresses: str) -> Node:
    listed = [{"type": kind.partition("_")[0], "address": address} for kind, address in addresses.items()]
    return read_node({"metadata": {"name": name}, "status": {"addresses": listed}})


def test_an_external_ip_stands_for_an_internal_one_where_there_is_none() -> None:
    only = addressed("a", ExternalIP="192.0.2.1", ExternalIP_6="2001:db8::1", Hostname="a")
    assert only.internal == {Family.IPV4: "192.0.2.1", Family.IPV6: "2001:db8::1"}
    assert only.only_external
    both = addressed("b", ExternalIP="192.0.2.2", InternalIP="10.0.0.2", ExternalIP_6="2001:db8::2")
    assert (both.internal, both.only_external) == ({Family.IPV4: "10.0.0.2"}, False)
    assert (both.external, only.external) == ({Family.IPV4: "192.0.2.2", Family.IPV6: "2001:db8::2"}, {})


def test_that_an_external_ip_is_dialled_is_reported() -> None:
    nodes = {name: addressed(name, ExternalIP=f"192.0.2.{number}") for number, name in enumerate(NODES, 1)}
    found = _features(nodes, ROLES, {"IPv4"})
    assert found["family.ipv4"].present
    assert found["family.ipv4"].why == f"node {NODES[0]} has no InternalIP; esipp dials its ExternalIP 192.0.2.1"
    assert "has no IPv6 InternalIP" in found["family.ipv6"].why


def test_a_family_that_one_node_lacks_is_asked_of_the_others() -> None:
    nodes = {name: addressed(name, InternalIP=f"10.0.0.{number}") for number, name in enumerate(NODES, 1)}
    nodes = {name: replace(node, usable=True) for name, node in nodes.items()}
    both = {name: replace(node, internal=node.internal | {Family.IPV6: "2001:db8::1"}) for name, node in nodes.items()}
    families = {"IPv4", "IPv6"}
    found = _features({**both, "fourth": replace(nodes[NODES[0]], name="fourth")}, ROLES, families)
    some = "4 of 5 nodes that can run pods have an IPv6 InternalIP, not fourth"
    assert found["family.ipv6"] == found["nodes.ipv6"] == Feature(True, some)
    found = _features({**both, NODES[0]: nodes[NODES[0]]}, ROLES, families)
    assert found["family.ipv6"] == Feature(False, f"node {NODES[0]} has no IPv6 InternalIP")
    assert found["nodes.ipv6"].present, "so that a check can say that one node lacks it"
    assert not _features(nodes, ROLES, families)["nodes.ipv6"].present
    assert not _features(both, ROLES, {"IPv4"})["nodes.ipv6"].present


def test_zones_are_a_feature_where_each_node_with_a_role_has_its_own() -> None:
    def found(*zones: str) -> Feature:
        played = (ROLES[role] for role in (Role.ENDPOINT_NODE, Role.BARE_NODE, Role.OTHER_NODE))
        playing = dict(zip(played, zones, strict=True))
        nodes = topology().nodes
        return _features({n: replace(each, zone=playing.get(n, "")) for n, each in nodes.items()}, ROLES, None)[
            "nodes.zones"
        ]

    assert found("a", "b", "c") == Feature(True, "3 nodes in a zone of their own each")
    assert not found("a", "b", "b").present
    assert "are in one zone, b" in found("a", "b", "b").why
    assert found("a", "b", "").why.endswith("has no label topology.kubernetes.io/zone")


def test_what_is_missing_is_reported_in_a_sentence() -> None:
    two = dict.fromkeys(ROLES, NODES[0]) | {Role.BARE_NODE: NODES[1]}
    found = _features(topology().nodes, two, {"IPv4"})
    assert found["nodes.three"].why.startswith("only two nodes can run pods; these checks need a third node")
    assert found["nodes.excluded"].why.startswith("no node without another role has the label")
