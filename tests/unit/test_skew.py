"""kube-proxy of another version than the API server: what a run finds, and which of both versions decides."""

from dataclasses import replace

import pytest

from esipp.checks.catalog import all_checks
from esipp.checks.check import KUBE_PROXY, PROXY_SKEW, PROXY_VERSION, Check, Fact, missing_features, say_missing
from esipp.checks.expiry import all_claims, sights
from esipp.checks.known_differences import KnownDifference
from esipp.checks.versions import OF_KUBE_PROXY, Need, dated, needs_kube_proxy, version_features, versions_at
from esipp.ledger.reading import Component
from esipp.preflight.components import KUBELET, NETWORK, SERVICE_PROXY
from esipp.preflight.kube_proxy import version_facts
from esipp.report.comparing.environment import name_of
from suites.known_differences.kube_proxy import KEPT_AT_TARGET_PORT
from tests.unit.comparing_world import run_of

SERVER = "v1.36.3"
CHECKS = {check.id: check for check in all_checks()}
SERVICE = {"service-proxy": "kube-proxy", "kubernetes": SERVER}


def proxy(version: str, name: str = "kube-proxy", kind: str = SERVICE_PROXY) -> Component:
    return Component(name, kind, f"registry.k8s.io/{name}:{version}", "", version, f"pods of {version}")


def declared(version: str) -> dict[str, Fact]:
    return {PROXY_VERSION: Fact(version, "DaemonSet kube-proxy")}


def found(*components: Component, of: dict[str, Fact] | None = None, server: str = SERVER) -> dict[str, str]:
    facts = version_facts(server, components, of or {})
    assert all(fact.decided for fact in facts.values())
    return {name: fact.value for name, fact in facts.items()}


# ------------------------------------------------------------------------------------------------------------- facts
def test_without_a_skew_there_is_no_fact_of_one() -> None:
    assert found(proxy("v1.36.3"), of=declared("1.36.3")) == {PROXY_VERSION: "1.36.3"}
    facts = version_facts(SERVER, [proxy("v1.36.3")], declared("1.36.3"))
    assert facts[PROXY_VERSION].decided == "DaemonSet kube-proxy", "as before"
    assert found(proxy("v1.36.1")) == {PROXY_VERSION: "1.36.1"}, "another patch version is no skew"


def test_an_older_kube_proxy_is_told_with_both_versions() -> None:
    facts = version_facts(SERVER, [proxy("v1.33.13")], declared("1.33.13"))
    assert facts[PROXY_VERSION].value == "1.33.13"
    assert facts[PROXY_SKEW].value == "3 minor versions older than the API server"
    assert facts[PROXY_SKEW].decided == "kube-proxy 1.33.13 under the API server 1.36.3"


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("v1.35.4", "1 minor version older than the API server"),
        ("v1.32.13", "4 minor versions older than the API server; Kubernetes does not support this"),
        ("v1.37.0", "1 minor version newer than the API server; Kubernetes does not support this"),
        ("v1.35.4-eksbuild.2", "1 minor version older than the API server"),
    ],
)
def test_what_kubernetes_does_not_support_is_told(version: str, words: str) -> None:
    assert found(proxy(version))[PROXY_SKEW] == words


def test_a_mixed_cluster_has_all_versions_the_oldest_first() -> None:
    facts = version_facts(SERVER, [proxy("v1.36.3"), proxy("v1.9.7"), proxy("v1.33.13")], declared("1.36.3"))
    assert facts[PROXY_VERSION].value == "1.9.7, 1.33.13, 1.36.3"
    assert "1.33.13: pods of v1.33.13; 1.36.3: pods of v1.36.3" in facts[PROXY_VERSION].decided
    half = found(proxy("v1.36.3"), proxy("v1.35.4"))
    assert half[PROXY_SKEW] == "1 minor version older than the API server, as the API server"


def test_pods_go_before_the_daemon_set_and_that_before_kubelets() -> None:
    kubelets = [proxy("v1.34.1", "kubelet", KUBELET), proxy("v1.35.1", "kubelet", KUBELET)]
    others = [proxy("v1.18.6", "cilium", NETWORK), proxy("v9.9.9", "kube-proxy/metrics")]
    assert found(proxy("v1.33.13"), *kubelets, of=declared("1.36.3"))[PROXY_VERSION] == "1.33.13", "static pods, say"
    assert found(*others, *kubelets, of=declared("1.33.13"))[PROXY_VERSION] == "1.33.13"
    assert found(proxy("latest"), *kubelets, of=declared("unknown")) == {PROXY_VERSION: "1.34.1, 1.35.1"}, "a guess"
    assert found() == {PROXY_VERSION: "unknown"}
    assert found(proxy("v1.33.13"), server="mine") == {PROXY_VERSION: "1.33.13"}


# ------------------------------------------------------------------------------------------------- known differences
def test_a_known_difference_of_kube_proxy_goes_by_kube_proxys_version() -> None:
    modes = {"iptables", "ipvs", "nftables"}
    of_kube_proxy = [
        each
        for each in all_claims()
        if ("service-proxy", "kube-proxy") in each.when or modes & {value for _, value in each.when}
    ]
    limits = [limit for each in of_kube_proxy for limit in (each.before, each.since) if limit]
    assert len(limits) > 2
    components = {limit.rpartition(" ")[0] for limit in limits}
    assert components == {PROXY_VERSION, "cilium.version"}, "Cilium may be beside kube-proxy"


