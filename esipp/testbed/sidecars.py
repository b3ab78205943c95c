"""Detection of injected containers in esipp's pods, such as a service mesh's proxy, which dials in their place."""

from collections.abc import Iterable, Mapping
from typing import Any

from esipp.checks.model import Path
from esipp.testbed.integrity import Cast
from esipp.testbed.manifests import CONTAINER


def injected(pod: Mapping[str, Any]) -> list[str]:
    """The containers of a pod that esipp did not define."""
    spec = pod["spec"]
    names = (each["name"] for part in ("initContainers", "containers") for each in spec.get(part) or ())
    return [name for name in names if name != CONTAINER]


def doubts(paths: Iterable[Path], added: Mapping[str, list[str]], cast: Cast) -> dict[str, str]:
    """The paths whose client, listener or backend has an injected container, by key, with a sentence.

    A container that only writes logs changes nothing. So this only explains deviations.

    Args:
        paths: the dialled paths.
        added: the injected containers, by pod.
        cast: the pods of a path.
    """
    found = {}
    for path in paths:
        names = [f"{', '.join(added[pod])} into our pod {pod}" for pod in cast.pods(path) if pod in added]
        if names:
            found[path.key] = (
                f"something injected the container {' and '.join(dict.fromkeys(names))}, which may answer, dial or "
                "rewrite for the pod; exempt namespaces with the label app.kubernetes.io/managed-by=esipp"
            )
    return found
