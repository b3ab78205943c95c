"""The first version of Kubernetes, and of kube-proxy, that supports each check. Pure, no I/O.

It follows from what the check uses: fields of its Services, its paths, its scenario. The rules here are data and the
only source. A check may require a later version itself (``Check.since``). The version is the first one in which every
cluster has a feature unless its administrator disables it: a beta gate that is on by default counts, an alpha gate
does not.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from esipp.base.errors import PreflightError
from esipp.checks.check import KUBE_PROXY, KUBERNETES, PROXY_VERSION, Check, Feature
from esipp.checks.model import (
    Backends,
    Balancer,
    EntryKind,
    Family,
    Path,
    Protocol,
    ServiceType,
    TrafficPolicy,
    Vantage,
)
from esipp.checks.reference import (
    AFFINITY_CONFIG,
    ANNOTATIONS_REMOVED,
    EXTERNAL_IPS_POLICY,
    FIELDS_SINCE_1_7,
    HEALTH_DOCUMENT,
    HEALTH_WEIGHT,
    KEP_508,
    KEP_563,
    KEP_580,
    KEP_614,
    KEP_752,
    KEP_1669,
    KEP_1860,
    KEP_1959,
    KEP_2086,
    KEP_3836,
    KEP_4444,
    OWN_TRAFFIC,
    PROXY_HEALTHY,
    TUTORIAL_NODE_PORT,
    Reference,
)

OLDEST = (1, 4)
"""The first Kubernetes version that can preserve the client's source IP: kubernetes/kubernetes#29409."""


def read_version(text: str) -> tuple[int, int] | None:
    """Major and minor of a ``gitVersion`` (``v1.7.16-gke.0``, ``v1.6.4+coreos.0``) or of ``1.5``; None if invalid."""
    found = re.match(r"v?(\d+)\.(\d+)(?![\d])", text)
    return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Need:
    """A version, and the reference for its new feature."""

    since: str
    because: Reference | None

    @cached_property
    def number(self) -> tuple[int, int]:
        """Return the version as comparable numbers.

        Raises:
            ValueError: it is not a version.
        """
        number = read_version(self.since)
        if number is None or self.since != "{}.{}".format(*number):
            raise ValueError(f"'{self.since}' is not a version such as 1.28")
        return number


IPV6 = Need("1.9", KEP_508)
FAMILIES = Need("1.21", KEP_563)
GATES = Need("1.12", KEP_580)
CLASSES = Need("1.22", KEP_1959)
SLICES = Need("1.21", KEP_752)
AFFINITY_TIMEOUT = Need("1.8", AFFINITY_CONFIG)
TERMINATING = Need("1.26", KEP_1669)
SCTP = Need("1.19", KEP_614)
DOCUMENT = Need("1.7", HEALTH_DOCUMENT)
IP_MODE = Need("1.30", KEP_1860)
PROXIES = (Balancer.PROXY, Balancer.PROXY_FORWARDED_FOR, Balancer.PROXY_V1, Balancer.PROXY_V2)
FIELD_RULES = Need("1.7", FIELDS_SINCE_1_7)


def _is_local(path: Path, *types: ServiceType) -> bool:
    service = path.service
    return service is not None and service.policy is TrafficPolicy.LOCAL and service.type in types


def _is_short_circuit(path: Path) -> bool:
    """Return whether a host process dials a Local Service through the short circuit of its own node."""
    own = path.entry.kind is EntryKind.NODE_PORT and path.entry.role is path.client.role
    return (
        path.client.vantage is Vantage.NODE
        and (own or path.entry.kind is EntryKind.VIP)
        and _is_local(path, ServiceType.NODE_PORT, ServiceType.LOAD_BALANCER)
    )


def _is_sent_to_a_proxy(path: Path) -> bool:
    """Return whether a client inside the cluster must reach a proxy by its VIP, and not its own node instead."""
    inside = path.client.vantage is not Vantage.OUTSIDE and path.entry.kind is EntryKind.VIP
    return inside and path.service is not None and path.service.balancer in PROXIES


OF_PATHS: tuple[tuple[Callable[[Path], bool], Need], ...] = (
    (lambda p: _is_local(p, ServiceType.NODE_PORT), Need("1.5", TUTORIAL_NODE_PORT)),
    (lambda p: p.family is Family.IPV6, IPV6),
    (lambda p: bool(p.service and p.service.backends is Backends.NOT_READY), GATES),
    (_is_short_circuit, Need("1.15", OWN_TRAFFIC)),
    (lambda p: bool(p.service and p.protocol is Protocol.SCTP), SCTP),
    (lambda p: bool(p.service and p.service.families), FAMILIES),
    (lambda p: bool(p.service and p.service.internal), Need("1.22", KEP_2086)),
    (lambda p: bool(p.service and p.service.prefers_close), Need("1.31", KEP_4444)),
    (lambda p: bool(p.service and p.service.balancer is not Balancer.DEFAULT), CLASSES),
    (_is_sent_to_a_proxy, IP_MODE),
    (
        lambda p: bool(p.service and p.service.old_form),
        Need("1.8", ANNOTATIONS_REMOVED),
    ),
    (
        lambda p: bool(p.service and p.service.external_ips and p.service.policy),
        Need("1.29", EXTERNAL_IPS_POLICY),
    ),
)
"""Versions for features of paths: of the check's own path and of its controls."""

