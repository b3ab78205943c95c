"""The steps of preflight. ``preflight.examine`` stops at the first error, ``esipp doctor`` takes all steps."""

import contextlib
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esipp.base.client_places import Place
from esipp.base.errors import PreflightError
from esipp.base.redaction import learn_cloud
from esipp.base.terminal import check_terminal
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.checks.model import Role
from esipp.checks.profile import LoadBalancer
from esipp.checks.rights import Right
from esipp.checks.versions import check_age, read_version
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.dialect import NEWEST
from esipp.cluster.rights import PAGE, lacking, needed
from esipp.disruption import daemon_sets, kube_proxy
from esipp.disruption.agents import agent_pods, api_servers, pods_feature
from esipp.disruption.marks import CORDONED_BY
from esipp.judging.topology import Node, cast_roles, is_ready, read_node
from esipp.ledger.reading import check_run
from esipp.ledger.run import Settings
from esipp.loadbalancers.detection import named_by, workloads_by
from esipp.preflight import outside_clients
from esipp.probing.hosts import HostDescription
from esipp.probing.outside import find_tools

FLEETING = frozenset(
    {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/network-unavailable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cilium.io/agent-not-ready",
    }
)
"""Taints that a controller removes from a Ready node, some time after it became Ready.

https://kubernetes.io/docs/reference/labels-annotations-taints/
"""

TAINTS_GO = Budget("taints of Ready nodes to go", 30.0, need=1, spacing=1.0)

LEAST_DISK = 100 * 1024 * 1024
HINT_RIGHTS = f"kubectl apply -f {PAGE} creates an account with all rights that a run needs; see docs/rights.md."


def check_without_cluster(settings: Settings) -> None:
    """Check what needs no cluster.

    Raises:
        PreflightError: an option is wrong, or the machine lacks something.
    """
    check_given(settings)
    check_image(settings)
    check_machine(settings)


def check_given(settings: Settings) -> None:
    """Check the options that need neither a cluster nor an image.

    Raises:
        PreflightError: there is no terminal or baseline.
    """
    if settings.baseline:
        check_run(settings.baseline)
    if settings.pause_on_failure:
        check_terminal()


def check_machine(settings: Settings) -> None:
    """Check this machine.

    Raises:
        PreflightError: there is no kubectl, or too little disk space.
    """
    check_kubectl()
    check_disk(settings)


def check_image(settings: Settings) -> None:
    """Validate the reference of the echo image.

    Raises:
        PreflightError: it is missing or invalid.
    """
    if not settings.image:
        raise PreflightError(
            "No echo image is named.",
            "'esipp images push HOST[/PATH]', then --image-registry HOST[/PATH]; or use --image, or $ESIPP_IMAGE.",
        )
    if not re.fullmatch(r"[a-z0-9][a-zA-Z0-9./:_@-]*", settings.image):
        raise PreflightError(
            f"'{settings.image}' is not an image reference.", "use a reference such as host/name:tag or name@sha256:…."
        )


def check_kubectl() -> str:
    """The kubectl on PATH.

    Raises:
        PreflightError: there is none.
    """
    found = shutil.which("kubectl")
    if found is None:
        raise PreflightError(
            "There is no kubectl on PATH.", "install it; esipp reaches clients in pods with 'kubectl exec'."
        )
    return found


def check_disk(settings: Settings) -> tuple[Path, int]:
    """The closest existing parent folder of the run, and its free bytes.

    Raises:
        PreflightError: there is too little space.
    """
    folder = Path(settings.out or "runs").absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < LEAST_DISK:
        raise PreflightError(
            f"Only {free // 2**20} MiB are free for the run's folder (in {folder}).",
            f"free at least {LEAST_DISK // 2**20} MiB, or name another folder with --out.",
        )
    return folder, free


def check_server(cluster: Cluster) -> str:
    """The API server's version.

    Raises:
        PreflightError: it does not answer, or is too old.
    """
    version = cluster.version()
    check_version(version)
    return version


def check_version(version: str) -> None:
    """Check that a server's version is new enough.

    Raises:
        PreflightError: it is too old.
    """
    check_age(read_version(version) or NEWEST)


@contextlib.contextmanager
def answered(cluster: Cluster) -> Iterator[None]:
    """Turn errors of the API server in the body into preflight errors."""
    try:
        yield
    except UnreachableError as silent:
        raise PreflightError(
            f"The API server {cluster.server} stopped answering: {silent}.", "check whether it is overloaded."
        ) from None
    except ApiError as refused:
        raise PreflightError(f"The API server refused: {refused.message}", "check the account's rights.") from None


