"""Detection of the cluster's load balancer, by its nodes, its workloads, and our Services. Pure.

What the user names takes precedence over what is found; the result says which it was, and how it was decided.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from esipp.base.json import Json
from esipp.base.plural import counted
from esipp.checks.check import Fact
from esipp.checks.profile import LoadBalancer, Marks
from esipp.loadbalancers.profiles.words import bound

PLATFORM, PROFILE, BOUND = "platform", "load-balancer.profile", "load-balancer.bound"
"""The names of the facts."""

UNKNOWN = "unknown"

SCHEMES = {"gce": "gce", "azure": "azure", "aws": "aws", "openstack": "openstack", "kind": "kind", "k3s": "k3s"}
"""Platforms by the scheme of ``spec.providerID``."""

LABELS = {
    "cloud.google.com/gke-nodepool": "gke",
    "cloud.google.com/gke-os-distribution": "gke",
    "kubernetes.azure.com/cluster": "aks",
    "kubernetes.azure.com/agentpool": "aks",
    "eks.amazonaws.com/nodegroup": "eks",
    "eks.amazonaws.com/compute-type": "eks",
    "alpha.eksctl.io/cluster-name": "eks",
}
"""Labels that managed clusters put on their nodes."""

BUILDS = {"-gke.": "gke", "-eks-": "eks", "+k3s": "k3s"}
"""What the versions of managed kubelets say of who built them."""

OF_SERVICE, OF_WORKLOAD, OF_PLATFORM = 10, 5, 1
"""What a mark weighs: on a Service of ours; a workload of a known name; what the platform gives by default."""


@dataclass(frozen=True)
class Detected:
    """The detected load balancer of a cluster.

    Args:
        platform: the platform of the nodes, and how it was determined.
        profiles: the named one, or those that fit equally well; none if no profile fits.
        named: whether the user named it.
        how: how it was determined.
        found: the detected profiles, if the user named one.
        objects: whether collections of the API have objects, of those that could be read.
        itself: whether the load balancer reported it: then Services show nothing more.
    """

    platform: Fact
    profiles: tuple[LoadBalancer, ...] = ()
    named: bool = False
    how: str = "no known load balancer"
    found: tuple[LoadBalancer, ...] = ()
    objects: Mapping[str, bool] = field(default_factory=dict)
    itself: bool = False

    @property
    def named_profile(self) -> LoadBalancer | None:
        """The profile that the user named; None if there is none."""
        return self.profiles[0] if self.named else None

    @property
    def certain(self) -> bool:
        """Whether its profile is: the user named it, or the load balancer did."""
        return self.named or self.itself

    @property
    def fact(self) -> Fact:
        """The profile, and how it was determined."""
        if not self.named:
            return Fact(_names(self.profiles) or UNKNOWN, self.how)
        found = f"; detected: {_names(self.found) or UNKNOWN} ({self.how})"
        return Fact(_names(self.profiles), "--provider" + found)

    def facts(self) -> dict[str, Fact]:
        """The facts by name; with the bound, if all fitting profiles agree on it."""
        bounds = {bound(each.local) for each in self.profiles}
        found = {PLATFORM: self.platform, PROFILE: self.fact}
        if len(bounds) == 1:
            how = f"(N+1) x period of {_names(self.profiles)}, derived"
            found[BOUND] = Fact(bounds.pop(), how)
        return found


NOTHING_FOUND = Detected(Fact(UNKNOWN, "not determined"))


def _names(profiles: Iterable[LoadBalancer]) -> str:
    return " or ".join(each.name for each in profiles)


def detect(
    known: Sequence[LoadBalancer],
    nodes: Sequence[Json],
    workloads: Collection[str],
    named: LoadBalancer | None = None,
    objects: Mapping[str, bool] | None = None,
) -> Detected:
    """The detection before anything is created.

    Args:
        known: the profiles that there are.
        nodes: as the API server lists them.
        workloads: names of those that may serve load balancers, with the namespace where it is not kube-system.
        named: the profile that the user named.
        objects: which collections of the API have something in them, of those that could be read.
    """
    platform, objects = platform_of(nodes), objects or {}
    return _with(Detected(platform, objects=objects), *find(known, platform.value, workloads, objects=objects), named)


def look_again(
    known: Sequence[LoadBalancer], before: Detected, workloads: Collection[str], services: Sequence[Json]
) -> Detected:
    """The detection after our Services are served: their marks show more than names do.

    Args:
        known: the profiles that there are.
        before: what was known before.
        workloads: as in ``detect``.
        services: Services of ours that name no class, as the API server has them.
    """
    if before.itself:
        return before
    start = Detected(before.platform, objects=before.objects)
    return _with(start, *find(known, before.platform.value, workloads, services, before.objects), before.named_profile)


def _with(start: Detected, found: tuple[LoadBalancer, ...], how: str, named: LoadBalancer | None) -> Detected:
    if named is None:
        return replace(start, profiles=found, how=how)
    return replace(start, profiles=(named,), named=True, how=how, found=found)


# ------------------------------------------------------------------------------------------------------- the platform
def platform_of(nodes: Sequence[Json]) -> Fact:
    """The platform of the nodes: gke, gce, aks, azure, eks, aws, openstack, kind, k3s, unknown, or mixed."""
    by_node = [_of_node(node) for node in nodes]
    if not by_node:
        return Fact(UNKNOWN, "there are no nodes")
    found = Counter(name for name, _ in by_node)
    if len(found) > 1:
        platforms = ", ".join(f"{count} x {name}" for name, count in sorted(found.items()))
        return Fact("mixed", f"nodes differ: {platforms}")
    ways = sorted({way for _, way in by_node})
    return Fact(by_node[0][0], f"{'; '.join(ways)} of {counted(len(nodes), 'node')}")


def _of_node(node: Json) -> tuple[str, str]:
    """The platform of one node, and the evidence for it."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    for label, name in LABELS.items():
        if label in labels:
            return name, f"label {label}"
    version = str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or "")
    for mark, name in BUILDS.items():
        if mark in version:
            return name, f"kubelet version …{mark}…"
    scheme = str((node.get("spec") or {}).get("providerID") or "").partition("://")[0]
    if scheme in SCHEMES:
        return SCHEMES[scheme], f"providerID {scheme}://"
    return UNKNOWN, f"providerID {scheme}://" if scheme else "no providerID"


