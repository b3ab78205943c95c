"""What the API server has to allow a run: what docs/rbac.yaml grants, and no more.

The run's namespace is its own and made by it, so that what is done there has to be allowed in every namespace.
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
    """A verb on a resource, which may name a subresource (``pods/exec``); in every namespace, or in one only, where
    ``name`` is the one object that is meant.
    """

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
        """Whether our account holds it."""
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
"""What a run does, clean-up included."""

OF_SUITES: Mapping[str, tuple[Right, ...]] = {
    "health_checks": (*GATES, *_rights("get patch update", "services")),
    "interoperability": (*GATES, *_rights("get patch", "services"), *_rights("list", "endpointslices", DISCOVERY)),
    "compatibility": _rights("get patch update", "services"),
    "convergence": (*GATES, *SLICES),
    "continuity": (*GATES, *SLICES, *_rights("patch", "services"), *_rights("create patch", "deployments", "apps")),
}
"""What only one suite does: pods are made ready and unready by their readiness gate, Services are changed."""

OF_DISRUPTIONS = (
    *_rights("get patch", "nodes"),
    *_rights("create", "pods/eviction"),
    *_rights("get", "leases", COORDINATION, SYSTEM, "kube-controller-manager"),
    *_rights("get", "leases", COORDINATION, SYSTEM, "kube-scheduler"),
    *_rights("get", "leases", COORDINATION, "kube-node-lease"),
)
"""What ``--allow-disruptive`` adds."""

OF_FEATURES: Mapping[str, tuple[Right, ...]] = {"rights.services-status": _rights("patch", "services/status")}
"""Without these the checks that need the feature are unsupported, and all others are asked."""

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
"""Without these facts are unknown, names are not asked for, a failure has fewer files that explain it,
NetworkPolicies that others put into the run's namespace stay there, those of the whole cluster explain nothing, and no
Lease says that the run is at work."""


def of_pull_secret(namespace: str = "", name: str = "") -> tuple[Right, ...]:
    """What ``--image-pull-secret`` adds: no account of docs/ holds it, as whoever may make Secrets may do much.

    The Secret that is copied, where one is, and the copy in the run's namespace.
    """
    copied = _rights("get", "secrets", "", namespace, name) if namespace else ()
    return (*copied, *_rights("create", "secrets"))


def needed(suites: Iterable[str], *, disruptive: bool) -> tuple[Right, ...]:
    """The rights without which these suites cannot be run, each once."""
    of_suites = (right for suite in suites for right in OF_SUITES.get(suite, ()))
    return tuple(dict.fromkeys((*OF_EVERY_RUN, *of_suites, *(OF_DISRUPTIONS if disruptive else ()))))


def needed_by(right: Right) -> tuple[str, ...]:
    """The suites that cannot be run without a right; none where every run needs it, or nothing but disruptions."""
    return () if right in OF_EVERY_RUN else tuple(suite for suite, rights in OF_SUITES.items() if right in rights)


def all_rights() -> frozenset[Right]:
    """All that any run makes use of."""
    of_features = (right for those in OF_FEATURES.values() for right in those)
    return frozenset((*needed(OF_SUITES, disruptive=True), *of_features, *WELCOME))


def lacking(cluster: Cluster, rights: Iterable[Right]) -> list[Right]:
    """Those of the rights that our account does not hold, in their order."""
    rights = list(rights)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        held = list(pool.map(lambda right: right.is_held(cluster), rights))
    return [right for right, there in zip(rights, held, strict=True) if not there]


def rights_features(cluster: Cluster) -> dict[str, Feature]:
    """The features that stand for a right; a missing one is the account's lack, not the cluster's."""
    found = {}
    for name, rights in OF_FEATURES.items():
        missing = ", ".join(map(str, lacking(cluster, rights)))
        found[name] = Feature(
            not missing, f"the account may not {missing}" if missing else "the account may", ours=True
        )
    return found
