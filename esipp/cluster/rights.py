"""The rights that a run needs: exactly what docs/rbac.yaml grants.

A run creates its own namespace, so it needs the rights for that namespace in every namespace.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from esipp.checks.catalog import page, suite_names
from esipp.checks.check import Feature
from esipp.checks.rights import DISCOVERY, Right, rights
from esipp.cluster.client import Cluster
from esipp.cluster.leases import NAME as LEASE
from esipp.judging.scenario import scenarios

PAGE = page("docs/rbac.yaml")
"""The file to apply; other pages are named as in the repository."""

AT_ONCE = 8


COORDINATION, METALLB, CILIUM = "coordination.k8s.io", "metallb.io", "cilium.io"
SYSTEM = "kube-system"

OF_EVERY_RUN = (
    *rights("list", "nodes"),
    *rights("create get list watch delete", "namespaces"),
    *rights("create get list watch delete", "pods"),
    *rights("create", "pods/exec"),
    *rights("get", "pods/log"),
    *rights("create list watch delete", "services"),
    *rights("get", "serviceaccounts"),
    *rights("create", "daemonsets", "apps"),
)
"""The rights for every run, including cleanup."""

OF_DISRUPTIONS = (
    *rights("get patch", "nodes"),
    *rights("create", "pods/eviction"),
    *rights("get", "leases", COORDINATION, SYSTEM, "kube-controller-manager"),
    *rights("get", "leases", COORDINATION, SYSTEM, "kube-scheduler"),
    *rights("get", "leases", COORDINATION, "kube-node-lease"),
)
"""Additional rights for ``--allow-disruptive``."""

OF_FEATURES: Mapping[str, tuple[Right, ...]] = {
    "rights.services-status": rights("patch", "services/status"),
    "rights.node-deletion": rights("delete", "nodes"),
    "rights.endpoint-slices": rights("create patch", "endpointslices", DISCOVERY),
    "rights.kube-proxy": (
        *rights("patch", "configmaps", "", SYSTEM, "kube-proxy"),
        *rights("get patch", "daemonsets", "apps", SYSTEM, "kube-proxy"),
    ),
    "rights.network-agent": rights("get patch", "daemonsets", "apps", SYSTEM, "cilium"),
}
"""Rights for features. Without them, only the checks that need the feature are unsupported."""

OF_THE_API = ("adminnetworkpolicies", "baselineadminnetworkpolicies", "clusternetworkpolicies")
OF_CILIUM = ("ciliumclusterwidenetworkpolicies", "ciliumnetworkpolicies")
OF_CALICO = ("globalnetworkpolicies",)
CILIUMS_ANNOUNCEMENTS = ("ciliumbgpclusterconfigs", "ciliumbgppeeringpolicies", "ciliuml2announcementpolicies")

WELCOME = (
    *rights("get", "configmaps", "", SYSTEM, "kube-proxy"),
    *rights("get", "configmaps", "", SYSTEM, "cilium-config"),
    *rights("list", "bgpadvertisements", METALLB),
    *rights("list", "l2advertisements", METALLB),
    *(right for kind in CILIUMS_ANNOUNCEMENTS for right in rights("list", kind, CILIUM)),
    *rights("list", "leases", COORDINATION, SYSTEM),
    *rights("list", "daemonsets", "apps"),
    *rights("list", "endpointslices", DISCOVERY),
    *rights("list", "events"),
    *rights("create list", "networkpolicies", "networking.k8s.io"),
    *rights("create", "leases", COORDINATION),
    *rights("get patch", "leases", COORDINATION, name=LEASE),
    *(right for kind in OF_THE_API for right in rights("list", kind, "policy.networking.k8s.io")),
    *(right for kind in OF_CILIUM for right in rights("list", kind, CILIUM)),
    *(right for kind in OF_CALICO for right in rights("list", kind, "crd.projectcalico.org")),
)
"""Optional rights. Without them, some facts are unknown, DNS checks do not run, and failures have fewer artefacts.
Other NetworkPolicies stay in force in the run's namespace; cluster-wide ones explain nothing; the run has no Lease."""


def of_pull_secret(namespace: str = "", name: str = "") -> tuple[Right, ...]:
    """The rights for ``--image-pull-secret``: to read the Secret, if one is copied, and to create the copy.

    No account in docs/ has them, because an account that may create Secrets may do much.
    """
    copied = rights("get", "secrets", "", namespace, name) if namespace else ()
    return (*copied, *rights("create", "secrets"))


def needed(suites: Iterable[str], *, disruptive: bool) -> tuple[Right, ...]:
    """The rights that these suites need, each once."""
    asked = frozenset(suites)
    of_suites = (right for each in scenarios() if each.suite in asked for right in each.rights)
    return tuple(dict.fromkeys((*OF_EVERY_RUN, *of_suites, *(OF_DISRUPTIONS if disruptive else ()))))


def needed_by(right: Right) -> tuple[str, ...]:
    """The suites that need a right; none if every run needs it, or only disruptive checks do."""
    if right in OF_EVERY_RUN:
        return ()
    return tuple(dict.fromkeys(each.suite for each in scenarios() if right in each.rights))


def all_rights() -> frozenset[Right]:
    """All rights that any run uses."""
    of_features = (right for those in OF_FEATURES.values() for right in those)
    return frozenset((*needed(suite_names(), disruptive=True), *of_features, *WELCOME))


def lacking(cluster: Cluster, wanted: Iterable[Right]) -> list[Right]:
    """The rights that the account does not have, in order."""
    wanted = list(wanted)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        held = list(pool.map(lambda right: _is_held(cluster, right), wanted))
    return [right for right, there in zip(wanted, held, strict=True) if not there]


def _is_held(cluster: Cluster, right: Right) -> bool:
    namespace, name = right.namespace or None, right.name or None
    return cluster.may(right.verb, right.resource, group=right.group, namespace=namespace, name=name)


def rights_features(cluster: Cluster) -> dict[str, Feature]:
    """The features that depend on rights; a missing one is a lack of the account, not of the cluster."""
    found = {}
    for name, wanted in OF_FEATURES.items():
        missing = ", ".join(map(str, lacking(cluster, wanted)))
        found[name] = Feature(
            not missing, f"the account may not {missing}" if missing else "the account has the rights", ours=True
        )
    return found
