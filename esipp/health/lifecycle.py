"""The life of a health-check node port, step by step, on the API server and on every node."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from esipp.cluster import ApiError
from esipp.convergence import Budget, Reading, converge
from esipp.health.asking import Asker, said_at
from esipp.health.judge import document
from esipp.health.model import Answer
from esipp.health.props import local_service
from esipp.health.seen import Fact
from esipp.manifests import BACKEND_LABEL
from esipp.model import Backends
from esipp.observation import Outcome

Json = dict[str, Any]

FOLLOWED = Budget("every node following a change of a health-check node port", 20.0, need=3, spacing=0.1)
"""kube-proxy has at most its minSyncPeriod and a sync to open or close a listener; see upstream.md §2.11."""


@dataclass
class LifeCycle:
    """Performs the trial. ``facts`` are what each step showed, by claim.

    Args:
        listen: whether a client outside is there to ask the nodes; without one only the API's side is seen.
    """

    asker: Asker
    listen: bool
    facts: dict[str, Fact] = field(default_factory=dict)

    @property
    def _services(self) -> str:
        return f"/api/v1/namespaces/{self.asker.stage.namespace}/services"

    def perform(self) -> dict[str, Fact]:
        """All steps, in order; a step that the API server breaks off is told, and the others go on."""
        for step in (self._allocation, self._elsewhere, self._choosing, self._keeping, self._freeing, self._retyping):
            try:
                step()
            except ApiError as refused:
                self.facts[f"trouble in {step.__name__}"] = Fact(str(refused), trouble=str(refused))
        return self.facts

    # ------------------------------------------------------------------------------------------------ the steps
    def _allocation(self) -> None:
        one, two = self._create("life-1"), self._create("life-2")
        bounds = self._range()
        self.facts["allocated"] = Fact("created with Local", {"life-1": _port(one)}, bounds=bounds)
        everything = self.asker.stage.cluster.list("/api/v1/services")
        taken = {each["nodePort"] for item in everything for each in item["spec"]["ports"] if each.get("nodePort")}
        ports = {f"{i['metadata']['namespace']}/{i['metadata']['name']}": _port(i) for i in everything if _wants_one(i)}
        assert _wants_one(one)
        assert _wants_one(two)
        self.facts["unique"] = Fact("all services of the cluster", ports, others=frozenset(taken))

    def _elsewhere(self) -> None:
        plain = self._create("life-cluster", externalTrafficPolicy="Cluster")
        self.facts["not-with-cluster"] = Fact("created with Cluster", {"life-cluster": _port(plain)})
        node_port = self._create("life-nodeport", balancer=None, type="NodePort")
        self.facts["not-for-nodeport"] = Fact("created as NodePort", {"life-nodeport": _port(node_port)})
        free = self._free_port()
        with_cluster = {"externalTrafficPolicy": "Cluster", "healthCheckNodePort": free}
        self.facts["refused-with-cluster"] = self._try(
            f"created with Cluster and port {free}", lambda: self._create("life-no-1", **with_cluster)
        )
        self.facts["refused-for-nodeport"] = self._try(
            f"created as NodePort and port {free}",
            lambda: self._create("life-no-2", balancer=None, type="NodePort", healthCheckNodePort=free),
        )

    def _choosing(self) -> None:
        free = self._free_port()
        made = self._try(f"created with port {free}", lambda: self._create("life-chosen", healthCheckNodePort=free))
        self.facts["chosen"] = self._heard(replace(made, wanted=free), free, "life-chosen")
        other = self._free_port()
        self.facts["immutable"] = self._try(
            f"patched to port {other}", lambda: self._patch("life-chosen", {"spec": {"healthCheckNodePort": other}})
        )
        taken = self._try(f"created with port {free}", lambda: self._create("life-taken", healthCheckNodePort=free))
        self.facts["collision"] = self.facts["collision-words"] = taken

    def _keeping(self) -> None:
        had = _port(self._read("life-1"))
        body = self._read("life-1")
        del body["spec"]["healthCheckNodePort"]
        body["metadata"]["annotations"] = {"esipp.dev/edited": "update"}
        path = f"{self._services}/life-1"
        updated = self._try("updated", lambda: self.asker.stage.cluster.request("PUT", path, body=body))
        self.facts["kept-on-update"] = replace(updated, wanted=had)
        edit = {"metadata": {"annotations": {"esipp.dev/edited": "patch"}}}
        self.facts["kept-on-patch"] = replace(self._try("patched", lambda: self._patch("life-1", edit)), wanted=had)
        manifest = self._manifest("life-1")
        manifest["metadata"]["annotations"] = {"esipp.dev/edited": "apply"}
        query = {"fieldManager": "esipp-other", "force": "true"}

        def apply() -> Json:
            content = "application/apply-patch+yaml"  # JSON is YAML
            return self.asker.stage.cluster.request("PATCH", path, body=manifest, query=query, content=content)

        self.facts["kept-on-apply"] = replace(self._try("applied", apply), wanted=had)

    def _freeing(self) -> None:
        """Local → Cluster, then the port is claimed by another service; at last that one is deleted."""
        had = _port(self._read("life-chosen"))
        if had is None:
            return
        flip = {"spec": {"externalTrafficPolicy": "Cluster"}}
        flipped = self._try("patched to Cluster", lambda: self._patch("life-chosen", flip))
        self.facts["freed-by-policy"] = self._silenced(flipped, had)
        claimed = self._try(f"created with port {had}", lambda: self._create("life-heir", healthCheckNodePort=had))
        self.facts["claimable"] = self._heard(replace(claimed, wanted=had), had, "life-heir")
        self.asker.stage.cluster.delete(f"{self._services}/life-heir")
        self.facts["freed-by-deletion"] = self._silenced(Fact("deleted"), had)

    def _retyping(self) -> None:
        had = _port(self._read("life-2"))
        if had is None:
            return
        edit = {"spec": {"type": "NodePort", "loadBalancerClass": None}}
        changed = self._try("patched to NodePort", lambda: self._patch("life-2", edit))
        self.facts["freed-by-type"] = self._silenced(changed, had)

    # -------------------------------------------------------------------------------------------------- the API
    def _manifest(self, name: str, **spec: Any) -> Json:
        return local_service(name, self.asker.stage.run, {BACKEND_LABEL: Backends.POD.value}, **spec)

    def _create(self, name: str, **spec: Any) -> Json:
        return self.asker.stage.cluster.create(self._services, self._manifest(name, **spec))

    def _read(self, name: str) -> Json:
        return self.asker.stage.cluster.request("GET", f"{self._services}/{name}")

    def _patch(self, name: str, body: Json) -> Json:
        return self.asker.stage.cluster.patch(f"{self._services}/{name}", body, "merge-patch")

    def _try(self, words: str, do: Callable[[], Json]) -> Fact:
        """What the API server makes of it: the port that the service then has, or the refusal."""
        try:
            made = do()
        except ApiError as refused:
            return Fact(words, refused=(refused.status, refused.reason, refused.message))
        return Fact(words, {made["metadata"]["name"]: _port(made)})

    def _free_port(self) -> int:
        """A port that the allocator has just had free: it is allocated, and given back."""
        made = self._create("life-probe")
        self.asker.stage.cluster.delete(f"{self._services}/life-probe")
        port = _port(made)
        assert port is not None
        return port

    def _range(self) -> tuple[int, int] | None:
        """The node port range, in the API server's own words: what it says of a port that is out of it."""
        try:
            manifest = self._manifest("life-range")
            manifest["spec"]["ports"][0]["nodePort"] = 1
            self.asker.stage.cluster.request("POST", self._services, body=manifest, query={"dryRun": "All"})
        except ApiError as refused:
            found = re.search(r"(\d+)-(\d+)", refused.message)
            return (int(found[1]), int(found[2])) if found else None
        return None

    # ------------------------------------------------------------------------------------------------ the nodes
    def _heard(self, fact: Fact, port: int, name: str) -> Fact:
        """Wait until every node answers at the port with this service's name."""

        def say(answer: Answer) -> str:
            service = document(answer).get("service")
            named = isinstance(service, dict) and service.get("name")
            return "this service" if named == name else f"{answer.words}, service {named}" if named else answer.words

        return self._listened(fact, port, "this service", say)

    def _silenced(self, fact: Fact, port: int) -> Fact:
        """Wait until no node listens at the port any more."""
        return self._listened(fact, port, Outcome.REFUSED.value, lambda answer: answer.words)

    def _listened(self, fact: Fact, port: int, wanted: str, say: Callable[[Answer], str]) -> Fact:
        if not self.listen:
            return replace(fact, trouble="no client outside the cluster can ask the nodes")
        last: dict[str, Counter[str]] = {}

        def look() -> Reading:
            nonlocal last
            last = said_at(self.asker.everywhere(port), say)
            return Reading(all(set(said) == {wanted} for said in last.values()), str(last))

        converge(look, FOLLOWED)
        return replace(fact, listeners=last)


def _port(service: Json) -> int | None:
    return service["spec"].get("healthCheckNodePort") or None


def _wants_one(service: Json) -> bool:
    spec = service["spec"]
    return bool(spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local")
