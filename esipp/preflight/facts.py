"""Facts about the cluster's data plane, each with how it was determined."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from esipp.checks.check import PROXY_VERSION
from esipp.checks.check import Fact as Fact
from esipp.checks.model import AddressClass, EntryKind, Path, Vantage
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.judging.observation import Observation, origin_of
from esipp.judging.topology import Topology
from esipp.preflight import cilium
from esipp.probing.prober import Job, Prober

PROXY_CONFIG = "ConfigMap kube-system/kube-proxy"
PROXY_MODE = ("127.0.0.1", 10249, "/proxyMode")
"""The endpoint on a node where kube-proxy reports its mode (``/proxyMode`` of its metrics server)."""

SETTINGS = ("proxy-mode", "detect-local", "node-port-addresses", "localhost-node-ports", "masquerade-all")
"""The facts about kube-proxy's settings."""

VERSIONS = {"kube-proxy": PROXY_VERSION, "kube-flannel-ds": "flannel.version"}
"""The facts of versions, by the DaemonSet whose image has it; that of Cilium is set even if DaemonSets are unknown."""

KUBE_PROXY = "kube-proxy"
"""The fact that is ``absent`` if no kube-proxy answers on any node and no DaemonSet has its name. Otherwise it is not
set."""

WHERE = "DaemonSets of all namespaces"
"""How DaemonSets are determined."""

ADD_ONS = (
    *("kindnet", "calico-node", "cilium", "antrea-agent", "ovnkube-node", "weave-net", "kube-flannel-ds"),
    *("aws-node", "azure-cni", "kube-router", "esipp-network"),
)
"""The DaemonSets of known network add-ons."""

NO_PROXIES = ("kindnet", "weave-net", "kube-flannel-ds", "aws-node", "azure-cni", "esipp-network")
"""Network add-ons that never implement Services."""


def proxy_facts(cluster: Cluster) -> dict[str, Fact]:
    """The service proxy and its settings, from the objects of kubeadm and add-ons in kube-system."""
    images, unread = _daemon_sets(cluster)
    names = None if images is None else set(images)
    facts = {"network-add-on": _network_add_on(names, unread)}
    settings = _kube_proxys_settings(cluster)
    facts |= {
        fact: cilium.version((images or {})[name], name) for name, fact in VERSIONS.items() if name in (names or ())
    }
    if names is not None and "cilium" not in names:
        proxy = (
            Fact("kube-proxy", WHERE) if "kube-proxy" in names else Fact("unknown", f"{WHERE}: none with a known name")
        )
        return {"service-proxy": proxy} | facts | settings
    config, why = _ciliums_config(cluster)
    replaced = cilium.replaces_kube_proxy(config)
    if replaced:
        settings = settings | cilium.read_config(config)
    elif config:
        settings |= {name: cilium.read_config(config)[name] for name in cilium.BESIDE_KUBE_PROXY}
    elif names is not None and "kube-proxy" not in names:  # kubeadm's ConfigMap of a removed kube-proxy says nothing
        settings = {name: Fact("unknown", why) for name in settings}
    settings["cilium.version"] = cilium.version((images or {}).get("cilium", ""))
    return {"service-proxy": _which(names, unread, replaced=replaced, config=config, why=why)} | facts | settings


def _which(names: set[str] | None, unread: str, *, replaced: bool, config: Mapping[str, Any], why: str) -> Fact:
    """The service proxy if Cilium is, or may be, present."""
    setting = f"{cilium.CONFIG}, kube-proxy-replacement"
    if names is None:
        return Fact("cilium", f"{setting}; {unread}") if replaced else Fact("unknown", unread)
    if replaced:
        both = "; a DaemonSet kube-proxy exists too, but packets reach Cilium's programs first"
        return Fact("cilium", f"{WHERE}; {setting}" + (both if "kube-proxy" in names else ""))
    value = config.get("kube-proxy-replacement", "not set")
    if "kube-proxy" in names:
        return Fact("kube-proxy", f"{WHERE}; {setting} is {value}" if config else f"{WHERE}; {why}")
    if config:
        return Fact("unknown", f"{WHERE}: no kube-proxy; {setting} is {value}")
    return Fact("cilium", f"{WHERE}: cilium and no kube-proxy; {why}")


def _ciliums_config(cluster: Cluster) -> tuple[Mapping[str, Any], str]:
    """The data of Cilium's ConfigMap, and why it is empty, if it is."""
    try:
        data = cluster.request("GET", "/api/v1/namespaces/kube-system/configmaps/cilium-config").get("data")
    except (ApiError, UnreachableError) as broken:
        return {}, f"cannot read {cilium.CONFIG} ({broken})"
    return data or {}, f"{cilium.CONFIG} is empty"


def _kube_proxys_settings(cluster: Cluster) -> dict[str, Fact]:
    """kube-proxy's settings; they are unknown, not the defaults, if its ConfigMap has no readable configuration."""
    config: Any = None
    try:
        data = cluster.request("GET", "/api/v1/namespaces/kube-system/configmaps/kube-proxy").get("data") or {}
        config = yaml.safe_load(data.get("config.conf") or "")
        unread = f"{PROXY_CONFIG} has no configuration under config.conf"
    except (ApiError, UnreachableError, yaml.YAMLError) as broken:
        unread = f"cannot read {PROXY_CONFIG} ({broken})"
    if not isinstance(config, Mapping) or not config:
        return {name: Fact("unknown", unread) for name in SETTINGS}
    return read_proxy_config(config)


