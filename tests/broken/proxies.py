"""A different configuration for one node's kube-proxy."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import yaml

from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.cluster.client import ApiError
from tests.broken.nodes import OURS, Nodes, Placed

PODS = "/api/v1/namespaces/kube-system/pods"
CONFIG = "/api/v1/namespaces/kube-system/configmaps/kube-proxy"
KEY = "config.conf"
MARK = f"esipp.dev/{OURS}"
"""The ConfigMap's annotation while a node has another configuration: the node, and the original configuration."""

SELECTOR = "k8s-app=kube-proxy"


@contextmanager
def syncing_every(seconds: int, nodes: Nodes, node: str) -> Iterator[Placed]:
    """Limit how often the node's kube-proxy syncs its rules; always restore its configuration."""
    before = nodes.cluster.request("GET", CONFIG)["data"][KEY]
    try:
        config = yaml.safe_load(before)
        for mode in ("iptables", "nftables", "ipvs"):
            config[mode] = {**(config.get(mode) or {}), "minSyncPeriod": f"{seconds}s", "syncPeriod": "60s"}
        change = {"metadata": note(json.dumps({"node": node, "config": before})), "data": {KEY: yaml.safe_dump(config)}}
        nodes.cluster.patch(CONFIG, change, "merge-patch")
        try:
            start_anew(nodes, node)
        finally:
            nodes.cluster.patch(CONFIG, {"data": {KEY: before}}, "merge-patch")
        yield Placed(time.time())
    finally:
        start_anew(nodes, node)
        nodes.cluster.patch(CONFIG, {"metadata": note(None)}, "merge-patch")


def note(mark: str | None) -> Json:
    """The annotation of a changed configuration; None removes it."""
    return {"annotations": {MARK: mark}}


def start_anew(nodes: Nodes, node: str) -> None:
    """Replace the node's kube-proxy, and wait until another one is ready."""
    old = {each["metadata"]["name"] for each in of_node(nodes, node)}
    for name in old:
        nodes.cluster.delete(f"{PODS}/{name}", grace=0)
    new: list[str] = []

    def look() -> Reading:
        new[:] = [each["metadata"]["name"] for each in of_node(nodes, node) if is_ready(each)]
        return Reading(bool(new) and not old & {*new}, str(new))

    waited = converge(look, Budget(f"another kube-proxy on {node}", 60.0, need=1, spacing=0.3))
    assert waited.held, waited


def heal(nodes: Nodes) -> None:
    """Bring back what a killed session left: the configuration of all, and that node's kube-proxy."""
    try:
        found = nodes.cluster.request("GET", CONFIG)["metadata"].get("annotations", {}).get(MARK)
    except ApiError as missing:
        if missing.status == HTTPStatus.NOT_FOUND:
            return
        raise
    if found:
        kept = json.loads(found)
        nodes.cluster.patch(CONFIG, {"data": {KEY: kept["config"]}}, "merge-patch")
        start_anew(nodes, kept["node"])
        nodes.cluster.patch(CONFIG, {"metadata": note(None)}, "merge-patch")


def of_node(nodes: Nodes, node: str) -> list[Json]:
    """The pods of kube-proxy on a node."""
    pods = nodes.cluster.list(PODS, labelSelector=SELECTOR)
    return [each for each in pods if each["spec"].get("nodeName") == node]


def is_ready(pod: Json) -> bool:
    """Whether a pod is ready, and stays."""
    conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", ())}
    return conditions.get("Ready") == "True" and not pod["metadata"].get("deletionTimestamp")
