"""What ci/ decides without a cluster: lanes, pools, package sources, keys, the choice of images."""

import hashlib
import io
import json
import os
import runpy
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ci import cluster, lane_file, metallb
from ci.access import ClusterAccess
from ci.hermetic import apt, engine, golang
from ci.hermetic.engine import Engine
from ci.hermetic.images import _images_of
from ci.hermetic.store import Store, key_of
from ci.hermetic.thin import thin
from ci.lane import main as conformance
from ci.lane import split, suite_command
from ci.places import CI, Places, versions
from ci.step import Journal, SetupError
from ci.ways import official_image
from esipp.app.cli import check_run

LANE = {
    "description": "a lane",
    "kind_config": "iptables-dual-3w.yaml",
    "kubernetes": "v1.36.3",
    "load_balancers": ["metallb-l2"],
    "suites": ["source_ip"],
    "fail_on": "core",
}


def lane(tmp_path: Path, **changes: object) -> lane_file.Lane:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**LANE, **changes}))
    return lane_file.load("mine", lanes=tmp_path)


def test_every_lane_of_the_repository_is_sound() -> None:
    for path in lane_file.LANES.glob("*.yaml"):
        assert lane_file.load(path.stem).kind_config.is_file()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kubernets": "v1.36.3"}, "unknown key 'kubernets'; known: addresses, cilium, cilium_values, description"),
        ({"kubernetes": "1.36"}, "kubernetes: '1.36' is not a version like v1.36.3"),
        ({"kubernetes": None}, "kubernetes: expected a text, not None"),
        ({"kind_config": "none.yaml"}, "kind_config: there is no kind-configs/none.yaml"),
        ({"load_balancers": ["purelb"]}, r"load_balancers\[1\]: expected one of .*reference, not 'purelb'"),
        ({"load_balancers": ["metallb-l2", "metallb-bgp"]}, "enables metallb-l2 and metallb-bgp"),
        ({"suites": ["nothing"]}, r"suites\[1\]: there is no suites/nothing"),
        ({"fail_on": None}, "fail_on: expected one of core, extended, not None"),
        ({"fail_on": "all"}, "fail_on: expected one of core, extended, not 'all'"),
        ({"extends": "nobody"}, "no lane 'nobody', which 'mine' extends"),
        ({"extends": "mine"}, "'mine' extends itself: mine extends mine"),
        ({"name": "yours"}, "name: must match the file's, 'mine'"),
        ({"exclude": "nodeport"}, "exclude: expected a list, not 'nodeport'"),
        ({"exclude": ["nodeport"]}, r"exclude\[1\]: expected a table of keys and values, not 'nodeport'"),
        ({"exclude": [{"reason": "why"}]}, r"exclude\[1\].row: missing"),
        ({"exclude": [{"row": "nodeport"}]}, r"exclude\[1\].reason: missing"),
        ({"include": [{"row": "nodeport", "reason": " "}]}, r"include\[1\].reason: expected a text"),
        ({"exclude": [{"row": "nodeport", "reason": "why", "until": 1}]}, r"exclude\[1\]: unknown key 'until'"),
        ({"include": [{"row": "nodeport.lokal", "reason": "why"}]}, "no check matches 'nodeport.lokal'"),
        ({"emulates": "gke-legacy"}, "has another load balancer than the reference one"),
        ({"emulates": ["gke-legacy"]}, "emulates: expected a text"),
        ({"addresses": 2}, "it has 'addresses', but emulates no load balancer"),
        ({"moves": "many"}, "moves: expected a whole number, not 'many'"),
        ({"moves": 0}, "moves: expected a whole number above 0, not 0"),
        ({"network": "weave"}, "network: expected one of built-in, cilium, flannel, calico, not 'weave'"),
        ({"service_proxy": "ipvs"}, "service_proxy: expected one of kube-proxy, cilium, not 'ipvs'"),
        ({"cilium_values": ["a"]}, "cilium_values: expected a table of keys and values"),
        ({"needs": []}, "needs: expected a table of keys and values"),
        ({"needs": {"luck": "always"}}, "needs.luck: expected one of registry, ip_vs, not 'luck'"),
        ({"needs": {"registry": " "}}, "needs.registry: expected a text"),
        ({"needs": {"registry": True}}, "needs.registry: expected a text, not True"),
        ({"published": "calico"}, "published: expected a list, not 'calico'"),
        ({"published": ["flannel"]}, r"published\[1\]: expected one of calico, cloud-provider-kind, not 'flannel'"),
        ({"published": ["calico"]}, "'calico' as published, but does not need a registry"),
    ],
)
def test_a_lane_with_a_mistake_is_refused_with_the_mistake(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(SetupError, match=said) as refused:
        lane(tmp_path, **changes)
    assert refused.value.hint


def heirs(tmp_path: Path, **lanes: dict[str, object]) -> None:
    for name, said in lanes.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(said))


