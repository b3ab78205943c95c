"""What was tested, read from pod lists in the shapes that clusters have: kind from loaded images, GKE, AKS, EKS."""

import json
from typing import cast

import pytest

from esipp.base.json import Json
from esipp.cluster.client import ApiError, Cluster
from esipp.cluster.paging import PAGE
from esipp.ledger.reading import Component
from esipp.loadbalancers.reference import Reference
from esipp.preflight.components import (
    MOST_NAMES,
    all_pods,
    digest_of,
    echo_components,
    echo_of,
    find_components,
    node_facts,
    of_nodes,
    of_pods,
    reference_component,
    version_of,
)

A, B = "sha256:" + "0a" * 32, "sha256:" + "1b" * 32


def pod(
    name: str,
    image: str,
    image_id: str,
    *,
    of: str = "",
    node: str = "n1",
    namespace: str = "kube-system",
    **labels: str,
) -> Json:
    """A pod with one container, of ``Kind/name``."""
    kind, _, owner = of.partition("/")
    owners = [{"kind": kind, "name": owner or node}] if kind else []
    container = {"name": "c", "image": image}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": owners},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running", "containerStatuses": [{**container, "imageID": image_id}]},
    }


def daemons(name: str, image: str, image_id: str, count: int = 2, **more: str) -> list[Json]:
    return [pod(f"{name}-{i}aaaa", image, image_id, of=f"DaemonSet/{name}", node=f"n{i}", **more) for i in range(count)]


def by_name(pods: list[Json], version: str = "v1.30.1") -> dict[tuple[str, str], Component]:
    found = of_pods(pods, version)
    assert len({(each.kind, each.name, each.digest) for each in found}) == len(found), "each once"
    return {(each.kind, each.name): each for each in found}


def test_network_add_ons_of_lanes_are_components_with_the_version_of_their_image() -> None:
    found = by_name(
        [
            *daemons("kube-flannel-ds", "ghcr.io/flannel-io/flannel:v0.28.10", A, 2, namespace="kube-flannel"),
            *daemons("esipp-network-masquerading", "localhost/esipp/base:e2b1", B, 2),
        ]
    )
    assert found["network-add-on", "kube-flannel/kube-flannel-ds"].version == "v0.28.10"
    assert ("network-add-on", "esipp-network-masquerading") in found


def test_hermetic_kind_has_images_that_no_registry_knows() -> None:
    pods = [
        *daemons("kube-proxy", "registry.k8s.io/kube-proxy:v1.36.3", A, 4),
        *daemons("esipp-network", "localhost/esipp/base:e2b1", A, 4),
        *daemons("speaker", "quay.io/metallb/speaker:v0.16.1", B, 4, namespace="metallb-system"),
        pod("kube-apiserver-n1", "registry.k8s.io/kube-apiserver:v1.36.3", A, of="Node", component="kube-apiserver"),
        pod("etcd-n1", "registry.k8s.io/etcd:3.6.8-0", A, of="Node"),
        pod(
            "controller-d99c776c-zqw44", "quay.io/metallb/controller:v0.16.1", B, of="ReplicaSet/controller-d99c776c",
            namespace="metallb-system", **{"pod-template-hash": "d99c776c"},
        ),
        pod(
            "coredns-7f88-x", "registry.k8s.io/coredns/coredns:v1.14.2", A, of="ReplicaSet/coredns-7f88",
            **{"pod-template-hash": "7f88"},
        ),
        pod("someone-else", "example.com/web:1", B, namespace="default"),
    ]  # fmt: skip
    found = by_name(pods)
    assert set(found) == {
        ("service-proxy", "kube-proxy"),
        ("network-add-on", "esipp-network"),
        ("load-balancer", "metallb-system/controller"),
        ("load-balancer", "metallb-system/speaker"),
        ("control-plane", "kube-apiserver"),
        ("control-plane", "etcd"),
        ("dns", "coredns"),
    }
    proxy = found["service-proxy", "kube-proxy"]
    assert (proxy.digest, proxy.version, proxy.image) == (A, "v1.36.3", "registry.k8s.io/kube-proxy:v1.36.3")
    assert proxy.decided.startswith("status.containerStatuses.imageID of all 4 pods")
    assert "not a registry digest" in proxy.decided


