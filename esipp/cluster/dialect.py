"""API dialects of older Kubernetes versions. The rest of the suite uses the current API only.

The suite uses ``spec.externalTrafficPolicy`` and ``spec.healthCheckNodePort``; servers before 1.7 have annotations
instead. ``Cluster`` converts every Service and Pod with this module, in requests and in answers. Pure, no I/O.

The source of each version shows its behaviour: pkg/api/service/annotations.go (1.4, 1.5, 1.6),
pkg/api/service/util.go (1.7) and pkg/registry/core/service/rest.go (1.6, 1.7). The tests cannot run
such servers; tests/unit/recorded/ contains what they would answer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from esipp.base.json import Json
from esipp.checks.versions import read_version

ALPHA, BETA = "service.alpha.kubernetes.io", "service.beta.kubernetes.io"
VALUES = {"Local": "OnlyLocal", "Cluster": "Global"}
"""Values of ``external-traffic`` by policy. Other values are sent unchanged, for the server to validate."""
_FIELDS = {VALUES[policy]: policy for policy in VALUES}

NEWEST = (9999, 0)
"""The assumed version of a server with an unreadable version: a current one."""

NEWEST_RUN = (1, 36)
"""The newest version tested with full runs."""

FIELDS_SINCE, ANNOTATIONS_UNTIL = (1, 7), (1, 8)
DRY_RUN_SINCE, APPLY_SINCE = (1, 13), (1, 16)
"""Enabled by default: dry run as beta in 1.13 (before 1.12, a server ignores the parameter and creates the object);
server-side apply as beta in 1.16 (KEP-555)."""
REVIEW_SINCE = (1, 6)
"""authorization.k8s.io/v1; v1beta1 before."""
POD_IPS_SINCE, CLUSTER_IPS_SINCE, SCTP_SINCE = (1, 20), (1, 21), (1, 19)
"""Lists of addresses and families for every pod and Service without a feature gate (KEP-563: 1.21 beta, and the
environment's ``status.podIPs`` with it); SCTP as a port's protocol (KEP-614: 1.19 beta)."""

_SERVICES = re.compile(r"^/api/v1/(namespaces/[^/]+/)?services(/[^/]+)?(/status)?$")
_PODS = re.compile(r"^/api/v1/(namespaces/[^/]+/)?pods(/[^/]+)?(/status)?$")
_DAEMON_SETS = re.compile(r"^/apis/apps/[^/]+/namespaces/[^/]+/daemonsets$")
_REFUSED = re.compile(
    r'metadata\.annotations: Invalid value: "service\.(?:alpha|beta)\.kubernetes\.io/healthcheck-nodeport"'
)


@dataclass(frozen=True)
class Dialect:
    """The API dialect of a server version.

    Args:
        version: version of the server.
        writes: prefix of the annotations that contain the policy and the port; None if fields do.
        reads: prefixes of annotations that the server reads before any field, in this order.
    """

    version: tuple[int, int]
    writes: str | None
    reads: tuple[str, ...]

    @property
    def name(self) -> str:
        """A short description of the dialect."""
        if self.writes:
            grade = "alpha" if self.writes == ALPHA else "beta"
            return f"{grade} annotations ({self.writes}/external-traffic, …/healthcheck-nodeport)"
        return "fields (spec.externalTrafficPolicy, spec.healthCheckNodePort)"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Other differences of such a server that matter to a run."""
        return tuple(text for before, text in REMARKS if self.version < before)

    @property
    def dry_runs(self) -> bool:
        """Whether the server supports dry runs."""
        return self.version >= DRY_RUN_SINCE

    @property
    def applies(self) -> bool:
        """Whether the server supports server-side apply."""
        return self.version >= APPLY_SINCE

    @property
    def access_review(self) -> str:
        """The version of authorization.k8s.io that the server certainly has."""
        return "v1" if self.version >= REVIEW_SINCE else "v1beta1"

    def cares_for(self, path: str) -> bool:
        """Whether the objects of a path have another form than in current Kubernetes."""
        return self.version < CLUSTER_IPS_SINCE and bool(_SERVICES.match(path) or _PODS.match(path))

    # -------------------------------------------------------------------------------------------------- on the way out
    def out(self, method: str, path: str, body: Json) -> Json:
        """Convert a request body for this server: an object (POST, PUT) or a merge patch (PATCH)."""
        if self.version < CLUSTER_IPS_SINCE and _DAEMON_SETS.match(path):
            return body | {"spec": {**body["spec"], "template": self._pod_out(body["spec"]["template"])}}
        if not self.cares_for(path):
            return body
        if _PODS.match(path):
            return self._pod_out(body)
        return self._service_out(body, patch=method == "PATCH")

    def _service_out(self, body: Json, *, patch: bool) -> Json:
        """Convert the policy and the port to annotations; in a patch, null stays null, which removes them."""
        spec = body.get("spec")
        if self.writes is None or not isinstance(spec, Mapping):
            return body
        spec, said = dict(spec), {}
        if "externalTrafficPolicy" in spec:
            policy = spec.pop("externalTrafficPolicy")
            said["external-traffic"] = VALUES.get(policy, policy)
        if "healthCheckNodePort" in spec:
            port = spec.pop("healthCheckNodePort")
            said["healthcheck-nodeport"] = str(port) if port else None
        if not patch:  # a replaced object loses what it does not contain anyway
            said = {name: value for name, value in said.items() if value is not None}
        if not said:
            return body | {"spec": spec}
        metadata = dict(body.get("metadata") or {})
        theirs = dict(metadata.get("annotations") or {})
        metadata["annotations"] = theirs | {f"{self.writes}/{name}": value for name, value in said.items()}
        patched = body | {"metadata": metadata, "spec": spec}
        if patch and not spec:
            del patched["spec"]
        return patched

    def _pod_out(self, body: Json) -> Json:
        """Remove what such a server refuses from a pod. It silently drops fields that it does not know."""
        spec = body.get("spec")
        if not isinstance(spec, Mapping) or "containers" not in spec:
            return body
        return body | {"spec": {**spec, "containers": [self._container_out(each) for each in spec["containers"]]}}

    def _container_out(self, container: Json) -> Json:
        made = dict(container)
        if self.version < SCTP_SINCE and "ports" in made:
            made["ports"] = [port for port in made["ports"] if port.get("protocol") != "SCTP"]
        if self.version < POD_IPS_SINCE and "env" in made:
            made["env"] = [_one_address(each) for each in made["env"]]
        return made

    # ------------------------------------------------------------------------------------------------- on the way back
    def back(self, path: str, answer: Json) -> Json:
        """Convert an answer to the current form: an object or a list of objects."""
        if not self.cares_for(path):
            return answer
        item = self._pod_back if _PODS.match(path) else self._service_back
        if isinstance(answer.get("items"), list):
            return answer | {"items": [item(each) for each in answer["items"]]}
        return item(answer)

    def _service_back(self, service: Json) -> Json:
        """Convert annotations to fields, and the only address and family to lists.

        The converted annotations are removed. A caller that changes a field and sends the object back must not also
        send the old annotation.
        """
        if not isinstance(service.get("spec"), Mapping):
            return service  # a Status
        spec, metadata = dict(service["spec"]), dict(service.get("metadata") or {})
        notes = metadata.get("annotations") or {}
        if self.writes and notes:
            metadata["annotations"] = {name: text for name, text in notes.items() if name not in self._own}
        if self.reads and spec.get("type") in ("NodePort", "LoadBalancer"):
            policy = _first(notes, self.reads, "external-traffic", _FIELDS)
            if policy:
                spec["externalTrafficPolicy"] = policy
                _put(spec, "healthCheckNodePort", self._port(spec, policy, notes))
            elif self.writes:
                spec["externalTrafficPolicy"] = "Cluster"  # the default of current servers
        address = spec.get("clusterIP")
        if address and "clusterIPs" not in spec:
            spec["clusterIPs"] = [address]
        family = _family(address)
        if family and not spec.get("ipFamilies"):
            spec["ipFamilies"] = [family]
        return service | {"metadata": metadata, "spec": spec}

    @property
    def _own(self) -> frozenset[str]:
        """The annotations that correspond to fields."""
        return frozenset(
            f"{each}/{name}" for each in self.reads for name in ("external-traffic", "healthcheck-nodeport")
        )

    def _port(self, spec: Json, policy: str, notes: Mapping[str, str]) -> int | None:
        """The health check node port, which the server uses only for type LoadBalancer with OnlyLocal.

        Without an annotation it is the field's value, if there is a field: 1.7 mixes both forms.
        """
        if spec["type"] != "LoadBalancer" or policy != "Local":
            return None
        ports = (notes.get(f"{prefix}/healthcheck-nodeport", "") for prefix in self.reads)
        named = next((int(port) for port in ports if port.isdecimal() and int(port)), None)
        return named or spec.get("healthCheckNodePort")

    def _pod_back(self, pod: Json) -> Json:
        status = pod.get("status")
        if not isinstance(status, Mapping) or not status.get("podIP") or status.get("podIPs"):
            return pod
        return pod | {"status": {**status, "podIPs": [{"ip": status["podIP"]}]}}

    def refusal(self, message: str) -> str:
        """The message of a refusal, with the field's name instead of the annotation's."""
        return _REFUSED.sub("spec.healthCheckNodePort: Invalid value", message) if self.writes else message


def dialect_of(git_version: str) -> Dialect:
    """The dialect for a server's version; the current one if the version is unreadable.

    1.7 has both forms and reads the beta annotation first. esipp writes fields there: they are generally available, 1.8
    and later know only them, and no object of esipp has an annotation that would override them. Beta annotations of
    other Services are still read as that server reads them.
    """
    version = read_version(git_version) or NEWEST
    if version >= ANNOTATIONS_UNTIL:
        return Dialect(version, None, ())
    if version >= FIELDS_SINCE:
        return Dialect(version, None, (BETA,))
    if version >= (1, 5):  # the server looks at the alpha annotations first, and writes beta ones
        return Dialect(version, BETA, (ALPHA, BETA))
    return Dialect(version, ALPHA, (ALPHA,))


REMARKS: tuple[tuple[tuple[int, int], str], ...] = (
    ((1, 5), "the API server and kube-proxy need --feature-gates=AllowExtTrafficLocalEndpoints=true (alpha feature)"),
    ((1, 8), "no run was made on such a server: this dialect is tested against recorded server behaviour only"),
    ((1, 19), "pods have no seccompProfile, which the server drops, and no SCTP ports, which it refuses"),
    ((1, 21), "kubectl supports servers up to one minor version older or newer: put a matching one on PATH"),
    ((1, 21), "Services and pods have one address family, that of the ClusterIPs"),
    ((1, 22), "the server drops spec.loadBalancerClass: Services without a load balancer get the cluster's own"),
)
"""Remarks on servers before a version."""


def _first(notes: Mapping[str, str], prefixes: tuple[str, ...], name: str, meanings: Mapping[str, str]) -> str | None:
    """The meaning of the first valid annotation, in the order in which servers read the prefixes."""
    found = (meanings.get(notes.get(f"{prefix}/{name}", "")) for prefix in prefixes)
    return next((meaning for meaning in found if meaning), None)


def _put(spec: Json, name: str, value: int | None) -> None:
    """Set a field, or remove it for None."""
    spec.pop(name, None)
    if value is not None:
        spec[name] = value


def _family(address: Any) -> str | None:
    try:
        return f"IPv{ip_address(str(address)).version}"
    except ValueError:  # none yet, or None of a headless Service
        return None


def _one_address(variable: Json) -> Json:
    """An environment variable with the pod's only address instead of the list of addresses."""
    source = (variable.get("valueFrom") or {}).get("fieldRef") or {}
    if source.get("fieldPath") != "status.podIPs":
        return variable
    return variable | {"valueFrom": {"fieldRef": {**source, "fieldPath": "status.podIP"}}}
