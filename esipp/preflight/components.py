"""The tested components: the images of a cluster's data plane, by digest, and how each was determined.

The sources are one list of all pods and the nodes' status; the module is pure except ``all_pods``. An invisible
component has no digest and says so: a managed control plane, or a proxy that is part of another process.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esipp.base.json import Json
from esipp.checks.check import Fact
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.paging import listed
from esipp.ledger.reading import Component
from esipp.loadbalancers.reference import Reference

SERVICE_PROXY, NETWORK, BALANCER = "service-proxy", "network-add-on", "load-balancer"
DNS, CONTROL_PLANE, RUNTIME, KUBELET, ECHO = "dns", "control-plane", "container-runtime", "kubelet", "echo-image"

KINDS = (
    (SERVICE_PROXY, r"kube-proxy(?:-windows)?"),
    (
        BALANCER,
        r".*metallb.*|.*cloud-controller-manager.*|.*cloud-node-manager.*|aws-load-balancer-controller|kube-vip.*"
        r"|openelb.*|porter-manager|purelb.*|loxilb.*|svclb-.*|cilium-.*bgp.*|.*lb-controller.*|octavia-.*",
    ),
    (DNS, r"coredns.*|kube-dns|node-local-dns|nodelocaldns|dns-default|rke2-coredns.*"),
    (
        CONTROL_PLANE,
        r"kube-apiserver|kube-controller-manager|kube-scheduler|etcd|apiserver|openshift-kube-apiserver|konnectivity.*",
    ),
    (
        NETWORK,
        r"kindnet|calico-(?:node|typha|kube-controllers)|canal|cilium|cilium-(?:agent|operator|envoy)|anetd|antrea-.*"
        r"|ovnkube-.*|ovs-.*|weave-net|kube-flannel.*|aws-node|azure-(?:cns|cni.*|npm|ip-masq-agent)|netd|ip-masq-agent"
        r"|kube-router|kube-ovn-.*|multus.*|esipp-network.*|terway.*|sdn",
    ),
)
"""The kind of a component by the name of its workload; the first match counts."""

WITHOUT_KUBE_PROXY = re.compile(r"cilium|anetd|kube-router|ovnkube-node|antrea-agent|calico-node|kube-ovn-cni")
"""Network add-ons that can also be the service proxy; without a kube-proxy, they are assumed to be."""

MOST_PODS = 20_000
MOST_NAMES = 10
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BARE = re.compile(r"(?:\A|/)([0-9a-f]{64})\Z")


def all_pods(cluster: Cluster, collection: str = "/api/v1/pods") -> list[Json]:
    """The pods of a collection, page by page, at most ``MOST_PODS``.

    Raises:
        ApiError: the account may not list them.
        UnreachableError: the API server does not answer.
    """
    return listed(lambda page: cluster.request("GET", collection, query=page), {}, MOST_PODS)


def find_components(cluster: Cluster, version: str, nodes: Sequence[Json]) -> tuple[list[Component], list[str]]:
    """The components of a cluster, and a sentence for each thing that cannot be determined.

    Args:
        cluster: the cluster.
        version: version of its API server.
        nodes: the nodes as the API server lists them.
    """
    try:
        pods = all_pods(cluster)
    except (ApiError, UnreachableError) as refused:
        why = f"cannot list the pods of all namespaces ({refused})"
        unknown = [Component("unknown", kind, "", "", "", why) for kind in (SERVICE_PROXY, NETWORK, BALANCER, DNS)]
        server = Component("kube-apiserver", CONTROL_PLANE, "", "", version, f"API server /version; {why}")
        return [*unknown, server, *of_nodes(nodes)], [f"image digests are unknown: {why}"]
    return [*of_pods(pods, version), *of_nodes(nodes)], []


# -------------------------------------------------------------------------------------------------------- of pods
def of_pods(pods: Iterable[Json], version: str = "") -> list[Component]:
    """The components that run in pods; a required component without a pod is listed as unknown."""
    by_kind: dict[str, list[Json]] = defaultdict(list)
    for pod in pods:
        kind = kind_of(pod)
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if kind is not None and not ended:
            by_kind[kind].append(pod)
    if not by_kind[SERVICE_PROXY]:
        by_kind[SERVICE_PROXY] = [pod for pod in by_kind[NETWORK] if WITHOUT_KUBE_PROXY.match(workload_of(pod)[1])]
        added = "; there is no kube-proxy pod, so this add-on is assumed to be the service proxy"
    else:
        added = ""
    found = []
    for kind, _ in KINDS:
        found += images_of(by_kind[kind], kind, added if kind == SERVICE_PROXY else "")
        if not by_kind[kind] and kind != BALANCER:
            found.append(_unseen(kind, version))
    if by_kind[CONTROL_PLANE] and not any("apiserver" in each.name for each in found):
        found.append(_unseen(CONTROL_PLANE, version))
    return found


def _unseen(kind: str, version: str) -> Component:
    if kind == CONTROL_PLANE:
        why = "API server /version; it has no visible pods: the control plane is managed, or does not run in pods"
        return Component("kube-apiserver", kind, "", "", version, why)
    why = (
        "no pod with a known name; it may be part of another process (k3s combines kube-proxy and flannel), or unknown"
    )
    return Component("unknown", kind, "", "", "", why)


def kind_of(pod: Json) -> str | None:
    """The kind of component that a pod belongs to; None for other workloads."""
    namespace, name = workload_of(pod)
    if namespace == "metallb-system":
        return BALANCER
    return next((kind for kind, names in KINDS if re.fullmatch(names, name)), None)


def workload_of(pod: Json) -> tuple[str, str]:
    """Namespace and name of a pod's workload: the Deployment, not its ReplicaSet; a static pod without its node."""
    about = pod.get("metadata") or {}
    name, labels = str(about.get("name") or ""), about.get("labels") or {}
    owner: Mapping[str, Any] = next(iter(about.get("ownerReferences") or ()), {})
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    if owner.get("kind") == "ReplicaSet":
        name = str(owner.get("name") or "").removesuffix(f"-{labels.get('pod-template-hash', '')}")
    elif owner.get("kind") in ("DaemonSet", "StatefulSet", "Job"):
        name = str(owner.get("name") or "")
    elif node:
        name = name.removesuffix(f"-{node}")
    return str(about.get("namespace") or ""), name


