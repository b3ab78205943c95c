"""The comparison of the kill test finds what a killed run may leave, and nothing that changes by itself."""

import copy
from collections.abc import Callable

import pytest

from esipp.base.json import Json
from tests.broken.snapshot import differences, normalised


def node() -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": "a", "resourceVersion": "7", "labels": {"os": "linux"}, "annotations": {}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "1", "lastTransitionTime": "1"},
                {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": "1", "lastTransitionTime": "1"},
            ],
            "images": [{"names": ["x"]}],
            "nodeInfo": {"kubeletVersion": "v1", "machineID": "1", "systemUUID": "1"},
        },
    }


def pod(suffix: str = "abcde") -> Json:
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"kube-proxy-{suffix}",
            "namespace": "kube-system",
            "uid": f"uid-{suffix}",
            "ownerReferences": [{"kind": "DaemonSet", "name": "kube-proxy"}],
        },
        "spec": {"nodeName": "a", "volumes": [{"name": f"kube-api-access-{suffix}"}]},
        "status": {"phase": "Running", "startTime": suffix, "containerStatuses": [state(suffix)]},
    }


def state(suffix: str) -> Json:
    return {"name": "c", "containerID": suffix, "restartCount": len(suffix), "state": {"running": {"startedAt": "1"}}}


def deployed() -> Json:
    return {
        "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "u1"},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Running", "containerStatuses": [state("abc")]},
    }


def remnants(change: Callable[[list[Json]], object]) -> list[str]:
    before = [node(), pod(), deployed()]
    after = copy.deepcopy(before)
    change(after)
    return list(differences(normalised(before), normalised(after)))


def not_ready(items: list[Json]) -> None:
    items[0]["status"]["conditions"][0]["status"] = "Unknown"


def crashing(items: list[Json]) -> None:
    items[2]["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}


FOUND = [
    (lambda items: items[0]["spec"].update(unschedulable=True), "Node /a.spec.unschedulable is new: True"),
    (lambda items: items[0]["spec"].update(taints=[{"key": "k", "effect": "NoExecute"}]), "Node /a.spec.taints is new"),
    (lambda items: items[0]["metadata"]["labels"].update({"exclude": ""}), "Node /a.metadata.labels.exclude is new"),
    (lambda items: items[0]["metadata"]["labels"].clear(), "Node /a.metadata.labels.os is missing; it was linux"),
    (lambda items: items[0]["metadata"]["annotations"].update({"by": "x"}), "Node /a.metadata.annotations.by is new"),
    (
        lambda items: items[0]["status"]["nodeInfo"].update(kubeletVersion="v2"),
        "kubeletVersion was v1, and is",
    ),
    (not_ready, "Node /a.status.conditions[1].status was True, and is Unknown"),
    (lambda items: items.pop(0), "Node /a is missing"),
    (lambda items: items.pop(1), "Pod kube-system/kube-proxy on a is missing"),
    (lambda items: items.pop(2), "Pod shop/web-1 is missing"),
    (lambda items: items[2]["metadata"].update(uid="u2"), "Pod shop/web-1.metadata.uid was u1, and is u2"),
    (lambda items: items[2]["metadata"].update(name="web-2"), "Pod shop/web-2 is new"),
    (
        lambda items: items[1]["metadata"].update(deletionTimestamp="now"),
        "Pod kube-system/kube-proxy on a (leaving) is",
    ),
    (lambda items: items.append({**pod("fghij"), "kind": "Service"}), "Service kube-system/kube-proxy-fghij is new"),
    (crashing, "state.running is missing"),
]


@pytest.mark.parametrize(("change", "line"), FOUND, ids=[line for _, line in FOUND])
def test_what_a_run_may_leave_is_found(change: Callable[[list[Json]], object], line: str) -> None:
    assert any(line in each for each in remnants(change)), remnants(change)


def replaced(items: list[Json]) -> None:
    items[1] = pod("fghij")
    items[1]["status"]["resources"] = {"limits": {"memory": "9007199254740988Ki"}}


def heartbeat(items: list[Json]) -> None:
    items[0]["metadata"]["resourceVersion"] = "8"
    items[0]["status"]["conditions"].reverse()
    for condition in items[0]["status"]["conditions"]:
        condition |= {"lastHeartbeatTime": "2", "lastTransitionTime": "2"}
    items[0]["status"]["images"].append({"names": ["y"]})


def restarted(items: list[Json]) -> None:
    items[2]["status"]["containerStatuses"][0] = state("abcdefgh") | {"lastState": {"terminated": {"exitCode": 1}}}


def node_restarted(items: list[Json]) -> None:
    items[0]["status"]["nodeInfo"] |= {"machineID": "2", "systemUUID": "2"}


@pytest.mark.parametrize("change", [replaced, heartbeat, restarted, node_restarted, list.reverse])
def test_what_changes_by_itself_is_not(change: Callable[[list[Json]], object]) -> None:
    assert remnants(change) == []
