"""The state of esipp's own pods, from their status."""

from collections.abc import Iterable

from esipp.base.errors import HarnessError
from esipp.base.json import Json

NO_IMAGE = {"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
NO_START = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"}
HARMED = "check for evictions and out-of-memory kills (kubectl get events -A --sort-by=.lastTimestamp), and run again."


def is_ready(pod: Json) -> bool:
    """Whether a pod is ready.

    Raises:
        HarnessError: waiting cannot help, because the pod cannot start or has failed.
    """
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        waiting = container.get("state", {}).get("waiting") or {}
        name, reason = pod["metadata"]["name"], waiting.get("reason", "")
        if reason in NO_IMAGE:
            raise HarnessError(
                f"Node {pod['spec'].get('nodeName')} cannot pull the image {container['image']} ({reason}).",
                "name an image that nodes can pull with --image (and --image-pull-secret), or load it with 'kind load "
                "docker-image'.",
            )
        if reason in NO_START:
            ended = _ends(pod) or [str(waiting.get("message", ""))[:200]]
            raise HarnessError(
                f"Pod {name} cannot start ({reason}): {'; '.join(ended)}.",
                f"check that {container['image']} is the echo image of this version; 'docker run --rm' shows its "
                "output.",
            )
    if status.get("phase") == "Failed":
        raise HarnessError(f"Pod {pod['metadata']['name']} failed: {status.get('reason')} {status.get('message')}")
    # a pod with readiness gates is done when its containers are ready
    wanted = "ContainersReady" if pod["spec"].get("readinessGates") else "Ready"
    return any(c["type"] == wanted and c["status"] == "True" for c in status.get("conditions") or [])


def identity(pod: Json) -> tuple[str, int, str]:
    """A value that changes if a pod is replaced, one of its containers restarts, or it was temporarily not ready."""
    status = pod.get("status", {})
    # Ready as well: a node that was lost for a while makes its pods unready, but not their containers
    since = {c["type"]: c.get("lastTransitionTime") for c in status.get("conditions") or []}
    held = ", ".join(f"{name} since {since[name]}" for name in ("ContainersReady", "Ready") if since.get(name))
    return pod["metadata"]["uid"], _restarts(pod), held


def _restarts(pod: Json) -> int:
    return sum(each.get("restartCount", 0) for each in pod.get("status", {}).get("containerStatuses") or [])


def _ends(pod: Json) -> list[str]:
    """How the containers of a pod last terminated."""
    containers = pod.get("status", {}).get("containerStatuses") or []
    ends = [each.get("lastState", {}).get("terminated") or {} for each in containers]
    return [f"{end.get('reason')}, exit code {end.get('exitCode')}" for end in ends if end]


def changed(pod: Json, known: tuple[str, int, str]) -> str:
    """What happened to a pod since set-up, as a predicate with the reason from its status; empty if nothing."""
    harmed = harm(pod, restarts=known[1])
    if identity(pod)[0] != known[0] or harmed:
        return harmed or "was replaced"
    if pod["metadata"].get("deletionTimestamp"):
        return "is being deleted"
    if not is_ready(pod):
        return "is no longer ready" + _in_brackets([say_pod(pod)])
    now = identity(pod)[2]  # with times, to find the related events and logs
    return "" if now == known[2] else f"was temporarily not ready (now {now}; at set-up {known[2]})"


def harm(pod: Json, *, restarts: int = 0, evictable: bool = False) -> str:
    """What others did to a pod of esipp (eviction, failure, restart), as a predicate; empty if nothing.

    Args:
        pod: the pod object.
        restarts: the number of known earlier restarts.
        evictable: whether esipp evicts the pod itself.
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
        return "restarted" + _in_brackets(_ends(pod))
    return ""


def _in_brackets(reasons: Iterable[str]) -> str:
    text = "; ".join(reasons)
    return f" ({text})" if text else ""


def say_pod(pod: Json) -> str:
    """Why a pod is not ready, according to its status."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return f"{waiting.get('reason')} {waiting.get('message', '')}".strip()
    bad = [f"{c['type']}: {c.get('message') or c.get('reason') or c['status']}" for c in status.get("conditions") or []
           if c["status"] != "True"]  # fmt: skip
    return "; ".join(bad) or f"phase {status.get('phase')}"