def test_gke_has_static_proxies_and_a_control_plane_that_nobody_sees() -> None:
    image, where = "gke.gcr.io/kube-proxy-amd64:v1.30.1-gke.100", "gke.gcr.io/kube-proxy-amd64@" + A
    nodes = ("gke-c-default-pool-1", "gke-c-default-pool-2")
    pods = [pod(f"kube-proxy-{node}", image, where, of="Node", node=node) for node in nodes]
    pods += daemons("netd", "gke.gcr.io/netd:v0.2", "gke.gcr.io/netd@" + B)
    pods += daemons("konnectivity-agent", "gke.gcr.io/proxy-agent:v0.1", "gke.gcr.io/proxy-agent@" + B)
    found = by_name(pods)
    proxy = found["service-proxy", "kube-proxy"]
    assert (proxy.digest, proxy.decided) == (A, "status.containerStatuses.imageID of all 2 pods")
    assert found["network-add-on", "netd"].digest == B
    server = found["control-plane", "kube-apiserver"]
    assert (server.digest, server.version) == ("", "v1.30.1")
    assert "/version" in server.decided
    assert found["dns", "unknown"].digest == ""


def test_aks_with_cilium_has_a_cloud_controller_and_no_kube_proxy() -> None:
    manager = "mcr.microsoft.com/oss/kubernetes/azure-cloud-node-manager"
    pods = [
        *daemons("cloud-node-manager", f"{manager}:v1.30.0", f"{manager}@{A}"),
        *daemons("cilium", "mcr.microsoft.com/oss/cilium/cilium:1.14.10", f"mcr.microsoft.com/oss/cilium/cilium@{B}"),
        *daemons("azure-cns", "mcr.microsoft.com/cns:v1", f"mcr.microsoft.com/cns@{B}"),
    ]
    found = by_name(pods)
    assert found["load-balancer", "cloud-node-manager"].version == "v1.30.0"
    assert found["network-add-on", "cilium"].digest == found["service-proxy", "cilium"].digest == B
    assert "there is no kube-proxy pod" in found["service-proxy", "cilium"].decided
    assert "no kube-proxy" not in found["network-add-on", "cilium"].decided
    assert ("network-add-on", "azure-cns") in found


def test_eks_has_pods_of_several_containers() -> None:
    registry = "602401143452.dkr.ecr.eu-west-1.amazonaws.com"
    nodes = daemons("aws-node", f"{registry}/amazon-k8s-cni:v1.18.0", f"{registry}/amazon-k8s-cni@{A}", 3)
    for each in nodes:
        each["spec"]["containers"].append({"name": "aws-eks-nodeagent", "image": f"{registry}/agent:v1.1"})
        each["spec"]["containers"][0]["name"] = each["status"]["containerStatuses"][0]["name"] = "aws-node"
        status = {"name": "aws-eks-nodeagent", "image": "x", "imageID": f"docker-pullable://{registry}/agent@{B}"}
        each["status"]["containerStatuses"].insert(0, status)
    found = by_name([*nodes, *daemons("kube-proxy", f"{registry}/eks/kube-proxy:v1.30", f"{registry}/p@{A}", 3)])
    assert found["network-add-on", "aws-node"].digest == A
    agent = found["network-add-on", "aws-node/aws-eks-nodeagent"]
    assert (agent.digest, agent.version) == (B, "v1.1")


def test_pods_that_differ_are_named() -> None:
    pods = daemons("kube-proxy", "kube-proxy:v1", f"kube-proxy@{A}", 3)
    pods[2]["status"]["containerStatuses"][0]["imageID"] = f"kube-proxy@{B}"
    first, second = (each for each in of_pods(pods) if each.kind == "service-proxy")
    assert (first.digest, second.digest) == (A, B)
    assert first.decided.endswith("2 of 3 pods, which differ: kube-proxy-0aaaa on n0, kube-proxy-1aaaa on n1")
    assert second.decided.endswith("1 of 3 pods, which differ: kube-proxy-2aaaa on n2")


