"""Lanes beyond the first: five minors that share all but Kubernetes, and those that not every machine can run."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from ci import lane_file, lane_lists, needs
from ci.hermetic import golang
from ci.hermetic.engine import Engine
from ci.hermetic.images import Builder, prune_images
from ci.hermetic.store import Store
from ci.lane import main as conformance
from ci.lane import suite_command
from ci.places import Places, versions
from ci.step import Journal, SetupError
from ci.ways import official_image

MINORS = ("1.32", "1.33", "1.34", "1.35", "1.36")


@pytest.mark.parametrize("minor", MINORS)
def test_each_minor_has_a_lane_a_module_and_a_published_image(minor: str) -> None:
    lane = lane_file.load(f"kind-{minor}")
    assert lane.kubernetes.startswith(f"v{minor}.")
    assert lane.kubernetes in golang.kubernetes_versions()
    assert f"kindest/node:v{minor}." in official_image(lane.kubernetes, versions()["node_images"])


@pytest.mark.parametrize("name", sorted(path.stem for path in lane_file.LANES.glob("*.yaml")))
def test_each_lane_is_in_a_list_and_has_a_kubernetes_that_both_paths_can_run(name: str) -> None:
    assert name.startswith(("kind-", "as-")), "lists of lanes are by these names"
    lane = lane_file.load(name)
    assert lane.kubernetes in golang.kubernetes_versions(), "ci/hermetic/modules/kubernetes has no such folder"
    assert official_image(lane.kubernetes, versions()["node_images"])


def test_lanes_of_minors_differ_in_nothing_but_kubernetes() -> None:
    for minor in MINORS:
        said = yaml.safe_load((lane_file.LANES / f"kind-{minor}.yaml").read_text())
        assert said.keys() == {"extends", "description", "kubernetes"}
        assert said["extends"] == "kind-iptables"


def test_the_lane_with_ipv6_first_differs_in_the_order_of_its_subnets_alone() -> None:
    usual, other = (
        yaml.safe_load(lane_file.load(name).kind_config.read_text()) for name in ("kind-iptables", "kind-ipv6-first")
    )
    for subnets in (other["networking"].pop(key).split(",") for key in ("podSubnet", "serviceSubnet")):
        assert [":" in each for each in subnets] == [True, False]
    assert other == usual


def test_runs_on_the_lane_with_tainted_workers_tolerate_their_taints_and_one_worker_has_none() -> None:
    lane = lane_file.load("kind-tainted")
    nodes = yaml.safe_load(lane.kind_config.read_text())["nodes"]
    patches = [yaml.safe_load(text) for node in nodes for text in node.get("kubeadmConfigPatches", [])]
    taints = [taint for patch in patches for taint in patch["nodeRegistration"]["taints"]]
    asked = {f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in taints}
    assert (len(taints), asked) == (2, set(lane.tolerations))
    assert sum(node["role"] == "worker" for node in nodes) == 3
    command = suite_command(lane, "echo:1")
    assert [each for each in command if each.startswith("--toleration=")] == [f"--toleration={each}" for each in asked]


def test_each_worker_of_the_lane_with_zones_is_in_one_of_its_own() -> None:
    nodes = yaml.safe_load(lane_file.load("kind-zones").kind_config.read_text())["nodes"]
    zones = [node["labels"]["topology.kubernetes.io/zone"] for node in nodes if node["role"] == "worker"]
    assert len(set(zones)) == len(zones) == 3


@pytest.mark.parametrize("version", golang.kubernetes_versions())
def test_kubernetes_own_modules_are_of_its_minor(version: str) -> None:
    text = (golang.MODULES / "kubernetes" / version / "go.mod").read_text()
    replaced = re.findall(r"^replace (k8s\.io/\S+) => (\S+) (v\S+)$", text, re.MULTILINE)
    assert len(replaced) > 25
    assert all(name == other for name, other, _ in replaced)
    minor = version.split(".")[1]
    assert {found.split(".")[1] for _, _, found in replaced} == {minor}
    required = re.findall(r"^\s(k8s\.io/\S+) v0\.0\.0\S*", text, re.MULTILINE)
    assert set(required) - {"k8s.io/utils", "k8s.io/kube-openapi"} <= {name for name, _, _ in replaced}


def test_lanes_of_two_minors_share_all_builds_but_kubernetes(tmp_path: Path) -> None:
    where = Places(tmp_path / "cache", tmp_path / "run")
    old, new = (
        Builder(lane_file.load(name).kubernetes, Store(where), Engine(where), Journal(tmp_path / "logs"))
        for name in ("kind-1.32", "kind-1.36")
    )
    assert [each.key for each in (old.kind, old.metallb, *old.others)] == [
        each.key for each in (new.kind, new.metallb, *new.others)
    ]
    assert old.base_image == new.base_image
    assert old.kubernetes.key != new.kubernetes.key
    assert old.node_image != new.node_image


def test_kube_proxy_of_another_version_is_built_alone_and_on_the_same_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, journal = Places(tmp_path / "cache", tmp_path / "run"), Journal(tmp_path / "logs")
    build, made = golang.kube_proxy("v1.35.4"), list[tuple[str, str]]()
    assert (set(build.programs), build.version) == ({"kube-proxy"}, "v1.35.4")
    assert golang.kube_proxy("v1.36.3").key != build.key != golang.kubernetes("v1.35.4").key
    Store(where).get(build.name, build.key, lambda out: (out / "kube-proxy").write_text(""))
    builder = Builder("v1.35.4", Store(where), Engine(where), journal)
    monkeypatch.setattr(builder, "_on_base", lambda step, reference, program: made.append((reference, program.name)))
    assert builder.kube_proxy() == "registry.k8s.io/kube-proxy:v1.35.4"
    assert made == [("registry.k8s.io/kube-proxy:v1.35.4", "kube-proxy")]
    assert builder.base_image == Builder("v1.36.3", Store(where), Engine(where), journal).base_image
    with pytest.raises(SetupError, match=r"v1\.2\.3 has no Go module"):
        golang.kube_proxy("v1.2.3")


def test_the_store_keeps_one_kubernetes_a_lane(tmp_path: Path) -> None:
    for kind in ("kubernetes", "etcd"):
        for key in "abcde":
            Store(Places(tmp_path, tmp_path)).get(kind, key, lambda out: None)
    Store(Places(tmp_path, tmp_path)).prune({"kubernetes": 4})
    assert len(list((tmp_path / "artifacts/kubernetes").iterdir())) == 4
    assert len(list((tmp_path / "artifacts/etcd").iterdir())) == 2


def test_the_engine_keeps_as_many_other_node_images_as_there_are_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(Places(tmp_path, tmp_path))
    monkeypatch.setattr(Engine, "ask", lambda *_: ["node:e", "node:d", "node:c", "node:b", "node:a"])
    removed: list[str] = []
    monkeypatch.setattr("ci.hermetic.images.output", lambda argv, **_: removed.append(argv[-1]))
    prune_images(engine, "node", "node:b", 3)
    assert removed == ["node:a"]
    removed.clear()
    prune_images(engine, "node", "node:b")
    assert removed == ["node:d", "node:c", "node:a"]


def test_a_kernel_module_is_asked_for_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed: dict[needs.Requirement, str] = {"ip_vs": "the mode rests on it"}
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(needs, "LOADED", tmp_path)
    monkeypatch.setattr(needs, "output", lambda *_: None)
    with pytest.raises(SetupError, match="lacks ip_vs: the mode rests on it") as refused:
        needs.check("mine", needed, "official")
    assert "modprobe ip_vs" in refused.value.hint
    (tmp_path / "ip_vs").mkdir()
    needs.check("mine", needed, "official")


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("name", [each.name for each in lane_lists.lanes("*") if needs.REGISTRY in each.needs])
def test_a_lane_that_cannot_be_run_here_says_so_in_a_sentence_and_a_hint(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESIPP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ESIPP_RUN", str(tmp_path / "run"))
    assert conformance(["--lane", name, "--path", "hermetic"]) == 4
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 2
    assert said[0].startswith(f"The lane '{name}' cannot run here without a registry: ")
    assert said[1].strip().startswith("hint: ")


def test_every_lane_needs_what_it_takes_as_published() -> None:
    taken = {path.stem: lane_file.load(path.stem).published for path in lane_file.LANES.glob("*.yaml")}
    assert {name for names in taken.values() for name in names} == set(get_args(needs.Component))
    for name in taken:
        if taken[name]:
            assert set(taken[name]) <= versions().keys()


def test_a_network_add_on_that_is_published_finds_no_other() -> None:
    config = yaml.safe_load(lane_file.load("kind-calico").kind_config.read_text())
    assert config["networking"]["disableDefaultCNI"] is True


# ------------------------------------------------------------------------------------------------------ lists of lanes
PIPELINE = """\
matrix:
  lane:
  # begin lanes: mine-*
  - mine-gone
  # end
  include:
  # begin lanes with needs: mine-*
  # end
"""


@pytest.fixture
def own_lanes(tmp_path: Path) -> Path:
    """A folder with lanes of its own."""
    base = (lane_file.LANES / "kind-iptables.yaml").read_text()
    (tmp_path / "kind-iptables.yaml").write_text(base)
    (tmp_path / "mine-b.yaml").write_text("extends: kind-iptables\ndescription: b\n")
    (tmp_path / "mine-a.yaml").write_text("extends: mine-b\ndescription: a\nneeds: {registry: published only}\n")
    return tmp_path


def test_a_lane_of_the_folder_is_in_each_list(own_lanes: Path) -> None:
    result = yaml.safe_load(lane_lists.rewritten(PIPELINE, own_lanes))
    assert result == {"matrix": {"lane": ["mine-a", "mine-b"], "include": [{"lane": "mine-a", "optional": True}]}}
    again = lane_lists.rewritten(PIPELINE, own_lanes)
    assert lane_lists.rewritten(again, own_lanes) == again
    assert list(lane_lists.table(["mine-*"], own_lanes))[2:] == [
        "| `mine-a` | a | `registry`: published only |",
        "| `mine-b` | b | - |",
    ]
