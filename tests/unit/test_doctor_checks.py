"""The doctor's checks one by one: what they say of clusters and machines that differ."""

from pathlib import Path
from typing import Any, cast

import pytest

from esipp.app.doctor import admission, nodes
from esipp.app.doctor import environment as environments
from esipp.app.doctor import machine as here
from esipp.app.doctor.model import DoctorCheck, Grade
from esipp.app.plan.plan import Made
from esipp.base.customisation import Customisation, Toleration
from esipp.base.json import Json
from esipp.checks.model import Role
from esipp.cluster.client import NOT_THERE, ApiError, Cluster
from esipp.cluster.rights import WELCOME
from esipp.judging.topology import cast_roles, read_node
from esipp.testbed.manifests import agent_pod
from tests.unit.doctor_world import CHECKS, IMAGE, Asked, cordoned, named, refusal
from tests.unit.rights_world import node

SPACES = "/api/v1/namespaces"
MADE = Made(
    balancers=20, reference=5, unserved=5, services=40, pods=30, clients=2,
    node_ports=90, passing=200, passing_unserved=50, passing_ports=200,
)  # fmt: skip


def asked(**more: Any) -> Cluster:
    return cast(Cluster, Asked(**more))


# ------------------------------------------------------------ this machine
@pytest.mark.parametrize(
    ("client", "server", "grade"),
    [
        ("v1.36.1", "v1.36.0", Grade.OK),
        ("v1.35.9", "v1.36.0", Grade.OK),
        ("v1.37.0", "v1.36.0-gke.1", Grade.OK),
        ("v1.34.0", "v1.36.0", Grade.WARN),
        ("v1.34.0", "", Grade.OK),
        ("", "v1.36.0", Grade.WARN),
    ],
)
def test_kubectl_and_server_are_one_minor_version_apart_at_most(client: str, server: str, grade: Grade) -> None:
    assert here.of_kubectl("/bin/kubectl", client, server).grade is grade


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ('echo \'{"clientVersion": {"gitVersion": "v1.36.2"}}\'', "v1.36.2"),
        ("echo nonsense", ""),
        ("echo '{}'; exit 1", ""),
    ],
)
def test_kubectl_is_asked_for_its_version(tmp_path: Path, script: str, version: str) -> None:
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert here.kubectl_version(str(program)) == version
    assert here.kubectl_version(str(tmp_path / "none")) == ""


NOON = 1_800_000_000.0
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"


@pytest.mark.parametrize(
    ("began", "took", "grade", "words"),
    [
        (NOON + 0.5, 0.1, Grade.OK, "agree"),
        (NOON + 5.9, 0.1, Grade.OK, "agree"),  # the server may have been in the last of its second
        (NOON + 7.5, 0.1, Grade.WARN, "6 s ahead of"),
        (NOON - 20.0, 0.0, Grade.WARN, "20 s behind"),
        (NOON - 20.0, 16.0, Grade.OK, "agree"),  # an answer that took so long tells no more
    ],
)
def test_clocks(began: float, took: float, grade: Grade, words: str) -> None:
    times = iter((began, began + took))
    check = here.of_clock(asked(date=DATE), lambda: next(times))
    assert check.grade is grade
    assert words in check.sentence


def test_a_server_without_a_clock() -> None:
    assert here.of_clock(asked(date="")).sentence == "the API server does not report its time"


