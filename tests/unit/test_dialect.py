"""Clusters of any age look like today's: ``Cluster`` against recorded server behaviour, over HTTP."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Budget
from esipp.checks.catalog import versions_of
from esipp.checks.health import Answer, Place
from esipp.checks.model import Family, Outcome
from esipp.checks.versions import needs_kubernetes, read_version
from esipp.cluster.client import NOT_THERE, ApiError, Cluster
from esipp.cluster.dialect import ALPHA, BETA, NEWEST, Dialect, dialect_of
from esipp.preflight.preflight import _external_ips, _service_families
from esipp.scenarios.health.evidence import Fact, HealthEvidence
from esipp.scenarios.health.judge import CLAIMS
from esipp.scenarios.health.port_lifecycle import LifeCycle
from esipp.scenarios.timeouts import TIMEOUTS
from esipp.testbed import manifests
from tests.unit.health_world import NAMESPACE, TRIALS, differing, say
from tests.unit.old_api_server import HIGH, LOW, NAMES, OldServer, record, serving

SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
OLD = [name for name in NAMES if name != "1.30"]
ANNOTATED = ["1.4", "1.5"]
LIFE = [check for check in TRIALS if check.subject.scenario == "lifecycle"]
Open = Callable[..., tuple[OldServer, Cluster]]


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Open]:
    """Opens a cluster whose server is of a recorded version."""
    left: list[Any] = []

    def open_cluster(name: str, version: str = "") -> tuple[OldServer, Cluster]:
        server = OldServer(record(name), version)
        context = serving(server, tmp_path)
        left.append(context)
        return server, Cluster("old", context.__enter__())

    yield open_cluster
    for context in left:
        context.__exit__(None, None, None)


def a_service(name: str = "one", **spec: Any) -> Json:
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}], **spec}
    return {"metadata": {"name": name, "labels": {"a": "b"}}, "spec": spec}


def seen(service: Json) -> tuple[Any, Any]:
    """What the rest of the suite looks at."""
    return service["spec"].get("externalTrafficPolicy"), service["spec"].get("healthCheckNodePort")


def refused(act: Callable[[], object]) -> ApiError:
    with pytest.raises(ApiError) as said:
        act()
    return said.value


# ------------------------------------------------------------------------------------------------------- the choice
@pytest.mark.parametrize(
    ("version", "writes", "reads"),
    [
        ("v1.4.12", ALPHA, (ALPHA,)),
        ("v1.5.8", BETA, (ALPHA, BETA)),
        ("v1.6.4+coreos.0", BETA, (ALPHA, BETA)),
        ("v1.7.16-gke.0", None, (BETA,)),
        ("v1.8.0", None, ()),
        ("v1.10.0", None, ()),
        ("v1.36.3", None, ()),
        ("v2.0.0", None, ()),
        ("mine", None, ()),
        ("", None, ()),
    ],
)
def test_the_dialect_is_chosen_by_version(version: str, writes: str | None, reads: tuple[str, ...]) -> None:
    dialect = dialect_of(version)
    assert (dialect.writes, dialect.reads) == (writes, reads)
    assert dialect.version == (read_version(version) or NEWEST)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_chosen_once(name: str, at: Open) -> None:
    server, cluster = at(name)
    for _ in range(3):
        cluster.list(SERVICES)
    assert [path for _, path, _ in server.asked].count("/version") == 1


@pytest.mark.parametrize("name", NAMES)
def test_each_record_names_its_sources_and_has_one_dialect(name: str) -> None:
    recorded = record(name)
    assert recorded["sources"]
    dialects = {(d.writes, d.reads) for d in map(dialect_of, [recorded["version"], *recorded["also"]])}
    assert len(dialects) == 1


# -------------------------------------------------------------------------------------------- policies and their ports
@pytest.mark.parametrize("name", NAMES)
def test_a_local_load_balancer_gets_a_port(name: str, at: Open) -> None:
    server, cluster = at(name)
    policy, port = seen(cluster.create(SERVICES, a_service()))
    assert policy == "Local"
    assert LOW < port <= HIGH
    assert server.ports() == {port: "one"}, "the server itself takes it so"
    assert seen(cluster.request("GET", f"{SERVICES}/one")) == ("Local", port)
    assert [seen(each) for each in cluster.list("/api/v1/services")] == [("Local", port)]
    watched = cluster.watch(SERVICES, budget=5)
    assert [(kind, seen(each)) for kind, each in (next(watched), next(watched))] == [
        ("ADDED", ("Local", port)),
        ("MODIFIED", ("Local", port)),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_other_services_get_none(name: str, at: Open) -> None:
    server, cluster = at(name)
    made = {
        "cluster": cluster.create(SERVICES, a_service("cluster", externalTrafficPolicy="Cluster")),
        "node-port": cluster.create(SERVICES, a_service("node-port", type="NodePort")),
        "plain": cluster.create(SERVICES, {"metadata": {"name": "plain"}, "spec": {"type": "NodePort"}}),
        "inside": cluster.create(SERVICES, {"metadata": {"name": "inside"}, "spec": {"type": "ClusterIP"}}),
    }
    assert {each: seen(service) for each, service in made.items()} == {
        "cluster": ("Cluster", None),
        "node-port": ("Local", None),
        "plain": ("Cluster", None),
        "inside": (None, None),
    }
    assert server.policy(server.services["node-port"]) == "local"
    assert server.ports() == {}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["merge-patch", "strategic-merge-patch"])
def test_policy_changes_by_patch(name: str, how: str, at: Open) -> None:
    server, cluster = at(name)
    port = seen(cluster.create(SERVICES, a_service(healthCheckNodePort=30077)))[1]
    assert port == 30077
    there = cluster.patch(f"{SERVICES}/one", {"spec": {"externalTrafficPolicy": "Cluster"}}, how)
    assert seen(there) == ("Cluster", None)
    assert server.ports() == {}
    chosen = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 30088}
    assert seen(cluster.patch(f"{SERVICES}/one", {"spec": chosen}, how)) == ("Local", 30088)
    assert server.ports() == {30088: "one"}
    unset = cluster.patch(f"{SERVICES}/one", {"spec": {"externalTrafficPolicy": None}}, how)
    assert seen(unset) == ("Cluster", None), "null takes it away"
    assert seen(cluster.patch(f"{SERVICES}/one", {"spec": {"type": "NodePort"}}, how)) == ("Cluster", None)


@pytest.mark.parametrize("name", NAMES)
def test_an_object_that_is_read_can_be_changed_and_sent_back(name: str, at: Open) -> None:
    server, cluster = at(name)
    cluster.create(SERVICES, a_service() | {"metadata": {"name": "one", "annotations": {"mine": "kept"}}})
    body = cluster.request("GET", f"{SERVICES}/one")
    assert body["metadata"]["annotations"] == {"mine": "kept"}, "no annotation of the server's form is seen"
    body["metadata"]["labels"] = {"new": "label"}
    again = cluster.request("PUT", f"{SERVICES}/one", body=body)
    assert seen(again) == seen(body)
    again["spec"]["externalTrafficPolicy"] = "Cluster"
    del again["spec"]["healthCheckNodePort"]
    assert seen(cluster.request("PUT", f"{SERVICES}/one", body=again)) == ("Cluster", None)
    assert server.ports() == {}
    assert server.services["one"]["metadata"]["annotations"]["mine"] == "kept"


@pytest.mark.parametrize("name", NAMES)
def test_refusals_name_the_field(name: str, at: Open) -> None:
    _, cluster = at(name)
    port = seen(cluster.create(SERVICES, a_service()))[1]
    changed = refused(lambda: cluster.patch(f"{SERVICES}/one", {"spec": {"healthCheckNodePort": port + 40}}))
    assert (changed.status, changed.reason) == (422, "Invalid")
    assert "spec.healthCheckNodePort: Invalid value" in changed.message
    taken = refused(lambda: cluster.create(SERVICES, a_service("two", healthCheckNodePort=port)))
    assert (taken.status, taken.reason) == (500, "InternalError")
    assert "already allocated" in taken.message


@pytest.mark.parametrize("name", ANNOTATED)
def test_a_port_that_such_a_server_takes_and_forgets_is_none(name: str, at: Open) -> None:
    """It refuses an unneeded port in updates only; the annotation stays, and means nothing."""
    server, cluster = at(name)
    for kind, policy in (("NodePort", "Local"), ("LoadBalancer", "Cluster")):
        spec = {"type": kind, "externalTrafficPolicy": policy, "healthCheckNodePort": 30050}
        assert seen(cluster.create(SERVICES, a_service(kind.lower(), **spec))) == (policy, None)
    assert server.ports() == {}


def test_what_people_left_in_an_older_form_is_read_as_that_server_takes_it(at: Open) -> None:
    for name, prefix in (("1.5", ALPHA), ("1.7", BETA)):
        server, cluster = at(name)
        notes = {f"{prefix}/external-traffic": "OnlyLocal"}
        server.answer(
            "POST",
            SERVICES,
            {},
            "",
            {"metadata": {"name": "x", "annotations": notes}, "spec": {"type": "LoadBalancer"}},
        )
        policy, port = seen(cluster.request("GET", f"{SERVICES}/x"))
        assert policy == "Local"
        assert {port: "x"} == server.ports()


def test_a_policy_and_a_port_of_two_forms_are_read_together() -> None:
    notes = {f"{BETA}/external-traffic": "OnlyLocal"}
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 30007}
    mixed = {"metadata": {"name": "x", "annotations": notes}, "spec": spec}
    assert seen(dialect_of("v1.7.16").back(f"{SERVICES}/x", mixed)) == ("Local", 30007)
    notes[f"{BETA}/healthcheck-nodeport"] = "30008"
    assert seen(dialect_of("v1.7.16").back(f"{SERVICES}/x", mixed)) == ("Local", 30008)


def test_old_annotations_mean_nothing_to_the_servers_of_today(at: Open) -> None:
    for name in ("1.8", "1.30"):
        server, cluster = at(name)
        notes = {f"{BETA}/external-traffic": "OnlyLocal", f"{ALPHA}/healthcheck-nodeport": "30001"}
        made = cluster.create(
            SERVICES, {"metadata": {"name": "x", "annotations": notes}, "spec": {"type": "LoadBalancer"}}
        )
        assert seen(made) == ("Cluster", None)
        assert made["metadata"]["annotations"] == notes
        assert server.ports() == {}


# ------------------------------------------------------------------------------------------- what is not there at all
@pytest.mark.parametrize("name", OLD)
def test_what_would_be_taken_for_something_else_is_not_sent(name: str, at: Open) -> None:
    server, cluster = at(name)
    cluster.create(SERVICES, a_service())
    before = len(server.asked)
    apply = refused(lambda: cluster.patch(f"{SERVICES}/one", a_service(), "apply-patch"))
    dry = refused(lambda: cluster.request("POST", SERVICES, body=a_service("dry"), query={"dryRun": "All"}))
    assert {apply.reason, dry.reason} == {NOT_THERE}
    assert f"Kubernetes {name} does not support server-side apply" in apply.message
    assert "dry runs, and would create the object" in dry.message
    assert len(server.asked) == before
    assert "dry" not in server.services


@pytest.mark.parametrize("name", OLD)
def test_preflight_asks_without_a_dry_run_what_it_can(name: str, at: Open) -> None:
    server, cluster = at(name)
    cluster.create("/api/v1/namespaces/default/services", {"metadata": {"name": "kubernetes"}, "spec": {}})
    assert _external_ips(cluster).present
    assert "does not support dry runs" in _external_ips(cluster).why
    assert _service_families(cluster, server.version) == ["IPv4"]
    assert set(server.services) == {"kubernetes"}, "nothing was created"


def test_today_both_are_sent(at: Open) -> None:
    server, cluster = at("1.30")
    cluster.create(SERVICES, a_service())
    cluster.request("PATCH", f"{SERVICES}/one", body=a_service(), content="application/apply-patch+yaml")
    cluster.request("POST", SERVICES, body=a_service("dry"), query={"dryRun": "All"})
    assert set(server.services) == {"one"}


@pytest.mark.parametrize("name", NAMES)
def test_rights_are_asked_for_in_a_version_that_is_served(name: str, at: Open) -> None:
    assert at(name)[1].may("get", "pods")


@pytest.mark.parametrize("name", NAMES)
def test_lists_of_addresses_and_families_are_there(name: str, at: Open) -> None:
    _, cluster = at(name)
    pod = cluster.create(f"/api/v1/namespaces/{NAMESPACE}/pods", manifests.echo_pod("p", "r", "n", "i:1", raw=True))
    assert pod["status"]["podIPs"] == [{"ip": "10.244.1.7"}]
    service = cluster.create(SERVICES, a_service())
    if name != "1.30":
        assert service["spec"]["clusterIPs"] == ["10.96.0.10"]
        assert service["spec"]["ipFamilies"] == ["IPv4"]


def test_an_old_server_takes_our_pods_and_they_keep_what_it_knows(at: Open) -> None:
    server, cluster = at("1.5")
    cluster.create(f"/api/v1/namespaces/{NAMESPACE}/pods", manifests.echo_pod("p", "r", "n", "i:1", raw=True))
    container = server.pods["p"]["spec"]["containers"][0]
    assert [port["protocol"] for port in container["ports"]] == ["TCP", "TCP", "UDP"]
    asked = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"] if "valueFrom" in each
    }
    assert (asked["POD_IP"], asked["POD_IPS"]) == ("status.podIP", "status.podIP")


def test_nothing_is_touched_for_a_server_of_today() -> None:
    for version in ("v1.21.0", "v1.36.3", "unread"):
        dialect, body = dialect_of(version), a_service()
        assert dialect.out("POST", SERVICES, body) is body
        assert dialect.back(SERVICES, body) is body


@pytest.mark.parametrize("name", ANNOTATED)
def test_nothing_is_changed_in_place(name: str) -> None:
    dialect, body = dialect_of(record(name)["version"]), a_service()
    out = dialect.out("POST", SERVICES, body)
    assert body == a_service()
    assert seen(out) == (None, None)
    assert seen(dialect.back(SERVICES, out))[0] == "Local"
    assert "annotations" in out["metadata"]


def test_other_collections_are_left_alone() -> None:
    dialect = dialect_of("v1.5.8")
    body = a_service()
    for path in (
        "/api/v1/nodes",
        "/apis/apps/v1/deployments",
        f"/api/v1/namespaces/{NAMESPACE}/pods/p/log",
        "/version",
    ):
        assert dialect.out("POST", path, body) is body
        assert dialect.back(path, body) is body


# ------------------------------------------------------------------------------------ the suite on top, unaware of it
AT_ONCE = replace(TIMEOUTS, port_followed=Budget("made up", 0.1, need=3, spacing=0.0))


def live(server: OldServer, cluster: Cluster) -> dict[str, Fact]:
    """The life cycle trial of the health check suite, with nodes that answer as kube-proxy did in that version."""
    texts = server.recorded.get("health-check") or {}

    def everywhere(port: int) -> dict[tuple[Place, Family], Answer]:
        name = server.ports().get(port)
        if name is None:
            answer = Answer(Outcome.REFUSED)
        elif "200" in texts:
            answer = Answer(Outcome.ANSWERED, 200, {"content-type": "text/plain"}, texts["200"].format(count=1))
        else:
            answer = say(1, name)
        return {(place, Family.IPV4): answer for place in (Place.ENDPOINT_NODE, Place.BARE_NODE)}

    testbed = SimpleNamespace(cluster=cluster, namespace=NAMESPACE, run="test")
    asker: Any = SimpleNamespace(testbed=testbed, everywhere=everywhere, stop=Stop(), timeouts=AT_ONCE)
    return LifeCycle(asker, listen=True).perform()


@pytest.mark.parametrize("name", NAMES)
def test_the_life_of_a_port_holds_where_it_can_be_asked_and_nowhere_else(name: str, at: Open) -> None:
    server, cluster = at(name)
    version = read_version(server.version)
    assert version is not None
    wrong = {each.rpartition(".")[2] for each in differing(HealthEvidence(life=live(server, cluster)), LIFE)}
    needs = {check.subject.claim: needs_kubernetes(check, versions_of("health_checks")) for check in LIFE}
    assert wrong == {claim for claim, need in needs.items() if need and need.number > version}
    assert set(needs) == {*CLAIMS, "prompt"}, "that one is of all changes"


# ------------------------------------------------------------------------------------------------ these tests can fail
FIELDS: tuple[None, tuple[str, ...]] = (None, ())
WRONG = [
    ("1.4", BETA, (BETA,)),
    ("1.4", BETA, (ALPHA, BETA)),
    ("1.4", *FIELDS),
    ("1.5", ALPHA, (ALPHA,)),
    ("1.5", *FIELDS),
    ("1.8", ALPHA, (ALPHA,)),
    ("1.8", BETA, (ALPHA, BETA)),
    ("1.30", BETA, (BETA,)),
]


@pytest.mark.parametrize(("name", "writes", "reads"), WRONG)
def test_a_wrong_dialect_is_noticed(name: str, writes: str | None, reads: tuple[str, ...], at: Open) -> None:
    server, cluster = at(name)
    right = cluster.dialect
    cluster._dialect = replace(right, writes=writes, reads=reads)
    if name == "1.30":  # else nothing passes through
        cluster._dialect = Dialect((1, 5), writes, reads)
    made = cluster.create(SERVICES, a_service())
    assert server.ports() == {} or seen(made) != ("Local", server.port(server.services["one"]))
