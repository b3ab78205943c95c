"""What a user wants of all that a run creates: labels, annotations, tolerations, a pull secret; and on which nodes.

Every request that creates or replaces an object passes here on its way to the API server, so that nobody who makes one
has to think of it. What the suite says itself stays as it is.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.base.labels import MANAGED_BY, RUN_LABEL
from esipp.base.object_syntax import OURS

Json = dict[str, Any]
Pairs = tuple[tuple[str, str], ...]

PULL_SECRET = "esipp-pull"  # noqa: S105
"""Its name in the run's namespace."""

INTERNAL = "load-balancer.internal"
"""The fact that the cluster's own load balancers are."""

RUN = "RUN"
"""Stands for the run's id in a tag."""

FILE = "file:"
"""Begins the way to a docker config file, where one is meant."""

APPLY = "apply-patch"
CREATED = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)/(?:namespaces/[^/]+/)?([a-z]+)")
WRITTEN = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)/namespaces/[^/]+/([a-z]+)/[^/]+")
REVIEWS = re.compile(r"[a-z]*reviews")
"""They are questions: nothing is created."""


class On(StrEnum):
    """What an annotation is put on: Services of the cluster's own load balancer, all pods, or the namespace."""

    SERVICE = "service"
    POD = "pod"
    NAMESPACE = "namespace"


@dataclass(frozen=True)
class Annotation:
    """An annotation, and what it is put on."""

    on: On
    key: str
    value: str

    def __str__(self) -> str:
        return f"{'' if self.on is On.SERVICE else f'{self.on.value}:'}{self.key}={self.value}"


@dataclass(frozen=True)
class Toleration:
    """A taint that nodes may have and take part nevertheless; without a value, or an effect, whichever it has."""

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
        """As a pod has it."""
        told = {"key": self.key, "operator": "Exists"}
        if self.value is not None:
            told |= {"operator": "Equal", "value": self.value}
        return told | ({"effect": self.effect} if self.effect else {})


@dataclass(frozen=True)
class Customisation:
    """``pull_secret`` is where it comes from, ``NAMESPACE/NAME`` or ``file:PATH``; never what is in it.

    ``namespace_labels`` are for the run's namespace only, ``labels`` for it and all that is in it. ``internal`` are the
    provider's annotations that make load balancers internal (provided.py), where that is wanted, ``tags`` are those by
    which it tags what it makes, with ``RUN`` for the run's id.
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
        """The options that say the same, a word each."""
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
        """What was given, by name, for reports; nothing of what was not."""
        told = {
            "created.labels": _told(self.labels),
            "created.annotations": ", ".join(map(str, self.annotations)),
            "created.namespace-labels": _told(self.namespace_labels),
            "created.cloud-tags": _told(self.tags),
            "created.tolerations": ", ".join(map(str, self.tolerations)),
            "created.pulls-with": self.pull_secret,
            "nodes.selected-by": _told(self.node_selector),
            INTERNAL: f"yes, by {_told(self.internal)}" if self.internal else "",
        }
        return {name: value for name, value in told.items() if value}

    # ------------------------------------------------------------------------------------------------------ nodes
    def takes(self, node: Mapping[str, Any]) -> bool:
        """Whether a node, as the API server shows it, takes part."""
        labels = node["metadata"].get("labels") or {}
        return all(labels.get(key) == value for key, value in self.node_selector)

    def repelled(self, taints: Iterable[Mapping[str, Any]]) -> bool:
        """Whether a node with these taints takes no pods of its own accord."""
        strict = (taint for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute"))
        return any(not any(each.bears(taint) for each in self.tolerations) for taint in strict)

    # ---------------------------------------------------------------------------------------------------- objects
    def on(self, method: str, path: str, body: Json | None, content: str = "") -> Json | None:
        """The body of a request as it goes out: whole objects carry what is wished, all else is left alone.

        Objects that are replaced, or applied, are others' unless they say that they are ours.
        """
        if body is None or not isinstance(body, dict) or self == NOTHING:
            return body
        if method == "POST":
            found = CREATED.fullmatch(path)
            return self.dressed(found[1], body) if found and not REVIEWS.fullmatch(found[1]) else body
        found = WRITTEN.fullmatch(path)
        if not found or not (method == "PUT" or (method == "PATCH" and APPLY in content)):
            return body
        labels = (body.get("metadata") or {}).get("labels") or {}
        return self.dressed(found[1], body) if MANAGED_BY.items() <= labels.items() else body

    def dressed(self, resource: str, item: Json) -> Json:
        """An object of a resource (``pods``) with all that is wished of it."""
        item = _with(item, "labels", self.labels)
        if resource == "namespaces":
            item = _with(item, "annotations", self._annotations(On.NAMESPACE))
            return _with(item, "labels", self.namespace_labels, first=True)  # options.py says what may be overruled
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
        if more and {"operator": "Exists"} not in has:  # which tolerates everything
            spec["tolerations"] = [*has, *more]
        if self.pull_secret:
            spec["imagePullSecrets"] = [{"name": PULL_SECRET}]
        return {**pod, "spec": spec}

    def _tagged(self, service: Json) -> Json:
        """A Service whose load balancer the cloud tags with the run; tags that it has stay, and come first."""
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


def _told(pairs: Pairs) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs)


def _with(item: Json, part: str, pairs: Pairs, *, first: bool = False) -> Json:
    """The same object with more labels, or annotations; those that it has stay, unless the others go ``first``."""
    if not pairs:
        return item
    metadata = item.get("metadata") or {}
    has, more = metadata.get(part) or {}, dict(pairs)
    return {**item, "metadata": {**metadata, part: {**has, **more} if first else {**more, **has}}}


def _is_balanced(service: Json) -> bool:
    """Whether the cluster's own load balancer serves it: classes of ours are nobody's, or the reference's."""
    spec = service.get("spec") or {}
    return spec.get("type") == "LoadBalancer" and not str(spec.get("loadBalancerClass") or "").startswith(f"{OURS}/")