OF_FEATURES: tuple[tuple[str, Need], ...] = (
    ("family.ipv6", IPV6),
    ("families.dual", FAMILIES),
    *((f"load-balancer.{each.value}", CLASSES) for each in Balancer if each is not Balancer.DEFAULT),
)
"""Versions for other features of a check."""

OF_KUBE_PROXY = frozenset({
    TUTORIAL_NODE_PORT, KEP_508, KEP_563, AFFINITY_CONFIG, KEP_752, KEP_1669, KEP_614, HEALTH_DOCUMENT, KEP_1860,
    OWN_TRAFFIC, KEP_2086, KEP_4444, PROXY_HEALTHY, HEALTH_WEIGHT, KEP_3836,
})  # fmt: skip
"""The references of features that kube-proxy implements. Where it is the service proxy, it must have the version, too,
as it may be older than the API server. All other features are those of the API server and its controllers."""

Rules = tuple[tuple[Mapping[str, str], Need], ...]
"""Versions for checks by their traits; the module ``versions`` of a suite has those of its own checks."""


def needs_kubernetes(check: Check, rules: Rules = ()) -> Need | None:
    """Return the latest version that a check needs; None if all supported versions work."""
    return max(_needs(check, rules), key=lambda need: need.number, default=None)


def needs_kube_proxy(check: Check, rules: Rules = ()) -> Need | None:
    """Return the latest version of kube-proxy that a check needs, where kube-proxy is the service proxy."""
    needs = [need for need in _needs(check, rules) if need.because in OF_KUBE_PROXY]
    return max(needs, key=lambda need: need.number, default=None)


def _needs(check: Check, rules: Rules) -> list[Need]:
    needs = [need for path in check.subject.paths for uses, need in OF_PATHS if uses(path)]
    needs += [need for name, need in OF_FEATURES if name in check.features]
    traits = check.subject.traits
    needs += [need for wanted, need in rules if wanted.items() <= traits.items()]
    return needs + ([Need(check.since, check.since_why)] if check.since else [])


def dated(check: Check, rules: Rules = ()) -> Check:
    """Return the check with its version, as a feature and for reports, and with kube-proxy's as a feature."""
    need, of_proxy = needs_kubernetes(check, rules), needs_kube_proxy(check, rules)
    if need is None:
        return check
    features = check.features | {f"{KUBERNETES}{need.since}"}
    features |= {f"{KUBE_PROXY}{of_proxy.since}"} if of_proxy else set()
    return replace(check, features=features, since=need.since, since_why=need.because)


def version_features(git_version: str, checks: Iterable[Check], kube_proxy: str = "") -> dict[str, Feature]:
    """Return the version features of a cluster; a component with an unreadable version has all of them.

    Args:
        git_version: the API server's version.
        checks: the checks that need them.
        kube_proxy: that of kube-proxy, as in the fact ``PROXY_VERSION``; empty if it is not the service proxy.
    """
    asked = {name for check in checks for name in check.features}
    found: dict[str, Feature] = {}
    for prefix, version, who in ((KUBERNETES, git_version, "the server"), (KUBE_PROXY, kube_proxy, "kube-proxy")):
        has, why = read_version(version), f"{who} is {version.removeprefix('v') or 'of no known version'}"
        numbers = {name: read_version(name.removeprefix(prefix)) or OLDEST for name in asked if name.startswith(prefix)}
        found |= {
            name: Feature(has is None or has >= numbers[name], why) for name in sorted(numbers, key=numbers.__getitem__)
        }
    return found


def versions_at(facts: Mapping[str, str], checks: Iterable[Check]) -> dict[str, Feature]:
    """Return the version features of a cluster with these facts."""
    its = facts.get("service-proxy", "unknown") in ("kube-proxy", "unknown")
    of_proxy = facts.get(PROXY_VERSION, "") if its else ""
    return version_features(facts.get("kubernetes", ""), checks, of_proxy)


def asked_version(text: str) -> tuple[int, int]:
    """Return the version that a user names.

    Raises:
        PreflightError: the text is not a version, or the version is too old.
    """
    version = read_version(text)
    if version is None:
        raise PreflightError(f"'{text}' is not a Kubernetes version.", "use a version such as 1.28 or v1.28.3.")
    check_age(version)
    return version


def check_age(version: tuple[int, int]) -> None:
    """Refuse servers that are older than source IP preservation.

    Raises:
        PreflightError: the version is too old.
    """
    if version < OLDEST:
        raise PreflightError(
            "Kubernetes {}.{} cannot preserve the client's source in any form.".format(*version),
            "Kubernetes 1.4 introduced it, as alpha annotations.",
        )