def check_rights(cluster: Cluster, settings: Settings, suites: Iterable[str]) -> None:
    """Check that the account has the rights that these suites need.

    Raises:
        PreflightError: rights are missing; the error names all of them.
    """
    if missing := missing_rights(cluster, settings, suites):
        raise PreflightError(
            f"The account of context '{cluster.context}' lacks these rights: {', '.join(map(str, missing))}.",
            HINT_RIGHTS,
        )


def missing_rights(cluster: Cluster, settings: Settings, suites: Iterable[str]) -> list[Right]:
    """The rights that these suites need and the account lacks.

    Raises:
        PreflightError: the API server does not answer or refuses.
    """
    with answered(cluster):
        return lacking(cluster, needed(suites, disruptive=settings.allow_disruptive))


def list_nodes(cluster: Cluster) -> list[dict[str, Any]]:
    """The nodes as the API server lists them, once Ready nodes have lost the taints of their start.

    Until then a new node takes no pods, and a run without it would ask less than the cluster can show.

    Raises:
        PreflightError: the API server does not answer or refuses.
    """
    raw: list[dict[str, Any]] = []

    def look() -> Reading:
        raw[:] = cluster.list("/api/v1/nodes")
        starting = [item["metadata"]["name"] for item in raw if _starts(item)]
        return Reading(not starting, f"still tainted: {', '.join(starting)}" if starting else "no such taint")

    with answered(cluster):
        converge(look, TAINTS_GO)  # a node that keeps its taint gets no role, like any other tainted node
    learn_cloud(cluster.context, raw)
    return raw


def _starts(item: Mapping[str, Any]) -> bool:
    """Whether a node is Ready, and still has a taint of its start."""
    taints = {taint["key"] for taint in item.get("spec", {}).get("taints") or []}
    return is_ready(item) and not taints.isdisjoint(FLEETING)


def read_nodes(raw: list[dict[str, Any]], settings: Settings) -> dict[str, Node]:
    """The nodes by name, parsed with the user's customisation."""
    return {item["metadata"]["name"]: read_node(item, settings.customisation) for item in raw}


def check_nodes(raw: list[dict[str, Any]], settings: Settings) -> tuple[dict[str, Node], dict[Role, str]]:
    """The nodes and their roles.

    Raises:
        PreflightError: fewer than two nodes can run pods.
    """
    nodes = read_nodes(raw, settings)
    try:
        return nodes, cast_roles(nodes.values(), settings.seed)
    except ValueError:
        fit = sorted(node.name for node in nodes.values() if node.schedulable and node.chosen)
        chosen = " selected by --node-selector" if settings.customisation.node_selector else ""
        number = sum(node.chosen for node in nodes.values())
        raise PreflightError(
            say_too_few(len(fit), f"{number} nodes{chosen}", f" ({', '.join(fit) or 'none'})"),
            _hint_of_too_few(raw, settings.context),
        ) from None


@dataclass(frozen=True)
class Outside:
    """Where outside clients run, the docker network of the nodes, and the results of hosts' examination.

    ``tools`` is the image that puts containers behind a router and NAT; empty if there is none.
    """

    places: tuple[Place, ...] = ()
    network: str | None = None
    described: Mapping[Place, HostDescription] = field(default_factory=dict)
    tools: str = ""


def check_outside(settings: Settings, nodes: Mapping[str, Node]) -> Outside:
    """Determine and examine the places of outside clients.

    Raises:
        PreflightError: a place is invalid, cannot run the prober, or is a node.
    """
    places, network = outside_clients.resolve(settings.outside, list(nodes.values()))
    tools = find_tools(list(nodes.values())) if network else ""
    return Outside(places, network, outside_clients.describe_hosts(places, nodes.values()), tools)


def _hint_of_too_few(raw: list[dict[str, Any]], context: str) -> str:
    """The hint if too few nodes can run pods."""
    cordoned = sorted(n["metadata"]["name"] for n in raw if CORDONED_BY in (n["metadata"].get("annotations") or {}))
    if cordoned:
        return f"a run left {', '.join(cordoned)} cordoned: 'esipp clean --context {context}' undoes that."
    return NEEDS_TWO


NEEDS_TWO = (
    "one Linux node must have an endpoint and one must not: add a worker, remove its taint or cordon, or tolerate its "
    "taint with --toleration."
)


def say_too_few(fit: int, of: str, names: str = "") -> str:
    """Why there is no run on a cluster where fewer than two nodes can run pods."""
    return f"Only {fit} of {of} can run pods{names}; a run needs two."


LABEL = "k8s-app=kube-dns"
"""The label of the cluster's DNS, for any server (CoreDNS and node-local caches keep it)."""

SYSTEM = "/api/v1/namespaces/kube-system"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"