# -------------------------------------------------------------------------------------------------------- the balancer
def find(
    known: Iterable[LoadBalancer],
    platform: str,
    workloads: Collection[str],
    services: Sequence[Json] = (),
    objects: Mapping[str, bool] | None = None,
) -> tuple[tuple[LoadBalancer, ...], str]:
    """The best-fitting profiles, all of them if several fit equally, and the evidence."""
    there = objects or {}
    weighed = [(profile, _marks(profile.found, platform, workloads, services, there)) for profile in known]
    scores = [(sum(weight for weight, _ in marks), profile, marks) for profile, marks in weighed]
    best = max((score for score, _, _ in scores), default=0)
    if not best:
        where = f"no known load balancer on {platform}"
        return (), where
    fitting = [(profile, marks) for score, profile, marks in scores if score == best]
    names = dict.fromkeys(name for _, marks in fitting for _, name in marks)
    return tuple(profile for profile, _ in fitting), "; ".join(names)


def _marks(
    marks: Marks,
    platform: str,
    workloads: Collection[str],
    services: Sequence[Json],
    objects: Mapping[str, bool],
) -> list[tuple[int, str]]:
    """The marks of a profile that exist, each with its weight and text; none if the profile is impossible."""
    if marks.platforms and platform not in marks.platforms:
        return []
    own = [name for name in marks.objects if objects.get(name)]
    if not own and any(name in objects for name in marks.objects):
        return []
    on_services = [_on_services(services, each) for each in ("classes", "finalizers", "annotations", "conditions",
                                                           "ip_modes", "hostnames")]  # fmt: skip
    classes, finalizers, annotations, conditions, modes, hosts = on_services
    needed = [_any(annotations, need.split(" or ")) for need in marks.needs]
    if not all(needed):
        return []
    found = [(OF_SERVICE, f"the Services' annotation {each}") for each in needed]
    for title, there, wanted in (
        ("loadBalancerClass", classes, marks.classes),
        ("finalizer", finalizers, marks.finalizers),
        ("annotation", annotations, marks.annotations),
        ("condition", conditions, marks.conditions),
        ("ipMode", modes, marks.ip_modes),
    ):
        each = _any(there, sorted(wanted))
        found += [(OF_SERVICE, f"the Services' {title} {each}")] if each else []
    host = next((host for host in sorted(hosts) for pattern in marks.hostnames if re.search(pattern, host)), "")
    found += [(OF_SERVICE, "the form of the Services' hostname")] if host else []
    pods = workloads_by(marks, workloads)
    found += [(OF_WORKLOAD, f"pods of {pods[0]}")] if pods else []
    found += [(OF_WORKLOAD, f"objects in {name}") for name in own[:1]]
    found += [(OF_PLATFORM, f"the default on {platform}")] if marks.default else []
    return found


def workloads_by(marks: Marks, workloads: Iterable[str]) -> list[str]:
    """The workloads whose names identify the profile."""
    return named_by(marks.workloads, workloads)


def named_by(patterns: Iterable[str], workloads: Iterable[str]) -> list[str]:
    """The workloads whose names, without those of containers, fit a pattern."""
    patterns = list(patterns)
    return sorted(name for name in workloads for each in patterns if re.fullmatch(f"(?:{each})(?:/.*)?", name))


def _any(there: Collection[str], wanted: Iterable[str]) -> str:
    """The first existing one; ``key`` also fits ``key=value``."""
    keys = {each.partition("=")[0] for each in there}
    return next((each for each in wanted if each in there or ("=" not in each and each in keys)), "")


def _on_services(services: Sequence[Json], what: str) -> set[str]:
    """The marks of this kind on any of the Services."""
    return {mark for service in services for mark in _of_service(service, what)}


def _of_service(service: Json, what: str) -> Iterator[str]:
    about: Mapping[str, Any] = service.get("metadata") or {}
    status = service.get("status") or {}
    ingresses = (status.get("loadBalancer") or {}).get("ingress") or []
    if what == "classes":
        yield from [str(name)] if (name := (service.get("spec") or {}).get("loadBalancerClass")) else []
    elif what == "finalizers":
        yield from map(str, about.get("finalizers") or ())
    elif what == "annotations":
        yield from (f"{key}={value}" for key, value in (about.get("annotations") or {}).items())
    elif what == "conditions":
        yield from (str(each.get("type")) for each in status.get("conditions") or ())
    elif what == "ip_modes":
        yield from (str(each["ipMode"]) for each in ingresses if each.get("ipMode"))
    elif what == "hostnames":
        yield from (str(each["hostname"]) for each in ingresses if each.get("hostname"))
