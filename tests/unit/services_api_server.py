"""An API server that keeps the rules for Services, as far as checks ask for them; it lies on request.

After pkg/apis/core/{v1,validation} and pkg/registry/core/service: never a stand-in for Kubernetes,
only for testing who judges it.
"""

import copy
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from esipp.base.json import Json
from esipp.cluster.client import ApiError

Said = list[str]

LOW, HIGH = 30000, 32767
EXTERNAL = ("LoadBalancer", "NodePort")
OLD = re.compile(r"service\.(alpha|beta)\.kubernetes\.io/external-traffic")
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
ONLY_BALANCED = "Forbidden: may only be used when `type` is 'LoadBalancer'"
BALANCED_ONLY = ("loadBalancerSourceRanges", "loadBalancerClass", "allocateLoadBalancerNodePorts")


def is_external(spec: Json) -> bool:
    return spec["type"] in EXTERNAL or (spec["type"] == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_port(spec: Json) -> bool:
    return bool(spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local")


def has_node_ports(spec: Json) -> bool:
    return spec["type"] in EXTERNAL


class FakeServices:
    """What the performer needs of a cluster. ``lies`` are those of a bad server, by name."""

    def __init__(self, *lies: str) -> None:
        self.lies = set(lies)
        self.services: dict[str, Json] = {}
        self.managers: dict[str, dict[str, set[str]]] = {}
        self.others: list[Json] = []
        self.leaked: set[int] = set()
        self.version, self.next, self.next_address = 0, LOW, 0
        self.requests: list[str] = []
        self._lock = threading.Lock()

    # ---------------------------------------------------------------------------------------------- what is asked
    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        warnings: Said | None = None,
        content: str = "",
    ) -> Json:
        with self._lock:
            self.requests.append(f"{method} {path}")
            body, heard = copy.deepcopy(body), [] if warnings is None else warnings
            if method == "POST":
                return self._create(body, heard)
            name = path.removesuffix("/status").rpartition("/")[2]
            if content.startswith("application/apply-patch"):
                return self._apply(name, body, query or {}, heard)
            old = self._named(name)
            if method == "GET":
                return self._read(old)
            if path.endswith("/status"):
                return self._status(old, body)
            return self._update(old, self._changed(old, method, body, content), method, heard)

    def create(self, collection: str, manifest: Json) -> Json:
        return self.request("POST", collection, body=manifest)

    def delete(self, path: str) -> None:
        with self._lock:
            gone = self.services.pop(path.rpartition("/")[2], None)
            self._release(gone["spec"] if gone else {})

    def exists(self, path: str) -> bool:
        return path.rpartition("/")[2] in self.services

    def list(self, path: str) -> Sequence[Json]:
        return [*self.services.values(), *self.others]

    # -------------------------------------------------------------------------------------------- create and update
    def _create(self, body: Json, warnings: Said) -> Json:
        name = body["metadata"]["name"]
        body.setdefault("status", {"loadBalancer": {}})
        body["metadata"]["namespace"] = "esipp-test"
        sent = set(body["spec"])
        self._old_forms(body, warnings, None)
        self._default(body["spec"])
        self._allocate(body["spec"], {})
        self._check(body, None)
        if name in self.services:
            if "keeps-refused" in self.lies:
                self.leaked.add(body["spec"].get("healthCheckNodePort", 0))
            raise self._refusal(409, "AlreadyExists", f'services "{name}" already exists')
        self.managers[name] = {"rest": sent}
        return self._store(body)

    def _update(self, old: Json, new: Json, how: str, warnings: Said) -> Json:
        spec, before = new["spec"], old["spec"]
        sent = new["metadata"].get("resourceVersion")
        if sent and sent != old["metadata"]["resourceVersion"] and "ignores-version" not in self.lies:
            raise self._refusal(409, "Conflict", "the object has been modified; please apply your changes")
        new["metadata"].setdefault("annotations", {})
        if "carries-policy-over" in self.lies and not spec.get("externalTrafficPolicy") and is_external(before):
            spec["externalTrafficPolicy"] = before.get("externalTrafficPolicy")
        self._old_forms(new, warnings, old)
        self._default(spec)
        if how == "PUT" and needs_port(before) and not spec.get("healthCheckNodePort") and "must-know" in self.lies:
            raise self._invalid("spec.healthCheckNodePort: Required value")
        self._patch_back(spec, before)
        self._forget(spec, before, how)
        self._drop(spec, before)
        new["status"] = copy.deepcopy(old["status"])
        if spec["type"] != "LoadBalancer" and "keeps-status" not in self.lies:
            new["status"] = {"loadBalancer": {}}
        self._check(new, old)
        self._allocate(spec, before)
        if not needs_port(spec):
            self._release({"healthCheckNodePort": before.get("healthCheckNodePort")})
        return self._store(new)

    def _forget(self, spec: Json, before: Json, how: str) -> None:
        """Lies about edits: what somebody else's edit does to fields that it does not name."""
        edit = spec["type"] == before["type"] and spec["ports"][:1] != before["ports"][:1]
        if edit and f"resets-policy-on-{how}" in self.lies:
            spec["externalTrafficPolicy"], spec["healthCheckNodePort"] = "Cluster", 0
        if edit and f"moves-port-on-{how}" in self.lies and needs_port(before):
            before["healthCheckNodePort"] = spec["healthCheckNodePort"] = self._free()
        if edit and f"moves-nodeport-on-{how}" in self.lies:
            spec["ports"][0]["nodePort"] = self._free()
        retyped = spec["type"] != before["type"]
        if retyped and "new-nodeport-with-type" in self.lies and has_node_ports(spec) and has_node_ports(before):
            spec["ports"][0]["nodePort"] = self._free()
        if retyped and "resets-policy-with-type" in self.lies and is_external(spec):
            spec["externalTrafficPolicy"] = "Cluster"
        if retyped and "resets-internal-with-type" in self.lies:
            spec["internalTrafficPolicy"] = "Cluster"

    def _store(self, service: Json) -> Json:
        self.version += 1
        service["metadata"]["resourceVersion"] = str(self.version)
        self.services[service["metadata"]["name"]] = service
        return copy.deepcopy(service)

    def _named(self, name: str) -> Json:
        if name not in self.services:
            raise self._refusal(404, "NotFound", f'services "{name}" not found')
        return self.services[name]

    def _read(self, service: Json) -> Json:
        notes = service["metadata"].get("annotations") or {}
        if "controller" in self.lies and any(OLD.fullmatch(k) and v == "OnlyLocal" for k, v in notes.items()):
            service["spec"]["externalTrafficPolicy"] = "Local"  # patched by somebody, a moment after
            if needs_port(service["spec"]):
                service["spec"].setdefault("healthCheckNodePort", self._free())
        return copy.deepcopy(service)

    def _status(self, service: Json, body: Json) -> Json:
        for ingress in body["status"]["loadBalancer"]["ingress"]:
            if service["spec"]["type"] != "LoadBalancer" and "any-status" not in self.lies:
                raise self._invalid("status.loadBalancer.ingress: Forbidden: may only be used when")
            mode = ingress.get("ipMode")
            if mode and ("ip" not in ingress or mode not in ("VIP", "Proxy")) and "any-mode" not in self.lies:
                raise self._invalid("status.loadBalancer.ingress[0].ipMode: Forbidden")
            if (mode, "one-mode" in self.lies) == ("Proxy", True) or (mode, "other-mode" in self.lies) == ("VIP", True):
                del ingress["ipMode"]
            if "ip" in ingress and "other-mode" in self.lies:
                ingress.setdefault("ipMode", "Proxy")
            if "ip" in ingress and "no-mode" not in self.lies:
                ingress.setdefault("ipMode", "VIP")
        service["status"] = body["status"]
        return self._store(service)

    def _changed(self, old: Json, method: str, body: Any, content: str) -> Json:
        """What a request makes of the object."""
        new = copy.deepcopy(old)
        if method == "PUT":
            return dict(body)
        if "json-patch" in content:
            for each in body:
                *way, last = each["path"].strip("/").split("/")
                place: Any = new
                for part in way:
                    place = place[int(part) if isinstance(place, list) else part]
                place[last] = each["value"]
            return new
        if "strategic" in content:
            for change in body.get("spec", {}).get("ports", []):
                for port in new["spec"]["ports"]:
                    if port["port"] == change["port"]:
                        port |= change
            body["spec"] = {k: v for k, v in body["spec"].items() if k not in ("ports", "$setElementOrder/ports")}
        _merge(new, body)
        new["metadata"].pop("resourceVersion", None)
        return new

    def _apply(self, name: str, body: Json, query: Mapping[str, str], warnings: Said) -> Json:
        who, forced = query["fieldManager"], query.get("force") == "true"
        named = set(body.get("spec", {}))
        if name not in self.services:
            made = self._create(body, warnings)
            self.managers[name] = {who: named}
            return made
        old, owners = self.services[name], self.managers[name]
        for other, fields in owners.items():
            for field in sorted(fields & named if other != who else ()):
                same = old["spec"].get(field) == body["spec"][field] or field in ("ports", "selector")
                if not same and not forced and "no-conflicts" not in self.lies:
                    owner = "somebody" if "nameless-conflicts" in self.lies else other
                    raise self._refusal(409, "Conflict", f'conflict with "{owner}": .spec.{field}')
                if not same:
                    fields.discard(field)
        new = copy.deepcopy(old)
        lost = owners.get(who, set()) - named
        kept_by_others = {field for other, fields in owners.items() if other != who for field in fields}
        for field in lost - (set() if "shares-nothing" in self.lies else kept_by_others):
            new["spec"].pop(field, None)
        if "apply-replaces" in self.lies and "selector" in named:
            new["spec"]["externalTrafficPolicy"], new["spec"]["healthCheckNodePort"] = "Cluster", 0
        if forced and "no-force" in self.lies:
            raise self._refusal(409, "Conflict", "conflict with somebody")
        if "ports" in body.get("spec", {}):
            body["spec"]["ports"] = [{**old["spec"]["ports"][0], **body["spec"]["ports"][0]}]
        new["spec"] |= body.get("spec", {})
        _merge(new["metadata"], body.get("metadata", {}))
        new["metadata"].pop("resourceVersion", None)
        owners[who] = named
        return self._update(old, new, "APPLY", warnings)

    # --------------------------------------------------------------------------------------- defaults and allocation
    def _old_forms(self, service: Json, warnings: Said, old: Json | None) -> None:
        notes = service["metadata"].get("annotations") or {}
        before = (old or {}).get("metadata", {}).get("annotations") or {}
        for key, value in notes.items():
            found = OLD.fullmatch(key)
            if not found or before.get(key) == value:
                continue
            if "warns" in self.lies:
                warnings.append(f'299 - "metadata.annotations[{key}]: deprecated"')
            if "checks-annotations" in self.lies and value not in ("OnlyLocal", "Global"):
                raise self._invalid(f"metadata.annotations[{key}]: Invalid value")
            spec = service["spec"]
            unset = not spec.get("externalTrafficPolicy")
            wins = "annotation-wins" in self.lies or ("annotation-fills-in" in self.lies and unset)
            if wins and found[1] == "alpha" and value in ("OnlyLocal", "Global"):
                spec["externalTrafficPolicy"] = "Local" if value == "OnlyLocal" else "Cluster"
        if "eats-annotations" in self.lies:
            service["metadata"]["annotations"] = {k: v for k, v in notes.items() if not OLD.fullmatch(k)}

    def _default(self, spec: Json) -> None:
        spec.setdefault("type", "ClusterIP")
        if "old-values" in self.lies:
            old = {"OnlyLocal": "Local", "Global": "Cluster"}
            spec["externalTrafficPolicy"] = old.get(
                spec.get("externalTrafficPolicy"), spec.get("externalTrafficPolicy")
            )
        spec.setdefault("sessionAffinity", "ClientIP" if "always-sticky" in self.lies else "None")
        if spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            config.setdefault("timeoutSeconds", 0 if "short-affinity" in self.lies else 10800)
        for port in spec.setdefault("ports", []):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port["port"])
        if is_external(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Local" if "local-by-default" in self.lies else "Cluster"
        if spec["type"] == "ExternalName":
            spec.pop("internalTrafficPolicy", None)
            spec |= {"internalTrafficPolicy": "Cluster"} if "names-have-all" in self.lies else {}
        elif spec.get("internalTrafficPolicy") is None and "no-internal-default" not in self.lies:
            spec["internalTrafficPolicy"] = "Cluster"
        if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        if "no-distribution" in self.lies and spec.get("trafficDistribution") in ("PreferClose", None):
            spec.pop("trafficDistribution", None)
        if "more-ranges" in self.lies and spec.get("loadBalancerSourceRanges"):
            spec["loadBalancerSourceRanges"] = [*spec["loadBalancerSourceRanges"], "0.0.0.0/0"]
        if "one-policy" in self.lies and spec.get("externalTrafficPolicy"):
            spec["internalTrafficPolicy"] = spec["externalTrafficPolicy"]

    def _patch_back(self, spec: Json, before: Json) -> None:
        if "ExternalName" not in (spec["type"], before["type"]):
            for field in ("clusterIP", "clusterIPs"):
                spec[field] = spec.get(field) or before.get(field)
        if has_node_ports(spec) and has_node_ports(before) and "patches-nothing-back" not in self.lies:
            had = {port.get("name"): port.get("nodePort") for port in before["ports"]}
            for port in spec["ports"]:
                port["nodePort"] = port.get("nodePort") or had.get(port.get("name"))
        if needs_port(spec) and needs_port(before) and "patches-nothing-back" not in self.lies:
            spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or before.get("healthCheckNodePort")

    def _drop(self, spec: Json, before: Json) -> None:
        """What no longer applies, and was not changed meanwhile."""
        if spec["type"] == "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                spec.pop(field, None)
        same = [port.get("nodePort") for port in spec["ports"]] == [port.get("nodePort") for port in before["ports"]]
        if not has_node_ports(spec) and same:
            for port in spec["ports"]:
                port.pop("nodePort", None)
        if needs_port(before) and not needs_port(spec) and "keeps-health-port" not in self.lies:
            self._wipe(spec, before, "healthCheckNodePort")
        if spec["type"] != "LoadBalancer":
            for field in BALANCED_ONLY[1:]:
                if "keeps-balancer" not in self.lies:
                    self._wipe(spec, before, field)
        if is_external(before) and not is_external(spec) and "keeps-policy" not in self.lies:
            self._wipe(spec, before, "externalTrafficPolicy")

    def _wipe(self, spec: Json, before: Json, field: str) -> None:
        if spec.get(field) == before.get(field) or "wipes-changes" in self.lies:
            spec.pop(field, None)

    def _allocate(self, spec: Json, before: Json) -> None:
        if spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
            self._allocate_addresses(spec)
        had = {port.get("nodePort") for port in before.get("ports", [])}
        automatic = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts")
        automatic = automatic or ("always-allocates" in self.lies and spec["type"] == "LoadBalancer")
        for port in spec["ports"] if has_node_ports(spec) else ():
            wanted = port.get("nodePort")
            twice = "nodeports-twice" in self.lies
            if wanted and wanted not in had and wanted in self._taken() and not twice:
                raise self._invalid("spec.ports[0].nodePort: Invalid value: provided port is already allocated")
            if not automatic and ("ignores-nodeports" if not before else "takes-nodeports-away") in self.lies:
                wanted = None
            port["nodePort"] = wanted or (self._free() if automatic else None)
        if not needs_port(spec) or (needs_port(before) if before else False):
            return
        wanted = spec.get("healthCheckNodePort")
        if wanted and "hands-out-twice" not in self.lies:
            said = f"failed to allocate requested HealthCheck NodePort {wanted}: "
            if wanted in self._taken():
                raise self._refusal(500, "InternalError", said + "provided port is already allocated")
            if not LOW <= wanted <= HIGH and "no-range" not in self.lies:
                raise self._refusal(500, "InternalError", said + "provided port is not in the valid range")
        if "needs-nodeports" not in self.lies or automatic:
            spec["healthCheckNodePort"] = (wanted if "ignores-choice" not in self.lies else 0) or self._free()

    def _allocate_addresses(self, spec: Json) -> None:
        """A ClusterIP of each family that has none."""
        wanted = spec.setdefault("ipFamilies", ["IPv4"])
        if spec.get("ipFamilyPolicy") == "RequireDualStack" and len(wanted) == 1:
            wanted.append("IPv4" if wanted == ["IPv6"] else "IPv6")
        if spec.get("ipFamilyPolicy") == "SingleStack":
            keeps = slice(1, 2) if "narrows-wrongly" in self.lies and wanted[1:] else slice(1)
            spec["ipFamilies"], spec["clusterIPs"] = wanted[keeps], (spec.get("clusterIPs") or [])[keeps]
        had = [] if not spec.get("clusterIP") else spec["clusterIPs"]
        if "widens-anew" in self.lies and len(had) == 1 < len(spec["ipFamilies"]):
            had = []
        had = [*had, *map(self._address, spec["ipFamilies"][len(had) :])]
        spec["clusterIPs"] = sorted(had) if "orders-families" in self.lies else had
        spec["clusterIP"] = spec["clusterIPs"][0]

    def _address(self, family: str) -> str:
        self.next_address += 1
        return f"fd00::{self.next_address:x}" if family == "IPv6" else f"10.0.0.{self.next_address}"

    def _free(self) -> int:
        self.next += 1
        return self.next

    def _taken(self) -> set[int]:
        specs = [each["spec"] for each in (*self.services.values(), *self.others)]
        ports = {port.get("nodePort") for spec in specs for port in spec.get("ports") or []}
        health = {spec.get("healthCheckNodePort") for spec in specs}
        if "two-allocators" in self.lies:
            ports = set()
        return {port for port in ports | health | self.leaked if port}

    def _release(self, spec: Json) -> None:
        if "leaks" in self.lies and spec.get("healthCheckNodePort"):
            self.leaked.add(spec["healthCheckNodePort"])

    # ---------------------------------------------------------------------------------------------------- validation
    def _check(self, service: Json, old: Json | None) -> None:
        spec, kind = service["spec"], service["spec"]["type"]
        notes = service["metadata"].get("annotations") or {}
        policies = {"externalTrafficPolicy": spec.get("externalTrafficPolicy")}
        policies["internalTrafficPolicy"] = spec.get("internalTrafficPolicy")
        if isinstance(policies["externalTrafficPolicy"], int):
            if "any-decoding" in self.lies:
                return
            raise self._refusal(400, "BadRequest", "cannot unmarshal number into field externalTrafficPolicy")
        if not is_external(spec) and spec.get("externalTrafficPolicy") and "policy-anywhere" not in self.lies:
            raise self._invalid(
                "spec.externalTrafficPolicy: Invalid value: may only be set for externally-accessible services"
            )
        for field, value in policies.items():
            if value not in (None, "Cluster", "Local") and "any-value" not in self.lies:
                raise self._invalid(f'spec.{field}: Unsupported value: "{value}": supported values: "Cluster", "Local"')
        if spec.get("healthCheckNodePort") and not needs_port(spec) and "port-anywhere" not in self.lies:
            said = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            raise self._invalid(f"spec.healthCheckNodePort: Invalid value: {said}")
        for field in BALANCED_ONLY if kind != "LoadBalancer" and "fields-anywhere" not in self.lies else ():
            if spec.get(field) is not None:
                raise self._invalid(f"spec.{field}: {ONLY_BALANCED}")
        if (
            kind not in EXTERNAL
            and any(port.get("nodePort") for port in spec["ports"])
            and "wipes-changes" not in self.lies
        ):
            raise self._invalid("spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'")
        self._check_values(spec, notes, kind)
        balanced = (
            old is not None and kind == old["spec"]["type"] == "LoadBalancer" and "class-changes" not in self.lies
        )
        if old and "families-change" not in self.lies:
            first, before = (each["spec"].get("ipFamilies", [""])[0] for each in (service, old))
            if first and before and first != before:
                raise self._invalid("spec.clusterIPs[0]: Invalid value: expected as indicated by `ipFamilies[0]`")
        if old and balanced and spec.get("loadBalancerClass") != old["spec"].get("loadBalancerClass"):
            raise self._invalid("spec.loadBalancerClass: Invalid value: may not change once set")

    def _check_values(self, spec: Json, notes: Mapping[str, str], kind: str) -> None:
        if "no-checks" in self.lies:
            return
        ranges = spec.get("loadBalancerSourceRanges") or []
        where = "spec.loadBalancerSourceRanges[0]"
        if RANGES in notes and not ranges:
            where, ranges = f"metadata.annotations[{RANGES}]", [each.strip() for each in notes[RANGES].split(",")]
            if kind != "LoadBalancer":
                raise self._invalid(f"{where}: {ONLY_BALANCED}")
        if any("/" not in each or each.endswith("/33") for each in ranges):
            raise self._invalid(f"{where}: Invalid value: must be a valid CIDR value")
        if "//" in str(spec.get("loadBalancerClass")) or str(spec.get("loadBalancerClass")).count("/") > 1:
            raise self._invalid("spec.loadBalancerClass: Invalid value")
        if spec["sessionAffinity"] not in ("None", "ClientIP"):
            raise self._invalid("spec.sessionAffinity: Unsupported value")
        config = spec.get("sessionAffinityConfig", {}).get("clientIP", {})
        if config and not 0 < config["timeoutSeconds"] <= 86400 and "short-affinity" not in self.lies:
            raise self._invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value")
        if "127.0.0.1" in (spec.get("externalIPs") or []):
            raise self._invalid("spec.externalIPs[0]: Invalid value: may not be in the loopback range")
        if spec.get("trafficDistribution") not in (None, "PreferClose", "PreferSameZone", "PreferSameNode"):
            raise self._invalid("spec.trafficDistribution: Unsupported value")

    def _invalid(self, message: str) -> ApiError:
        field = message.partition(":")[0]
        return self._refusal(422, "Invalid", field if "terse" in self.lies else f"is invalid: {message}")

    def _refusal(self, status: int, reason: str, message: str) -> ApiError:
        if "terse" in self.lies and status == 500:
            message = "HealthCheck"
        if "forbids" in self.lies:
            status, reason, message = 403, "Forbidden", "exceeded quota"
        return ApiError(status, reason, message, "services")


def _merge(whole: Json, change: Mapping[str, Any]) -> None:
    """JSON merge patch."""
    for name, value in change.items():
        if value is None:
            whole.pop(name, None)
        elif isinstance(value, dict) and isinstance(whole.get(name), dict):
            _merge(whole[name], value)
        else:
            whole[name] = value