def test_only_some_are_named_of_very_many() -> None:
    pods = daemons("kube-proxy", "kube-proxy:v1", f"kube-proxy@{A}", 100)
    pods[0]["status"]["containerStatuses"][0]["imageID"] = f"kube-proxy@{B}"
    decided = next(each.decided for each in of_pods(pods) if each.digest == A)
    assert decided.count(" on n") == MOST_NAMES
    assert decided.endswith("and 89 more")


def test_missing_fields_are_reported_and_stop_nothing() -> None:
    pending = daemons("kube-proxy", "kube-proxy:v1", "", 1)[0]
    del pending["status"]["containerStatuses"]
    done = pod("cilium-install-x", "cilium", f"cilium@{A}", of="Job/cilium-operator")
    done["status"]["phase"] = "Succeeded"
    bare: Json = {"metadata": {"name": "coredns", "namespace": "kube-system"}}
    found = by_name([pending, bare, {"metadata": {}}, {}, done])
    assert found["service-proxy", "kube-proxy"].digest == ""
    assert (
        "no status.containerStatuses.imageID in the only pod, kube-proxy-0aaaa"
        in found["service-proxy", "kube-proxy"].decided
    )
    assert found["control-plane", "kube-apiserver"].version == "v1.30.1"
    assert found["network-add-on", "unknown"].decided.startswith("no pod with a known name")


def test_an_empty_cluster_says_what_is_not_seen() -> None:
    assert {each.kind for each in of_pods([])} == {"service-proxy", "network-add-on", "dns", "control-plane"}
    assert all(each.digest == "" and each.decided for each in of_pods([]))


@pytest.mark.parametrize(
    ("image_id", "digest"),
    [
        (f"registry.k8s.io/x@{A}", A),
        (A, A),
        (f"docker-pullable://x@{A}", A),
        (f"docker://{A}", A),
        ("0a" * 32, A),
        (f"sha512:{'0a' * 64}", ""),
        ("", ""),
        ("x@sha256:0a", ""),
    ],
)
def test_digests_as_container_runtimes_write_them(image_id: str, digest: str) -> None:
    assert digest_of(image_id) == digest


@pytest.mark.parametrize(
    ("image", "version"),
    [("host:5000/a/b:v1.2", "v1.2"), (f"a:v1@{A}", "v1"), ("host:5000/a", ""), (f"a@{A}", ""), ("", "")],
)
def test_versions_are_tags(image: str, version: str) -> None:
    assert version_of(image) == version


def test_a_label_tells_the_version_where_the_tag_does_not() -> None:
    labels = {"app.kubernetes.io/version": "1.16.1"}
    (first, *_) = of_pods(daemons("kube-proxy", f"a@{A}", f"a@{A}", **labels))
    assert first.version == "1.16.1"


# ------------------------------------------------------------------------------------------------------- nodes
def node(name: str, kubelet: str = "v1.30.1", provider: str = "aws:///z/i-0", **labels: str) -> Json:
    info = {"kubeletVersion": kubelet, "containerRuntimeVersion": "containerd://1.7.2"}
    info |= {"osImage": "Bottlerocket OS", "architecture": "arm64"}
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "2001:db8::1"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": provider},
        "status": {"nodeInfo": info, "addresses": addresses},
    }


def test_kubelets_and_runtimes_by_version() -> None:
    kubelets = [node("a"), node("b", "v1.29.9"), node("c")]
    found = of_nodes(kubelets)
    assert [(each.name, each.version, each.digest) for each in found] == [
        ("kubelet", "v1.29.9", ""),
        ("kubelet", "v1.30.1", ""),
        ("containerd", "1.7.2", ""),
    ]
    assert found[0].decided == "status.nodeInfo.kubeletVersion of 1 of 3 nodes: b"
    assert found[2].decided == "status.nodeInfo.containerRuntimeVersion of all 3 nodes"


