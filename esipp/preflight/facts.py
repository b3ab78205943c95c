"""What is found about the cluster's data plane, and how it was decided: never assumed, always written down."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from esipp.base.fact import Fact as Fact
from esipp.checks.model import AddressClass, EntryKind, Path, Vantage
from esipp.checks.observation import Observation
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.judging.topology import Topology
from esipp.preflight import cilium
from esipp.probing.jobs import Job
from esipp.probing.prober import Prober

PROXY_CONFIG = "ConfigMap kube-system/kube-proxy"
PROXY_MODE = ("127.0.0.1", 10249, "/proxyMode")
"""Where kube-proxy tells its mode, on the node itself (upstream.md §2.6)."""

SETTINGS = ("proxy-mode", "detect-local", "node-port-addresses", "masquerade-all")
"""The facts about kube-proxy's settings."""

VERSION = "kube-proxy-version"
"""Which kube-proxy it is: it may be older or newer than the API server."""

KUBE_PROXY = "kube-proxy"
"""The fact that says ``absent`` where no kube-proxy answers on any node, and no DaemonSet has its name; else there is
none."""

WHERE = "DaemonSets of all namespaces"
"""How it is found which of them there are."""

ADD_ONS = (
    *("kindnet", "calico-node", "cilium", "antrea-agent", "ovnkube-node", "weave-net", "kube-flannel-ds"),
    *("aws-node", "azure-cni", "kube-router", "esipp-network"),
)
"""DaemonSets by which network add-ons are known."""

NO_PROXIES = ("kindnet", "weave-net", "kube-flannel-ds", "aws-node", "azure-cni", "esipp-network")
"""Those among them that never carry Services themselves."""


def proxy_facts(cluster: Cluster) -> dict[str, Fact]:
    """The service proxy and its settings, from what kubeadm and add-ons leave in kube-system."""
    images, unread = _daemon_sets(cluster)
    names = None if images is None else set(images)
    facts = {"network-add-on": _network_add_on(names, unread)}
    settings = _kube_proxys_settings(cluster)
    if names is not None and "kube-proxy" in names:
        facts[VERSION] = cilium.version((images or {})["kube-proxy"], "kube-proxy")
    if names is not None and "cilium" not in names:
        proxy = (
            Fact("kube-proxy", WHERE) if "kube-proxy" in names else Fact("unknown", f"{WHERE}: none by a known name")
        )
        return {"service-proxy": proxy} | facts | settings
    config, why = _ciliums_config(cluster)
    replaced = cilium.replaces_kube_proxy(config)
    if replaced:
        settings = settings | cilium.read_config(config)
    elif config:
        settings |= {name: cilium.read_config(config)[name] for name in ("cilium.kube-proxy-replacement", cilium.SCTP)}
    elif names is not None and "kube-proxy" not in names:  # what kubeadm has left of one that is gone is nobody's
        settings = {name: Fact("unknown", why) for name in settings}
    settings["cilium.version"] = cilium.version((images or {}).get("cilium", ""))
    return {"service-proxy": _which(names, unread, replaced=replaced, config=config, why=why)} | facts | settings


def _which(names: set[str] | None, unread: str, *, replaced: bool, config: Mapping[str, Any], why: str) -> Fact:
    """Who carries Services, where Cilium is or may be there."""
    told = f"{cilium.CONFIG}, kube-proxy-replacement"
    if names is None:
        return Fact("cilium", f"{told}; {unread}") if replaced else Fact("unknown", unread)
    if replaced:
        beside = "; a DaemonSet kube-proxy is there too, but packets meet Cilium's programs first"
        return Fact("cilium", f"{WHERE}; {told}" + (beside if "kube-proxy" in names else ""))
    if "kube-proxy" in names:
        return Fact("kube-proxy", f"{WHERE}; {told} is {config.get('kube-proxy-replacement', 'left out')}"
                    if config else f"{WHERE}; {why}")  # fmt: skip
    if config:
        return Fact("unknown", f"{WHERE}: no kube-proxy; {told} is {config.get('kube-proxy-replacement', 'left out')}")
    return Fact("cilium", f"{WHERE}: cilium and no kube-proxy; {why}")


def _ciliums_config(cluster: Cluster) -> tuple[Mapping[str, Any], str]:
    """The data of its ConfigMap; empty, and why, where it cannot be read."""
    try:
        data = cluster.request("GET", "/api/v1/namespaces/kube-system/configmaps/cilium-config").get("data")
    except (ApiError, UnreachableError) as broken:
        return {}, f"{cilium.CONFIG} cannot be read ({broken})"
    return data or {}, f"{cilium.CONFIG} is empty"


def _kube_proxys_settings(cluster: Cluster) -> dict[str, Fact]:
    """Its settings; unknown, and not the defaults, where its ConfigMap has no configuration that can be read."""
    config: Any = None
    try:
        data = cluster.request("GET", "/api/v1/namespaces/kube-system/configmaps/kube-proxy").get("data") or {}
        config = yaml.safe_load(data.get("config.conf") or "")
        unread = f"{PROXY_CONFIG} has no configuration under config.conf"
    except (ApiError, UnreachableError, yaml.YAMLError) as broken:
        unread = f"{PROXY_CONFIG} cannot be read ({broken})"
    if not isinstance(config, Mapping) or not config:
        return {name: Fact("unknown", unread) for name in SETTINGS}
    return read_proxy_config(config)


