"""Preflight: checks before anything is created, and facts and features of the cluster."""

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from esipp.base.client_places import Place
from esipp.base.customisation import Pairs
from esipp.base.errors import HarnessError, PreflightError, did_you_mean
from esipp.base.plural import counted
from esipp.checks.catalog import all_checks
from esipp.checks.check import (
    HEALTH_VIEW,
    HOST_NETWORK,
    KUBE_PROXY,
    KUBERNETES,
    LINK_LOCAL,
    LONG,
    NAT,
    OF_VERSIONS,
    ONE_NODE,
    OUTSIDE,
    OWN_REFERENCE,
    PROXY_VERSION,
    ROUTED,
    TWO_ADDRESSES,
    WITHOUT_NODE_PORTS,
    Fact,
    Feature,
    on_link,
)
from esipp.checks.exclusions import features_of
from esipp.checks.model import Balancer, Claim, Family, Role
from esipp.checks.profile import LoadBalancer
from esipp.checks.required_features import check_required
from esipp.checks.versions import read_version, versions_at
from esipp.cluster.client import NOT_THERE, ApiError, Cluster, UnreachableError
from esipp.cluster.dialect import CLUSTER_IPS_SINCE, NEWEST
from esipp.cluster.rights import rights_features
from esipp.judging.topology import MARKS, ZONE, Node, marked, with_control_plane
from esipp.ledger.reading import Component
from esipp.ledger.run import Settings
from esipp.loadbalancers import capabilities as carrying
from esipp.loadbalancers.detection import NOTHING_FOUND, Detected, detect
from esipp.loadbalancers.profiles.loading import all_profiles, provider
from esipp.loadbalancers.provider_annotations import header_features, headers_asked, speaker
from esipp.loadbalancers.reference import DEFAULT, Reference, as_it_runs
from esipp.loadbalancers.reference import find as find_reference
from esipp.loadbalancers.timeouts import steering_of
from esipp.loadbalancers.views import CLOUDS, NO_TOOL, asked_of, provider_of
from esipp.preflight import kube_proxy, outside_clients
from esipp.preflight.cilium import sctp_feature
from esipp.preflight.components import BALANCER, NETWORK, find_components, node_facts, reference_component
from esipp.preflight.facts import proxy_facts
from esipp.preflight.outside_clients import NO_CLIENT_OUTSIDE
from esipp.preflight.steps import (
    Outside,
    answered,
    check_nodes,
    check_outside,
    check_rights,
    check_server,
    disruption_features,
    dns_feature,
    list_nodes,
    objects_of,
)
from esipp.probing.hosts import HostDescription
from esipp.probing.node_containers import proven
from esipp.testbed import network_policies
from esipp.testbed.pull_secret import load
from esipp.testbed.refusals import host_network_feature
from esipp.testbed.sampling import NO_SAMPLE, Sample, sample


@dataclass(frozen=True)
class Findings:
    """The results of preflight: nodes, roles, facts, features and components, and the reference load balancer, if any.

    ``outside_network`` is the docker network for outside clients, ``places`` are where outside clients run, and
    ``described`` has the places that are not containers. ``tools`` is the image that puts containers behind a router
    and NAT. ``sample`` are the nodes that run an agent. ``balancer`` is the cluster's own load balancer, ``headers``
    are those in which it reports clients. ``steering`` is how many seconds any load balancer here may take to stop
    using a node, if known. ``ways`` are the commands to enter nodes that are proven to be containers on this machine.
    """

    nodes: Mapping[str, Node]
    roles: Mapping[Role, str]
    facts: dict[str, str]
    decided: Mapping[str, str]
    features: dict[str, Feature]
    outside_network: str | None
    reference: Reference | None = None
    components: tuple[Component, ...] = ()
    notes: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    described: Mapping[Place, HostDescription] = field(default_factory=dict)
    tools: str = ""
    balancer: Detected = NOTHING_FOUND
    headers: Mapping[Claim, Pairs] = field(default_factory=dict)
    sample: Sample = NO_SAMPLE
    steering: float | None = None
    ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def on_node(self, node: str, command: list[str]) -> list[str] | None:
        """The command line that runs a command on a node without Kubernetes; None if that is not possible."""
        return [*self.ways[node], *command] if node in self.ways else None


