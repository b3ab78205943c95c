"""Everything that a run creates carries what the user wants of it, and what the suite itself says stays as it is."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.base.customisation import NOTHING, PULL_SECRET, Annotation, Customisation, On, Toleration
from esipp.base.json import Json
from esipp.base.labels import labels_of
from esipp.checks.catalog import HOUSE
from esipp.checks.model import Role
from esipp.cluster.client import Cluster
from esipp.cluster.dialect import dialect_of
from esipp.judging.topology import cast_roles, marked, read_node
from esipp.ledger.run import DEFAULT_NODES
from esipp.testbed.sampling import sample
from tests.unit import objects_world as world

TAINT = Toleration("dedicated", "qualification", "NoSchedule")
ANY_GPU = Toleration("nvidia.com/gpu")
WISHES = Customisation(
    labels=(("cost-centre", "4711"), ("example.com/owner", "net")),
    annotations=(
        Annotation(On.SERVICE, "cloud.example.com/internal", "true"),
        Annotation(On.POD, "sidecar.istio.io/inject", "false"),
        Annotation(On.NAMESPACE, "scheduler.example.com/selector", ""),
    ),
    namespace_labels=(("istio-injection", "disabled"),),
    tolerations=(TAINT, ANY_GPU),
    pull_secret="there/pull",  # noqa: S106 - a name, no password
)
EVERYTHING = world.everything()
NAMES = [f"{number}-{path.rpartition('/')[2]}" for number, (path, _) in enumerate(EVERYTHING)]
EMULATES = [(path, item, cast(Json, WISHES.on("POST", path, item))) for path, item in EVERYTHING]


def pods() -> list[Json]:
    """All pods, the Deployment's and the agents' too."""
    found = [item for path, _, item in EMULATES if path.endswith("/pods")]
    of_others = ("/deployments", "/daemonsets")
    return found + [item["spec"]["template"] for path, _, item in EMULATES if path.endswith(of_others)]


def of(kind: str) -> list[tuple[Json, Json]]:
    return [(before, after) for path, before, after in EMULATES if path.endswith(f"/{kind}")]


def test_all_kinds_are_among_what_is_looked_at() -> None:
    kinds = {path.rpartition("/")[2] for path, _ in EVERYTHING}
    assert kinds == {"namespaces", "pods", "services", "deployments", "daemonsets", "networkpolicies", "secrets"}
    assert len(of("services")) > 200, "those of chains of requests, too"


@pytest.mark.parametrize("made", EMULATES, ids=NAMES)
def test_every_object_carries_the_runs_labels_and_the_users(made: tuple[str, Json, Json]) -> None:
    _, before, after = made
    labels = after["metadata"]["labels"]
    assert labels.items() >= dict(WISHES.labels).items()
    assert labels.items() >= before["metadata"]["labels"].items() >= labels_of(world.RUN).items()


def test_every_pod_carries_labels_tolerations_the_pull_secret_and_its_annotations() -> None:
    assert len(pods()) > 30
    for pod in pods():
        spec = pod["spec"]
        assert pod["metadata"]["labels"].items() >= dict(WISHES.labels).items()
        assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
        assert spec["imagePullSecrets"] == [{"name": PULL_SECRET}]
        everything = {"operator": "Exists"} in spec["tolerations"]
        assert everything or [TAINT.as_json(), ANY_GPU.as_json()] == spec["tolerations"]


def test_a_deployments_pods_bear_the_users_taints_and_no_others() -> None:
    ((before, after),) = of("deployments")
    assert "tolerations" not in before["spec"]["template"]["spec"], "a node that is cordoned takes none of them"
    template = after["spec"]["template"]
    assert template["spec"]["tolerations"] == [
        {"key": "dedicated", "operator": "Equal", "value": "qualification", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
    ]
    assert template["metadata"]["annotations"].items() >= before["spec"]["template"]["metadata"]["annotations"].items()
    assert after["spec"]["selector"] == before["spec"]["selector"]


def test_annotations_of_services_are_for_the_clusters_own_load_balancer() -> None:
    carry = 0
    for before, after in of("services"):
        own = world.is_served(before)
        noted = (after["metadata"].get("annotations") or {}).get("cloud.example.com/internal")
        assert noted == ("true" if own else None), after["metadata"]["name"]
        carry += own
        assert after["spec"] == before["spec"]
    assert 0 < carry < len(of("services"))


def test_the_page_says_how_many_agents_there_are() -> None:
    page = " ".join((HOUSE / "docs" / "deploying.md").read_text().split())
    assert f"* a DaemonSet of agents, on {DEFAULT_NODES} nodes at most" in page


def test_the_namespace_has_labels_and_annotations_of_its_own() -> None:
    ((before, after),) = of("namespaces")
    assert after["metadata"]["labels"]["istio-injection"] == "disabled"
    assert after["metadata"]["annotations"] == {
        **before["metadata"]["annotations"],
        "scheduler.example.com/selector": "",
    }
    others = [item for path, _, item in EMULATES if not path.endswith("/namespaces")]
    assert not any("istio-injection" in item["metadata"]["labels"] for item in others)


def test_what_is_given_is_left_as_it_was() -> None:
    before = json.dumps([item for _, item in EVERYTHING])
    for path, item in EVERYTHING:
        WISHES.on("POST", path, item)
        assert NOTHING.on("POST", path, item) is item
    assert json.dumps([item for _, item in EVERYTHING]) == before


OURS = {"metadata": {"name": "x", "labels": labels_of("r")}, "spec": {"type": "LoadBalancer"}}
THERE = "/api/v1/namespaces/esipp-r"


@pytest.mark.parametrize(
    ("method", "path", "body", "content", "dressed"),
    [
        ("PUT", f"{THERE}/services/x", OURS, "application/json", True),
        ("PATCH", f"{THERE}/services/x", OURS, "application/apply-patch+yaml", True),
        ("PUT", f"{THERE}/services/x", {"metadata": {"name": "x"}}, "application/json", False),
        ("PATCH", f"{THERE}/services/x", {"spec": {}}, "application/merge-patch+json", False),
        ("PATCH", f"{THERE}/services/x", OURS, "application/merge-patch+json", False),
        ("PATCH", f"{THERE}/pods/x/status", OURS, "application/apply-patch+yaml", False),
        ("POST", f"{THERE}/pods/x/eviction", {"metadata": {"name": "x"}}, "application/json", False),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {}}, "application/json", False),
        ("POST", "/api/v1/namespaces/default/services", {"metadata": {}, "spec": {}}, "application/json", True),
    ],
)
def test_which_requests_carry_an_object(method: str, path: str, body: Json, content: str, dressed: bool) -> None:
    """A dry run is a POST, too: what is asked of admission must be what is made later."""
    sent = cast(Json, WISHES.on(method, path, body, content))
    assert (sent != body) is dressed
    assert bool((sent.get("metadata") or {}).get("labels", {}).get("cost-centre")) is dressed


def test_a_json_patch_is_left_alone() -> None:
    patch: Any = [{"op": "remove", "path": "/spec/x"}]
    assert WISHES.on("PATCH", f"{THERE}/services/x", patch, "application/json-patch+json") is patch


def test_the_cluster_sends_what_is_wished(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster.__new__(Cluster)
    cluster.customisation, cluster._dialect = WISHES, dialect_of("v1.36.0")
    cluster.request_timeout = 60.0
    sent: list[Json] = []

    def send(_method: str, _path: str, body: Json, *_: Any, **__: Any) -> Any:
        sent.append(body)
        return SimpleNamespace(data=b"{}", headers=None)

    monkeypatch.setattr(cluster, "_send", send)
    cluster.create(f"{THERE}/services", OURS)
    assert sent == [WISHES.on("POST", f"{THERE}/services", OURS)]
    assert sent[0]["metadata"]["annotations"] == {"cloud.example.com/internal": "true"}


# ------------------------------------------------------------------------------------------------------------- nodes
def node(name: str, *taints: str, **labels: str) -> Json:
    result = [dict(zip(("key", "value", "effect"), taint.split("/"), strict=True)) for taint in taints]
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"operatingSystem": "linux"}}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": result}, "status": ready}


@pytest.mark.parametrize(
    ("toleration", "schedulable"),
    [
        (None, False),
        (Toleration("dedicated"), True),
        (Toleration("dedicated", "x"), True),
        (Toleration("dedicated", "y"), False),
        (Toleration("dedicated", None, "NoSchedule"), True),
        (Toleration("dedicated", None, "NoExecute"), False),
        (Toleration("other"), False),
    ],
)
def test_which_taints_are_borne(toleration: Toleration | None, schedulable: bool) -> None:
    customisation = Customisation(tolerations=(toleration,) if toleration else ())
    assert read_node(node("a", "dedicated/x/NoSchedule"), customisation).schedulable is schedulable
    assert read_node(node("a", "soft/x/PreferNoSchedule"), customisation).schedulable
    assert not read_node(node("a", "dedicated/x/NoSchedule", "more/x/NoSchedule"), customisation).schedulable


def test_roles_are_cast_among_the_chosen_nodes_only() -> None:
    customisation = Customisation(node_selector=(("pool", "test"),))
    items = [node("a"), node("b", pool="test"), node("c", pool="other"), node("d", pool="test")]
    nodes = [read_node(item, customisation) for item in items]
    assert cast_roles(nodes) == {Role.ENDPOINT_NODE: "b", Role.BARE_NODE: "d", Role.OTHER_NODE: "d"}
    assert all(each.usable and each.schedulable for each in nodes), "they are nodes all the same"
    assert cast_roles([read_node(item) for item in items])[Role.ENDPOINT_NODE] == "a"
    with pytest.raises(ValueError, match="fewer"):
        cast_roles([read_node(item, Customisation(node_selector=(("pool", "none"),))) for item in items])


def test_a_marked_node_must_be_chosen_to_be_a_place() -> None:
    control = node("cp", **{"node-role.kubernetes.io/control-plane": ""})
    for selector, found in (((), "cp"), ((("pool", "test"),), None)):
        assert marked([read_node(control, Customisation(node_selector=selector))], {}, "control-plane") == found


def test_agents_stand_on_chosen_nodes_only() -> None:
    testbed = world.made_testbed(raw=False)
    names = [*testbed.nodes, "y-not-chosen", "z-chosen"]
    customisation = {
        name: Customisation(node_selector=(("pool", "test"),) if name.startswith("y") else ()) for name in names
    }
    testbed.nodes = {name: read_node(node(name), customisation[name]) for name in names}
    assert set(sample(testbed.nodes.values(), testbed.roles).nodes) == set(names) - {"y-not-chosen"}