def read_proxy_config(config: Mapping[str, Any]) -> dict[str, Fact]:
    """kube-proxy's settings that change whose address a backend sees; what is left out has kube-proxy's default."""

    def told(value: Any) -> str:
        return PROXY_CONFIG if value not in (None, "", [], {}) else f"{PROXY_CONFIG}, left out: the default"

    mode = config.get("mode") or "iptables"
    detect = config.get("detectLocalMode") or "ClusterCIDR"
    cidr = config.get("clusterCIDR") or ""
    if detect == "ClusterCIDR" and not cidr:
        detect = "none"  # kube-proxy's no-op detector
    ports = config.get("nodePortAddresses")
    where = ",".join(ports) if ports else ("primary" if mode == "nftables" else "all")
    masquerade = (config.get(mode) or {}).get("masqueradeAll", False)
    return {
        "proxy-mode": Fact(mode, told(config.get("mode"))),
        "detect-local": Fact(detect, told(config.get("detectLocalMode")) + (f", clusterCIDR {cidr}" if cidr else "")),
        "node-port-addresses": Fact(where, told(ports)),
        "masquerade-all": Fact(str(bool(masquerade)).lower(), PROXY_CONFIG),
    }


def _daemon_sets(cluster: Cluster) -> tuple[dict[str, str] | None, str]:
    """The images of all, by name, each that of its first container; None, and why, where they cannot be listed."""
    try:
        return {str(item["metadata"]["name"]): _image(item) for item in cluster.list("/apis/apps/v1/daemonsets")}, ""
    except (ApiError, UnreachableError) as broken:
        return None, f"{WHERE} cannot be listed ({broken})"


def _image(daemon_set: Mapping[str, Any]) -> str:
    containers = daemon_set.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or [{}]
    return str(containers[0].get("image") or "")


def _network_add_on(names: set[str] | None, unread: str) -> Fact:
    if names is None:
        return Fact("unknown", unread)
    add_ons = sorted(name for name in names if name in ADD_ONS)
    return Fact(", ".join(add_ons) or "unknown", WHERE + ("" if add_ons else ": none by a known name"))


def measured_facts(agents: Mapping[str, Prober], known: Mapping[str, str]) -> dict[str, Fact]:
    """What only the service proxies themselves tell, on their nodes: kube-proxy's mode, or how Cilium's agents are.

    Where none is known by name, the network add-on is none either, and nobody tells anything on the nodes, there is
    ``none`` as far as can be found out.
    """
    if known.get("service-proxy") == "cilium":
        return cilium.health(agents)
    mode = measured_proxy_mode(agents)
    if mode is not None:
        return {"proxy-mode": mode}
    nameless = known.get("service-proxy") == "unknown" and known.get("network-add-on", "unknown") != "unknown"
    if not nameless or not agents:
        return {}
    told = cilium.health(agents)["cilium.health"]
    if told.value != "refused":
        return {}
    how = f"{WHERE}: none by a known name; refused at {PROXY_MODE[0]}:{PROXY_MODE[1]}; {told.decided}"
    found = {KUBE_PROXY: Fact("absent", how)}
    return found | ({"service-proxy": Fact("none", how)} if known["network-add-on"] in NO_PROXIES else {})


def measured_proxy_mode(agents: Mapping[str, Prober]) -> Fact | None:
    """The mode as the kube-proxies themselves tell it on their nodes; None where none answers there."""
    host, port, url = PROXY_MODE
    asked = {
        node: agent.submit(Job(f"proxy-mode {node}", "http", host, port, 1, 2.0, url=url))
        for node, agent in agents.items()
    }
    told: dict[str, list[str]] = defaultdict(list)
    for node, future in asked.items():
        for each in future.result(timeout=10):
            found = re.search(r"\b(iptables|ipvs|nftables|kernelspace)\b", each.detail)
            if found:
                told[found[1]].append(node)
    if not told:
        return None
    where = f"http://{host}:{port}{url} on {', '.join(sorted(node for nodes in told.values() for node in nodes))}"
    return Fact("mixed" if len(told) > 1 else next(iter(told)), where)


def listener_facts(
    observations: Mapping[str, Sequence[Observation]], paths: Iterable[Path], topology: Topology
) -> dict[str, Fact]:
    """What the reference listeners tell about the way: do pods reach other nodes with their own address?"""
    seen: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        to_another_node = path.client.vantage is Vantage.POD and path.client.role is not path.entry.role
        if path.entry.kind is not EntryKind.NODE_LISTENER or not to_another_node:
            continue  # what stays on a node is masqueraded by nobody
        for each in observations.get(path.key, ()):
            if each.seen and each.source:
                own = AddressClass.CLIENT in topology.origin(path, each.seen[0], each.source[0]).classes
                seen[f"pod-to-node.{path.family.value.lower()}"].add("unchanged" if own else "masqueraded")
    how = "the reference listeners in the judged window"
    return {name: Fact(values.pop() if len(values) == 1 else "mixed", how) for name, values in seen.items()}
