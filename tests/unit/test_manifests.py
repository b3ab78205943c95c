"""What is deployed, as plain dicts: one object a shape, with every port that its checks dial."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from esipp.checks.model import Backends, Balancer, Path, Port, Protocol, ServiceType, TrafficPolicy
from esipp.probing.prober import Job
from esipp.testbed import manifests
from esipp.testbed.agents import daemon_set
from esipp.testbed.manifests import BACKEND_LABEL, PAIR_LABEL, Numbers
from tests.unit.world import CHECKS

RUN = "0101-000000-abcd"
PATHS = {path for path_check in CHECKS for path in path_check.subject.paths if path.service}


def objects() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in PATHS:
        found.setdefault(path.object_name, []).append(path)
    return found


def made(name: str, **given: Any) -> dict[str, Any]:
    return manifests.service(name, objects()[name], RUN, **given)


def ports(name: str) -> dict[str, dict[str, Any]]:
    return {port["name"]: port for port in made(name)["spec"]["ports"]}


# ------------------------------------------------------------------------------------------------------------ objects
def test_one_object_has_one_shape() -> None:
    assert [name for name, paths in objects().items() if len({path.service for path in paths}) > 1] == []


def test_names_are_those_of_services() -> None:
    assert [name for name in objects() if len(name) > 63 or not name.replace("-", "").isalnum()] == []


def test_load_balancers_have_an_object_a_protocol_and_no_other_type_has() -> None:
    for name, paths in objects().items():
        protocols = {path.protocol for path in paths}
        assert paths[0].service is not None
        if paths[0].service.type is ServiceType.LOAD_BALANCER:
            assert len(protocols) == 1, name
            assert name.endswith(f"-{next(iter(protocols)).value.lower()}")
    assert {path.protocol for path in objects()["nodeport-local"]} == set(Protocol)


def test_every_path_finds_its_port_in_its_object() -> None:
    for name, paths in objects().items():
        result = ports(name)
        assert {f"{path.port.label}-{path.protocol.value.lower()}" for path in paths} == set(result), name
        numbers = [(port["protocol"], port["port"]) for port in result.values()]
        assert len(numbers) == len(set(numbers)), f"{name} has a port twice"
        assert all(1 <= port["port"] <= 65535 for port in result.values())
        assert all(len(port) <= 15 for port in result), "a port's name is a DNS label of 15 at most"


# -------------------------------------------------------------------------------------------------------------- ports
def test_each_kind_of_port() -> None:
    result = ports("nodeport-local-several-ports")
    assert (result["main-tcp"]["port"], result["main-tcp"]["targetPort"]) == (80, manifests.TCP)
    assert (result["main-udp"]["port"], result["main-udp"]["targetPort"]) == (80, manifests.UDP)
    assert (result["named-tcp"]["port"], result["named-tcp"]["targetPort"]) == (81, "tcp")
    assert result["same-udp"]["port"] == result["same-udp"]["targetPort"] == manifests.UDP
    assert (result["http-tcp"]["port"], result["http-tcp"]["targetPort"]) == (8000, manifests.HTTP)


def test_named_target_ports_are_names_of_the_backends() -> None:
    pod = manifests.echo_pod("backend", RUN, "node", "image", raw=True)
    names = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    result = {port["targetPort"] for name in objects() for port in made(name)["spec"]["ports"]}
    assert {target for target in result if isinstance(target, str)} <= names


def test_a_host_network_backend_is_reached_at_this_runs_own_ports() -> None:
    result = ports("nodeport-local-host-network")
    own = Numbers.of(RUN).backend(Backends.HOST_NETWORK)
    assert result["main-tcp"]["targetPort"] == own["tcp"]
    pod = manifests.host_backend("backend-host", RUN, "node", "image", raw=False, labels={})
    assert {p["name"]: p["containerPort"] for p in pod["spec"]["containers"][0]["ports"]} == own


def test_every_echo_server_gets_the_token_that_jobs_send() -> None:
    pods = [
        manifests.echo_pod("backend", RUN, "node", "image", raw=False),
        manifests.host_backend("backend-host", RUN, "node", "image", raw=False, labels={}),
        manifests.agent_pod("agent", RUN, "node", "image", raw=True),
        {"spec": daemon_set(RUN, "image", ["node"], raw=True)["spec"]["template"]["spec"]},
    ]
    sent = Job("key", "udp", "192.0.2.1", 80, 1, 1.0).order("1")["token"]
    assert len(sent) == 32
    for pod in pods:
        result = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        assert result["ESIPP_TOKEN"] == sent


# ------------------------------------------------------------------------------------------------------------ numbers
def test_numbers_of_a_run_do_not_meet_each_other_or_those_of_another_use() -> None:
    for run in (RUN, "another", ""):
        numbers = Numbers.of(run)
        used = [
            *numbers.backend(Backends.HOST_NETWORK).values(),
            *(numbers.external(policy) for policy in (None, *TrafficPolicy)),
            numbers.agent_sctp,
        ]
        assert len(used) == len(set(used))
        assert all(20000 <= number < 30000 for number in used), "below nodePorts and ephemeral ports"
    assert Numbers.of(RUN) == Numbers.of(RUN)
    assert Numbers.of(RUN) != Numbers.of("another")


def test_external_ips_have_a_port_for_each_policy() -> None:
    """Services share these addresses, so the port alone tells them apart."""
    own = [port["port"] for name in objects() if "external-ips" in name for port in made(name)["spec"]["ports"]]
    assert len(set(own)) == len([name for name in objects() if "external-ips" in name]) > 1
    spec = made("external-ips-local", external_ips=["192.0.2.1"])["spec"]
    assert (spec["type"], spec["externalIPs"], spec["externalTrafficPolicy"]) == ("ClusterIP", ["192.0.2.1"], "Local")


# --------------------------------------------------------------------------------------------------------------- spec
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("clusterip", {"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"}),
        ("clusterip-itp-local", {"internalTrafficPolicy": "Local"}),
        ("nodeport-local", {"type": "NodePort", "externalTrafficPolicy": "Local"}),
        ("nodeport-local-only-ipv6", {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}),
        ("loadbalancer-local-first-ipv6-tcp", {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}),
        ("nodeport-local-not-ready-publish-not-ready", {"publishNotReadyAddresses": True}),
        ("nodeport-local-pair-affinity", {"sessionAffinity": "ClientIP"}),
    ],
)
def test_a_trait_is_in_the_spec(name: str, wanted: dict[str, Any]) -> None:
    spec = made(name)["spec"]
    assert {key: spec[key] for key in wanted} == wanted


def test_what_is_unset_is_left_out() -> None:
    assert "externalTrafficPolicy" not in made("nodeport-unset")["spec"]
    assert set(made("clusterip")["spec"]) == {"type", "selector", "ports", "ipFamilyPolicy"}


def test_source_ranges_are_those_given() -> None:
    spec = made("loadbalancer-local-source-ranges-tcp", ranges=["192.0.2.1/32", "2001:db8::1/128"])["spec"]
    assert spec["loadBalancerSourceRanges"] == ["192.0.2.1/32", "2001:db8::1/128"]


def test_selectors_find_the_backends_that_are_meant() -> None:
    def labels(backends: Backends) -> Iterable[dict[str, str]]:
        own = {path.service for path in PATHS if path.service and path.service.backends is backends}
        return (made(name)["spec"]["selector"] for name, paths in objects().items() if paths[0].service in own)

    assert all(each[PAIR_LABEL] == "yes" and BACKEND_LABEL not in each for each in labels(Backends.PAIR))
    for backends in (Backends.POD, Backends.HOST_NETWORK, Backends.NOT_READY):
        assert all(each[BACKEND_LABEL] == backends.value and PAIR_LABEL not in each for each in labels(backends))


def test_the_default_load_balancer_is_asked_for_by_no_class() -> None:
    default = [n for n, p in objects().items() if p[0].service and p[0].service.balancer is Balancer.DEFAULT]
    assert all("loadBalancerClass" not in made(name)["spec"] for name in default)


def test_the_reference_load_balancer_is_asked_for_by_its_mode() -> None:
    result = {}
    for name, paths in objects().items():
        service = paths[0].service
        if service and service.balancer is not Balancer.DEFAULT:
            result[service.balancer] = made(name)["spec"]["loadBalancerClass"]
    assert result == {each: f"esipp.dev/{each.value}" for each in Balancer if each is not Balancer.DEFAULT}


# --------------------------------------------------------------------------------------------------------------- pods
def security(pod: dict[str, Any]) -> tuple[int, list[str]]:
    container = pod["spec"]["containers"][0]
    return pod["spec"]["securityContext"]["runAsUser"], container["securityContext"]["capabilities"].get("add", [])


def test_only_raw_sockets_get_root_and_a_capability() -> None:
    plain = manifests.echo_pod("backend", RUN, "node", "image", raw=False)
    assert security(plain) == (65532, [])
    assert plain["spec"]["securityContext"]["runAsNonRoot"]
    assert security(manifests.echo_pod("backend", RUN, "node", "image", raw=True)) == (0, ["NET_RAW"])


def test_a_pod_that_is_never_ready_differs_in_its_gate_only() -> None:
    pod = manifests.echo_pod("backend-not-ready", RUN, "node", "image", raw=False)
    gated = manifests.gated(manifests.echo_pod("backend-not-ready", RUN, "node", "image", raw=False))
    assert gated["spec"].pop("readinessGates") == [{"conditionType": "esipp.dev/ready"}]
    assert gated == pod


def test_a_service_that_prefers_close_endpoints_says_so_and_no_other_does() -> None:
    for name, paths in objects().items():
        shape = paths[0].service
        assert shape is not None
        said = made(name)["spec"].get("trafficDistribution")
        assert said == ("PreferClose" if shape.prefers_close else None)
    assert any(paths[0].service and paths[0].service.prefers_close for paths in objects().values())


def test_shapes_are_shared() -> None:
    path = next(path for path in PATHS if path.object_name == "nodeport-local")
    assert replace(path, port=Port.HTTP).object_name == path.object_name
