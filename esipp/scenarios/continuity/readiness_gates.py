"""Readiness gates of the Deployment's pods: opened as pods appear, closed for readiness flaps."""

import threading
from dataclasses import dataclass, field

from esipp.base.json import Json
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.scenarios.changing_pods import Watching
from esipp.testbed.manifests import GATE, gate

LOOKS = 0.1


@dataclass
class Gates:
    """From ``start`` on pods get ready as soon as their containers are; those in ``closed`` are left alone.

    ``trouble`` is why the last gate could not be opened; it is tried again.
    """

    cluster: Cluster
    namespace: str
    watching: Watching
    closed: set[str] = field(default_factory=set)
    trouble: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin, in a thread."""
        threading.Thread(target=self._open_all, name="gates", daemon=True).start()

    def stop(self) -> None:
        """Open none any more."""
        self._ended.set()

    def set(self, pod: str, is_open: bool) -> None:
        """Open or close one.

        Raises:
            ApiError, UnreachableError: of the API server.
        """
        self.cluster.patch(f"/api/v1/namespaces/{self.namespace}/pods/{pod}/status", gate(is_open))

    def _open_all(self) -> None:
        while not self._ended.wait(LOOKS):
            for name, pod in list(self.watching.pods.items()):
                if name in self.closed or "deletionTimestamp" in pod["metadata"] or _is_open(pod):
                    continue
                try:
                    self.set(name, True)
                    self.trouble = ""
                except (ApiError, UnreachableError) as broken:  # it may have gone; else it is tried again
                    self.trouble = str(broken)


def _is_open(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == GATE and each["status"] == "True" for each in conditions)
