"""Collectors of artefacts for failed checks, from the API server, the nodes and the clients."""

import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence

from esipp.base.framing import script
from esipp.base.json import Json
from esipp.base.redaction import KNOWN
from esipp.cluster.client import Cluster
from esipp.testbed.artefacts import MOST_BYTES, SECONDS, Collector

MOST_NODES = 10
MOST_PODS = 20
LOG_LINES = 500

NETWORK_ADDON = re.compile(r"cni|kindnet|calico|cilium|flannel|weave|antrea|ovn|router|network|canal|aws-node")

KUBE_PROXY = {"mode": "proxyMode", "config": "configz"}
"""kube-proxy's endpoints on port 10249 of its node."""

OnNode = Callable[[str, list[str]], list[str] | None]
"""Returns the local command that runs a command on a node; None if that is not possible."""


def cluster_collectors(cluster: Cluster, namespace: str, *, since: float, service_proxy: str = "") -> list[Collector]:
    """Collectors for the API server: objects and logs.

    Args:
        cluster: the cluster.
        namespace: namespace of the run.
        since: seconds since the run began; older log lines are not collected.
        service_proxy: the service proxy, if known.
    """
    ours, system = f"/api/v1/namespaces/{namespace}", "/api/v1/namespaces/kube-system"
    paths = {
        "namespace": ours,
        "services": f"{ours}/services",
        "endpointslices": f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        "pods": f"{ours}/pods",
        "events": f"{ours}/events",
        "networkpolicies": f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
        "nodes": "/api/v1/nodes",
    }
    proxys = "cilium-config" if service_proxy == "cilium" else "kube-proxy"
    paths["cilium-configmap" if service_proxy == "cilium" else "kube-proxy-configmap"] = f"{system}/configmaps/{proxys}"
    found = [Collector(f"kubernetes/{name}.json", _object(cluster, path)) for name, path in paths.items()]
    logs: dict[str, tuple[str, Callable[[Json], bool]]] = {
        "echo": (ours, lambda _: True),
        "kube-proxy": (system, lambda pod: pod["metadata"].get("labels", {}).get("k8s-app") == "kube-proxy"),
        "network-addon": (system, lambda pod: bool(NETWORK_ADDON.search(pod["metadata"]["name"]))),
    }
    for name, (where, wanted) in logs.items():
        found.append(Collector(f"logs/{name}.txt", _logs(cluster, where, wanted, since), tail=True))
    return found


def node_collectors(
    nodes: Sequence[str], on_node: OnNode, *, ports: Collection[int], proxy_mode: str = ""
) -> list[Collector]:
    """Collectors for nodes: addresses, routes, rules, tracked connections, kube-proxy, kubelet.

    Args:
        nodes: names of nodes, the most important first; after the first ten, a note lists the others.
        on_node: returns the command that runs a command on a node.
        ports: ports of the run; other connections are not collected.
        proxy_mode: kube-proxy's mode, if known.
    """
    ours = "|".join(str(port) for port in sorted(set(ports)))
    # no match in grep is no failure; conntrack's own messages pass the filter
    shown = f"grep -E 'port=({ours}) |fail|denied|not' || true"
    tracked = f"command -v conntrack >/dev/null || exit 127; conntrack -L -f {{}} 2>&1 | {shown}"
    ask = "url=http://localhost:10249/{}; curl -sS -m 5 $url || wget -q -T 5 -O - $url"
    commands = {
        "ip-addr": ["ip", "-d", "addr"],
        "ip-rule": ["ip", "rule"],
        "ip-6-rule": ["ip", "-6", "rule"],
        "ip-route": ["ip", "route", "show", "table", "all"],
        "ip-6-route": ["ip", "-6", "route", "show", "table", "all"],
        "ip-neigh": ["ip", "neigh"],
        "sysctl": ["sh", "-c", "cd /proc/sys/net; grep -s . ipv4/conf/*/rp_filter ipv[46]/conf/*/forwarding"],
        "conntrack": ["sh", "-c", tracked.format("ipv4")],
        "conntrack-6": ["sh", "-c", tracked.format("ipv6")],
        "kubelet": ["journalctl", "-u", "kubelet", "-n", str(LOG_LINES), "--no-pager"],
    }  # fmt: skip
    if not proxy_mode.startswith("eBPF"):
        commands |= {f"kube-proxy-{name}": ["sh", "-c", ask.format(url)] for name, url in KUBE_PROXY.items()}
    if proxy_mode != "nftables":
        commands |= {"iptables": ["iptables-save", "-c"], "ip6tables": ["ip6tables-save", "-c"]}
    if proxy_mode not in ("iptables", "ipvs"):
        commands["nft"] = ["nft", "list", "ruleset"]
    if proxy_mode == "ipvs":
        commands["ipvs"] = ["ipvsadm", "-Ln"]
    found = []
    for node in nodes[:MOST_NODES]:
        boundary, where = secrets.token_hex(16), f"nodes/{node}"
        named = {f"{where}/{name}.txt": command for name, command in commands.items()}
        there = on_node(
            node, ["sh", "-c", script(named, boundary, SECONDS)]
        )  # its timeouts work on the node, even if this process ends
        parts = tuple(Collector(name, None, tail=name.endswith("/kubelet.txt")) for name in named)
        why = f"esipp cannot run commands on node {node}"
        found.append(Collector(where, there, missing=why, parts=parts if there else (), boundary=boundary))
    if len(nodes) > MOST_NODES:
        left = ", ".join(nodes[MOST_NODES:])
        found.append(Collector("nodes", None, missing=f"limited to {MOST_NODES} nodes; left out: {left[:500]}"))
    return found


def container_collectors(containers: Iterable[str]) -> list[Collector]:
    """Collectors for the logs of outside clients in containers."""
    return [
        Collector(f"clients/{name}.txt", ["docker", "logs", "--tail", str(LOG_LINES), name], tail=True)
        for name in containers
    ]


def _object(cluster: Cluster, path: str) -> Callable[[], str]:
    def read() -> str:
        answer = cluster.request("GET", path)
        for item in [answer, *(answer.get("items") or [])]:
            item.get("metadata", {}).pop("managedFields", None)  # half of the bytes, and useless here
        return json.dumps(KNOWN.value(answer), indent=1) + "\n"

    return read


def _logs(cluster: Cluster, where: str, wanted: Callable[[Json], bool], since: float) -> Callable[[], str]:
    query = {
        "sinceSeconds": str(max(1, int(since) + 1)), "tailLines": str(LOG_LINES), "limitBytes": str(MOST_BYTES // 4)
    }  # fmt: skip

    def read() -> str:
        pods = [pod for pod in cluster.list(f"{where}/pods") if wanted(pod)]
        texts = [f"==== only the first {MOST_PODS} of {len(pods)} pods\n"] if len(pods) > MOST_PODS else []
        for pod in pods[:MOST_PODS]:
            name = pod["metadata"]["name"]
            for container in pod["spec"]["containers"]:
                texts.append(f"==== {name} {container['name']} on {pod['spec'].get('nodeName')}\n")
                try:
                    texts.append(cluster.text(f"{where}/pods/{name}/log", {**query, "container": container["name"]}))
                except Exception as broken:  # a pod that is gone must not cost the logs of the others
                    texts.append(f"{broken}\n")
        return "".join(texts)

    return read
