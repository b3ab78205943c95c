"""Object customisation: the user's labels, annotations, tolerations, pull secret and node selection.

Every request that creates or replaces an object passes through ``Customisation.on``, so that its callers need not care.
What the suite itself sets on an object has precedence.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.base.json import Json
from esipp.base.labels import MANAGED_BY, OURS, RUN_LABEL

Pairs = tuple[tuple[str, str], ...]

PULL_SECRET = "esipp-pull"  # noqa: S105 - a name, no password
"""The name of the pull secret in the run's namespace."""

INTERNAL = "load-balancer.internal"
"""The name of the fact that the cluster's own load balancers are internal."""

RUN = "RUN"
"""Placeholder for the run's id in a tag."""

FILE = "file:"
"""Prefix of the path of a docker config file."""

APPLY = "apply-patch"
CREATED = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)/(?:namespaces/[^/]+/)?([a-z]+)")
WRITTEN = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)/namespaces/[^/]+/([a-z]+)/[^/]+")
REVIEWS = re.compile(r"[a-z]*reviews")
"""Resources such as SubjectAccessReview. A request for one creates no object."""


class On(StrEnum):
    """The target of an annotation: Services of the cluster's own load balancer, all pods, or the namespace."""

    SERVICE = "service"
    POD = "pod"
    NAMESPACE = "namespace"


@dataclass(frozen=True)
class Annotation:
    """An annotation and its target."""

    on: On
    key: str
    value: str

    def __str__(self) -> str:
        return f"{'' if self.on is On.SERVICE else f'{self.on.value}:'}{self.key}={self.value}"


@dataclass(frozen=True)
class Toleration:
    """A toleration of nodes' taints; without a value or an effect, it matches all of them."""

    key: str
    value: str | None = None
    effect: str = ""

    def __str__(self) -> str:
        value = "" if self.value is None else f"={self.value}"
        return f"{self.key}{value}{f':{self.effect}' if self.effect else ''}"

    def bears(self, taint: Mapping[str, Any]) -> bool:
        """Whether it tolerates a taint of a node (``v1.Toleration``)."""
        same = self.value is None or self.value == (taint.get("value") or "")
        return same and self.key == taint.get("key") and self.effect in ("", taint.get("effect"))

    def as_json(self) -> Json:
        """The toleration in a pod's spec."""
        toleration = {"key": self.key, "operator": "Exists"}
        if self.value is not None:
            toleration |= {"operator": "Equal", "value": self.value}
        return toleration | ({"effect": self.effect} if self.effect else {})


