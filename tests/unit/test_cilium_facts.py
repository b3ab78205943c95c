"""Who carries Services is found out and said how: kube-proxy, Cilium in its place, or nobody by a known name."""

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.checks.expiry import all_claims
from esipp.cluster.client import ApiError, Cluster
from esipp.judging.observation import Observation
from esipp.preflight.cilium import read_config, replaces_kube_proxy, sctp_feature, version
from esipp.preflight.facts import measured_facts, proxy_facts
from esipp.probing.prober import Job, Prober

SNAT = {
    "kube-proxy-replacement": "true",
    "bpf-lb-mode": "snat",
    "bpf-lb-acceleration": "disabled",
    "bpf-lb-sock": "true",
    "bpf-lb-sock-hostns-only": "true",
    "routing-mode": "native",
    "kube-proxy-replacement-healthz-bind-address": "[::]:10256",
    "nodeport-addresses": "",
}
"""The ConfigMap of Cilium 1.18.6, as its chart renders it; only what is read."""

KUBEADM = {"config.conf": "mode: nftables\nclusterCIDR: 10.244.0.0/16\n"}


def template(tag: str) -> dict[str, Any]:
    """A DaemonSet's spec, whose one container has an image of this tag."""
    return {"spec": {"template": {"spec": {"containers": [{"image": f"quay.io/cilium/cilium:{tag}"}]}}}}


class FakeCluster:
    """A cluster with these DaemonSets and ConfigMaps; None: they may not be listed."""

    def __init__(self, names: list[str] | None, **configs: Mapping[str, str] | int) -> None:
        self.names, self.configs = names, {name.replace("_", "-"): each for name, each in configs.items()}

    def list(self, _path: str) -> list[dict[str, Any]]:
        if self.names is None:
            raise ApiError(403, "Forbidden", "no", "GET")
        return [{"metadata": {"name": name}} | template("v1.18.6") for name in self.names]

    def request(self, _method: str, path: str) -> dict[str, Any]:
        found = self.configs.get(path.rpartition("/")[2], 404)
        if isinstance(found, int):
            raise ApiError(found, "NotFound" if found == 404 else "Forbidden", "no", f"GET {path}")
        return {"data": dict(found)}


def found(names: list[str] | None, **configs: Mapping[str, str] | int) -> dict[str, str]:
    facts = proxy_facts(cast(Cluster, FakeCluster(names, **configs)))
    assert all(fact.decided for fact in facts.values())
    return {name: fact.value for name, fact in facts.items()}


def test_cilium_in_kube_proxys_place_has_its_own_settings() -> None:
    facts = found(["cilium"], cilium_config=SNAT)
    assert facts["service-proxy"] == "cilium"
    assert facts["network-add-on"] == "cilium"
    assert facts["proxy-mode"] == "eBPF snat"
    assert facts["node-port-addresses"] == "primary"
    assert facts["detect-local"] == facts["masquerade-all"] == "not applicable"
    assert facts["cilium.routing"] == "native"
    assert facts["cilium.version"] == "1.18.6"
    assert facts["cilium.socket-balancing"] == "hosts only"
    assert facts["cilium.kube-proxy-healthz-address"] == "[::]:10256"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("quay.io/cilium/cilium:v1.19.0-rc.1@sha256:00", "1.19.0-rc.1"),
        ("registry:5000/cilium:latest", "unknown"),
        ("mcr.microsoft.com/containernetworking/cilium/cilium:v1.17.4-250610", "1.17.4-250610"),
        ("", "unknown"),
    ],
)
def test_its_version_is_its_images_tag(image: str, expected: str) -> None:
    assert version(image).value == expected


@pytest.mark.parametrize(("mode", "expected"), [("dsr", "eBPF dsr"), ("hybrid", "eBPF hybrid"), ("", "eBPF snat")])
def test_the_mode_is_reported_and_snat_by_default(mode: str, expected: str) -> None:
    fact = read_config(SNAT | {"bpf-lb-mode": mode})["proxy-mode"]
    assert fact.value == expected
    assert ("the default" in fact.decided) is (not mode)


def test_sockets_are_balanced_wherever_kube_proxy_is_replaced() -> None:
    said = {name: value for name, value in SNAT.items() if "sock" not in name}
    assert read_config(said | {"bpf-lb-sock": "false"})["cilium.socket-balancing"].value == "hosts and pods"