def test_facts_of_nodes() -> None:
    control = {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/os": "linux"}
    facts = node_facts([node("a"), node("b", provider=""), node("c", **control)], ["IPv6", "IPv4"])
    assert {name: fact.value for name, fact in facts.items()} == {
        "families.nodes": "IPv4",
        "families.services": "IPv4, IPv6",
        "families.first": "IPv6",
        "os-image": "Bottlerocket OS",
        "architecture": "arm64",
        "node-roles": "2 x no role; 1 x control-plane",
        "provider": "2 x aws; 1 x unknown",
    }
    assert all(fact.decided for fact in facts.values())


def test_facts_of_nodes_that_tell_nothing() -> None:
    facts = node_facts([{"metadata": {"name": "a"}}], None)
    assert {fact.value for name, fact in facts.items() if name != "node-roles"} == {"unknown"}
    assert "no result" in facts["families.services"].decided
    assert {fact.value for fact in node_facts([], None).values()} == {"unknown"}
    assert of_nodes([{"metadata": {"name": "a"}}])[0].version == ""


# ---------------------------------------------------------------------------------------------------- requests
class Pages:
    """An API server with many pods, or none that we may see."""

    def __init__(self, pods: list[Json], refuses: bool = False) -> None:
        self.pods, self.refuses = pods, refuses
        self.asked: list[str] = []

    def request(self, method: str, path: str, *, query: dict[str, str]) -> Json:
        self.asked.append(path)
        if self.refuses:
            raise ApiError(403, "Forbidden", "pods is forbidden", f"{method} {path}")
        begin, limit = int(query.get("continue", 0)), int(query["limit"])
        end = begin + limit
        more = {"continue": str(end)} if end < len(self.pods) else {"continue": ""}
        return {"metadata": more, "items": self.pods[begin:end] or None}


def test_all_pods_are_read_page_by_page() -> None:
    pods = [pod(f"p{i}", "x", "") for i in range(2 * PAGE + 1)]
    server = Pages(pods)
    assert all_pods(cast(Cluster, server)) == pods
    assert server.asked == ["/api/v1/pods"] * 3
    assert all_pods(cast(Cluster, Pages([]))) == []


def test_a_refusal_is_a_note_and_components_without_digest() -> None:
    found, notes = find_components(cast(Cluster, Pages([], refuses=True)), "v1.30.1", [node("a")])
    assert len(notes) == 1
    assert "403 Forbidden" in notes[0]
    kinds = {each.kind: each for each in found}
    assert {"service-proxy", "network-add-on", "load-balancer", "dns", "control-plane", "kubelet"} <= set(kinds)
    assert kinds["control-plane"].version == "v1.30.1"
    assert "cannot list" in kinds["service-proxy"].decided
    assert all(each.digest == "" for each in found)


def test_one_request_for_a_cluster_however_many_nodes() -> None:
    server = Pages(daemons("kube-proxy", "x", f"x@{A}", 30))
    _, notes = find_components(cast(Cluster, server), "v1", [node(f"n{i}") for i in range(30)])
    assert (notes, server.asked) == ([], ["/api/v1/pods"])


# -------------------------------------------------------------------------------------------------------- ours
def test_our_own_image_as_nodes_report_it() -> None:
    pods = [pod(f"p{i}", "localhost/esipp/echoserver:89e1", A, namespace="esipp-1", node=f"n{i}") for i in range(3)]
    pods[2]["status"]["containerStatuses"][0]["imageID"] = ""
    (only,) = echo_of(pods)
    assert (only.kind, only.digest, only.version) == ("echo-image", A, "89e1")
    assert "all 2 pods" in only.decided
    assert echo_of([]) == []
    server = Pages(pods)
    assert echo_components(cast(Cluster, server), "esipp-1") == [only]
    assert server.asked == ["/api/v1/namespaces/esipp-1/pods"]
    (refused,) = echo_components(cast(Cluster, Pages([], refuses=True)), "esipp-1")
    assert (refused.digest, "403" in refused.decided) == ("", True)


@pytest.mark.parametrize(("reported", "digest"), [(A, A), ("", "")])
def test_the_reference_load_balancer_is_a_container(reported: str, digest: str) -> None:
    found = reference_component(Reference("lb", {}, 1, "localhost/esipp/loadbalancer:1", reported))
    assert (found.kind, found.digest, found.version) == ("load-balancer", digest, "1")
    assert "docker inspect lb" in found.decided


def test_a_component_is_a_record_of_the_ledger() -> None:
    (first, *_) = of_pods(daemons("kube-proxy", "x:1", A))
    assert json.loads(json.dumps(first._asdict())) == {
        "name": "kube-proxy",
        "kind": "service-proxy",
        "image": "x:1",
        "digest": A,
        "version": "1",
        "decided": first.decided,
    }
