"""Lanes with another data plane: what a lane says and its kind config fit, and Cilium gets the values of both."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from ci import cilium, cluster, lane, lane_file, lane_lists, network, ways
from ci.access import ClusterAccess
from ci.hermetic import cilium as hermetic_cilium
from ci.hermetic import golang
from ci.hermetic.engine import Engine
from ci.places import Places, versions
from ci.step import Journal, SetupError, Step
from ci.ways import Hermetic, Official

PLAIN = {"networking": {"ipFamily": "dual", "kubeProxyMode": "iptables"}}
BARE = {"networking": {"ipFamily": "dual", "kubeProxyMode": "none", "disableDefaultCNI": True}}
BOTH = {"network": "cilium", "service_proxy": "cilium"}


def made(tmp_path: Path, said: dict[str, Any], config: dict[str, object]) -> lane_file.Lane:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return replace(lane_file.load("kind-iptables"), kind_config=path, **said)


def test_a_lane_that_says_nothing_has_kube_proxy(tmp_path: Path) -> None:
    assert not made(tmp_path, {}, PLAIN).has_cilium


def test_cilium_is_both(tmp_path: Path) -> None:
    assert made(tmp_path, {**BOTH, "cilium_values": {"a": 1}}, BARE).has_cilium


@pytest.mark.parametrize(
    ("said", "config", "why"),
    [
        ({"service_proxy": "cilium"}, PLAIN, "the service proxy 'cilium' needs the network 'cilium', not 'built-in'"),
        ({"network": "cilium"}, BARE, "see kubeProxyMode"),
        ({"load_balancers": ("cilium-l2", "reference")}, PLAIN, "enables cilium-l2, but has no Cilium"),
        (BOTH, PLAIN, "see disableDefaultCNI"),
        (BOTH, {"networking": {"disableDefaultCNI": True}}, "see kubeProxyMode"),
        ({}, BARE, "see disableDefaultCNI"),
        ({}, {"networking": {"kubeProxyMode": "none"}}, "see kubeProxyMode"),
        ({"cilium_values": {"a": 1}}, PLAIN, "has 'cilium_values', but no Cilium"),
        ({"cilium": "v1.19.1"}, PLAIN, "has 'cilium', but no Cilium"),
        ({"network": "flannel"}, PLAIN, "see disableDefaultCNI"),
        ({"network": "flannel", "masquerade": True}, BARE, "'masquerade', which is for the built-in network"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, said: dict[str, object], config: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        made(tmp_path, said, config)


@pytest.mark.parametrize("other", ["metallb-bgp", "cilium-bgp"])
def test_services_without_a_class_have_one_load_balancer(tmp_path: Path, other: str) -> None:
    text = yaml.safe_load((lane_file.LANES / "kind-iptables.yaml").read_text())
    text["load_balancers"] = ["metallb-l2", other]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(text))
    with pytest.raises(SetupError, match=f"it enables metallb-l2 and {other}; one of them serves"):
        lane_file.load("mine", lanes=tmp_path)


def test_cilium_beside_kube_proxy_replaces_nothing_of_it() -> None:
    lane = lane_file.load("kind-cilium-kube-proxy")
    found = cilium.values(lane)
    assert lane.has_cilium
    assert found["kubeProxyReplacement"] is found["socketLB"]["enabled"] is found["bpf"]["masquerade"] is False
    assert not found["kubeProxyReplacementHealthzBindAddr"], "that port is kube-proxy's"
    config = yaml.safe_load(cluster.config_of(lane, hermetic=True))
    assert "addon/kube-proxy" not in {phase for patch in config["kubeadmConfigPatches"] for phase in _skipped(patch)}


@pytest.mark.parametrize("own", [True, False])
def test_socket_programs_act_on_nodes_alone(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def ask(_: ClusterAccess, *words: str, **__: object) -> str | None:
        asked.append(words[3])
        return "" if own else None

    monkeypatch.setattr(ClusterAccess, "ask", ask)
    monkeypatch.setattr(network, "node_addresses", lambda _: {"esipp-worker": [], "esipp-worker2": []})
    there = ClusterAccess("hermetic", "kind-cilium-sockets", "v1.36.3", "node:1")
    if own:
        cilium.check_cgroups(there, there.lane)
        assert asked == ["esipp-worker", "esipp-worker2"]
        return
    with pytest.raises(SetupError, match=r"esipp-worker has no cgroup v2 of its own.*act on all of this machine"):
        cilium.check_cgroups(there, there.lane)
    only = [each.name for each in lane_lists.lanes("*") if each.has_cilium
            and not cilium.values(each)["socketLB"]["hostNamespaceOnly"]]  # fmt: skip
    assert only == ["kind-cilium-sockets"]


def test_dsr_goes_through_no_vxlan() -> None:
    """Cilium's agent refuses both together: its DSR through a tunnel needs Geneve."""
    found = cilium.values(lane_file.load("kind-cilium-vxlan"))
    assert (found["routingMode"], found["tunnelProtocol"], found["loadBalancer"]["mode"]) == ("tunnel", "vxlan", "snat")
    assert found["autoDirectNodeRoutes"] is False