@pytest.mark.parametrize("said", ["false", "", None])
def test_sctp_is_not_asked_for_where_cilium_drops_it(said: str | None) -> None:
    for own in (SNAT, {"kube-proxy-replacement": "false"}):
        config = own if said is None else own | {"enable-sctp": said}
        facts = proxy_facts(cast(Cluster, FakeCluster(["cilium", "kube-proxy"], cilium_config=config)))
        values = {name: fact.value for name, fact in facts.items()}
        feature = sctp_feature(values, {name: fact.decided for name, fact in facts.items()})["sctp"]
        assert not feature.present
        assert "enable-sctp" in feature.why
        assert not feature.ours


def test_sctp_is_asked_for_where_cilium_carries_it_or_is_not_there() -> None:
    on = {name: fact.value for name, fact in read_config(SNAT | {"enable-sctp": "true"}).items()}
    assert sctp_feature(on, {}) == {}
    assert sctp_feature(found(["kindnet", "kube-proxy"], kube_proxy=KUBEADM), {}) == {}


def test_addresses_of_node_ports_are_ciliums_own_word() -> None:
    assert read_config(SNAT | {"nodeport-addresses": "10.0.0.0/8 fd00::/8"})["node-port-addresses"].value == (
        "10.0.0.0/8,fd00::/8"
    )


@pytest.mark.parametrize(
    ("value", "replaced"), [("true", True), ("strict", True), ("partial", True), ("false", False), ("disabled", False)]
)
def test_whether_it_replaces_kube_proxy(value: str, replaced: bool) -> None:
    assert replaces_kube_proxy({"kube-proxy-replacement": value}) is replaced
    assert not replaces_kube_proxy({})


@pytest.mark.parametrize(
    ("names", "configs", "proxy", "mode"),
    [
        (["kindnet", "kube-proxy"], {"kube_proxy": KUBEADM}, "kube-proxy", "nftables"),
        (["cilium", "kube-proxy"], {"kube_proxy": KUBEADM, "cilium_config": {"kube-proxy-replacement": "false"}},
         "kube-proxy", "nftables"),
        (["cilium", "kube-proxy"], {"kube_proxy": KUBEADM, "cilium_config": SNAT}, "cilium", "eBPF snat"),
        (["cilium", "kube-proxy"], {"kube_proxy": KUBEADM, "cilium_config": 403}, "kube-proxy", "nftables"),
        (["cilium"], {"kube_proxy": KUBEADM, "cilium_config": SNAT}, "cilium", "eBPF snat"),
        (["cilium"], {"kube_proxy": KUBEADM, "cilium_config": 403}, "cilium", "unknown"),
        (["cilium"], {"cilium_config": {"kube-proxy-replacement": "false"}}, "unknown", "unknown"),
        (["kindnet"], {}, "unknown", "unknown"),
        (None, {"cilium_config": SNAT}, "cilium", "eBPF snat"),
        (None, {"kube_proxy": KUBEADM}, "unknown", "nftables"),
    ],
)  # fmt: skip
def test_who_carries_services(
    names: list[str] | None, configs: dict[str, Mapping[str, str] | int], proxy: str, mode: str
) -> None:
    facts = found(names, **configs)
    assert (facts["service-proxy"], facts["proxy-mode"]) == (proxy, mode)


class Agent:
    """An agent on whose node these ports answer so; others refuse."""

    def __init__(self, **ports: int | str) -> None:
        self.ports = {int(name[1:]): said for name, said in ports.items()}

    def ask(self, job: Job) -> "Future[list[dict[str, Any]]]":
        said = self.ports.get(job.port)
        done: Future[list[dict[str, Any]]] = Future()
        status = {"outcome": "answered", "response": {"status": said}}
        done.set_result([status if said else {"outcome": "refused"}])
        return done

    def submit(self, job: Job) -> "Future[list[Observation]]":
        done: Future[list[Observation]] = Future()
        outcome = str(self.ports.get(job.port, "connection refused"))
        done.set_result([cast(Observation, SimpleNamespace(detail=outcome))])
        return done


def measured(known: dict[str, str], **agents: Agent) -> dict[str, str]:
    facts = measured_facts(cast(dict[str, Prober], agents), known)
    return {name: fact.value for name, fact in facts.items()}


CILIUM = {"service-proxy": "cilium", "network-add-on": "cilium"}
UNKNOWN = {"service-proxy": "unknown", "network-add-on": "kindnet"}


def test_ciliums_agents_are_asked_how_they_are() -> None:
    well, ill = Agent(p9879=200, p10256=200), Agent(p9879=503)
    assert measured(CILIUM, a=well, b=well) == {"cilium.health": "healthy", "cilium.kube-proxy-healthz": "200"}
    assert measured(CILIUM, a=well, b=ill) == {"cilium.health": "mixed", "cilium.kube-proxy-healthz": "mixed"}
    facts = measured_facts(cast(dict[str, Prober], {"a": well, "b": ill}), CILIUM)
    assert facts["cilium.health"].decided == "http://127.0.0.1:9879/healthz: healthy on a, unhealthy on b"