@dataclass(frozen=True)
class _Container:
    """A container of a pod."""

    pod: str
    node: str
    image: str
    digest: str
    known_to_registry: bool
    label: str


def images_of(pods: Iterable[Json], kind: str, added: str = "") -> list[Component]:
    """One component for each image and digest of a workload's containers."""
    containers: dict[str, list[_Container]] = defaultdict(list)
    for pod in pods:
        for name, container in _containers(pod):
            containers[name].append(container)
    found = []
    for name in sorted(containers):
        groups: dict[tuple[str, str], list[_Container]] = defaultdict(list)
        for each in containers[name]:
            groups[each.image, each.digest].append(each)
        for (image, digest), those in sorted(groups.items()):
            version = version_of(image) or those[0].label
            found.append(Component(name, kind, image, digest, version, _how(those, containers[name]) + added))
    return found


def _containers(pod: Json) -> Iterable[tuple[str, _Container]]:
    about, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    namespace, workload = workload_of(pod)
    label = str((about.get("labels") or {}).get("app.kubernetes.io/version") or "")
    statuses = {each.get("name"): each for each in status.get("containerStatuses") or ()}
    containers = spec.get("containers") or list(statuses.values())
    for each in containers:
        name = workload if namespace in ("kube-system", "") else f"{namespace}/{workload}"
        if len(containers) > 1 and each.get("name") != workload:
            name += f"/{each.get('name')}"
        its = statuses.get(each.get("name")) or {}
        image_id = str(its.get("imageID") or "")
        image = str(each.get("image") or its.get("image") or "")
        container = _Container(
            str(about.get("name") or ""), str(spec.get("nodeName") or ""), image, digest_of(image_id),
            "@" in image_id, label,
        )  # fmt: skip
        yield name, container


def _how(those: Sequence[_Container], of: Sequence[_Container]) -> str:
    """How the digest of these containers was determined, among all containers of their workload."""
    where = f"all {len(of)} pods" if len(of) > 1 else f"the only pod, {of[0].pod}"
    if len(those) < len(of):
        names = [f"{each.pod} on {each.node}" if each.node else each.pod for each in those]
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        where = f"{len(those)} of {len(of)} pods, which differ: {', '.join(names[:MOST_NAMES])}{more}"
    if not those[0].digest:
        return f"no status.containerStatuses.imageID in {where}"
    said = f"status.containerStatuses.imageID of {where}"
    if not all(each.known_to_registry for each in those):
        said += "; the image's own id, not a registry digest, because the image was loaded onto the nodes"
    return said


def digest_of(image_id: str) -> str:
    """The digest in ``imageID``, as container runtimes write it; empty if there is none.

    containerd: ``name@sha256:…``, or ``sha256:…`` for a loaded image; dockershim: ``docker-pullable://name@…`` and
    ``docker://sha256:…``; CRI-O: also only the digits.
    """
    found = _DIGEST.search(image_id)
    if found:
        return found[0]
    bare = _BARE.search(image_id)
    return f"sha256:{bare[1]}" if bare else ""