def dns_feature(cluster: Cluster) -> Feature:
    """The feature ``dns``: a Service with the label has a ready endpoint."""
    try:
        names = sorted(item["metadata"]["name"] for item in cluster.list(f"{SYSTEM}/services", labelSelector=LABEL))
        for name in names:
            ready = 0
            for piece in cluster.list(SLICES, labelSelector=f"kubernetes.io/service-name={name}"):
                ready += sum(
                    1 for each in piece.get("endpoints") or [] if each.get("conditions", {}).get("ready", True)
                )
            if ready:
                return Feature(True, f"Service kube-system/{name} ({LABEL}) has {ready} ready endpoints")
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"cannot read Services and EndpointSlices of kube-system ({broken})")
    if names:
        return Feature(False, f"Service kube-system/{names[0]} ({LABEL}) has no ready endpoint")
    return Feature(False, f"kube-system has no Service with the label {LABEL}")


def disruption_features(
    cluster: Cluster, nodes: Mapping[str, str], reached: Collection[str], images: Mapping[Disruption, str]
) -> dict[str, Feature]:
    """The features of ``Disruption``, except ``disruptive`` itself.

    Args:
        cluster: the cluster.
        nodes: all nodes of the cluster, each with its kernel version.
        images: the other images that are named, of kube-proxy and of Cilium's agent (``Settings.images``).
        reached: nodes that are proven to be containers on this machine (``node_containers.proven``).
    """
    lost = sorted(set(nodes) - set(reached))
    found = {
        "kube-proxy.pods": pods_feature(cluster, Disruption.KUBE_PROXY),
        "load-balancer.speaker": pods_feature(cluster, Disruption.SPEAKER),
        "network-add-on.agents": pods_feature(cluster, Disruption.NETWORK_AGENT),
        "network-add-on.stoppable": pods_feature(cluster, Disruption.NETWORK_STOPPED),
        "load-balancer.controller": _controller(cluster, reached),
        "nodes.shell": Feature(
            not lost,
            f"node {lost[0]} is not a container on this machine" if lost else "docker exec reaches every node",
        ),
    }
    found |= _control_plane(cluster, reached)
    found |= kube_proxy.features(cluster, nodes, images.get(Disruption.PROXY_UPGRADED, ""))
    cilium = daemon_sets.listed(cluster, daemon_sets.CILIUM)
    other = images.get(Disruption.NETWORK_AGENT_UPGRADED, "")
    return found | daemon_sets.other_image(cilium, daemon_sets.CILIUM, other)


def _controller(cluster: Cluster, reached: Collection[str]) -> Feature:
    """Whether the controller of the cluster's own load balancer runs on nodes that can be reached."""
    found = pods_feature(cluster, Disruption.CONTROLLER_STOPPED)
    if not found.present:
        return found
    nodes = {pod["spec"].get("nodeName", "") for pod in agent_pods(cluster, Disruption.CONTROLLER_STOPPED)}
    return _reached(sorted(nodes), reached)


def _control_plane(cluster: Cluster, reached: Collection[str]) -> dict[str, Feature]:
    """Whether the nodes of all API servers can be reached, and whether there are several."""
    names = ("control-plane.reachable", "control-plane.several")
    try:
        on = sorted({pod["spec"].get("nodeName", "") for pod in api_servers(cluster)})
    except (ApiError, UnreachableError) as broken:
        return dict.fromkeys(names, Feature(False, f"cannot list the pods of kube-system: {broken}"))
    if not on:
        return dict.fromkeys(names, Feature(False, "no pod has the label component=kube-apiserver"))
    several = f"API servers run on {', '.join(on)}" if len(on) > 1 else f"the only API server runs on {on[0]}"
    return dict(zip(names, (_reached(on, reached), Feature(len(on) > 1, several)), strict=True))


def _reached(nodes: Collection[str], reached: Collection[str]) -> Feature:
    lost = [node for node in nodes if node not in reached]
    if lost:
        return Feature(False, f"node {lost[0]} is not a container on this machine")
    return Feature(True, f"docker exec reaches {', '.join(nodes)}")


NOT_FOUND = 404


def objects_of(
    cluster: Cluster, known: Iterable[LoadBalancer], workloads: Collection[str], add_ons: Collection[str] = ()
) -> dict[str, bool]:
    """Which collections have something in them; those that may not be read, or cannot be now, are left out.

    Args:
        cluster: the cluster.
        known: the profiles that there are.
        workloads: names of those that may serve load balancers.
        add_ons: names of workloads of the network add-on.
    """
    marks = [profile.found for profile in known]
    wanted = [each for each in marks if workloads_by(each, workloads) or named_by(each.add_ons, add_ons)]
    found: dict[str, bool] = {}
    for name in sorted({name for marks in wanted for name in marks.objects}):
        try:
            answer = cluster.request("GET", f"/apis/{name}", query={"limit": "1"})
        except ApiError as refused:
            if refused.status == NOT_FOUND:  # there is no such kind
                found[name] = False
        except UnreachableError:
            pass
        else:
            found[name] = bool(answer.get("items"))
    return found
