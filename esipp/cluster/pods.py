"""What the API server says of our own pods."""

from collections.abc import Iterable
from typing import Any

from esipp.base.errors import HarnessError

Json = dict[str, Any]

NO_IMAGE = {"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
NO_START = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"}
HARMED = "was it evicted or out of memory? kubectl get events -A --sort-by=.lastTimestamp; run again."


def is_ready(pod: Json) -> bool:
    """Ready; raises at once where waiting cannot help."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        waiting = container.get("state", {}).get("waiting") or {}
        name, reason = pod["metadata"]["name"], waiting.get("reason", "")
        if reason in NO_IMAGE:
            raise HarnessError(
                f"The image {container['image']} cannot be had on node {pod['spec'].get('nodeName')} ({reason}).",
                "name one the nodes can pull with --image, and what with by --image-pull-secret; or load it: kind load "
                "docker-image",
            )
        if reason in NO_START:
            ended = _ends(pod) or [str(waiting.get("message", ""))[:200]]
            raise HarnessError(
                f"Pod {name} cannot be started ({reason}): {'; '.join(ended)}.",
                f"is {container['image']} the echo image of this checkout? docker run --rm shows what it says.",
            )
    if status.get("phase") == "Failed":
        raise HarnessError(f"Pod {pod['metadata']['name']} failed: {status.get('reason')} {status.get('message')}")
    # one that is never to be Ready is done when its containers are
    wanted = "ContainersReady" if pod["spec"].get("readinessGates") else "Ready"
    return any(c["type"] == wanted and c["status"] == "True" for c in status.get("conditions") or [])


def identity(pod: Json) -> tuple[str, int, str]:
    """What changes when a pod is replaced, one of its containers starts again, or it was not ready for a while."""
    status = pod.get("status", {})
    # of Ready too: a node that was lost for a while takes that from its pods, not from their containers
    since = {c["type"]: c.get("lastTransitionTime") for c in status.get("conditions") or []}
    held = ", ".join(f"{name} since {since[name]}" for name in ("ContainersReady", "Ready") if since.get(name))
    return pod["metadata"]["uid"], _restarts(pod), held


def _restarts(pod: Json) -> int:
    return sum(each.get("restartCount", 0) for each in pod.get("status", {}).get("containerStatuses") or [])


def _ends(pod: Json) -> list[str]:
    """How its containers last ended, of those that did."""
    containers = pod.get("status", {}).get("containerStatuses") or []
    ends = [each.get("lastState", {}).get("terminated") or {} for each in containers]
    return [f"{end.get('reason')}, exit code {end.get('exitCode')}" for end in ends if end]


def changed(pod: Json, known: tuple[str, int, str]) -> str:
    """What became of a pod since it was arranged, as a predicate with the reason that its status gives; or nothing."""
    harmed = harm(pod, restarts=known[1])
    if identity(pod)[0] != known[0] or harmed:
        return harmed or "was replaced by another one"
    if pod["metadata"].get("deletionTimestamp"):
        return "is being removed"
    if not is_ready(pod):
        return "is not ready any more" + _in_brackets([say_pod(pod)])
    now = identity(pod)[2]  # with the times: those of the events and logs that tell why
    return "" if now == known[2] else f"was not ready for a while (now {now}; arranged {known[2]})"


def harm(pod: Json, *, restarts: int = 0, evictable: bool = False) -> str:
    """What others did to a pod of ours: it was evicted, it failed, or its program ended; as a predicate, or nothing.

    Args:
        pod: as the API server shows it.
        restarts: how often it was started again before, which is known.
        evictable: we evict it ourselves.
    """
    status = pod.get("status", {})
    ending = [c for c in status.get("conditions") or [] if c["type"] == "DisruptionTarget" and c["status"] == "True"]
    if ending and not evictable:
        return "is being evicted" + _in_brackets(
            str(each) for c in ending if (each := c.get("message") or c.get("reason"))
        )
    if status.get("phase") == "Failed" and not pod["metadata"].get("deletionTimestamp"):
        return "failed" + _in_brackets(str(status[each]) for each in ("reason", "message") if status.get(each))
    if _restarts(pod) > restarts:
        return "was started again" + _in_brackets(_ends(pod))
    return ""


def _in_brackets(reasons: Iterable[str]) -> str:
    text = "; ".join(reasons)
    return f" ({text})" if text else ""


def say_pod(pod: Json) -> str:
    """Why a pod is not ready, as far as its status tells."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return f"{waiting.get('reason')} {waiting.get('message', '')}".strip()
    bad = [f"{c['type']}: {c.get('message') or c.get('reason') or c['status']}" for c in status.get("conditions") or []
           if c["status"] != "True"]  # fmt: skip
    return "; ".join(bad) or f"phase {status.get('phase')}"