# ------------------------------------------------------------ nodes
def tainted(name: str, number: int, key: str) -> Json:
    return {**node(name, number), "spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}


def with_images(item: Json, *images: str) -> Json:
    return {**item, "status": {**item["status"], "images": [{"names": [image]} for image in images]}}


def test_nodes_are_reported_with_why_they_take_no_pods() -> None:
    raw = [node("a", 1), node("b", 2), cordoned("c", 3), tainted("d", 4, "gpu"), node("e", 5)]
    raw[4]["status"]["nodeInfo"]["operatingSystem"] = "windows"
    said = nodes.of_nodes(raw, {Role.ENDPOINT_NODE: "a"}, Customisation()).sentence
    assert said.startswith("2 of 5 can run pods (architecture unknown): endpoint-node a")
    assert said.endswith("1 is cordoned; 1 has the taint gpu; 1 runs windows")
    assert nodes.why_not(raw[3], Customisation(tolerations=(Toleration("gpu"),))) == ""
    assert nodes.why_not(raw[0], Customisation(node_selector=(("pool", "x"),))) == "not chosen by --node-selector"


def test_two_architectures_need_two_images() -> None:
    raw = [node(name, number) for number, name in enumerate("abc", 1)]
    for item, kind in zip(raw, ("amd64", "arm64", "amd64"), strict=True):
        item["status"]["nodeInfo"]["architecture"] = kind
    check = nodes.of_nodes(raw, cast_roles(map(read_node, raw)), Customisation())
    assert (check.grade, "amd64 and arm64" in check.hint) == (Grade.WARN, True)


@pytest.mark.parametrize(
    ("reference", "listed", "there"),
    [
        ("example.com/echo:1", "example.com/echo:1", True),
        ("echo", "docker.io/library/echo:latest", True),
        ("me/echo:2", "docker.io/me/echo:2", True),
        ("example.com/echo", "example.com/echo:latest", True),
        ("example.com/echo:1", "example.com/echo:2", False),
        ("example.com/echo@sha256:aa", "example.com/echo@sha256:aa", True),
        ("localhost:5000/echo:1", "localhost:5000/echo:1", True),
    ],
)
def test_an_image_is_known_by_all_its_names(reference: str, listed: str, there: bool) -> None:
    raw = [with_images(node("a", 1), listed), with_images(node("b", 2), listed, "other:1")]
    check = of_image(reference, raw)
    assert check.grade is (Grade.OK if there else Grade.WARN)


def of_image(reference: str, raw: list[Json]) -> DoctorCheck:
    return nodes.of_image(reference, raw, {item["metadata"]["name"]: read_node(item) for item in raw}, "by themselves")


def test_what_nodes_do_not_tell_of_may_be_there() -> None:
    whole = with_images(node("a", 1), IMAGE)
    many = with_images(node("b", 2), *(f"other:{number}" for number in range(nodes.MOST_IMAGES)))
    check = of_image(IMAGE, [whole, many])
    assert "is not reported by 1 of 2 nodes (b); nodes report only their 50 largest" in check.sentence
    assert "50 largest" not in of_image(IMAGE, [whole, node("b", 2)]).sentence
    assert "nodes cannot pull from localhost" in of_image("localhost/esipp/echo:1", [whole]).hint


# ------------------------------------------------------------ versions
@pytest.mark.parametrize(
    ("version", "grade", "words"),
    [
        ("v1.36.3", Grade.OK, "https://home is v1.36.3"),
        ("v1.21.0", Grade.WARN, "loadBalancerClass"),
        ("v1.99.0", Grade.WARN, "the newest version tested with a full run is 1.36"),
        ("master", Grade.WARN, "an unreadable version"),
    ],
)
def test_versions(version: str, grade: Grade, words: str) -> None:
    check = environments.of_version(version, "https://home")
    assert (check.grade, words in check.sentence) == (grade, True)


def test_rights_that_a_run_does_without_cost_checks_or_facts() -> None:
    (status,) = [right for right in environments.OPTIONAL if right.resource == "services/status"]
    count = sum("rights.services-status" in check.features for check in CHECKS)
    assert f"{count} checks are unsupported" in environments.of_welcome([status], CHECKS).sentence
    assert "explain failures in less detail" in environments.of_welcome(WELCOME[:1], CHECKS).sentence
    assert environments.of_welcome([], CHECKS).grade is Grade.OK


# ------------------------------------------------------------ admission
def tried(answer: Json | Exception) -> DoctorCheck:
    return admission.of_pod(asked(dry={"pods": answer}), "a", IMAGE)


def test_a_pod_that_is_admitted_as_it_is() -> None:
    check = tried(agent_pod("x", "run", "a", IMAGE, raw=True))
    assert check.grade is Grade.OK
    assert "unchanged" in check.sentence


@pytest.mark.parametrize(
    ("answer", "grade", "words"),
    [
        (
            refusal('pods "x" is forbidden: violates PodSecurity "restricted:latest"'),
            Grade.OK,
            "namespace sets its own",
        ),
        (refusal('admission webhook "policy.example.com" denied the request: root'), Grade.WARN, "denied the request"),
        (ApiError(501, NOT_THERE, "Kubernetes 1.9 knows no dry run", "POST"), Grade.WARN, "cannot try it"),
        ({"spec": {"containers": [{"name": "echo"}, {"name": "istio-proxy"}]}}, Grade.WARN, "istio-proxy"),
        ({"spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "echo"}]}}, Grade.WARN, "init"),
    ],
    ids=str,
)
def test_a_pod_that_is_not(answer: Json | Exception, grade: Grade, words: str) -> None:
    check = tried(answer)
    assert (check.grade, words in check.sentence) == (grade, True)


def test_a_load_balancer_that_is_refused() -> None:
    check = admission.of_service(asked(dry={"services": refusal("exceeded quota: lb")}))
    assert (check.grade, "exceeded quota: lb" in check.sentence) == (Grade.WARN, True)
    assert admission.of_service(asked()).grade is Grade.OK


def quotas(*where: str, **hard: str) -> dict[str, list[Json]]:
    hard = {name.replace("_", "."): value for name, value in hard.items()}
    spaces = [named(each) for each in ("kube-system", "default", "team")]
    return {SPACES: spaces, "/api/v1/resourcequotas": [named("q", each, spec={"hard": hard}) for each in where]}


@pytest.mark.parametrize(
    ("lists", "grade", "words"),
    [
        (quotas("team", services_loadbalancers="1"), Grade.OK, "no ResourceQuota exists in every namespace"),
        (quotas("team", "default", services_loadbalancers="79"), Grade.WARN, "services.loadbalancers 79, needs 80"),
        (quotas("team", "default", services_loadbalancers="80", pods="1k"), Grade.OK, "a run stays within"),
        (quotas("team", "default", services="269"), Grade.WARN, "services 269, needs 270, 200 of them temporary"),
        (quotas("team", "default", services="270"), Grade.OK, "a run stays within"),
        (quotas("team", "default", services_nodeports="289"), Grade.WARN, "services.nodeports 289, needs 290"),
        (quotas("team", "default", services_nodeports="290"), Grade.OK, "a run stays within"),
        (quotas("team", "default", limits_cpu="4"), Grade.WARN, "limits.cpu, which our pods do not set"),
        (quotas("team", "default", pods="7", services="69"), Grade.WARN, "pods 7, needs 30; services 69"),
    ],
)
def test_quotas(lists: dict[str, list[Json]], grade: Grade, words: str) -> None:
    check = admission.of_quota(asked(lists=lists), MADE)
    assert (check.grade, words in check.sentence) == (grade, True), check.sentence


@pytest.mark.parametrize(
    ("services", "words"),
    [("69", "run fewer checks"), ("70", "only the checks interop.many.… are inconclusive")],
)
def test_a_quota_that_only_many_services_go_beyond_holds_nothing_else_up(services: str, words: str) -> None:
    check = admission.of_quota(asked(lists=quotas("team", "default", services=services)), MADE)
    assert (check.grade, words in check.hint) == (Grade.WARN, True)


def test_what_one_namespace_has_no_other_gets() -> None:
    lists = {SPACES: [named("default")], "/api/v1/limitranges": [named("l", "default")]}
    assert admission.of_limits(asked(lists=lists)).grade is Grade.OK
    lists = {SPACES: [named("default"), named("b")], "/api/v1/limitranges": [named("l", "default"), named("l", "b")]}
    assert "has the LimitRange l" in admission.of_limits(asked(lists=lists)).sentence


@pytest.mark.parametrize(("may", "grade"), [(True, Grade.OK), (False, Grade.WARN)])
def test_policies_that_every_namespace_has_are_lifted(may: bool, grade: Grade) -> None:
    path = "/apis/networking.k8s.io/v1/networkpolicies"
    cluster = Asked(lists={SPACES: [named("a"), named("b")], path: [named("deny", "a"), named("deny", "b")]})
    if not may:
        cluster.rights = frozenset(r for r in cluster.rights if (r.verb, r.resource) != ("create", "networkpolicies"))
    check = admission.of_policies(cast(Cluster, cluster))
    assert (check.grade, "NetworkPolicy deny" in check.sentence) == (grade, True)
