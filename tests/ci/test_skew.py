"""Lanes with a kube-proxy that is older than the API server."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci import cluster, kube_proxy, lane, lane_file
from ci.access import ClusterAccess
from ci.hermetic import golang
from ci.hermetic.images import KUBE_PROXY
from ci.matrix_state import State
from ci.places import Places
from ci.step import Journal, SetupError
from ci.ways import Prepared

IMAGE = f"{KUBE_PROXY}:v1.33.13"
LANES = ("kind-skew-1", "kind-skew-3")
DAEMON_SET = {
    "kind": "DaemonSet",
    "metadata": {"name": "kube-proxy"},
    "spec": {"template": {"spec": {"containers": [{"name": "kube-proxy", "image": f"{KUBE_PROXY}:v1.36.3"}]}}},
}
CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"name": "kube-proxy"}, "data": {"config.conf": "mode: iptables"}}
PRINTED = "---\n" + yaml.safe_dump_all([CONFIG_MAP, DAEMON_SET])


@pytest.mark.parametrize("name", LANES)
def test_its_lane_differs_from_the_usual_one_in_kube_proxy_alone(name: str) -> None:
    own = yaml.safe_load((lane_file.LANES / f"{name}.yaml").read_text())
    assert own.keys() == {"extends", "description", "kube_proxy"}
    assert own["extends"] == "kind-iptables"
    lane = lane_file.load(name)
    minors = [int(version.split(".")[1]) for version in (lane.kubernetes, lane.kube_proxy or "")]
    assert minors[0] - minors[1] == int(name.removeprefix("kind-skew-"))
    assert golang.kube_proxy(lane.kube_proxy or "").version == lane.kube_proxy, "the hermetic path builds it"
    assert f"kube-proxy 1.{minors[1]} under Kubernetes 1.{minors[0]}" in lane.description


def test_a_kube_proxy_that_kubernetes_does_not_support_is_refused() -> None:
    usual = lane_file.load("kind-iptables")
    for version in ("v1.37.0", "v1.32.13"):
        with pytest.raises(ValueError, match=f"kube-proxy {version} does not fit Kubernetes {usual.kubernetes}"):
            replace(usual, kube_proxy=version)
    assert replace(usual, kube_proxy=usual.kubernetes).kube_proxy == usual.kubernetes
    with pytest.raises(SetupError, match=r"kube-proxy v1\.35\.4 does not fit Kubernetes v1\.34\.4"):
        lane_file.load("kind-skew-1", kubernetes="v1.34.4")
    with pytest.raises(ValueError, match="has 'kube_proxy', but the service proxy is 'cilium'"):
        replace(lane_file.load("kind-cilium"), kube_proxy="v1.35.4")
    assert replace(lane_file.load("kind-cilium-kube-proxy"), kube_proxy="v1.35.4"), "kube-proxy runs beside it"


@pytest.mark.parametrize(("hermetic", "others"), [(True, ["addon/coredns"]), (False, [])])
def test_kubeadm_leaves_kube_proxy_out_on_both_paths(hermetic: bool, others: list[str]) -> None:
    config = yaml.safe_load(cluster.config_of(lane_file.load("kind-skew-3"), hermetic=hermetic))
    patches = [yaml.safe_load(text) for text in config["kubeadmConfigPatches"]]
    assert [each["skipPhases"] for each in patches if "skipPhases" in each] == [
        ["preflight", *others, "addon/kube-proxy"]
    ]


def test_a_kept_cluster_and_a_recorded_run_of_another_kube_proxy_are_others(tmp_path: Path) -> None:
    lanes = [lane_file.load(name) for name in ("kind-iptables", *LANES)]
    for hermetic in (True, False):
        assert len({cluster.config_of(each, hermetic=hermetic) for each in lanes}) == len(lanes)
    named = [replace(each, name="mine", extends="") for each in lanes]
    assert len({State(tmp_path).key(each) for each in named}) == len(lanes)


def test_the_manifest_stays_kubeadms_but_for_the_image() -> None:
    config, daemon_set = yaml.safe_load_all(kube_proxy.with_image(PRINTED, IMAGE))
    assert config == CONFIG_MAP
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "kube-proxy", "image": IMAGE}


@pytest.mark.parametrize("printed", ["", yaml.safe_dump(CONFIG_MAP), yaml.safe_dump(DAEMON_SET)])
def test_another_form_of_the_manifest_is_refused(printed: str) -> None:
    with pytest.raises(SetupError, match="unexpected form"):
        kube_proxy.with_image(printed, IMAGE)


class Scripted(ClusterAccess):
    """A cluster in which kubeadm prints this."""

    printed: str | None = PRINTED

    def ask(self, *command: str | Path, timeout: float = 30) -> str | None:
        return self.printed if kube_proxy.PRINT in " ".join(map(str, command)) else None


def test_it_is_applied_and_runs_on_all_nodes_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[list[str]] = []
    monkeypatch.setattr(kube_proxy, "kubectl", lambda there, step, *words: done.append([str(part) for part in words]))
    kube_proxy.install(Scripted("hermetic", "", "", ""), IMAGE, Journal(tmp_path))
    assert [command[0] for command in done] == ["apply", "rollout"]
    assert IMAGE in Path(done[0][-1]).read_text()
    assert "daemonset/kube-proxy" in done[1]
    monkeypatch.setattr(Scripted, "printed", None)
    with pytest.raises(SetupError, match="kubeadm does not print"):
        kube_proxy.install(Scripted("hermetic", "", "", ""), IMAGE, Journal(tmp_path))


class Way:
    """A way to clusters that notes what it is asked for."""

    name = "official"

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def prepare(self, _lane: lane_file.Lane, *, fresh: bool) -> Prepared:
        there = ClusterAccess(self.name, "kind-skew-3", "v1.36.3", "node:1")
        return Prepared(there, Path("metallb.yaml"), None, None, add_on=lambda *_: self.done.append("network"))

    def kube_proxy(self, version: str) -> str:
        self.done.append(f"build {version}")
        return f"{KUBE_PROXY}:{version}"

    def load(self, _there: ClusterAccess, image: str) -> None:
        self.done.append(f"load {image}")

    def tidy(self, *_: str) -> None:
        pass


@pytest.mark.parametrize("name", ["kind-skew-3", "kind-iptables"])
def test_the_nodes_have_its_image_before_any_pod_has_an_address(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noted(what: str, answer: str = "") -> Any:
        return lambda *_, **__: done.append(what) or answer

    monkeypatch.setattr(cluster.ECHO.__class__, "build", lambda *_: "echo:1")
    for module, function in (("account", "install"), ("metallb", "install"), ("cluster", "await_nodes"),
                             ("loadbalancer", "install"), ("network", "give_further_addresses"),
                             ("published", "install")):  # fmt: skip
        monkeypatch.setattr(f"ci.{module}.{function}", lambda *_, **__: None)
    monkeypatch.setattr(cluster, "create", noted("create"))
    monkeypatch.setattr(kube_proxy, "install", lambda _there, image, _journal: done.append(f"install {image}"))
    where = Places(tmp_path / "cache", tmp_path / "run")
    way: Any = Way(done)
    lane._start(way, lane_file.load(name), False, where, Journal(tmp_path / "logs"))
    own = [each for each in done if each not in ("load echo:1",)]
    version = "v1.33.13"
    skewed = [f"build {version}", "create", f"load {KUBE_PROXY}:{version}", f"install {KUBE_PROXY}:{version}"]
    assert own == [*(skewed if name == "kind-skew-3" else ["create"]), "network"]


@pytest.mark.usefixtures("signals")
def test_a_version_without_a_module_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESIPP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ESIPP_RUN", str(tmp_path / "run"))
    usual = lane_file.load("kind-skew-1")
    monkeypatch.setattr(lane_file, "load", lambda *_, **__: replace(usual, kube_proxy="v1.35.99"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert lane.main(["--lane", "kind-skew-1", "--path", "hermetic"]) == 4
    assert "v1.35.99 has no Go module" in capsys.readouterr().err