def examine(cluster: Cluster, settings: Settings, suites: Iterable[str] = ()) -> Findings:
    """Examine the cluster for a run of these suites, and stop at the first error.

    ``esipp doctor`` takes the same steps, and continues after an error.

    Raises:
        PreflightError: the cluster is unreachable, or lacks rights, schedulable nodes or a required feature.
    """
    version = check_server(cluster)
    check_rights(cluster, settings, suites)
    raw = list_nodes(cluster)
    load(cluster, settings.customisation.pull_secret, settings.image)  # fails before anything is created
    nodes, roles = check_nodes(raw, settings)
    outside = check_outside(settings, nodes)
    reference = find_reference(outside.network, cluster.server) if outside.network else None
    found = look_around(cluster, settings, EarlierSteps(version, raw, nodes, roles, outside, reference))
    check_required(settings.require, found.features)
    return found


class EarlierSteps(NamedTuple):
    """The results of the steps before ``look_around``: version, raw and parsed nodes, roles, and the outside."""

    version: str
    raw: list[dict[str, Any]]
    nodes: Mapping[str, Node]
    roles: Mapping[Role, str]
    outside: Outside
    reference: Reference | None


def look_around(cluster: Cluster, settings: Settings, earlier: EarlierSteps) -> Findings:
    """Determine facts and features, which decide which checks can run.

    Raises:
        PreflightError: the API server or the reference load balancer does not answer, or ``--without`` is invalid.
    """
    with answered(cluster):
        granted = rights_features(cluster)
    version, raw, nodes, roles, outside, reference = earlier
    facts = {"kubernetes": version, "nodes": str(len(nodes)), **_versions(raw)}
    decided = dict.fromkeys(facts, "API server /version and node status")
    given = settings.customisation.facts()
    facts, decided = facts | given, decided | dict.fromkeys(given, "given on the command line")
    services = _service_families(cluster, version)
    for name, fact in {**node_facts(raw, services), **proxy_facts(cluster)}.items():
        facts[name], decided[name] = fact.value, fact.decided
    features = _features(nodes, roles, services, settings.seed)
    families = [family for family in Family if features[f"family.{family.value.lower()}"].present]
    features |= outside_clients.features(outside.places, outside.described.values(), families, outside.tools)
    features |= _of_a_pod(settings, features)
    features |= _reference_features(reference)
    components, notes = find_components(cluster, version, raw)
    if facts["service-proxy"] in ("kube-proxy", "unknown"):
        declared = {name: Fact(facts[name], decided[name]) for name in (PROXY_VERSION,) if name in facts}
        for name, fact in kube_proxy.version_facts(version, components, declared).items():
            facts[name], decided[name] = fact.value, fact.decided
    workloads = workloads_of(components)
    add_ons = [each.name for each in components if each.kind == NETWORK]
    objects = objects_of(cluster, all_profiles(), workloads, add_ons)
    reference_settings: Mapping[str, Any] = {}
    if reference:
        components.append(reference_component(reference))
        reference_settings, said, how = read_reference(reference)
        facts |= {"load-balancer.reference": said, OWN_REFERENCE: role_of(reference_settings)}
        decided |= {"load-balancer.reference": how, OWN_REFERENCE: how}
    named = provider(settings.provider) if settings.provider else None
    balancer = detect(all_profiles(), raw, workloads, named, objects)
    balancer = as_it_runs(balancer, all_profiles(), reference_settings)
    for name, fact in balancer.facts().items():
        facts[name], decided[name] = fact.value, fact.decided
    features[HEALTH_VIEW] = health_view_feature(nodes.values(), reference_settings, balancer.named_profile)
    features |= carrying.features_of(balancer.named_profile)
    features[WITHOUT_NODE_PORTS] = carrying.node_ports_feature(balancer.profiles)
    features[ONE_NODE] = carrying.one_node_feature(balancer.profiles)
    headers = headers_asked(balancer, all_profiles(), settings.customisation)
    features |= header_features(speaker(balancer), headers)
    features[HOST_NETWORK] = (
        host_network_feature(cluster) if (read_version(version) or NEWEST) >= AGENTS_SINCE else NO_AGENTS
    )
    features["external-ips"] = _external_ips(cluster)
    features["dns"] = dns_feature(cluster)
    features[network_policies.FEATURE] = network_policies.feature(cluster)
    proxy = facts["service-proxy"]
    features["service-proxy.kube-proxy"] = Feature(proxy == "kube-proxy", f"{proxy} ({decided['service-proxy']})")
    if policies := network_policies.beyond_us(cluster):
        facts[network_policies.FACT] = ", ".join(policies)
        decided[network_policies.FACT] = "listed; a NetworkPolicy of esipp does not override them"
    features |= granted
    allowed = settings.allow_disruptive
    for name, option, on in (("disruptive", "--allow-disruptive", allowed), (LONG, "--long", settings.long)):
        features[name] = Feature(on, f"{option} was given" if on else f"only with {option}", ours=True)
    ways = proven(raw)
    kernels = {item["metadata"]["name"]: item["status"]["nodeInfo"].get("kernelVersion", "") for item in raw}
    features |= disruption_features(cluster, kernels, ways, settings.images)
    everywhere = facts["node-port-addresses"] == "all"
    features["node-ports.all-addresses"] = Feature(
        everywhere, f"node-port-addresses: {facts['node-port-addresses']} ({decided['node-port-addresses']})"
    )
    of_localhost = facts.get("localhost-node-ports", "unknown")
    features["node-ports.localhost"] = Feature(
        of_localhost == "true",
        f"localhost-node-ports: {of_localhost} ({decided.get('localhost-node-ports', facts['service-proxy'])})",
    )
    features |= sctp_feature(facts, decided)
    features |= left_out(settings.without, features) | features_of(settings.exclude)
    if not features[HOST_NETWORK].present:  # then there are no root privileges and no raw sockets either
        features |= dict.fromkeys(("packets", "sctp"), features[HOST_NETWORK])
    features |= versions_at(facts, all_checks())
    playing = with_control_plane(nodes.values(), roles, settings.seed)
    chosen = sample(nodes.values(), playing, settings.sample_nodes, settings.seed)
    facts["nodes.sampled"], decided["nodes.sampled"] = chosen.words, chosen.decided
    steering = steering_of(balancer.profiles, reference_settings, settings.bound)
    return Findings(
        nodes, roles, facts, decided, features, outside.network, reference, tuple(components), tuple(notes),
        places=outside.places, described=outside.described, tools=outside.tools, balancer=balancer, headers=headers,
        sample=chosen, steering=steering, ways=ways,
    )  # fmt: skip


