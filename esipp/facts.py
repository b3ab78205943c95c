"""What is found about the cluster's data plane, and how it was decided: never assumed, always written down."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.model import AddressClass, EntryKind, Path, Vantage
from esipp.observation import Observation
from esipp.probing.jobs import Job
from esipp.probing.prober import Prober
from esipp.topology import Topology

PROXY_CONFIG = "ConfigMap kube-system/kube-proxy"
PROXY_MODE = ("127.0.0.1", 10249, "/proxyMode")
"""Where kube-proxy tells its mode, on the node itself (upstream.md §2.6)."""

ADD_ONS = (
    *("kindnet", "calico-node", "cilium", "antrea-agent", "ovnkube-node", "weave-net", "kube-flannel-ds"),
    *("aws-node", "azure-cni", "kube-router", "esipp-network"),
)
"""DaemonSets by which network add-ons are known."""


@dataclass(frozen=True)
class Fact:
    """What was found, and how that was decided."""

    value: str
    decided: str


def proxy_facts(cluster: Cluster) -> dict[str, Fact]:
    """The service proxy and its settings, from what kubeadm and add-ons leave in kube-system."""
    facts = _daemon_sets(cluster)
    try:
        data = cluster.request("GET", "/api/v1/namespaces/kube-system/configmaps/kube-proxy").get("data", {})
        config = yaml.safe_load(data.get("config.conf") or "") or {}
    except (ApiError, UnreachableError, yaml.YAMLError) as broken:
        unread = f"{PROXY_CONFIG} cannot be read ({broken})"
        names = ("proxy-mode", "detect-local", "node-port-addresses", "masquerade-all")
        return facts | {name: Fact("unknown", unread) for name in names}
    return facts | read_proxy_config(config)


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


def _daemon_sets(cluster: Cluster) -> dict[str, Fact]:
    where = "DaemonSets of all namespaces"
    try:
        names = {item["metadata"]["name"] for item in cluster.list("/apis/apps/v1/daemonsets")}
    except (ApiError, UnreachableError) as broken:
        unread = Fact("unknown", f"{where} cannot be listed ({broken})")
        return {"service-proxy": unread, "network-add-on": unread}
    add_ons = sorted(name for name in names if name in ADD_ONS)
    proxy = "kube-proxy" if "kube-proxy" in names else "cilium" if "cilium" in names else "unknown"
    return {
        "service-proxy": Fact(proxy, where),
        "network-add-on": Fact(", ".join(add_ons) or "unknown", where + ("" if add_ons else ": none by a known name")),
    }


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
