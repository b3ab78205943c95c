"""Lanes with another data plane: what a lane says and its kind config fit, and Cilium gets the values of both."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from ci import cilium, cluster, lane_file
from ci.hermetic import cilium as hermetic_cilium
from ci.hermetic import golang
from ci.hermetic.engine import Engine
from ci.places import versions
from ci.step import SetupError, Step

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
        ({"network": "cilium"}, BARE, "the network 'cilium' with the service proxy 'kube-proxy'"),
        (BOTH, PLAIN, "see disableDefaultCNI"),
        (BOTH, {"networking": {"disableDefaultCNI": True}}, "see kubeProxyMode"),
        ({}, BARE, "see disableDefaultCNI"),
        ({}, {"networking": {"kubeProxyMode": "none"}}, "see kubeProxyMode"),
        ({"cilium_values": {"a": 1}}, PLAIN, "has 'cilium_values', but no Cilium"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, said: dict[str, object], config: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        made(tmp_path, said, config)


def test_metallb_announces_by_one_protocol(tmp_path: Path) -> None:
    text = yaml.safe_load((lane_file.LANES / "kind-iptables.yaml").read_text())
    text["load_balancers"] = ["metallb-l2", "metallb-bgp"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(text))
    with pytest.raises(SetupError, match="both protocols of MetalLB"):
        lane_file.load("mine", lanes=tmp_path)


def test_kubeadm_brings_no_kube_proxy_where_none_is_wanted() -> None:
    for name, there in (("kind-cilium", True), ("kind-iptables", False)):
        config = yaml.safe_load(cluster.config_of(lane_file.load(name), hermetic=True))
        skipped = [phase for patch in config["kubeadmConfigPatches"] for phase in _skipped(patch)]
        assert ("addon/kube-proxy" in skipped) is there
        assert {"preflight", "addon/coredns"} <= set(skipped)


def test_a_kept_cluster_of_other_values_is_another_one() -> None:
    lanes = [lane_file.load(name) for name in ("kind-cilium", "kind-cilium-dsr")]
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


def test_subnets_of_pods_must_be_reported(tmp_path: Path) -> None:
    config = tmp_path / "none.yaml"
    config.write_text(yaml.safe_dump(BARE))
    with pytest.raises(SetupError, match="no podSubnet"):
        cilium.values(replace(lane_file.load("kind-cilium"), kind_config=config))


def test_the_chart_and_the_images_are_of_the_version_that_is_pinned() -> None:
    assert golang.cilium().version == versions()["cilium"]["version"]
    golang.cilium()._check_version()
    golang.helm()._check_version()
    assert hermetic_cilium.names()[0] == f"quay.io/cilium/cilium:{versions()['cilium']['version']}"


def test_the_node_image_is_named_by_the_one_below() -> None:
    assert hermetic_cilium.node_image("node:1") != hermetic_cilium.node_image("node:2")


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
    for name in golang.cilium().programs:
        (built / name).parent.mkdir(exist_ok=True)
        (built / name).write_text(name)
    for name in (*hermetic_cilium.SCRIPTS, "bpf/lib/common.h"):
        (built / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (built / "files" / name).write_text(name)
    engine, step = Builder(), Step("build", tmp_path / "log")
    hermetic_cilium._agent(step, cast(Engine, engine), built, "rootfs:1", tmp_path / "agent")
    hermetic_cilium._operator(step, cast(Engine, engine), built, "rootfs:1", tmp_path / "operator")
    (agent, files), (operator, its) = (engine.built[name] for name in hermetic_cilium.names())
    assert agent.splitlines()[0] == operator.splitlines()[0] == "FROM rootfs:1"
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
