"""Which load balancer a cluster has, how long it is waited for, what contradicts it: from objects of recorded shape."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ci import lane_file
from esipp.base.json import Json
from esipp.checks.model import AddressClass, Family, Outcome
from esipp.checks.profile import ABOUT
from esipp.checks.timing import Checking
from esipp.cluster.client import ApiError, Cluster
from esipp.disruption.cleanup import REMOVED, removal_budget
from esipp.judging.observation import Observation
from esipp.ledger.run import Run
from esipp.loadbalancers.detection import BOUND, Detected, detect, find, look_again, platform_of
from esipp.loadbalancers.profile_findings import (
    Behaviour,
    behaviour,
    class_of,
    of_behaviour,
    of_checks,
    of_internal,
    of_status,
    of_vips,
    of_words,
)
from esipp.loadbalancers.profiles.loading import all_profiles, named
from esipp.loadbalancers.reference import as_it_runs
from esipp.loadbalancers.timeouts import USUAL, steering_of, timeouts_of
from esipp.preflight.steps import objects_of
from esipp.report.markdown import render as markdown
from esipp.report.terminal import summary
from esipp.scenarios.balancer_facts import observed_behaviour, settle_balancer, steers_of
from esipp.scenarios.paths.evidence import Steer
from esipp.testbed.testbed import Testbed
from images.loadbalancer.balancer.settings import parse
from tests.unit.report_world import made
from tests.unit.test_testbed import announced
from tests.unit.world import ADDRESS_OF, CLIENT_ADDRESSES, by_id, topology

KNOWN = all_profiles()


# ------------------------------------------------------------------------------------------------------ whose nodes
def node(provider: str = "", kubelet: str = "v1.36.1", **labels: str) -> Json:
    spec = {"providerID": provider} if provider else {}
    labelled = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return {
        "metadata": {"name": "n", "labels": labelled},
        "spec": spec,
        "status": {"nodeInfo": {"kubeletVersion": kubelet}},
    }


KIND = [node("kind://docker/esipp/esipp-worker"), node("kind://docker/esipp/esipp-control-plane")]
GKE = [node("gce://my-project/europe-west1-b/gke-a-default-pool-1", "v1.33.4-gke.1245000",
            **{"cloud.google.com__gke-nodepool": "default-pool"})]  # fmt: skip
GCE = [node("gce://my-project/europe-west1-b/worker-1")]
AKS = [node("azure:///subscriptions/0/resourceGroups/mc_x/providers/Microsoft.Compute/virtualMachineScaleSets/y/1",
            **{"kubernetes.azure.com__cluster": "MC_x"})]  # fmt: skip
EKS = [node("aws:///eu-central-1a/i-0123456789abcdef0", "v1.33.3-eks-3abbec1")]
AWS = [node("aws:///eu-central-1a/i-0123456789abcdef0")]
OPENSTACK = [node("openstack:///f0e1")]
K3S = [node("k3s://alpha", "v1.33.1+k3s1")]
BARE = [node()]


@pytest.mark.parametrize(
    ("nodes", "platform", "how"),
    [
        (KIND, "kind", "providerID kind:// of 2 nodes"),
        (GKE, "gke", "label cloud.google.com/gke-nodepool of 1 node"),
        (GCE, "gce", "providerID gce:// of 1 node"),
        (AKS, "aks", "label kubernetes.azure.com/cluster of 1 node"),
        ([node("azure:///x")], "azure", "providerID azure:// of 1 node"),
        (EKS, "eks", "kubelet version …-eks-… of 1 node"),
        (AWS, "aws", "providerID aws:// of 1 node"),
        (OPENSTACK, "openstack", "providerID openstack:// of 1 node"),
        ([node("k3s://a"), node("", "v1.33.1+k3s1")], "k3s", "kubelet version …+k3s…; providerID k3s:// of 2 nodes"),
        (BARE, "unknown", "no providerID of 1 node"),
        ([node("vsphere://4203")], "unknown", "providerID vsphere:// of 1 node"),
        ([*GCE, *AWS, *AWS], "mixed", "nodes differ: 2 x aws, 1 x gce"),
        ([], "unknown", "there are no nodes"),
    ],
    ids=str,
)
def test_whose_machines_the_nodes_are(nodes: list[Json], platform: str, how: str) -> None:
    found = platform_of(nodes)
    assert (found.value, found.decided) == (platform, how)


# --------------------------------------------------------------------------------------------- which load balancer
def service(
    *ingress: Json, finalizers: tuple[str, ...] = (), annotations: dict[str, str] | None = None, **more: Any
) -> Json:
    return {
        "metadata": {"finalizers": list(finalizers), "annotations": annotations or {}},
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": list(ingress)}, **more},
    }


AT_AWS = "service.beta.kubernetes.io/aws-load-balancer-"
NLB = {"hostname": "k8s-esipp-a-0123456789-0123456789abcdef.elb.eu-central-1.amazonaws.com"}
CLB = {"hostname": "a0123456789abcdef0123456789abcdef-1234567890.eu-central-1.elb.amazonaws.com"}
LBC = ("service.k8s.aws/resources",)
POOL = {"metallb.io/ip-allocated-from-pool": "kind"}
PROXY_MODE = {"ip": "172.18.0.9", "ipMode": "Proxy"}
PLS = {"service.beta.kubernetes.io/azure-pls-create": "true"}
MONITOR = {"loadbalancer.openstack.org/enable-health-monitor": "true"}
OCTAVIA = {"loadbalancer.openstack.org/load-balancer-id": "f0e1"}


@pytest.mark.parametrize(
    ("platform", "workloads", "services", "names"),
    [
        ("kind", [], [], ""),
        ("kind", ["metallb-system/speaker", "metallb-system/controller"], [], "metallb-bgp metallb-l2"),
        ("kind", ["metallb-system/speaker/frr"], [service({"ip": "172.18.255.1"}, annotations=POOL)],
         "metallb-bgp metallb-l2"),
        ("kind", [], [service(PROXY_MODE)], "cloud-provider-kind"),
        ("unknown", [], [service(PROXY_MODE)], ""),
        ("unknown", ["kube-vip-ds"], [], "kube-vip"),
        ("unknown", ["kube-vip", "metallb-system/speaker"], [service(annotations=POOL)], "metallb-bgp metallb-l2"),
        ("unknown", [], [service(conditions=[{"type": "cilium.io/IPAMRequestSatisfied"}])], "cilium-bgp cilium-l2"),
        ("gke", [], [], "gke-legacy"),
        ("gke", [], [service(finalizers=("gke.networking.io/l4-netlb-v2",))], "gke-rbs"),
        ("gke", [], [service(finalizers=("gke.networking.io/l4-ilb-v2",),
                             annotations={"networking.gke.io/load-balancer-type": "Internal"})], "gke-subsetting"),
        ("gce", [], [], "gce"),
        ("aks", [], [service({"ip": "192.0.2.1"})], "aks"),
        ("azure", [], [], "aks"),
        ("aks", [], [service(annotations=PLS)], "azure-private-link"),
        ("eks", [], [], "aws-clb"),
        ("eks", [], [service(CLB)], "aws-clb"),
        ("eks", [], [service(CLB, annotations={f"{AT_AWS}proxy-protocol": "*"})], "aws-clb-proxy"),
        ("eks", ["aws-load-balancer-controller"], [], "eks-nlb-instance"),
        ("eks", ["aws-load-balancer-controller"], [service(NLB, finalizers=LBC)], "eks-nlb-instance"),
        ("eks", [], [service(NLB, annotations={f"{AT_AWS}type": "nlb"})], "aws-nlb"),
        ("eks", [], [service(NLB, finalizers=LBC, annotations={f"{AT_AWS}nlb-target-type": "ip"})], "eks-nlb-ip"),
        ("eks", [], [service(NLB, finalizers=LBC, annotations={f"{AT_AWS}type": "nlb-ip"})], "eks-nlb-ip"),
        ("eks", [], [service(NLB, finalizers=LBC, annotations={f"{AT_AWS}proxy-protocol": "*"})],
         "eks-nlb-instance-proxy-v2"),
        ("eks", [], [service(NLB, finalizers=LBC, annotations={f"{AT_AWS}proxy-protocol": "*",
            f"{AT_AWS}nlb-target-type": "ip"})], "eks-nlb-ip-proxy-v2"),
        ("eks", [], [service(NLB, finalizers=LBC, annotations={
            f"{AT_AWS}target-group-attributes": "preserve_client_ip.enabled=true", f"{AT_AWS}nlb-target-type": "ip"})],
         "eks-nlb-ip-preserve"),
        ("openstack", [], [], "octavia-amphora"),
        ("openstack", [], [service({"ip": "192.0.2.1"}, annotations=OCTAVIA)], "octavia-amphora"),
        ("openstack", [], [service(annotations=OCTAVIA | MONITOR)],
         "octavia-amphora-monitor"),
        ("k3s", ["svclb-traefik-1a2b"], [], "k3s-servicelb"),
        ("k3s", ["metallb-system/speaker"], [], "metallb-bgp metallb-l2"),
        ("mixed", [], [], ""),
    ],
    ids=str,
)  # fmt: skip
def test_which_load_balancer_is_found(platform: str, workloads: list[str], services: list[Json], names: str) -> None:
    found, how = find(KNOWN, platform, workloads, services)
    assert " ".join(profile.name for profile in found) == names
    assert how


def test_how_it_was_decided_is_reported() -> None:
    seen = detect(KNOWN, KIND, ["metallb-system/controller", "metallb-system/speaker"])
    facts = seen.facts()
    assert (facts["platform"].value, facts["platform"].decided) == ("kind", "providerID kind:// of 2 nodes")
    assert facts["load-balancer.profile"].value == "metallb-bgp or metallb-l2"
    assert facts["load-balancer.profile"].decided == "pods of metallb-system/controller"
    later = look_again(KNOWN, seen, [], [service(annotations=POOL)])
    assert later.fact.decided == "the Services' annotation metallb.io/ip-allocated-from-pool"
    assert facts["load-balancer.bound"].value == "none"
    clb = detect(KNOWN, EKS, []).facts()["load-balancer.bound"]
    assert (clb.value, clb.decided) == ("70 s", "(N+1) x period of aws-clb, derived")
    nothing = detect(KNOWN, KIND, [])
    assert "load-balancer.bound" not in nothing.facts()
    assert (nothing.fact.value, nothing.fact.decided) == ("unknown", "no known load balancer on kind")


def test_what_is_named_overrides_what_is_found_and_the_fact_says_both() -> None:
    seen = detect(KNOWN, GKE, [], named("gke-rbs"))
    assert seen.profiles == (named("gke-rbs"),)
    assert seen.fact.decided == "--provider; detected: gke-legacy (the default on gke)"
    assert of_words(seen) == [], "a variant of what is found"
    later = look_again(KNOWN, seen, [], [service(finalizers=("gke.networking.io/l4-netlb-v2",))])
    assert later.named
    assert later.fact.decided == "--provider; detected: gke-rbs (the Services' finalizer gke.networking.io/l4-netlb-v2)"


# ------------------------------------------------------------------------------------------------ contradictions
def named_as(name: str, nodes: list[Json] | None = None, workloads: tuple[str, ...] = ()) -> Detected:
    return detect(KNOWN, BARE if nodes is None else nodes, workloads, named(name))


def sentences(found: list[Any]) -> list[str]:
    return [f"{each.about}: {each.sentence}" for each in found]


def test_a_provider_that_cannot_be_is_a_finding() -> None:
    assert sentences(of_words(named_as("aks", EKS))) == [
        "platform: --provider says aks, which belongs to aks or azure; the nodes are on eks "
        "(kubelet version …-eks-… of 1 node)"
    ]
    assert of_words(named_as("aks", BARE)) == [], "nobody knows what these are"
    assert of_words(detect(KNOWN, EKS, [])) == [], "nothing was named"


def test_another_one_than_is_found_is_a_finding() -> None:
    assert sentences(of_words(named_as("kube-vip", KIND, ("metallb-system/speaker",)))) == [
        "profile: --provider says kube-vip; detected: metallb-bgp or metallb-l2 (pods of metallb-system/speaker)"
    ]
    assert of_words(named_as("metallb-l2", KIND, ("metallb-system/speaker",))) == []


@pytest.mark.parametrize(
    ("name", "ingress", "about"),
    [
        ("gke-rbs", "VIP", ""),
        ("gke-rbs", "Proxy", "ip-mode class"),
        ("gke-rbs", "hostname", "form"),
        ("gke-rbs", "none", ""),
        ("aws-clb", "hostname", ""),
        ("aws-clb", "VIP", "form"),
        ("cloud-provider-kind", "VIP", "ip-mode"),
        ("octavia-amphora", "VIP", ""),
        ("octavia-amphora", "Proxy", ""),
        ("haproxy", "VIP", ""),
    ],
)
def test_how_a_vip_is_announced_may_contradict(name: str, ingress: str, about: str) -> None:
    assert " ".join(each.about for each in of_status(named_as(name), ingress)) == about


@pytest.mark.parametrize(("families", "said"), [("IPv4", []), ("IPv4 IPv6", ["families"])])
def test_a_vip_of_a_family_that_is_said_not_to_be_carried_is_a_finding(families: str, said: list[str]) -> None:
    found = of_vips(named_as("gce"), {Family(each) for each in families.split()})
    assert [each.about for each in found] == said
    assert [each.sentence for each in found] == ["gce does not support IPv6; our Services have such VIPs"] * len(said)


def counted(**local: int) -> Behaviour:
    return Behaviour(Counter({AddressClass(name): count for name, count in local.items()}), others=("203.0.113.9",))


@pytest.mark.parametrize(
    ("internal", "vips", "expected"),
    [
        (True, ["10.1.2.3", "100.64.0.9", "2600:1901::1"], ""),
        (True, ["10.1.2.3", "34.90.1.2", "34.90.1.2"], "34.90.1.2"),
        (False, ["34.90.1.2"], ""),
    ],
)
def test_a_public_address_where_load_balancers_were_to_be_internal_is_a_finding(
    internal: bool, vips: list[str], expected: str
) -> None:
    found = [each.sentence for each in of_internal(internal, vips)]
    assert found == [each for each in found if f"have public addresses: {expected};" in each]
    assert bool(found) is bool(expected)


@pytest.mark.parametrize(
    ("name", "seen", "said"),
    [
        ("gke-rbs", counted(client=9), ""),
        ("gke-rbs", counted(other=9),
         "class: gke-rbs is a forwarder; under Local pods saw others (203.0.113.9), as behind a proxy"),
        ("gke-rbs", counted(node=9), "source: gke-rbs keeps the client's address under Local; pods saw a node"),
        ("gke-rbs", counted(client=8, node=1), ""),
        ("gke-rbs", counted(), ""),
        ("octavia-amphora", counted(other=9), ""),
        ("octavia-amphora", counted(client=9),
         "class: octavia-amphora is a proxy; under Local pods saw the client's own address"),
        ("eks-nlb-ip", counted(load_balancer=1), ""),
    ],
    ids=str,
)  # fmt: skip
def test_whose_address_pods_see_may_contradict(name: str, seen: Behaviour, said: str) -> None:
    assert "; ".join(sentences(of_behaviour(named_as(name), seen))) == said


@pytest.mark.parametrize(
    ("name", "period", "said"),
    [
        ("gke-legacy", 8.02, ""),
        ("gke-legacy", None, ""),
        ("gke-legacy", 3.0, "period: gke-legacy probes every 8 s; packets show 3 s"),
        ("metallb-l2", 1.0, "checks: metallb-l2 makes no health checks; packets show one every 1 s"),
        (
            "octavia-amphora",
            5.0,
            "checks: octavia-amphora makes health checks only on request; packets show one every 5 s",
        ),
        ("octavia-amphora-monitor", 5.0, ""),
    ],
    ids=str,
)
def test_health_checks_in_packets_may_contradict(name: str, period: float | None, said: str) -> None:
    assert "; ".join(sentences(of_checks(named_as(name), Checking(period, 2)))) == said


def test_where_several_fit_only_what_contradicts_all_is_a_finding() -> None:
    both = detect(KNOWN, KIND, ["metallb-system/speaker"])
    assert [each.about for each in of_status(both, "Proxy")] == ["ip-mode", "class"]
    one_fits = Detected(both.platform, (named("gke-rbs"), named("octavia-amphora")))
    assert of_behaviour(one_fits, counted(other=3)) == []
    assert of_behaviour(Detected(both.platform), counted(other=3)) == [], "nothing is known that could be contradicted"


LOCAL, CLUSTER = "loadbalancer.local.tcp.ipv4.outside-1-to-vip", "loadbalancer.cluster.tcp.ipv4.outside-1-to-vip"
INSIDE, NODE_PORT = (
    "loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip",
    "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node",
)


def observed(path: Any, address: str) -> Observation:
    source = CLIENT_ADDRESSES[path.client.name][Family.IPV4]
    return Observation(path.key, 1, Outcome.ANSWERED, source=(source, 40000), seen=(address, 40000))


@pytest.mark.parametrize(
    ("profiles", "ingress", "seen", "kind", "decided"),
    [
        (["gke-rbs"], "VIP", None, "forwarder", "gke-rbs"),
        (["aws-clb"], "hostname", None, "proxy", "aws-clb"),
        (["gke-rbs"], "Proxy", None, "proxy", "ipMode Proxy in the Services' status"),
        ([], "VIP", None, "forwarder", "ipMode VIP in the Services' status, or none, which means the same"),
        ([], "hostname", None, "unknown", "neither the Services' status nor packets show it"),
        (
            ["gke-rbs"],
            "VIP",
            counted(other=3),
            "proxy",
            "under Local pods saw 203.0.113.9, never the client's own address",
        ),
        (["aws-clb"], "hostname", counted(client=3), "forwarder", "under Local pods saw the client's own address"),
        (["gke-rbs"], "VIP", counted(node=3), "unknown", "under Local pods saw a node"),
        (["gke-rbs"], "VIP", counted(), "forwarder", "gke-rbs"),
    ],
    ids=str,
)
def test_forwarder_or_proxy_by_packets_then_status_then_profile(
    profiles: list[str], ingress: str, seen: Behaviour | None, kind: str, decided: str
) -> None:
    detected = Detected(platform_of(BARE), tuple(map(named, profiles)), how="x")
    found = class_of(detected, ingress, seen)
    assert (found.value, found.decided) == (kind, decided)


def test_behaviour_counts_clients_outside_at_vips_of_the_clusters_own() -> None:
    paths = {name: by_id(name).subject.path for name in (LOCAL, CLUSTER, INSIDE, NODE_PORT)}
    client = CLIENT_ADDRESSES["outside-1"][Family.IPV4]
    other = ADDRESS_OF[AddressClass.OTHER][Family.IPV4]
    observations = {
        paths[LOCAL].key: [observed(paths[LOCAL], client), observed(paths[LOCAL], other)],
        paths[CLUSTER].key: [observed(paths[CLUSTER], ADDRESS_OF[AddressClass.NODE][Family.IPV4])],
        paths[INSIDE].key: [observed(paths[INSIDE], other)],
        paths[NODE_PORT].key: [observed(paths[NODE_PORT], other)],
    }
    seen = behaviour(observations, paths.values(), topology())
    assert dict(seen.local) == {AddressClass.CLIENT: 1, AddressClass.OTHER: 1}
    assert dict(seen.cluster) == {AddressClass.NODE: 1}
    assert seen.others == (other,)


# -------------------------------------------------------------------------------------------------------- patience
def test_what_nobody_knows_of_is_waited_for_as_ever() -> None:
    assert timeouts_of(()) == USUAL == timeouts_of([])
    assert (USUAL.assigned, USUAL.answering, USUAL.removed, USUAL.steering) == (60, 30, 90, None)
    kind = timeouts_of(detect(KNOWN, KIND, ["metallb-system/speaker"]).profiles)
    assert (kind.assigned, kind.answering, kind.removed, kind.steering, kind.remark) == (60, 30, 90, None, "")
    assert kind.named("load balancers to get their VIPs") == "load balancers to get their VIPs"


def test_a_cloud_is_waited_for_as_long_as_it_may_take() -> None:
    nlb = timeouts_of([named("eks-nlb-instance")])
    assert (nlb.assigned, nlb.answering, nlb.removed, nlb.steering) == (900, 600, 900, 30)
    assert nlb.named("load balancers to get their VIPs") == (
        "load balancers to get their VIPs (an NLB takes 3 to 5 minutes)"
    )
    both = timeouts_of([named("gke-legacy"), named("gke-subsetting")])
    assert both.steering == 63, "the most that any of them needs"


def asked(*families: str, protocol: str = "TCP", **spec: Any) -> Json:
    return {"spec": {"ipFamilies": list(families), "ports": [{"protocol": protocol}], **spec}}


def test_a_vip_that_is_not_carried_is_not_waited_for() -> None:
    gce = timeouts_of([named("gce")])
    assert gce.expected(asked("IPv4", "IPv6")) == {Family.IPV4}
    assert gce.expected(asked("IPv6")) == set()
    assert gce.expected(asked("IPv4", protocol="SCTP")) == set()
    assert gce.expected(asked("IPv4", protocol="SCTP", loadBalancerClass="esipp.dev/x")) == {Family.IPV4}
    assert USUAL.expected(asked("IPv4", "IPv6", protocol="SCTP")) == {Family.IPV4, Family.IPV6}


def test_what_is_only_found_may_carry_more_than_is_known_of_it() -> None:
    found = timeouts_of([named("aws-clb")], sure=False)
    assert found.expected(asked("IPv4", "IPv6", protocol="UDP")) == {Family.IPV4, Family.IPV6}
    assert found.assigned == 900


QUIET: Any = SimpleNamespace(list=lambda _path, **_query: [])
"""A cluster without events."""


def test_the_testbed_goes_by_it() -> None:
    gce = Testbed(QUIET, "run", "image", {}, {}, patience=timeouts_of([named("gce")]))
    single = announced({"ip": "192.0.2.1"})
    assert gce._is_announced(single)
    assert gce._is_announced(announced(families=("IPv6",))), "nothing is to come"
    assert not gce._is_announced(announced(families=("IPv4",)))
    assert not Testbed(cast(Any, None), "run", "image", {}, {})._is_announced(single)
    why = gce._why_no_vip(asked("IPv6", protocol="SCTP"), Family.IPV6)
    assert why == "according to its profile, the load balancer has no IPv6 VIPs for SCTP"
    assert "after 900 s" in gce._why_no_vip(asked("IPv4"), Family.IPV4)


def test_the_slowest_load_balancer_here_says_for_how_long_pods_serve_on() -> None:
    assert steering_of([], {}) is None
    assert steering_of([], {"period": 8.0, "unhealthy": 3, "timeout": 1.0}) == 32.0
    assert steering_of([named("gke-legacy")], {"period": 1.0, "unhealthy": 2}) == 32.0
    assert steering_of([named("aws-clb")], {}) == 70.0


@pytest.mark.parametrize(
    ("families", "spec", "known"),
    [("IPv6", {}, True), ("IPv4", {}, False), ("IPv6", {"loadBalancerClass": "esipp.dev/x"}, False)],
)
def test_what_was_only_found_is_a_hint_where_no_vip_came(families: str, spec: Json, known: bool) -> None:
    found = detect(KNOWN, GKE, [])
    assert (found.named_profile, {each.name for each in found.profiles} != set()) == (None, True)
    single = replace(found, profiles=(named("gce"),))
    made = Testbed(QUIET, "run", "image", {}, {}, balancer=single)
    said = made._why_no_vip(asked(families, **spec), Family(families))
    assert said.startswith("timed out after 60 s waiting for a VIP: ")
    assert ("confirm that with --provider gce" in said) is known


@pytest.mark.parametrize(("nodes", "seconds"), [(KIND, 330), (BARE, 330), (EKS, 900), (GKE, 900)], ids=str)
def test_what_a_killed_run_left_on_a_cloud_may_take_longer_to_go(nodes: list[Json], seconds: float) -> None:
    asked: list[str] = []
    cluster: Any = SimpleNamespace(list=lambda path: asked.append(path) or nodes)
    assert removal_budget(cluster).seconds == seconds
    assert asked == ["/api/v1/nodes"]


def test_where_nodes_may_not_be_listed_it_takes_as_long_as_ever() -> None:
    def refuse(_path: str) -> list[Json]:
        raise ApiError(403, "Forbidden", "no", "GET nodes")

    assert removal_budget(cast(Any, SimpleNamespace(list=refuse))) == REMOVED


def settled(folder: Path, before: Detected, *services: Json, ingress: str = "VIP") -> tuple[Any, dict[str, str]]:
    """The report of a run whose stage has these Services, and the facts that are gone by."""
    facts = {name: fact.value for name, fact in before.facts().items()}
    findings: Any = SimpleNamespace(balancer=before, components=(), facts=facts, decided={})
    vips = {number: {Family.IPV4: "192.0.2.1"} for number in range(len(services))}
    ingresses = {f"service-{number}": ingress for number in range(len(services))}
    testbed: Any = SimpleNamespace(
        services=dict(enumerate(services)), ingress=ingress, ingresses=ingresses, balancer=before, vips=vips,
        cluster=None, namespace="esipp-1",
    )  # fmt: skip
    return made(folder, more=lambda run: settle_balancer(run, findings, testbed)), facts


def test_what_became_of_our_services_is_a_fact_and_may_be_a_finding(tmp_path: Path) -> None:
    before = detect(KNOWN, KIND, [])
    run, facts = settled(tmp_path / "a", before, service(PROXY_MODE), ingress="Proxy")
    assert run.facts["load-balancer.profile"].value == facts["load-balancer.profile"] == "cloud-provider-kind"
    assert run.facts["load-balancer.profile"].decided == "the Services' ipMode Proxy"
    assert run.facts["load-balancer.class"].value == facts["load-balancer.class"] == "proxy"
    assert run.notes == []
    run, _ = settled(tmp_path / "b", named_as("gke-rbs", GKE), service(PROXY_MODE), ingress="Proxy")
    assert [about for about, _ in run.notes] == [ABOUT, ABOUT]
    assert run.facts["load-balancer.profile"].value == "gke-rbs"


def test_how_each_service_is_announced_and_its_named_class_are_facts(tmp_path: Path) -> None:
    run, facts = settled(tmp_path / "a", named_as("gke-rbs", GKE), service(PROXY_MODE), ingress="hostname")
    assert facts["load-balancer.ingress.service-0"] == "hostname"
    assert facts["load-balancer.class.named"] == run.facts["load-balancer.class.named"].value == "forwarder"
    _, facts = settled(tmp_path / "b", detect(KNOWN, KIND, []), service(PROXY_MODE), ingress="Proxy")
    assert facts["load-balancer.ingress.service-0"] == "Proxy"
    assert "load-balancer.class.named" not in facts, "a profile that was only found decides nothing"
    _, facts = settled(tmp_path / "c", detect(KNOWN, KIND, []), service({}), ingress="VIP")
    assert "load-balancer.ingress.service-0" not in facts


def test_changes_of_routes_are_those_of_our_own_services_in_the_window() -> None:
    steer = {"namespace": "ours", "service": "web", "family": "IPv6", "kind": "steer", "monotonic": 12.5}
    others = [
        {**steer, "namespace": "theirs"},
        {**steer, "kind": "health"},
        {**steer, "monotonic": 9.0},
        {"kind": "vip", "namespace": "ours"},
    ]
    assert steers_of([*others, steer], "ours", 10.0) == (Steer("web", Family.IPV6, 12.5),)


def test_whose_address_pods_saw_has_the_last_word(tmp_path: Path) -> None:
    path, other = by_id(LOCAL).subject.path, ADDRESS_OF[AddressClass.OTHER][Family.IPV4]
    seen = {path.key: [observed(path, other)]}
    findings: Any = SimpleNamespace(facts={})
    testbed: Any = SimpleNamespace(balancer=named_as("gke-rbs", GKE), ingress="VIP")
    run = made(tmp_path / "run", more=lambda run: observed_behaviour(run, findings, testbed, seen, [path], topology()))
    assert run.facts["load-balancer.class"].value == findings.facts["load-balancer.class"] == "proxy"
    assert [note.partition(";")[0] for _, note in run.notes] == ["gke-rbs is a forwarder"]


def test_services_of_another_class_say_nothing_of_the_clusters_own(tmp_path: Path) -> None:
    other = service(PROXY_MODE)
    other["spec"]["loadBalancerClass"] = "esipp.dev/reference-proxy"
    run, facts = settled(tmp_path / "run", detect(KNOWN, KIND, []), other)
    assert "load-balancer.profile" not in run.facts, "it stands as it was found before"
    assert facts["load-balancer.profile"] == "unknown"


# ------------------------------------------------------------------------------------------------------ the reports
def test_a_contradiction_is_reported_once_wherever_people_read(tmp_path: Path) -> None:
    sentence = "gke-rbs is a forwarder; under Local pods saw others (203.0.113.9), as behind a proxy"
    said: list[str] = []

    def note(run: Run) -> None:
        run.say = said.append
        run.note(ABOUT, sentence)
        run.note(ABOUT, sentence)
        run.note("components", "a note of another kind")

    run = made(tmp_path / "run", more=note, provider="gke-rbs")
    assert run.notes == [(ABOUT, sentence), ("components", "a note of another kind")]
    assert said == [f"{ABOUT}: {sentence}", "components: a note of another kind"]
    lines = [line for line in summary(run) if line.strip().startswith("load balancer profile: ")]
    assert len(lines) == 1
    assert sentence.split(";")[0] in lines[0]
    assert "under Local pods saw others" in markdown(run)
    assert not any("another kind" in line for line in summary(run))
    assert run.header["provider"] == "gke-rbs"
    assert "--provider gke-rbs" in run.header["command"]


# ------------------------------------------------------------------------------------------- by objects of its own
METALLB = ["metallb-system/controller", "metallb-system/speaker"]
BGP, L2 = "metallb.io/v1beta1/bgpadvertisements", "metallb.io/v1beta1/l2advertisements"


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        ({BGP: True, L2: False}, "metallb-bgp"),
        ({BGP: False, L2: True}, "metallb-l2"),
        ({BGP: True, L2: True}, "metallb-bgp or metallb-l2"),
        ({BGP: False, L2: False}, "unknown"),  # somebody else announces what it hands out
        ({BGP: False}, "metallb-l2"),
        ({}, "metallb-bgp or metallb-l2"),
    ],
)
def test_by_which_protocol_metallb_announces_is_known_by_its_objects(objects: dict[str, bool], names: str) -> None:
    seen = detect(KNOWN, KIND, METALLB, objects=objects)
    assert seen.fact.value == names
    assert look_again(KNOWN, seen, METALLB, [service(annotations=POOL)]).fact.value == names


def test_how_it_was_decided_names_the_objects() -> None:
    how = detect(KNOWN, KIND, METALLB, objects={BGP: True, L2: False}).fact.decided
    assert how == f"pods of metallb-system/controller; objects in {BGP}"


OF_L2 = "cilium.io/v2alpha1/ciliuml2announcementpolicies"
OF_BGP, OLD_BGP = "cilium.io/v2/ciliumbgpclusterconfigs", "cilium.io/v2alpha1/ciliumbgpclusterconfigs"
SATISFIED = service({"ip": "192.0.2.1"}, conditions=[{"type": "cilium.io/IPAMRequestSatisfied"}])


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        ({OF_L2: True, OF_BGP: False}, "cilium-l2"),
        ({OF_L2: False, OF_BGP: True, OLD_BGP: True}, "cilium-bgp"),
        ({OF_L2: False, OF_BGP: False}, "unknown"),
    ],
)
def test_how_cilium_announces_is_known_by_its_objects(objects: dict[str, bool], names: str) -> None:
    seen = detect(KNOWN, KIND, [], objects=objects)
    assert seen.fact.value == names
    assert look_again(KNOWN, seen, [], [SATISFIED]).fact.value == names


def test_metallb_on_cilium_is_metallb_although_cilium_announces_something_by_bgp() -> None:
    seen = detect(KNOWN, KIND, METALLB, objects={BGP: False, L2: True, OF_L2: False, OF_BGP: True, OLD_BGP: True})
    assert look_again(KNOWN, seen, METALLB, [service(annotations=POOL)]).fact.value == "metallb-l2"


def test_ciliums_objects_are_looked_for_where_it_is_the_network_add_on() -> None:
    cluster = Lists(ciliuml2announcementpolicies=1, ciliumbgpclusterconfigs=0, ciliumbgppeeringpolicies=404)
    assert objects_of(cast(Cluster, cluster), KNOWN, [], ["cilium", "cilium-operator"])[OF_L2] is True
    assert objects_of(cast(Cluster, Lists()), KNOWN, [], ["kindnet"]) == {}
    assert detect(KNOWN, KIND, ["cilium"]).fact.value == "unknown", "Cilium alone is no load balancer"


class Lists:
    """A cluster that answers what is listed, or refuses with a status."""

    def __init__(self, **answers: int) -> None:
        self.answers, self.asked = answers, list[str]()

    def request(self, _method: str, path: str, *, query: dict[str, str]) -> Json:
        self.asked.append(path)
        said = self.answers[path.rpartition("/")[2]]
        if said > 1:
            raise ApiError(said, "", "", path)
        return {"items": [{}] * said}


def test_objects_are_looked_for_where_their_pods_are() -> None:
    cluster = Lists(bgpadvertisements=1, l2advertisements=0)
    assert objects_of(cast(Cluster, cluster), KNOWN, METALLB) == {BGP: True, L2: False}
    nobody = Lists()
    assert objects_of(cast(Cluster, nobody), KNOWN, ["kube-vip-ds"]) == {}
    assert nobody.asked == []


def test_what_may_not_be_read_is_left_open_and_what_does_not_exist_is_empty() -> None:
    assert objects_of(cast(Cluster, Lists(bgpadvertisements=403, l2advertisements=404)), KNOWN, METALLB) == {L2: False}


# ------------------------------------------------------------------------------------- the reference one, as it runs
SERVER = ["--server", "https://192.0.2.1", "--pool", "192.0.2.0/28"]


def runs_with(*options: str) -> dict[str, Any]:
    return dict(parse([*SERVER, *options]).as_json())


@pytest.mark.parametrize("name", ["reference-forward", "reference-proxy"])
def test_the_profile_of_the_reference_has_its_own_defaults(name: str) -> None:
    for check in (named(name).local, named(name).cluster):
        figures = {each: getattr(check, each).value for each in ("period", "timeout", "healthy", "unhealthy")}
        assert figures == runs_with()


def test_bounds_are_of_what_truly_runs() -> None:
    lane = lane_file.load("kind-iptables")
    found = as_it_runs(detect(KNOWN, KIND, []), KNOWN, runs_with("--default", "reference-ecmp", *lane.balancer_options))
    (running,) = found.profiles
    assert running.local.timeout
    assert (running.name, running.local.timeout.value) == ("reference-forward", lane_file.PATIENCE)
    assert (running.local.bound, running.local.silent_bound) == (3, 3 + 2 * lane_file.PATIENCE)
    slow = as_it_runs(found, KNOWN, runs_with("--default", "reference-proxy", "--period", "4", "--unhealthy", "3"))
    assert slow.facts()[BOUND].value == "16 s"
    assert look_again(KNOWN, slow, [], [service(PROXY_MODE)]) == slow, "it said so itself"
    assert slow.named_profile is None


@pytest.mark.parametrize("options", [[], ["--period", "4"]], ids=str)
def test_a_reference_that_serves_its_own_classes_says_nothing_of_the_clusters(options: list[str]) -> None:
    before = detect(KNOWN, KIND, ["metallb-system/speaker"])
    assert as_it_runs(before, KNOWN, runs_with(*options)) == as_it_runs(before, KNOWN, {}) == before


def test_dressed_as_a_cloud_it_is_taken_for_that() -> None:
    before = named_as("gke-legacy")
    assert as_it_runs(before, KNOWN, runs_with("--default", "reference-ecmp")) == before
    own = as_it_runs(named_as("reference-forward"), KNOWN, runs_with("--default", "reference-ecmp", "--period", "4"))
    assert (own.named, own.facts()[BOUND].value) == (True, "12 s")
