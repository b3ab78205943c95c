"""The rights that a run needs: exactly what docs/rbac.yaml grants.

A run creates its own namespace, so it needs the rights for that namespace in every namespace.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from esipp.checks.check import Feature
from esipp.cluster.client import Cluster
from esipp.cluster.leases import NAME as LEASE

PAGE = "docs/rbac.yaml"
AT_ONCE = 8


@dataclass(frozen=True)
class Right:
    """A verb on a resource or subresource (``pods/exec``), in every namespace or one, on every object or one."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        if self.name:
            return f"{self.verb} {self.resource} {self.namespace}/{self.name}".replace(" /", " ")
        return f"{self.verb} {self.resource}" + (f" in {self.namespace}" if self.namespace else "")

    def is_held(self, cluster: Cluster) -> bool:
        """Whether the account has the right."""
        return cluster.may(
            self.verb, self.resource, group=self.group, namespace=self.namespace or None, name=self.name or None
        )


def _rights(verbs: str, resource: str, group: str = "", namespace: str = "", name: str = "") -> tuple[Right, ...]:
    return tuple(Right(verb, resource, group, namespace, name) for verb in verbs.split())


DISCOVERY, COORDINATION, METALLB = "discovery.k8s.io", "coordination.k8s.io", "metallb.io"
SYSTEM = "kube-system"
GATES = _rights("patch", "pods/status")
SLICES = _rights("list watch", "endpointslices", DISCOVERY)

OF_EVERY_RUN = (
    *_rights("list", "nodes"),
    *_rights("create get list watch delete", "namespaces"),
    *_rights("create get list watch delete", "pods"),
    *_rights("create", "pods/exec"),
    *_rights("get", "pods/log"),
    *_rights("create list watch delete", "services"),
    *_rights("get", "serviceaccounts"),
    *_rights("create", "daemonsets", "apps"),
)
"""The rights for every run, including cleanup."""

OF_SUITES: Mapping[str, tuple[Right, ...]] = {
    "health_checks": (*GATES, *_rights("get patch update", "services")),
    "interoperability": (*GATES, *_rights("get patch", "services"), *_rights("list", "endpointslices", DISCOVERY)),
    "compatibility": _rights("get patch update", "services"),
    "convergence": (*GATES, *SLICES),
    "continuity": (*GATES, *SLICES, *_rights("patch", "services"), *_rights("create patch", "deployments", "apps")),
}
"""Additional rights of suites, which set pods' readiness gates and change Services."""

OF_DISRUPTIONS = (
    *_rights("get patch", "nodes"),
    *_rights("create", "pods/eviction"),
    *_rights("get", "leases", COORDINATION, SYSTEM, "kube-controller-manager"),
    *_rights("get", "leases", COORDINATION, SYSTEM, "kube-scheduler"),
    *_rights("get", "leases", COORDINATION, "kube-node-lease"),
)
"""Additional rights for ``--allow-disruptive``."""

OF_FEATURES: Mapping[str, tuple[Right, ...]] = {"rights.services-status": _rights("patch", "services/status")}
"""Rights for features. Without them, only the checks that need the feature are unsupported."""

OF_THE_API = ("adminnetworkpolicies", "baselineadminnetworkpolicies", "clusternetworkpolicies")
OF_CILIUM = ("ciliumclusterwidenetworkpolicies", "ciliumnetworkpolicies")
OF_CALICO = ("globalnetworkpolicies",)

WELCOME = (
    *_rights("get", "configmaps", "", SYSTEM, "kube-proxy"),
    *_rights("get", "configmaps", "", SYSTEM, "cilium-config"),
    *_rights("list", "bgpadvertisements", METALLB),
    *_rights("list", "l2advertisements", METALLB),
    *_rights("list", "daemonsets", "apps"),
    *_rights("list", "endpointslices", DISCOVERY),
    *_rights("list", "events"),
    *_rights("create list", "networkpolicies", "networking.k8s.io"),
    *_rights("create", "leases", COORDINATION),
    *_rights("get patch", "leases", COORDINATION, name=LEASE),
    *(right for kind in OF_THE_API for right in _rights("list", kind, "policy.networking.k8s.io")),
    *(right for kind in OF_CILIUM for right in _rights("list", kind, "cilium.io")),
    *(right for kind in OF_CALICO for right in _rights("list", kind, "crd.projectcalico.org")),
)
"""Optional rights. Without them, some facts are unknown, DNS checks do not run, and failures have fewer artefacts.
Other NetworkPolicies stay in force in the run's namespace; cluster-wide ones explain nothing; the run has no Lease."""


def of_pull_secret(namespace: str = "", name: str = "") -> tuple[Right, ...]:
    """The rights for ``--image-pull-secret``: to read the Secret, if one is copied, and to create the copy.

    No account in docs/ has them, because an account that may create Secrets may do much.
    """
    copied = _rights("get", "secrets", "", namespace, name) if namespace else ()
    return (*copied, *_rights("create", "secrets"))


def needed(suites: Iterable[str], *, disruptive: bool) -> tuple[Right, ...]:
    """The rights that these suites need, each once."""
    of_suites = (right for suite in suites for right in OF_SUITES.get(suite, ()))
    return tuple(dict.fromkeys((*OF_EVERY_RUN, *of_suites, *(OF_DISRUPTIONS if disruptive else ()))))


def needed_by(right: Right) -> tuple[str, ...]:
    """The suites that need a right; none if every run needs it, or only disruptive checks do."""
    return () if right in OF_EVERY_RUN else tuple(suite for suite, rights in OF_SUITES.items() if right in rights)


def all_rights() -> frozenset[Right]:
    """All rights that any run uses."""
    of_features = (right for those in OF_FEATURES.values() for right in those)
    return frozenset((*needed(OF_SUITES, disruptive=True), *of_features, *WELCOME))


def lacking(cluster: Cluster, rights: Iterable[Right]) -> list[Right]:
    """The rights that the account does not have, in order."""
    rights = list(rights)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        held = list(pool.map(lambda right: right.is_held(cluster), rights))
    return [right for right, there in zip(rights, held, strict=True) if not there]


def rights_features(cluster: Cluster) -> dict[str, Feature]:
    """The features that depend on rights; a missing one is a lack of the account, not of the cluster."""
    found = {}
    for name, rights in OF_FEATURES.items():
        missing = ", ".join(map(str, lacking(cluster, rights)))
        found[name] = Feature(
            not missing, f"the account may not {missing}" if missing else "the account has the rights", ours=True
        )
    return found