MOST_NAMED = 5
"""The most nodes that the text of a feature names."""

AGENTS_SINCE = (1, 12)
"""The first version whose DaemonSets honour ``matchFields`` (kubernetes/kubernetes#64362)."""

NO_AGENTS = Feature(False, "the DaemonSet of the agents selects nodes by name, which needs Kubernetes 1.12")


def workloads_of(components: Iterable[Component]) -> list[str]:
    """The names of components that may implement load balancers."""
    return [each.name for each in components if each.kind == BALANCER]


def left_out(without: Iterable[str], features: Mapping[str, Feature]) -> dict[str, Feature]:
    """The features of ``--without``, as missing.

    Raises:
        PreflightError: there is no such feature, or it is a version, which no cluster can lack alone.
    """
    for name in sorted(set(without)):
        if name.startswith(OF_VERSIONS):
            version = name.removeprefix(KUBERNETES).removeprefix(KUBE_PROXY)
            raise PreflightError(
                f"--without {name}: esipp cannot leave out a version.",
                f"'esipp list --kubernetes {version}' lists the checks that such a server supports.",
            )
        if name not in features and name not in carrying.NAMES:
            hint = f"{did_you_mean(name, features)}'esipp list --features' lists all."
            raise PreflightError(f"--without {name}: there is no such feature.", hint)
    return {name: Feature(False, "left out by --without", ours=True) for name in without}