@dataclass(frozen=True)
class Customisation:
    """The user's customisation of all objects.

    ``labels`` are for the namespace and everything in it, ``namespace_labels`` for the namespace only. ``pull_secret``
    is its source, ``NAMESPACE/NAME`` or ``file:PATH``, never its content. ``internal`` are the provider's annotations
    that make load balancers internal (provider_annotations.py), with ``--internal``. ``tags`` are the annotations by
    which the provider tags its resources, with ``RUN`` for the run's id.
    """

    labels: Pairs = ()
    annotations: tuple[Annotation, ...] = ()
    namespace_labels: Pairs = ()
    node_selector: Pairs = ()
    tolerations: tuple[Toleration, ...] = ()
    pull_secret: str = ""
    internal: Pairs = ()
    tags: Pairs = ()

    def words(self) -> list[str]:
        """The equivalent command line options."""
        return [
            *(f"--label={key}={value}" for key, value in self.labels),
            *(f"--annotation={each}" for each in self.annotations),
            *(f"--namespace-labels={key}={value}" for key, value in self.namespace_labels),
            *(f"--node-selector={key}={value}" for key, value in self.node_selector),
            *(f"--toleration={each}" for each in self.tolerations),
            *([f"--image-pull-secret={self.pull_secret}"] if self.pull_secret else []),
            *(["--internal"] if self.internal else []),
        ]

    def facts(self) -> dict[str, str]:
        """The customisation as facts for reports, without empty values."""
        facts = {
            "created.labels": _joined(self.labels),
            "created.annotations": ", ".join(map(str, self.annotations)),
            "created.namespace-labels": _joined(self.namespace_labels),
            "created.cloud-tags": _joined(self.tags),
            "created.tolerations": ", ".join(map(str, self.tolerations)),
            "created.pulls-with": self.pull_secret,
            "nodes.selected-by": _joined(self.node_selector),
            INTERNAL: f"yes, by {_joined(self.internal)}" if self.internal else "",
        }
        return {name: value for name, value in facts.items() if value}

    # ------------------------------------------------------------------------------------------------------ nodes
    def takes(self, node: Mapping[str, Any]) -> bool:
        """Whether the node selector matches a node."""
        labels = node["metadata"].get("labels") or {}
        return all(labels.get(key) == value for key, value in self.node_selector)

    def repelled(self, taints: Iterable[Mapping[str, Any]]) -> bool:
        """Whether these taints keep pods of esipp away from a node."""
        strict = (taint for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute"))
        return any(not any(each.bears(taint) for each in self.tolerations) for taint in strict)

    # ---------------------------------------------------------------------------------------------------- objects
    def on(self, method: str, path: str, body: Json | None, content: str = "") -> Json | None:
        """The body of a request with the customisation, if it is a whole object; other bodies stay unchanged.

        A replaced or applied object changes only if its labels say that it belongs to esipp.
        """
        if body is None or not isinstance(body, dict) or self == NOTHING:
            return body
        if method == "POST":
            found = CREATED.fullmatch(path)
            return self.customised(found[1], body) if found and not REVIEWS.fullmatch(found[1]) else body
        found = WRITTEN.fullmatch(path)
        if not found or not (method == "PUT" or (method == "PATCH" and APPLY in content)):
            return body
        labels = (body.get("metadata") or {}).get("labels") or {}
        return self.customised(found[1], body) if MANAGED_BY.items() <= labels.items() else body

    def customised(self, resource: str, item: Json) -> Json:
        """An object of a resource (such as ``pods``) with the customisation."""
        item = _with(item, "labels", self.labels)
        if resource == "namespaces":
            item = _with(item, "annotations", self._annotations(On.NAMESPACE))
            return _with(
                item, "labels", self.namespace_labels, first=True
            )  # customisation_options.py refuses reserved labels
        if resource == "pods":
            return self._pod(item)
        if resource == "services" and _is_balanced(item):
            return self._tagged(_with(item, "annotations", (*self._annotations(On.SERVICE), *self.internal)))
        if "template" in item.get("spec", {}):  # a Deployment, a DaemonSet, a Job
            template = self._pod(_with(item["spec"]["template"], "labels", self.labels))
            return {**item, "spec": {**item["spec"], "template": template}}
        return item

    def _pod(self, pod: Json) -> Json:
        pod = _with(pod, "annotations", self._annotations(On.POD))
        spec = dict(pod["spec"])
        has = spec.get("tolerations") or []
        more = [each.as_json() for each in self.tolerations if each.as_json() not in has]
        if more and {"operator": "Exists"} not in has:  # that one tolerates every taint
            spec["tolerations"] = [*has, *more]
        if self.pull_secret:
            spec["imagePullSecrets"] = [{"name": PULL_SECRET}]
        return {**pod, "spec": spec}

    def _tagged(self, service: Json) -> Json:
        """The Service with annotations that make the cloud tag its load balancer with the run; existing tags stay."""
        about = service.get("metadata") or {}
        run, has = (about.get("labels") or {}).get(RUN_LABEL), about.get("annotations") or {}
        if not run or not self.tags:
            return service
        tags = {key: value.replace(RUN, run) for key, value in self.tags}
        own = {key: has.get(key, "").split(",") if has.get(key) else [] for key in tags}
        more = {key: ",".join(dict.fromkeys([*own[key], tag])) for key, tag in tags.items()}
        return {**service, "metadata": {**about, "annotations": {**has, **more}}}

    def _annotations(self, on: On) -> Pairs:
        return tuple((each.key, each.value) for each in self.annotations if each.on is on)


NOTHING = Customisation()


def _joined(pairs: Pairs) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs)


def _with(item: Json, part: str, pairs: Pairs, *, first: bool = False) -> Json:
    """The object with more labels or annotations; existing ones have precedence unless the others go ``first``."""
    if not pairs:
        return item
    metadata = item.get("metadata") or {}
    has, more = metadata.get(part) or {}, dict(pairs)
    return {**item, "metadata": {**metadata, part: {**has, **more} if first else {**more, **has}}}


def _is_balanced(service: Json) -> bool:
    """Whether the cluster's own load balancer serves a Service; it does not serve esipp's own classes."""
    spec = service.get("spec") or {}
    return spec.get("type") == "LoadBalancer" and not str(spec.get("loadBalancerClass") or "").startswith(f"{OURS}/")