LEFT_OUT = [{"row": "nodeport.local", "reason": "our firewall"}]


def test_a_lane_says_what_differs_from_the_one_it_extends(tmp_path: Path) -> None:
    heirs(
        tmp_path,
        base={**LANE, "exclude": LEFT_OUT},
        middle={"extends": "base", "description": "another", "fail_on": "extended"},
        last={"extends": "middle", "suites": ["continuity"], "exclude": [{"row": "sctp", "reason": "no module"}]},
    )
    base, last = (lane_file.load(name, lanes=tmp_path) for name in ("base", "last"))
    assert (last.name, last.description, last.fail_on, last.suites) == ("last", "another", "extended", ("continuity",))
    assert (last.kind_config, last.kubernetes) == (base.kind_config, base.kubernetes)
    assert [each.check for each in last.exclude] == ["nodeport.local", "sctp"], "what is left out below stays so"


def test_lanes_that_extend_each_other_are_reported_as_a_circle(tmp_path: Path) -> None:
    heirs(tmp_path, a={"extends": "b"}, b={"extends": "c"}, c={"extends": "b"})
    with pytest.raises(SetupError, match="The lane 'b' extends itself: b extends c extends b"):
        lane_file.load("a", lanes=tmp_path)


def test_what_a_lane_chooses_is_what_the_run_is_asked(tmp_path: Path) -> None:
    chosen = lane(tmp_path, include=[{"row": "clusterip", "reason": "all there is"}], exclude=LEFT_OUT)
    command = suite_command(chosen, "echo:1", ["--moves", "10"])
    assert command[-3:] == ["--moves", "10", "clusterip"]
    assert "--exclude=nodeport.local=our firewall" in command
    check_run(command[2:])


def test_checks_that_somebody_names_go_before_those_of_the_lane(tmp_path: Path) -> None:
    chosen = lane(tmp_path, include=[{"row": "clusterip", "reason": "all there is"}])
    assert suite_command(chosen, "echo:1", ["nodeport.local"])[-1] == "nodeport.local"


@pytest.mark.parametrize("more", [["--suite", "nodes"], ["--suite=nodes"]])
def test_suites_that_somebody_names_replace_those_of_the_lane(tmp_path: Path, more: list[str]) -> None:
    command = suite_command(lane(tmp_path), "echo:1", more)
    assert [each for each in command if "suite" in each] == [each for each in more if "suite" in each]
    assert suite_command(lane(tmp_path), "echo:1").count("--suite") >= 1


def test_a_profile_that_somebody_names_says_whether_a_lane_disrupts(tmp_path: Path) -> None:
    chosen = lane(tmp_path)
    assert "--allow-disruptive" in suite_command(chosen, "echo:1")
    assert "--allow-disruptive" not in suite_command(chosen, "echo:1", ["--profile", "standard"])


def test_a_lane_refuses_a_cluster_that_lacks_what_it_is_for(tmp_path: Path) -> None:
    command = suite_command(lane(tmp_path, requires=["nodes.three", "sctp"]), "echo:1")
    assert [each for each in command if each.startswith("--require")] == ["--require=nodes.three", "--require=sctp"]
    check_run(command[2:])
    for name in ("kind-iptables", "kind-nftables", "kind-cilium"):
        assert "nodes.three" in lane_file.load(name).requires, f"{name} would pass without a third of its checks"
    for name in ("kind-1-worker", "kind-2-workers"):
        assert "nodes.three" not in lane_file.load(name).requires


@pytest.mark.parametrize("level", ["core", "extended"])
def test_the_lane_says_which_level_is_binding(tmp_path: Path, level: str) -> None:
    command = suite_command(lane(tmp_path, fail_on=level), "echo:1")
    assert command[command.index("--fail-on") + 1] == level


def test_what_follows_two_dashes_goes_to_the_run(tmp_path: Path) -> None:
    own, more = split(["--keep", "--", "--moves", "10"])
    assert own == ["--keep"]
    assert suite_command(lane(tmp_path), "echo:1", more)[-2:] == ["--moves", "10"]
    assert split(["--keep"]) == (["--keep"], [])


