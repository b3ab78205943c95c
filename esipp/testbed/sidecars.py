"""Containers that somebody puts into our pods: a service mesh's proxy stands between client and backend, and answers
and dials in their place.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from esipp.checks.model import Path
from esipp.testbed.integrity import Cast
from esipp.testbed.manifests import CONTAINER


def injected(pod: Mapping[str, Any]) -> list[str]:
    """The containers of a pod of ours that we did not put into it."""
    spec = pod["spec"]
    names = (each["name"] for part in ("initContainers", "containers") for each in spec.get(part) or ())
    return [name for name in names if name != CONTAINER]


def doubts(paths: Iterable[Path], added: Mapping[str, list[str]], cast: Cast) -> dict[str, str]:
    """The paths whose client, listener or backend has such a container, by key, with what stands there.

    A container that only writes logs changes nothing. So this explains what is not as it must be, and nothing else.

    Args:
        paths: those that are dialled.
        added: the containers, by pod.
        cast: which pods stand behind a path.
    """
    found = {}
    for path in paths:
        told = [f"{', '.join(added[pod])} into our pod {pod}" for pod in cast.pods(path) if pod in added]
        if told:
            found[path.key] = (
                f"something put the container {' and '.join(dict.fromkeys(told))}: it may answer, dial or rewrite in "
                "the pod's place; exempt namespaces with the label app.kubernetes.io/managed-by=esipp"
            )
    return found
