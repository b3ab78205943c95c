"""The port lifecycle scenario: a health-check node port's life, step by step, in the API and on every node."""

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from esipp.base.json import Json
from esipp.base.waiting import Reading
from esipp.checks.health import Answer
from esipp.checks.model import Backends, Outcome
from esipp.cluster.client import ApiError, UnreachableError
from esipp.cluster.node_ports import ALLOCATED, health_port, node_ports, taken
from esipp.scenarios.health.evidence import Fact
from esipp.scenarios.health.judge import document
from esipp.scenarios.health.objects import local_service
from esipp.scenarios.health.probes import Asker, said_at
from esipp.testbed.manifests import BACKEND_LABEL, TCP

TRIES = 8
"""The most free ports to try if other clients of the cluster take them first."""


class _CutShortError(Exception):
    """What came before a step did not give what it needs: the step's claims cannot be decided."""


@dataclass
class LifeCycle:
    """Runs the scenario. ``facts`` are the results of the steps, by claim.

    Args:
        listen: whether a client outside can probe the nodes; without one only the API is checked.
    """

    asker: Asker
    listen: bool
    facts: dict[str, Fact] = field(default_factory=dict)
    _first: int | None = None
    _ports: dict[str, tuple[int | None, float]] = field(default_factory=dict)
    """The health-check node port of each Service, and when it got it: nodes have ``port_followed`` from then on."""

    @property
    def _services(self) -> str:
        return f"/api/v1/namespaces/{self.asker.testbed.namespace}/services"

    def perform(self) -> dict[str, Fact]:
        """Run all steps in order; a failed one is recorded as such, and the others continue."""
        steps: tuple[tuple[Callable[[], None], str], ...] = (
            (self._allocation, "allocated unique"),
            (self._elsewhere, "not-with-cluster not-for-nodeport refused-with-cluster refused-for-nodeport"),
            (self._choosing, "chosen immutable collision collision-words"),
            (self._keeping, "kept-on-update kept-on-patch kept-on-apply"),
            (self._freeing, "freed-by-policy claimable freed-by-deletion"),
            (self._retyping, "freed-by-type"),
            (self._staying, "kept"),
        )
        for step, claims in steps:
            self.asker.stop.check()
            try:
                step()
            except (ApiError, UnreachableError, _CutShortError) as broken:
                for claim in claims.split():
                    self.facts.setdefault(claim, Fact("the step broke off", trouble=str(broken)))
        return self.facts

    # ------------------------------------------------------------------------------------------------ the steps
    def _allocation(self) -> None:
        one, _ = self._create("life-1"), self._create("life-2")
        self._first = health_port(one)
        bounds = self._range()
        known = bounds or health_port(one) is None  # without a port there is nothing to compare
        trouble = "" if known else "the API server does not report its node port range"
        self.facts["allocated"] = Fact(
            "created with Local", {"life-1": health_port(one)}, bounds=bounds, trouble=trouble
        )
        everything = self.asker.testbed.cluster.list("/api/v1/services")
        others = frozenset(port for item in everything for port in node_ports(item))
        ports = {
            f"{i['metadata']['namespace']}/{i['metadata']['name']}": health_port(i) for i in everything if _wants_one(i)
        }
        self.facts["unique"] = Fact("all services of the cluster", ports, others=others)

    def _elsewhere(self) -> None:
        plain = self._create("life-cluster", externalTrafficPolicy="Cluster")
        self.facts["not-with-cluster"] = Fact("created with Cluster", {"life-cluster": health_port(plain)})
        node_port = self._create("life-nodeport", balancer=None, type="NodePort")
        self.facts["not-for-nodeport"] = Fact("created as NodePort", {"life-nodeport": health_port(node_port)})
        free = self._free_port()
        self.facts["refused-with-cluster"] = self._try_in_vain(
            f"created with Cluster and port {free}", "life-no-1", free, externalTrafficPolicy="Cluster"
        )
        self.facts["refused-for-nodeport"] = self._try_in_vain(
            f"created as NodePort and port {free}", "life-no-2", free, balancer=None, type="NodePort"
        )

    def _choosing(self) -> None:
        for _ in range(TRIES):
            made = self._claim("life-chosen", self._free_port())
            if made.refused is None or ALLOCATED not in made.refused[2]:  # who had it may have given it back by now
                break
        self.facts["chosen"] = self._heard(made, "life-chosen")
        other = self._free_port()
        self._read("life-chosen")  # or the step breaks off: that nothing is there is no refusal of a change
        self.facts["immutable"] = self._try(
            f"patched to port {other}", lambda: self._patch("life-chosen", {"spec": {"healthCheckNodePort": other}})
        )
        has = self._port_of("life-chosen")  # another one by now, if the patch was taken
        taken = self._try_in_vain(f"created with port {has}", "life-taken", has)
        self.facts["collision"] = self.facts["collision-words"] = taken

    def _keeping(self) -> None:
        path = f"{self._services}/life-1"

        def update() -> Json:
            body = self._read("life-1")
            body["spec"].pop("healthCheckNodePort", None)
            body["metadata"]["annotations"] = {"esipp.dev/edited": "update"}
            return self.asker.testbed.cluster.request("PUT", path, body=body)

        def patch() -> Json:
            return self._patch("life-1", {"metadata": {"annotations": {"esipp.dev/edited": "patch"}}})

        def apply() -> Json:
            manifest = self._manifest("life-1")
            manifest["metadata"]["annotations"] = {"esipp.dev/edited": "apply"}
            query = {"fieldManager": "esipp-other", "force": "true"}
            content = "application/apply-patch+yaml"  # JSON is YAML
            return self.asker.testbed.cluster.request("PATCH", path, body=manifest, query=query, content=content)

        for claim, edit in (("kept-on-update", update), ("kept-on-patch", patch), ("kept-on-apply", apply)):
            had = self._port_of("life-1")  # of each edit for itself: what one lost, the next one cannot keep
            self.facts[claim] = replace(self._try(claim, edit), wanted=had)

    def _freeing(self) -> None:
        """Local → Cluster, then the port is claimed by another service; at last that one is deleted."""
        had = self._port_of("life-chosen")
        to_cluster = {"spec": {"externalTrafficPolicy": "Cluster"}}
        self.facts["freed-by-policy"] = self._freed(
            "life-chosen", had, lambda: self._try("patched to Cluster", lambda: self._patch("life-chosen", to_cluster))
        )
        self.facts["claimable"] = self._heard(self._claim("life-heir", had), "life-heir")

        def delete() -> Fact:
            self.asker.testbed.cluster.delete(f"{self._services}/life-heir")
            return Fact("deleted")

        self.facts["freed-by-deletion"] = self._freed("life-heir", had, delete)

    def _retyping(self) -> None:
        edit = {"spec": {"type": "NodePort", "loadBalancerClass": None}}
        self.facts["freed-by-type"] = self._freed(
            "life-2",
            self._port_of("life-2"),
            lambda: self._try("patched to NodePort", lambda: self._patch("life-2", edit)),
        )

    def _staying(self) -> None:
        """The Service that was edited, and then left alone during the other steps."""
        if self._first is None:
            raise _CutShortError("the Service life-1 never had a health-check node port")
        now = Fact("after all other steps", {"life-1": health_port(self._read("life-1"))}, wanted=self._first)
        self.facts["kept"] = self._heard(now, "life-1")

    # -------------------------------------------------------------------------------------------------- the API
    def _manifest(self, name: str, **spec: Any) -> Json:
        return local_service(name, self.asker.testbed.run, {BACKEND_LABEL: Backends.POD.value}, **spec)

    def _create(self, name: str, **spec: Any) -> Json:
        return self._noted(self.asker.testbed.cluster.create(self._services, self._manifest(name, **spec)))

    def _noted(self, service: Json) -> Json:
        name, port = service["metadata"]["name"], health_port(service)
        if self._ports.get(name, (None, 0.0))[0] != port:
            self._ports[name] = port, time.monotonic()
        return service

    def _read(self, name: str) -> Json:
        return self.asker.testbed.cluster.request("GET", f"{self._services}/{name}")

    def _port_of(self, name: str) -> int:
        """The port that a service has now."""
        port = health_port(self._read(name))
        if port is None:
            raise _CutShortError(f"the Service {name} has no health-check node port")
        return port

    def _patch(self, name: str, body: Json) -> Json:
        return self.asker.testbed.cluster.patch(f"{self._services}/{name}", body, "merge-patch")

    def _try(self, words: str, do: Callable[[], Json]) -> Fact:
        """The result of a request: the port that the Service then has, or the refusal."""
        try:
            made = self._noted(do())
        except ApiError as refused:
            return Fact(words, refused=(refused.status, refused.reason, refused.message))
        return Fact(words, {made["metadata"]["name"]: health_port(made)})

    def _claim(self, name: str, port: int) -> Fact:
        """Create a Service with a free port, unless another client of the cluster took it first.

        It names a nodePort, too. API servers draw nodePorts first, and may draw the very port that is claimed; they
        refuse it then as allocated.
        """
        own = next((free for free in (self._free_port() for _ in range(TRIES)) if free != port), 0)
        ports = [{"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": TCP, "nodePort": own}]
        made = self._try(f"created with port {port}", lambda: self._create(name, healthCheckNodePort=port, ports=ports))
        fact = replace(made, wanted=port)
        if fact.refused is None or ALLOCATED not in fact.refused[2]:
            return fact
        return replace(fact, trouble=self._taken_by_another(port, own))

    def _taken_by_another(self, *ports: int) -> str:
        """The foreign Service that has one of these ports by now; empty if none has."""
        everything = self.asker.testbed.cluster.list("/api/v1/services")
        others = (item for item in everything if item["metadata"]["namespace"] != self.asker.testbed.namespace)
        return taken(others, ports, but=())

    def _try_in_vain(self, words: str, name: str, port: int, **spec: Any) -> Fact:
        """Create a Service that must be refused; if it is accepted, delete it before it disturbs the next steps."""
        fact = self._try(words, lambda: self._create(name, healthCheckNodePort=port, **spec))
        if fact.refused is None:
            self._remove(name)
        return fact

    def _remove(self, name: str) -> None:
        self.asker.testbed.cluster.delete(f"{self._services}/{name}")

    def _free_port(self) -> int:
        """A port that the allocator has just had free: it is allocated as a nodePort, and given back."""
        made = self._create("life-probe", balancer=None, type="NodePort", externalTrafficPolicy="Cluster")
        self._remove("life-probe")
        return int(made["spec"]["ports"][0]["nodePort"])

    def _range(self) -> tuple[int, int] | None:
        """The node port range, in the API server's own words: what it says of a port that is out of it.

        A real request, for with ``dryRun`` the allocator does not look.
        """
        ports = [{"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": TCP, "nodePort": 1}]
        try:
            self._create("life-range", ports=ports)
        except ApiError as refused:
            found = re.search(r"valid ports is (\d+)-(\d+)", refused.message)
            return (int(found[1]), int(found[2])) if found else None
        self._remove("life-range")
        return None

    # ------------------------------------------------------------------------------------------------ the nodes
    def _heard(self, fact: Fact, name: str) -> Fact:
        """If the service has the port that is wanted, wait until every node answers there with its name."""
        if fact.wanted is None or set(fact.ports.values()) != {fact.wanted}:
            return fact
        ours = {"namespace": self.asker.testbed.namespace, "name": name}

        def say(answer: Answer) -> str:
            service = document(answer).get("service")
            if service == ours:
                return "this service"
            named = isinstance(service, dict) and service.get("name")
            return f"{answer.words}, service {named}" if named else answer.words

        return self._listened(fact, fact.wanted, "this service", say, self._ports.get(name, (None, None))[1])

    def _freed(self, name: str, port: int, change: Callable[[], Fact]) -> Fact:
        """Change a service that every node listens for, and wait until none listens at its port any more."""
        before = self._heard(Fact("before", {name: port}, wanted=port), name)
        fact = change()
        if fact.refused or any(fact.ports.values()):
            return fact
        if before.trouble:
            return replace(fact, trouble=before.trouble)
        if any(set(said) != {"this service"} for said in before.listeners.values()):
            return replace(fact, trouble="not every node listened there before", listeners=before.listeners)
        heard = self._listened(fact, port, Outcome.REFUSED.value, lambda answer: answer.words)
        if heard.trouble or all(set(said) == {Outcome.REFUSED.value} for said in heard.listeners.values()):
            return heard
        return replace(heard, trouble=self._taken_by_another(port))

    def _listened(
        self, fact: Fact, port: int, wanted: str, say: Callable[[Answer], str], changed: float | None = None
    ) -> Fact:
        """Wait until all nodes give the expected answer at a port that ``changed`` at that time, or now."""
        if not self.listen:
            return replace(fact, trouble="there is no client outside the cluster to probe the nodes")
        last: dict[str, Counter[str]] = {}
        wrong: dict[str, Counter[str]] = {}
        began = asked = time.monotonic()
        since: float | None = None
        gap = 0.0

        def look() -> Reading:
            nonlocal last, wrong, asked, since, gap
            last = said_at(self.asker.everywhere(port), say)
            right = all(set(said) == {wanted} for said in last.values())
            wrong = wrong if right else last
            now = time.monotonic()
            gap, asked = max(gap, now - asked) if since is None else gap, now
            since = (now if since is None else since) if right else None
            return Reading(right, str(last))

        # one right look at the end of a budget is not what was waited for
        held = self.asker.stop.converge(look, self.asker.timeouts.port_followed, changed).held
        last = last if held else wrong
        if any(Outcome.ERROR.value in said for said in last.values()):
            return replace(fact, listeners=last, trouble="the prober failed")
        seconds = round(since - began, 3) if held and since is not None else None
        return replace(fact, listeners=last, began=began, seconds=seconds, gap=round(gap, 3))


def _wants_one(service: Json) -> bool:
    spec = service["spec"]
    return bool(spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local")