def read_proxy_config(config: Mapping[str, Any]) -> dict[str, Fact]:
    """kube-proxy's settings that affect the source IP; settings that are not set have kube-proxy's defaults."""

    def how(value: Any) -> str:
        return PROXY_CONFIG if value not in (None, "", [], {}) else f"{PROXY_CONFIG}, not set: the default"

    mode = config.get("mode") or "iptables"
    detect = config.get("detectLocalMode") or "ClusterCIDR"
    cidr = config.get("clusterCIDR") or ""
    if detect == "ClusterCIDR" and not cidr:
        detect = "none"  # kube-proxy's no-op detector
    ports = config.get("nodePortAddresses")
    where = ",".join(ports) if ports else ("primary" if mode == "nftables" else "all")
    localhost = (config.get("iptables") or {}).get("localhostNodePorts")
    serves = mode == "iptables" and localhost is not False
    masquerade = (config.get(mode) or {}).get("masqueradeAll", False)
    return {
        "proxy-mode": Fact(mode, how(config.get("mode"))),
        "detect-local": Fact(detect, how(config.get("detectLocalMode")) + (f", clusterCIDR {cidr}" if cidr else "")),
        "node-port-addresses": Fact(where, how(ports)),
        "localhost-node-ports": Fact(str(serves).lower(), how(localhost)),
        "masquerade-all": Fact(str(bool(masquerade)).lower(), PROXY_CONFIG),
    }


def _daemon_sets(cluster: Cluster) -> tuple[dict[str, str] | None, str]:
    """The image of the first container of each DaemonSet, by name; None, and why, if they cannot be listed."""
    try:
        return {str(item["metadata"]["name"]): _image(item) for item in cluster.list("/apis/apps/v1/daemonsets")}, ""
    except (ApiError, UnreachableError) as broken:
        return None, f"cannot list {WHERE} ({broken})"


def _image(daemon_set: Mapping[str, Any]) -> str:
    containers = daemon_set.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or [{}]
    return str(containers[0].get("image") or "")


def _network_add_on(names: set[str] | None, unread: str) -> Fact:
    if names is None:
        return Fact("unknown", unread)
    add_ons = sorted(name for name in names if name in ADD_ONS)
    return Fact(", ".join(add_ons) or "unknown", WHERE + ("" if add_ons else ": none with a known name"))


def measured_facts(agents: Mapping[str, Prober], known: Mapping[str, str]) -> dict[str, Fact]:
    """Facts that only the service proxies report, on their nodes: kube-proxy's mode, or the health of Cilium's agents.

    The service proxy is ``none`` if no DaemonSet has a known name, the network add-on is no service proxy, and nothing
    answers on the nodes.
    """
    if known.get("service-proxy") == "cilium":
        return cilium.health(agents)
    mode = measured_proxy_mode(agents)
    if mode is not None:
        return {"proxy-mode": mode}
    nameless = known.get("service-proxy") == "unknown" and known.get("network-add-on", "unknown") != "unknown"
    if not nameless or not agents:
        return {}
    health = cilium.health(agents)["cilium.health"]
    if health.value != "refused":
        return {}
    how = f"{WHERE}: none with a known name; refused at {PROXY_MODE[0]}:{PROXY_MODE[1]}; {health.decided}"
    found = {KUBE_PROXY: Fact("absent", how)}
    return found | ({"service-proxy": Fact("none", how)} if known["network-add-on"] in NO_PROXIES else {})


def measured_proxy_mode(agents: Mapping[str, Prober]) -> Fact | None:
    """The mode that the kube-proxies report on their nodes; None if none answers."""
    host, port, url = PROXY_MODE
    futures = {
        node: agent.submit(Job(f"proxy-mode {node}", "http", host, port, 1, 2.0, url=url))
        for node, agent in agents.items()
    }
    modes: dict[str, list[str]] = defaultdict(list)
    for node, future in futures.items():
        for each in future.result(timeout=10):
            found = re.search(r"\b(iptables|ipvs|nftables|kernelspace)\b", each.detail)
            if found:
                modes[found[1]].append(node)
    if not modes:
        return None
    where = f"http://{host}:{port}{url} on {', '.join(sorted(node for nodes in modes.values() for node in nodes))}"
    return Fact("mixed" if len(modes) > 1 else next(iter(modes)), where)


def listener_facts(
    observations: Mapping[str, Sequence[Observation]], paths: Iterable[Path], topology: Topology
) -> dict[str, Fact]:
    """Facts from the control listeners: whether pods reach other nodes with their own address."""
    sources: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        to_another_node = path.client.vantage is Vantage.POD and path.client.role is not path.entry.role
        if path.entry.kind is not EntryKind.NODE_LISTENER or not to_another_node:
            continue  # traffic within a node is never masqueraded
        for each in observations.get(path.key, ()):
            if each.seen and each.source:
                own = AddressClass.CLIENT in origin_of(topology, path, each.seen[0], each.source[0]).classes
                sources[f"pod-to-node.{path.family.value.lower()}"].add("unchanged" if own else "masqueraded")
    how = "the control listeners in the judged window"
    return {name: Fact(values.pop() if len(values) == 1 else "mixed", how) for name, values in sources.items()}