def _versions(raw: list[dict[str, Any]]) -> dict[str, str]:
    wanted = {"kubelet": "kubeletVersion", "kernel": "kernelVersion", "runtime": "containerRuntimeVersion"}
    found = {}
    for name, key in wanted.items():
        values = sorted({item["status"]["nodeInfo"][key] for item in raw})
        found[name] = ", ".join(values)
    return found


def _dry_run(cluster: Cluster, **spec: Any) -> dict[str, Any]:
    """The Service that the API server would create."""
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "esipp-dry-run-"}}
    body = {**manifest, "spec": {"ports": [{"port": 80}], **spec}}
    return cluster.request("POST", "/api/v1/namespaces/default/services", query={"dryRun": "All"}, body=body)


def _external_ips(cluster: Cluster) -> Feature:
    """Whether the cluster admits Services with externalIPs."""
    try:
        _dry_run(cluster, externalIPs=["192.0.2.1"])
    except (ApiError, UnreachableError) as refused:
        if isinstance(refused, ApiError) and refused.reason == NOT_THERE:
            return Feature(True, f"assumed to be admitted: {refused.message}")
        return Feature(False, f"the API server refused a dry run: {refused}")
    return Feature(True, "the API server admitted a dry run")


def _service_families(cluster: Cluster, version: str = "") -> list[str] | None:
    """The address families that Services can have, in the order of the cluster; None if unknown.

    Servers without dual-stack Services have only the address family of the Service ``kubernetes``.
    """
    try:
        if (read_version(version) or NEWEST) < CLUSTER_IPS_SINCE:
            found = cluster.list("/api/v1/namespaces/default/services", fieldSelector="metadata.name=kubernetes")
            return [family for item in found for family in item["spec"].get("ipFamilies") or ()] or None
        return _dry_run(cluster, ipFamilyPolicy="PreferDualStack")["spec"].get("ipFamilies") or None
    except (ApiError, UnreachableError):
        return None


def _of_a_pod(settings: Settings, features: Mapping[str, Feature]) -> dict[str, Feature]:
    """The reason that there is no outside client, if esipp itself runs in the cluster."""
    if not settings.in_cluster or features["vantage.outside"].present:
        return {}
    outside = (OUTSIDE, TWO_ADDRESSES, ROUTED, NAT)
    return dict.fromkeys(outside, Feature(False, NO_CLIENT_OUTSIDE, ours=True))


def _reference_features(reference: Reference | None) -> dict[str, Feature]:
    """Whether a reference load balancer serves Services of its classes."""
    why = "there is no reference load balancer next to the nodes (ci/conformance creates one)"
    found = Feature(reference is not None, f"container {reference.container}" if reference else why)
    return {f"load-balancer.{each.value}": found for each in Balancer if each is not Balancer.DEFAULT}


def health_view_feature(
    nodes: Iterable[Node], reference: Mapping[str, Any], profile: LoadBalancer | None = None
) -> Feature:
    """Whether esipp can read the node health that the cluster's own load balancer reports.

    Args:
        nodes: the nodes of the cluster.
        reference: the settings of the reference load balancer, if there is one.
        named: the load balancer that the user named.
    """
    if DEFAULT in reference:
        return Feature(True, "the reference load balancer serves Services without a class")
    nodes = list(nodes)
    provider = asked_of(nodes, profile)
    if provider not in CLOUDS:
        known = provider_of(nodes) or "unknown"
        unasked = f"esipp cannot query the load balancer of provider '{known}'"
        return Feature(False, f"{NO_TOOL} that asks nodes of '{known}' about {profile.name}" if profile else unasked)
    program = CLOUDS[provider].tool.program
    if shutil.which(program) is None:
        return Feature(False, f"'{program}', which queries the load balancer, is not on PATH", ours=True)
    return Feature(True, f"'{program}' is on PATH")


def read_reference(reference: Reference) -> tuple[Mapping[str, Any], str, str]:
    """The health check settings that the reference load balancer reports, also as a fact.

    Raises:
        PreflightError: it exists but does not answer.
    """
    try:
        view = reference.view()
    except HarnessError as silent:
        raise PreflightError(silent.sentence, silent.hint) from None
    parts = [f"{name} {value}" for name, value in view["settings"].items()]
    parts += [f"fault {name}" for name in view.get("faults") or []]
    return view["settings"], ", ".join(parts), f"its admin endpoint (container {reference.container})"