@pytest.mark.parametrize("lane", lane_lists.lanes("kind-cilium*"), ids=lambda lane: lane.name)
def test_lb_ipam_serves_services_without_a_class_only_where_the_lane_names_ciliums_load_balancer(
    lane: lane_file.Lane,
) -> None:
    found, own = cilium.values(lane), set(lane.load_balancers) & {lane_file.CILIUM_L2, lane_file.CILIUM_BGP}
    assert (found["defaultLBServiceIPAM"] == "lbipam") is bool(own)
    assert found.get("l2announcements", {"enabled": False})["enabled"] is (own == {lane_file.CILIUM_L2})
    assert found.get("bgpControlPlane", {"enabled": False})["enabled"] is (own == {lane_file.CILIUM_BGP})


def test_kubeadm_brings_no_kube_proxy_where_none_is_wanted() -> None:
    for name, there in (("kind-cilium", True), ("kind-iptables", False)):
        config = yaml.safe_load(cluster.config_of(lane_file.load(name), hermetic=True))
        skipped = [phase for patch in config["kubeadmConfigPatches"] for phase in _skipped(patch)]
        assert ("addon/kube-proxy" in skipped) is there
        assert {"preflight", "addon/coredns"} <= set(skipped)


def test_a_kept_cluster_of_other_values_is_another_one() -> None:
    lanes = [lane_file.load(name) for name in ("kind-cilium", "kind-cilium-dsr", "kind-cilium-hybrid")]
    assert len({cluster.config_of(lane, hermetic=True) for lane in lanes}) == len(lanes)
    again = replace(lanes[0], cilium_values={})
    assert cluster.config_of(lanes[0], hermetic=True) == cluster.config_of(again, hermetic=True)


def _skipped(patch: str) -> list[str]:
    found: list[str] = yaml.safe_load(patch).get("skipPhases", [])
    return found


def test_values_are_those_of_all_lanes_then_of_the_kind_config_then_the_lanes_own() -> None:
    found = cilium.values(lane_file.load("kind-cilium-dsr"))
    assert found["loadBalancer"] == {"mode": "dsr"}
    assert found["kubeProxyReplacement"] is True
    assert found["k8sServiceHost"] == "esipp-control-plane"
    assert (found["ipv4NativeRoutingCIDR"], found["ipv6NativeRoutingCIDR"]) == ("10.244.0.0/16", "fd00:10:244::/56")
    assert found["operator"] == {"image": {"useDigest": False}, "replicas": 1}
    assert cilium.values(lane_file.load("kind-cilium"))["loadBalancer"] == {"mode": "snat"}


def test_a_family_that_pods_do_not_have_is_off(tmp_path: Path) -> None:
    config = tmp_path / "four.yaml"
    config.write_text(yaml.safe_dump({"networking": {**BARE["networking"], "podSubnet": "10.244.0.0/16"}}))
    found = cilium.values(replace(lane_file.load("kind-cilium"), kind_config=config))
    assert found["ipv6"] == {"enabled": False}
    assert "ipv6NativeRoutingCIDR" not in found


@pytest.mark.parametrize("version", golang.cilium_versions())
def test_each_version_of_cilium_has_a_module_that_pins_it_and_a_commit(version: str) -> None:
    build = golang.cilium(version)
    build._check_version()
    (define,) = build.defines
    assert f"={version.removeprefix('v')} " in define
    assert re.fullmatch(r"([0-9a-f]{12}|unknown) \d{4}-\d\d-\d\dT\S+", versions()["cilium"]["commits"][version])


def test_the_versions_of_lanes_have_modules_and_the_default_one_is_that_of_kind_cilium() -> None:
    found = {lane.name: lane.cilium_version for lane in lane_lists.lanes("kind-cilium*")}
    assert set(found.values()) <= set(golang.cilium_versions()) == set(versions()["cilium"]["commits"])
    assert found["kind-cilium"] == versions()["cilium"]["default"] == found["kind-cilium-dsr"]
    for name, version in found.items():
        minor = name.removeprefix("kind-cilium-")
        assert not minor[0].isdigit() or version.startswith(f"v{minor}."), name


