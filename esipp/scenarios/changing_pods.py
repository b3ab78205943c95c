"""Our own pods that come and go: their label, how long they serve, and watches on them and their EndpointSlices."""

import math
import threading
import time
from collections.abc import Callable, Mapping

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.checks.rights import DISCOVERY
from esipp.checks.timing import LAG
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.pods import HARMED, harm
from esipp.judging.timeline import SLICE_GONE, UNREADY_BESIDE, Mark

MOVES_LABEL = "esipp.dev/moves"

LEAST_BOUND = 3.0
"""(N+1) x period assumed for a load balancer that does not report its settings; a typical short one."""

MORE_GRACE = 3
"""Seconds that Kubernetes gives a pod beyond the time for which it serves on."""

AGAIN_SECONDS = 0.5
"""Seconds before a watch that broke is started again."""
SERVICE_LABEL = "kubernetes.io/service-name"


Versions = frozenset[tuple[str, str]]
"""The names and versions of EndpointSlices."""


def slices_path(namespace: str) -> str:
    """The path of a namespace's EndpointSlices."""
    return f"/apis/{DISCOVERY}/v1/namespaces/{namespace}/endpointslices"


def versions_of(cluster: Cluster, namespace: str, service: str) -> Versions:
    """The versions of a Service's EndpointSlices; none if the account may not list them."""
    try:
        found = cluster.list(slices_path(namespace), labelSelector=f"{SERVICE_LABEL}={service}")
    except ApiError as refused:
        if refused.status != 403:
            raise
        found = []
    return frozenset((each["metadata"]["name"], each["metadata"]["resourceVersion"]) for each in found)


def unchanged(cluster: Cluster, namespace: str, service: str, before: Versions) -> bool:
    """Whether a Service's EndpointSlices still have these versions; false if there are none to compare with."""
    return bool(before) and versions_of(cluster, namespace, service) == before


def serves_on(bound: float | None) -> int:
    """Seconds for which a terminating pod must keep serving, if the load balancer leaves a node within ``bound``."""
    return math.ceil(max(bound or 0.0, LEAST_BOUND) + LAG)


class Watching:
    """Watches on Pods and EndpointSlices until ``stop``: each event is recorded at once, on our clock.

    ``marks`` are the events by Service, ``pods`` the last states by name; ``nodes`` has the node of every pod that ever
    existed.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        services: Mapping[str, str],
        *,
        patient: bool = False,
        beside: Mapping[str, str] | None = None,
    ) -> None:
        """``services`` maps the value of a pod's label to the Service that selects it.

        A ``patient`` watch waits for an API server that is away, and for pods that we evict. ``beside`` maps other
        Services over the same pods to the one whose marks tell when a pod has left theirs: the controller writes the
        EndpointSlices of one Service after the other's.
        """
        self.marks: dict[str, list[Mark]] = {service: [] for service in services.values()}
        self.pods: dict[str, Json] = {}
        self.nodes: dict[str, str] = {}
        self._patient = patient
        self.trouble = ""
        self.harmed = ""
        self._services = services
        self._beside = dict(beside or {})
        self._ready: dict[str, bool] = {}
        self._in_slice: dict[tuple[str, str], bool] = {}
        self._stopped = threading.Event()
        pods = f"/api/v1/namespaces/{namespace}/pods"
        slices = slices_path(namespace)
        watches = ((pods, MOVES_LABEL, self._pod), (slices, SERVICE_LABEL, self._slice))
        self.threads = [
            threading.Thread(target=self._run, args=(cluster, collection, selector, take), daemon=True)
            for collection, selector, take in watches
        ]
        for each in self.threads:
            each.start()

    def stop(self) -> None:
        """Stop recording; the threads end with the next event, at the latest with the namespace."""
        self._stopped.set()

    def check(self) -> None:
        """Make sure that both watches still run, and that only esipp changed the pods.

        Raises:
            HarnessError: a watch broke, or another client changed a pod.
        """
        if self.trouble:
            sentence = f"A watch broke during the endpoint changes: {self.trouble}."
            raise HarnessError(sentence, "is the API server overloaded?")
        if self.harmed:
            raise HarnessError(f"{self.harmed}: the endpoint changes cannot be judged.", HARMED)

    def _run(self, cluster: Cluster, collection: str, selector: str, take: Callable[[float, str, Json], None]) -> None:
        known: dict[str, Json] = {}
        while not self._stopped.is_set():
            try:
                events = cluster.watch(
                    collection, budget=math.inf, waits=self._patient, known=known, labelSelector=selector
                )
                for kind, item in events:
                    if self._stopped.is_set():
                        return
                    if item["metadata"]["name"]:
                        take(time.monotonic(), kind, item)
                return
            except (ApiError, UnreachableError) as broken:
                if not self._patient and not self._stopped.is_set():
                    self.trouble = str(broken)
                if not self._patient or self._stopped.wait(AGAIN_SECONDS):
                    return

    def _pod(self, at: float, kind: str, item: Json) -> None:
        name, service = item["metadata"]["name"], self._services.get(item["metadata"]["labels"][MOVES_LABEL])
        if service is None:
            return
        known = self.pods.get(name)
        harmed = harm(item, evictable=self._patient)
        if harmed and not self.harmed:
            self.harmed = f"Our own pod {name} {harmed}"
        if kind == "DELETED":
            self.pods.pop(name, None)
            self.marks[service].append(Mark(at, "gone", name))
            return
        self.pods[name] = item
        self.nodes[name] = item.get("spec", {}).get("nodeName") or self.nodes.get(name, "")
        conditions = item.get("status", {}).get("conditions") or []
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        if ready is not self._ready.get(name, False):
            self.marks[service].append(Mark(at, "ready" if ready else "unready", name))
        self._ready[name] = ready
        deleting = "deletionTimestamp" in item["metadata"]
        if deleting and (known is None or "deletionTimestamp" not in known["metadata"]):
            self.marks[service].append(Mark(at, "deleting", name))

    def _slice(self, at: float, kind: str, item: Json) -> None:
        service = item["metadata"]["labels"][SERVICE_LABEL]
        of = self._beside.get(service, service)
        if of not in self.marks:
            return
        name, family = item["metadata"]["name"], item["addressType"]
        endpoints = (item.get("endpoints") or []) if kind != "DELETED" else []
        now = {
            (name, each["targetRef"]["name"]): bool(each.get("conditions", {}).get("ready", True))
            for each in endpoints
            if each.get("targetRef")
        }
        missing = {key: False for key in self._in_slice if key[0] == name and key not in now}
        for key, ready in {**now, **missing}.items():
            if ready is not self._in_slice.get(key, False):
                if service == of:
                    self.marks[of].append(Mark(at, "slice-ready" if ready else "slice-unready", key[1], family))
                elif not ready:
                    self.marks[of].append(Mark(at, UNREADY_BESIDE, key[1], family))
            self._in_slice[key] = ready
        for key in missing:
            if service == of:
                self.marks[of].append(Mark(at, SLICE_GONE, key[1], family))
            del self._in_slice[key]