def role_of(settings: Mapping[str, Any]) -> str:
    """The role of the reference load balancer: the cluster's own load balancer, or only an instrument."""
    return "own" if settings.get(DEFAULT) else "instrument"


def _zones(playing: Collection[Node]) -> Feature:
    """Whether the nodes with a role are in a zone of their own each, so that none is close to the endpoint."""
    without = sorted(node.name for node in playing if not node.zone)
    if without:
        return Feature(False, f"node {without[0]} has no label {ZONE}")
    by_zone: dict[str, str] = {}
    for node in playing:
        other = by_zone.setdefault(node.zone, node.name)
        if other != node.name:
            return Feature(False, f"{other} and {node.name} are in one zone, {node.zone}; --seed may choose others")
    return Feature(True, f"{counted(len(by_zone), 'node')} in a zone of their own each")


def _features(
    nodes: Mapping[str, Node], roles: Mapping[Role, str], services: Collection[str] | None, seed: int = 0
) -> dict[str, Feature]:
    playing = [nodes[name] for name in roles.values()]
    features = {}
    for family in Family:
        fit = [node for node in nodes.values() if node.usable and node.chosen]
        without = sorted({node.name for node in playing if family not in node.internal})
        lacking = sorted(node.name for node in fit if family not in node.internal)
        served = services is None or family.value in services
        some = f"{len(fit) - len(lacking)} of {len(fit)} nodes that can run pods have an {family} InternalIP"
        some += f", not {', '.join(lacking[:MOST_NAMED])}" if lacking else ""
        features[f"nodes.{family.value.lower()}"] = Feature(served and len(lacking) < len(fit), some)
        why = f"node {without[0]} has no {family} InternalIP" if without else "every node has an InternalIP"
        why = some if lacking and not without else why
        if not without and (only := [node.name for node in playing if node.only_external]):
            why = f"node {only[0]} has no InternalIP; esipp dials its ExternalIP {nodes[only[0]].internal[family]}"
        why += "" if served else f", but a Service gets only {', '.join(sorted(services or ()))} (dry run)"
        features[f"family.{family.value.lower()}"] = Feature(not without and served, why)
    three = len(set(roles.values())) == 3
    two = "only two nodes can run pods; these checks need a third node, without a backend and not dialled"
    features["nodes.three"] = Feature(three, "three nodes can run pods" if three else two)
    number = len({node.name for node in nodes.values() if node.usable and node.chosen})
    features["nodes.four"] = Feature(number > 3, f"{counted(number, 'node')} can run our pods")
    for mark in MARKS:
        found = marked(nodes.values(), roles, mark, seed if mark == Role.CONTROL_PLANE else 0)
        none = f"no node without another role has the label {MARKS[mark]}"
        why = f"{found} has the label {MARKS[mark]}" if found else none
        features[f"nodes.{mark.removesuffix('-node')}"] = Feature(found is not None, why)
    features["nodes.zones"] = _zones([nodes[name] for role, name in roles.items() if role is not Role.CONTROL_PLANE])
    features["load-balancer"] = Feature(True, "enabled by default; --without load-balancer disables it")
    both = all(features[f"family.{family.value.lower()}"].present for family in Family)
    features["families.dual"] = Feature(
        both,
        "nodes and Services have both address families" if both else "nodes or Services have only one address family",
    )
    features["sctp"] = Feature(True, "SCTP INITs from raw sockets; --without sctp disables it")
    features["packets"] = Feature(True, "tcpdump in the agents; --without packets disables it")
    for family in Family:
        for name in ("nodes.second-address", "nodes.other-addresses", "nodes.external-ips"):
            features[f"{name}.{family.value.lower()}"] = Feature(True, "the agents report it once they run")
        several = f"load-balancer.several-addresses.{family.value.lower()}"
        features[several] = Feature(True, "the Services show it once they have VIPs")
        features[on_link(family)] = Feature(True, "the client outside shows it once the Services have VIPs")
    features[LINK_LOCAL] = Feature(True, "the client outside shows it once it runs")
    return features