def test_a_lane_runs_on_another_version_of_cilium(tmp_path: Path) -> None:
    usual, other = lane_file.load("kind-cilium"), lane_file.load("kind-cilium", cilium="v1.19.1")
    assert (other.cilium_version, replace(other, cilium=None)) == ("v1.19.1", usual)
    assert cluster.config_of(usual, hermetic=True) != cluster.config_of(other, hermetic=True), "another cluster"
    with pytest.raises(SetupError, match=r"'1\.19' is not a version"):
        lane_file.load("kind-cilium", cilium="1.19")
    with pytest.raises(SetupError, match="has 'cilium', but no Cilium"):
        lane_file.load("kind-iptables", cilium="v1.19.1")
    with pytest.raises(SetupError, match=r"Cilium v1\.2\.3 has no Go module"):
        golang.cilium("v1.2.3")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--lane", "kind-cilium", "--cilium", "v1.2.3"], "Cilium v1.2.3 has no Go module"),
        (["--lane", "kind-cilium", "--cilium-agent", "v1.2.3"], "Cilium v1.2.3 has no Go module"),
        (["--lane", "kind-iptables", "--cilium-agent", "v1.19.1"], "'kind-iptables' has no Cilium"),
    ],
)
def test_a_version_that_cannot_be_had_is_refused_before_anything_is_built(
    arguments: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESIPP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ESIPP_RUN", str(tmp_path / "run"))
    monkeypatch.setattr(lane, "choose", lambda *_: Official(Places(tmp_path, tmp_path), Journal(tmp_path / "logs")))
    assert lane.main(arguments) == 4
    assert why in capsys.readouterr().err


def test_nodes_are_sent_the_layers_that_not_all_of_them_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Places(tmp_path / "cache", tmp_path / "run")
    way = Hermetic(where, Journal(tmp_path / "logs"))
    has, skipped, sent = {"a": ["sha256:1", "sha256:2"], "b": ["sha256:2", "sha256:3"]}, list[list[str]](), list[str]()
    monkeypatch.setattr(way.engine, "ask", lambda *words: has[words[1]])
    nodes = json.dumps({"items": [{"metadata": {"name": name}, "status": {"addresses": []}} for name in has]})
    # kind also lists the load balancer of several API servers, which runs no containers
    asked = {"kubectl": nodes, "kind": "a b esipp-external-load-balancer"}
    monkeypatch.setattr(ClusterAccess, "ask", lambda _, *words, **__: asked[words[0]])

    def docker(_step: Step, *words: object, **_: object) -> None:
        if words[0] == "save":
            Path(str(words[2])).write_text("")
        else:
            sent.append(str(words[2]))

    monkeypatch.setattr(way.engine, "docker", docker)

    def thinned(_saved: Path, present: list[str], _image: str, out: Path) -> None:
        skipped.append(present)
        out.write_text("")

    monkeypatch.setattr(ways, "thin", thinned)
    way.load(ClusterAccess("hermetic", "kind-cilium", "v1.36.3", "node:1"), "cilium:1")
    assert (skipped, sent) == ([["sha256:2"]], ["a", "b"])


def test_versions_of_cilium_are_cached_beside_each_other() -> None:
    one, other = (golang.cilium(version) for version in ("v1.18.6", "v1.19.1"))
    assert (one.kind, other.kind) == ("cilium-v1.18.6", "cilium-v1.19.1")
    assert one.key != other.key


def test_the_node_image_is_named_by_the_one_below_and_by_the_version() -> None:
    found = {
        hermetic_cilium.node_image(base, version) for base in ("node:1", "node:2") for version in ("v1.18.6", "v1.19.1")
    }
    assert len(found) == 4


class Builder:
    """An engine that records what it has to build, and what lay there."""

    def __init__(self) -> None:
        self.built: dict[str, tuple[str, dict[str, bool]]] = {}

    def docker(self, _step: Step, *args: object) -> None:
        """A Dockerfile's text, and every file with whether it can be run."""
        context = Path(str(args[-1]))
        files = [path for path in (context / "root").rglob("*") if path.is_file()]
        found = {f"/{path.relative_to(context / 'root')}": bool(path.stat().st_mode & 0o111) for path in files}
        self.built[str(args[2])] = ((context / "Dockerfile").read_text(), found)


def test_ciliums_images_have_everything_where_its_chart_looks_for_it(tmp_path: Path) -> None:
    built = tmp_path / "built"
    version = "v1.18.6"
    for name in golang.cilium(version).programs:
        (built / name).parent.mkdir(exist_ok=True)
        (built / name).write_text(name)
    for name in (*hermetic_cilium.SCRIPTS, "bpf/lib/common.h"):
        (built / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (built / "files" / name).write_text(name)
    engine, step = Builder(), Step("build", tmp_path / "log")
    hermetic_cilium._agent(step, cast(Engine, engine), built, version, tmp_path / "agent")
    hermetic_cilium._operator(step, cast(Engine, engine), built, version, tmp_path / "operator")
    (agent, files), (operator, its) = (engine.built[name] for name in hermetic_cilium.names(version))
    assert agent.splitlines()[0] == operator.splitlines()[0] == f"FROM {hermetic_cilium.rootfs()}"
    assert files == {
        "/usr/bin/cilium-agent": True,
        "/usr/bin/cilium-dbg": True,
        "/usr/bin/cilium-mount": True,
        "/opt/cni/bin/cilium-cni": True,
        "/init-container.sh": True,
        "/install-plugin.sh": True,
        "/cni-uninstall.sh": True,
        "/var/lib/cilium/bpf/lib/common.h": False,
    }
    assert its == {"/usr/bin/cilium-operator-generic": True}