@pytest.mark.parametrize(
    ("version", "holds"),
    [("1.33.13", True), ("1.34.0", False), ("1.36.3", False), ("1.33.13, 1.36.3", True), ("unknown", False)],
)
def test_the_api_servers_version_mends_nothing_of_kube_proxy(version: str, holds: bool) -> None:
    for server in ("v1.33.13", "v1.36.3"):
        assert KEPT_AT_TARGET_PORT.holds(SERVICE | {"kubernetes": server, PROXY_VERSION: version}) is holds


def test_a_known_difference_of_some_nodes_alone_does_not_expire() -> None:
    claim: KnownDifference = KEPT_AT_TARGET_PORT
    mixed = SERVICE | {PROXY_VERSION: "1.33.13, 1.36.3"}
    assert claim.divides(mixed)
    assert not sights({claim: frozenset({"a"})}, mixed, {})
    for version in ("1.33.13", "1.36.3", "1.32.1, 1.33.13"):
        assert not claim.divides(SERVICE | {PROXY_VERSION: version})
    assert sights({claim: frozenset({"a"})}, SERVICE | {PROXY_VERSION: "1.33.13"}, {})
    assert not replace(claim, before="").divides(mixed)


# ---------------------------------------------------------------------------------------------------------- features
def lacking(check: Check, server: str, version: str, service_proxy: str = "kube-proxy") -> str:
    facts = {"service-proxy": service_proxy, "kubernetes": server, PROXY_VERSION: version}
    has = versions_at(facts, [check])
    missing = {name: feature for name, feature in missing_features(check, has).items() if name in has}
    return say_missing(check, missing) if missing else ""


def test_what_kube_proxy_does_needs_its_version_too() -> None:
    check = CHECKS["healthcheck.one-pod.ipv4.outside-1-to-endpoint-node.proxy"]
    assert check.since == "1.27"
    assert lacking(check, "v1.29.1", "1.27.3") == lacking(check, "v1.29.1", "unknown") == ""
    said = lacking(check, "v1.29.1", "1.26.9")
    assert said == f"needs kube-proxy 1.27 ({check.since_why}): kube-proxy is 1.26.9"
    assert lacking(check, "v1.29.1", "1.26.9, 1.29.1").endswith("kube-proxy is 1.26.9, 1.29.1"), "the oldest decides"
    assert lacking(check, "v1.29.1", "1.26.9", "cilium") == "", "it is not the service proxy"
    old = lacking(check, "v1.26.9", "1.26.9")
    assert old == f"needs Kubernetes 1.27 ({check.since_why}): the server is 1.26.9", "said once"


def test_what_the_api_server_does_needs_only_its_version() -> None:
    check = CHECKS["healthcheck.lifecycle.kept-on-update"]
    assert check.since == "1.23"
    assert lacking(check, "v1.24.1", "1.21.3") == ""
    assert lacking(check, "v1.22.1", "1.21.3").startswith("needs Kubernetes 1.23")


def test_kube_proxys_version_is_never_later_than_kubernetes() -> None:
    later = set[tuple[str, str]]()
    for check in CHECKS.values():
        names = [each for each in check.features if each.startswith(KUBE_PROXY)]
        assert len(names) <= 1
        for name in names:
            need, whole = Need(name.removeprefix(KUBE_PROXY), None), Need(check.since, None)
            assert need.number <= whole.number, check.id
            later |= {(need.since, whole.since)} if need.number < whole.number else set()
    assert ("1.9", "1.22") in later, "IPv6 is of both, load balancer classes of the API server"
    check = CHECKS["convergence.reference-ecmp.ipv4.steers"]
    assert dated(check) == check


def test_every_reference_to_kube_proxy_is_one_of_a_version() -> None:
    reasons = {check.since_why for check in CHECKS.values()}
    needs = {need.because for check in CHECKS.values() if isinstance(need := needs_kube_proxy(check), Need)}
    assert needs <= OF_KUBE_PROXY
    assert reasons & OF_KUBE_PROXY


def test_nothing_is_unsupported_on_the_lanes_with_a_skew() -> None:
    for version in ("1.35.4", "1.33.13"):
        features = version_features(SERVER, CHECKS.values(), version)
        assert all(feature.present for feature in features.values())


# ----------------------------------------------------------------------------------------------------------- reports
def test_a_run_with_a_skew_is_named_by_both_versions() -> None:
    facts = SERVICE | {"proxy-mode": "iptables", PROXY_VERSION: "1.36.3"}
    usual = name_of(run_of(facts=facts))
    assert "v1.36.3, iptables" in usual
    skewed = name_of(run_of(facts=facts | {PROXY_VERSION: "1.33.13", PROXY_SKEW: "3 minor versions older"}))
    assert "v1.36.3, kube-proxy 1.33.13 iptables" in skewed