def version_of(image: str) -> str:
    """The tag of an image; empty if it has none."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


# -------------------------------------------------------------------------------------------------------- of nodes
def of_nodes(nodes: Sequence[Json]) -> list[Component]:
    """Kubelets and container runtimes, one component for each version."""
    kubelets, runtimes = _by_value(nodes, "kubeletVersion"), _by_value(nodes, "containerRuntimeVersion")
    found = []
    for version, names in kubelets.items():
        how = _of_nodes("status.nodeInfo.kubeletVersion", names, nodes)
        found.append(Component("kubelet", KUBELET, "", "", version, how))
    for runtime, names in runtimes.items():
        how = _of_nodes("status.nodeInfo.containerRuntimeVersion", names, nodes)
        name, _, version = runtime.partition("://")
        found.append(Component(name or "unknown", RUNTIME, "", "", version, how))
    return found


def _by_value(nodes: Iterable[Json], key: str) -> dict[str, list[str]]:
    """The nodes' names, grouped by a value of their nodeInfo."""
    found: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        info = (node.get("status") or {}).get("nodeInfo") or {}
        found[str(info.get(key) or "")].append(str(node["metadata"]["name"]))
    return dict(sorted(found.items()))


def _of_nodes(field: str, names: Sequence[str], nodes: Sequence[Json]) -> str:
    if len(names) == len(nodes):
        return f"{field} of all {len(nodes)} nodes"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{field} of {len(names)} of {len(nodes)} nodes: {', '.join(names[:MOST_NAMES])}{more}"


ROLE = "node-role.kubernetes.io/"


def node_facts(nodes: Sequence[Json], services: Sequence[str] | None) -> dict[str, Fact]:
    """Facts about nodes and Services: address families, operating systems, architectures, roles and cloud provider.

    Args:
        nodes: the nodes as the API server lists them.
        services: the address families that a Service can have, in the order of the cluster; None if unknown.
    """
    families = {
        "IPv6" if ":" in str(address.get("address")) else "IPv4"
        for node in nodes
        for address in (node.get("status") or {}).get("addresses") or ()
        if address.get("type") == "InternalIP"
    }
    how = "a dry run of a Service with PreferDualStack, or the Service kubernetes"
    facts = {
        "families.nodes": Fact(", ".join(sorted(families)) or "unknown", "InternalIPs in node status"),
        "families.services": Fact(
            ", ".join(sorted(services or ())) or "unknown", how if services else f"{how}: no result"
        ),
        "families.first": Fact(services[0] if services else "unknown", how if services else f"{how}: no result"),
    }
    for name, key in {"os-image": "osImage", "architecture": "architecture"}.items():
        facts[name] = Fact(_counted(_by_value(nodes, key)), f"status.nodeInfo.{key} of {len(nodes)} nodes")
    roles: dict[str, list[str]] = defaultdict(list)
    clouds: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        labels, name = node["metadata"].get("labels") or {}, str(node["metadata"]["name"])
        marks = sorted(each.removeprefix(ROLE) for each in labels if each.startswith(ROLE))
        roles[", ".join(marks) or "no role"].append(name)
        clouds[str((node.get("spec") or {}).get("providerID") or "").partition("://")[0]].append(name)
    facts["node-roles"] = Fact(_counted(roles), f"labels {ROLE}… of {len(nodes)} nodes")
    facts["provider"] = Fact(_counted(clouds), f"spec.providerID of {len(nodes)} nodes")
    return facts


def _counted(names: Mapping[str, Sequence[str]]) -> str:
    """Counts such as ``3 x worker; 1 x control-plane``, or the value if all nodes have the same."""
    values = sorted(names, key=lambda value: (-len(names[value]), value))
    if len(values) == 1:
        return values[0] or "unknown"
    return "; ".join(f"{len(names[value])} x {value or 'unknown'}" for value in values) or "unknown"


# ---------------------------------------------------------------------------------------------------------- of esipp
def reference_component(reference: Reference) -> Component:
    """The reference load balancer, a container next to the cluster."""
    digest = digest_of(reference.image_id)
    how = f"docker inspect {reference.container}: " + ("the image's own id" if digest else "it shows no image id")
    return Component("reference load balancer", BALANCER, reference.image, digest, version_of(reference.image), how)


def echo_components(cluster: Cluster, namespace: str) -> list[Component]:
    """The echo server's image, as the status of esipp's pods shows it."""
    try:
        pods = all_pods(cluster, f"/api/v1/namespaces/{namespace}/pods")
    except (ApiError, UnreachableError) as broken:
        return [Component("echo server", ECHO, "", "", "", f"cannot list our pods ({broken})")]
    return echo_of(pods)


def echo_of(pods: Iterable[Json]) -> list[Component]:
    """The images of esipp's pods that have started."""
    digests = [each for pod in pods for _, each in _containers(pod) if each.digest]
    groups: dict[tuple[str, str], list[_Container]] = defaultdict(list)
    for each in digests:
        groups[each.image, each.digest].append(each)
    return [
        Component("echo server", ECHO, image, digest, version_of(image), _how(those, digests))
        for (image, digest), those in sorted(groups.items())
    ]