@pytest.mark.parametrize("arguments", [["bogus"], ["--", "--moves", "none"], ["--", "--moves", "0"], ["--", "bogus"]])
def test_bad_options_are_refused_before_there_is_a_cluster(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESIPP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ESIPP_RUN", str(tmp_path / "run"))
    try:
        code = conformance(arguments)
    except SystemExit as refused:
        code = int(refused.code or 0)
    assert code == 4
    assert arguments[-1] in capsys.readouterr().err


def test_the_kind_lane_holds_kube_proxy_to_the_extended_checks_too() -> None:
    assert lane_file.load("kind-iptables").fail_on == "extended"


@pytest.mark.parametrize("path", ["hermetic", "official"])
def test_a_command_gets_the_image_and_how_its_reader_repeats_it(path: str) -> None:
    environment = ClusterAccess(path, "kind-iptables", "v1.36.3", "node:1", "echo:1").environment
    assert environment["ESIPP_IMAGE"] == "echo:1"
    assert environment["ESIPP_REPEAT"] == "./ci/enter esipp run --context kind-esipp"
    assert "ESIPP_KUBE_PROXY_IMAGE" not in environment
    loaded = ClusterAccess(path, "kind-iptables", "v1.36.3", "node:1", "echo:1", "kube-proxy:1")
    assert loaded.environment["ESIPP_KUBE_PROXY_IMAGE"] == "kube-proxy:1"
    assert "ESIPP_NETWORK_AGENT_IMAGE" not in loaded.environment
    loaded = replace(loaded, network_agent_image="cilium:1")
    assert loaded.environment["ESIPP_NETWORK_AGENT_IMAGE"] == "cilium:1"


def test_an_unknown_lane_names_the_known_ones() -> None:
    with pytest.raises(SetupError) as refused:
        lane_file.load("typo")
    assert "kind-iptables" in refused.value.hint


def test_the_manifest_only_gets_ready_sooner() -> None:
    pod = {"containers": [{"name": "c", "image": "i", "readinessProbe": {"httpGet": {"port": 1}, "periodSeconds": 10}}]}
    given = [{"kind": "Deployment", "spec": {"template": {"spec": pod}}}, {"kind": "Namespace"}]
    made = list(yaml.safe_load_all(metallb.hastened(yaml.safe_dump_all(given))))
    assert [document["kind"] for document in made] == ["Namespace", "Deployment", "Secret"]
    container = made[1]["spec"]["template"]["spec"]["containers"][0]
    assert container.pop("readinessProbe") == {"httpGet": {"port": 1}, "initialDelaySeconds": 1, "periodSeconds": 1}
    assert container == {"name": "c", "image": "i"}


def test_speakers_are_also_on_tainted_nodes_of_a_lane_that_has_some() -> None:
    pod = {"containers": [], "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}
    given = yaml.safe_dump({"kind": "DaemonSet", "spec": {"template": {"spec": pod}}})
    usual, tolerant = (
        next(yaml.safe_load_all(metallb.hastened(given, tainted=tainted)))["spec"]["template"]["spec"]["tolerations"]
        for tainted in (False, True)
    )
    assert (usual, tolerant) == (pod["tolerations"], [{"operator": "Exists", "effect": "NoSchedule"}])


def test_package_sources_are_read_in_both_forms_and_only_for_this_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://a.example/debian sid main\ndeb [arch=amd64] http://a.example/debian sid main\n"
        "deb http://b.example/tool sid stable\n"
    )
    (parts / "debian.sources").write_text(
        "Types: deb\n# a comment\nURIs: http://c.example/debian\nSuites: sid sid-updates other\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/k.gpg\n\nTypes: deb-src\nURIs: http://c.example/debian\nSuites: sid\n"
        "Components: main\n\nEnabled: no\nTypes: deb\nURIs: http://d.example/\nSuites: sid\nComponents: main\n"
    )
    monkeypatch.setattr(apt, "SOURCES", tmp_path)
    monkeypatch.setattr(apt, "_codename", lambda: "sid")
    assert apt._sources().splitlines() == [
        "deb [arch=amd64] http://a.example/debian sid main",
        "deb [signed-by=/usr/share/keyrings/k.gpg] http://c.example/debian sid main",
        "deb [signed-by=/usr/share/keyrings/k.gpg] http://c.example/debian sid-updates main",
    ]


APT_THAT_WRITES_DOWN = """#!/bin/sh
test -x "$POLICY" && ! "$POLICY" && echo "$0 $*" >>"$CALLS"
exit "${CODE:-0}"
"""


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing that is needed is there; apt only writes down what it was asked for, if no service may start."""
    for name in ("apt-get", "apt-cache"):
        (tmp_path / name).write_text(APT_THAT_WRITES_DOWN)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(apt, "NEEDED", {"no-such-dockerd": "docker.io", "no-such-iptables": "iptables", "sh": "dash"})
    monkeypatch.setattr(apt, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("POLICY", str(tmp_path / "policy-rc.d"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path


def calls_on(machine: Path) -> list[str]:
    return [line.removeprefix(f"{machine}/") for line in (machine / "calls").read_text().splitlines()]


def test_what_is_missing_is_installed_while_no_service_may_start(bare_machine: Path) -> None:
    apt.install_needed(Journal(bare_machine / "logs"))
    install = "apt-get install --yes --no-install-recommends docker.io iptables"
    assert calls_on(bare_machine) == ["apt-get update", "apt-cache show docker-cli", install]
    assert not apt.POLICY.exists()


def test_what_our_own_tests_run_is_installed_by_root_alone(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "TESTED_WITH", {"no-such-sshd": "openssh-server", "sh": "dash"})
    monkeypatch.setattr(apt, "places", lambda: Places(bare_machine, bare_machine))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert apt.main() == 0
    assert not (bare_machine / "calls").exists()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert apt.main() == 0
    assert calls_on(bare_machine) == ["apt-get update", "apt-get install --yes --no-install-recommends openssh-server"]
    assert not apt.POLICY.exists()


def test_a_failed_installation_leaves_no_policy(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "100")
    with pytest.raises(SetupError, match="exit code 100"):
        apt.install_needed(Journal(bare_machine / "logs"))
    assert not apt.POLICY.exists()


def test_the_policy_of_a_killed_run_goes_and_another_s_stays(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "NEEDED", {})
    for text, stays in [(apt.POLICY_TEXT, False), ("#!/bin/sh\nexit 101\n", True)]:
        apt.POLICY.write_text(text)
        apt.install_needed(Journal(bare_machine / "logs"))
        assert apt.POLICY.exists() is stays


def test_a_key_follows_content_names_and_modes(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    keys = {key_of(tmp_path)}
    file.write_text("2")
    keys.add(key_of(tmp_path))
    file.chmod(0o755)
    keys.add(key_of(tmp_path))
    file.rename(tmp_path / "b")
    keys.add(key_of(tmp_path))
    keys.add(key_of(tmp_path, "more"))
    assert len(keys) == 5
    (tmp_path / "README.md").write_text("a text changes no image")
    assert key_of(tmp_path) in keys
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})


def test_a_half_built_artifact_does_not_count_and_a_whole_one_is_built_once(tmp_path: Path) -> None:
    store = Store(Places(tmp_path, tmp_path))

    def failing(out: Path) -> None:
        (out / "half").touch()
        raise SetupError("no")

    with pytest.raises(SetupError):
        store.get("thing", "k", failing)
    assert not store.has("thing", "k")
    built: list[Path] = []
    for _ in range(2):
        assert store.get("thing", "k", built.append) == tmp_path / "artifacts/thing/k"
    assert len(built) == 1
    fresh = Store(Places(tmp_path, tmp_path), fresh=True)
    for _ in range(2):
        fresh.get("thing", "k", built.append)
    assert len(built) == 2


def test_old_artifacts_are_dropped(tmp_path: Path) -> None:
    for key in "abcd":
        Store(Places(tmp_path, tmp_path)).get("thing", key, lambda out: None)
    store = Store(Places(tmp_path, tmp_path))
    store.get("thing", "a", lambda out: None)
    store.prune()
    assert len(list((tmp_path / "artifacts/thing").iterdir())) == 2
    assert store.has("thing", "a")


def test_versions_file_and_modules_agree() -> None:
    for build in (golang.kind(), golang.containerd(), golang.etcd(), golang.coredns(), golang.metallb()):
        build._check_version()
    for version in golang.kubernetes_versions():
        golang.kubernetes(version)._check_version()
    assert versions()["kubernetes"]["default"] in golang.kubernetes_versions()


def test_the_official_image_is_exact_or_of_the_same_minor_version() -> None:
    images = {"v1.37.0": "seven", "v1.36.4": "six"}
    assert official_image("v1.37.0", images) == "seven"
    assert official_image("v1.36.3", images) == "six"
    with pytest.raises(SetupError):
        official_image("v1.20.0", images)


def test_images_of_a_manifest(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("kind: Namespace\n---\nspec: {template: {spec: {containers: [{image: a}, {image: b}]}}}\n---\n")
    assert _images_of(path) == ["a", "b"]


def test_a_failing_step_says_what_and_keeps_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(SetupError) as failed, journal.step("do it", hint="try this") as step:
        step.run([sys.executable, "-c", "print('the reason'); raise SystemExit(7)"])
    failed.value.show()
    shown = capsys.readouterr()
    assert "failed" in shown.out
    assert "the reason" in shown.err
    assert "exit code 7" in shown.err
    assert "hint: try this" in shown.err


def test_runc_is_asked_for_nothing_that_cannot_be_granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.json"
    process = '{"capabilities": {"bounding": ["CAP_SYS_RESOURCE", "CAP_CHOWN"]}, "oomScoreAdj": -5, "args": ["x"]}'
    config.write_text(f'{{"process": {process}}}')
    executed: list[list[str]] = []
    monkeypatch.setattr("os.access", lambda *_: True)
    monkeypatch.setattr("os.execv", lambda path, argv: executed.append(argv))
    monkeypatch.setattr(sys, "argv", ["runc", "--root", "/r", "create", "--bundle", str(tmp_path), "name"])
    runpy.run_path(str(CI / "hermetic" / "runc-wrapper"))
    softened = yaml.safe_load(config.read_text())["process"]
    assert softened == {"capabilities": {"bounding": ["CAP_CHOWN"]}, "args": ["x"]}
    assert executed[0][1:] == sys.argv[1:]


def test_a_thin_archive_names_every_layer_and_holds_the_missing_ones(tmp_path: Path) -> None:
    def digest(content: bytes) -> str:
        return "sha256:" + hashlib.sha256(content).hexdigest()

    base, own = b"base layer", b"own layer"
    configuration = json.dumps({"rootfs": {"diff_ids": [digest(base), digest(own)]}}).encode()
    listing = json.dumps([{"Config": "c.json", "Layers": ["b/layer.tar", "o/layer.tar"]}]).encode()
    files = {"manifest.json": listing, "c.json": configuration, "b/layer.tar": base, "o/layer.tar": own}
    with tarfile.open(tmp_path / "saved.tar", "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    thin(tmp_path / "saved.tar", [digest(base)], "localhost/x:1", tmp_path / "thin.tar")
    with tarfile.open(tmp_path / "thin.tar") as tar:
        read = {member.name: tar.extractfile(member).read() for member in tar}
    blobs = {f"sha256:{Path(name).name}": content for name, content in read.items() if name.startswith("blobs/")}
    assert all(digest(content) == name for name, content in blobs.items())
    top = json.loads(read["index.json"])["manifests"][0]
    assert top["annotations"] == {"io.containerd.image.name": "localhost/x:1"}
    manifest = json.loads(blobs[top["digest"]])
    assert [(layer["digest"], layer["size"]) for layer in manifest["layers"]] == [
        (digest(base), len(base)),
        (digest(own), len(own)),
    ]
    assert blobs[manifest["config"]["digest"]] == configuration
    assert digest(own) in blobs
    assert digest(base) not in blobs


def test_a_cluster_is_used_again_only_by_the_kind_config_that_made_it(tmp_path: Path) -> None:
    where = Places(tmp_path / "cache", tmp_path / "run")
    one, other = lane_file.load("kind-iptables"), lane_file.load("kind-nftables")
    assert not cluster.made_as(one, where, hermetic=True)
    cluster.write_config(one, where, hermetic=True)
    assert cluster.made_as(one, where, hermetic=True)
    assert not cluster.made_as(one, where, hermetic=False)
    assert not cluster.made_as(other, where, hermetic=True)


@pytest.mark.parametrize("alone", [True, False])
def test_the_last_engine_of_the_machine_sets_inotify_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    limit = tmp_path / "limit"
    limit.write_text("1024")
    first, other = tmp_path / "first", tmp_path / "other"
    for folder in (first, other):
        folder.mkdir()
    (first / "inotify").write_text("128")
    monkeypatch.setattr(engine, "INOTIFY", limit)
    monkeypatch.setattr(engine, "_engines", lambda: [first] if alone else [first, other])
    Engine(Places(first, first))._lower_inotify()
    assert limit.read_text() == ("128" if alone else "1024")
    assert (other / "inotify").exists() is not alone
    assert not (first / "inotify").exists()