def test_kube_proxys_own_word_goes_before() -> None:
    assert measured({"service-proxy": "kube-proxy"}, a=Agent(p10249="ipvs")) == {"proxy-mode": "ipvs"}
    assert measured(UNKNOWN, a=Agent(p10249="iptables")) == {"proxy-mode": "iptables"}


def test_none_is_said_only_where_nothing_could_be_one() -> None:
    assert measured(UNKNOWN, a=Agent()) == {"service-proxy": "none", "kube-proxy": "absent"}
    assert measured(UNKNOWN | {"network-add-on": "ovnkube-node"}, a=Agent()) == {"kube-proxy": "absent"}
    assert measured(UNKNOWN, a=Agent(p9879=200)) == {}
    assert measured(UNKNOWN) == {}


UNKNOWN_SETTINGS = dict.fromkeys(("proxy-mode", "detect-local", "node-port-addresses", "masquerade-all"), "unknown")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"config.conf": ""},
        {"config.conf": "# nothing"},
        {"config.conf": "just words"},
        {"config.conf": "[1, 2]"},
        {"config.conf": "{unclosed: ["},
        {"kubeconfig.conf": "apiVersion: v1"},
        404,
        403,
    ],
)
def test_a_config_map_without_a_configuration_that_can_be_read_tells_nothing(config: Mapping[str, str] | int) -> None:
    facts = found(["kube-proxy", "kindnet"], kube_proxy=config)
    assert {name: facts[name] for name in UNKNOWN_SETTINGS} == UNKNOWN_SETTINGS
    assert facts["service-proxy"] == "kube-proxy"


def test_an_unknown_setting_excuses_nothing() -> None:
    for claim in all_claims():
        assert not any(value == "unknown" for _, value in claim.when), claim.where
        assert not claim.when or not claim.holds(UNKNOWN_SETTINGS)


def test_kube_proxys_version_is_its_own() -> None:
    assert found(["kube-proxy", "kindnet"], kube_proxy=KUBEADM)["kube-proxy-version"] == "1.18.6"
    assert "kube-proxy-version" not in found(["cilium"], cilium_config=SNAT)


def test_flannel_is_a_network_add_on_with_a_version_and_no_service_proxy() -> None:
    facts = found(["kube-proxy", "kube-flannel-ds"], kube_proxy=KUBEADM)
    assert {name: facts[name] for name in ("network-add-on", "service-proxy", "flannel.version")} == {
        "network-add-on": "kube-flannel-ds",
        "service-proxy": "kube-proxy",
        "flannel.version": "1.18.6",
    }
    assert "flannel.version" not in found(["kube-proxy", "kindnet"], kube_proxy=KUBEADM)
    nobody = {"service-proxy": "unknown", "network-add-on": "kube-flannel-ds"}
    assert measured(nobody, a=Agent())["service-proxy"] == "none"


def test_no_kube_proxy_is_there_where_none_has_the_name_and_none_answers() -> None:
    known = {"service-proxy": "unknown", "network-add-on": "calico-node"}
    assert measured(known, a=Agent()) == {"kube-proxy": "absent"}
    assert measured(known, a=Agent(p10249="iptables")) == {"proxy-mode": "iptables"}, "one answers, as k3s's own"
    assert measured(known, a=Agent(p9879=200)) == {}, "a Cilium by another name"
    assert measured(known | {"network-add-on": "unknown"}, a=Agent()) == {}, "nobody could list DaemonSets"
    assert measured(known) == {}, "nobody was asked"


def test_ciliums_loopback_is_the_configured_one_or_its_default() -> None:
    facts = {name: fact.value for name, fact in read_config(SNAT).items()}
    assert facts["cilium.loopback.ipv4"] == "169.254.42.1"
    config = read_config({**SNAT, "ipv4-service-loopback-address": "169.254.7.7"})
    assert config["cilium.loopback.ipv4"].value == "169.254.7.7"


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ({"kube-proxy-replacement": "true"}, "balanced"),
        ({"kube-proxy-replacement": "strict"}, "balanced"),
        ({"kube-proxy-replacement": "partial"}, "not balanced"),
        ({"kube-proxy-replacement": "partial", "bpf-lb-sock": "true"}, "balanced"),
        ({"kube-proxy-replacement": "probe", "enable-host-reachable-services": "true"}, "balanced"),
    ],
)
def test_sockets_of_hosts_are_balanced_where_the_configuration_says_so(config: dict[str, str], value: str) -> None:
    assert read_config(config)["cilium.sockets-of-hosts"].value == value
