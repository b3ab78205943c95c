"""Network add-ons that a lane installs: flannel from its manifest, its CNI plugin, and kindnet's masquerading."""

import copy
import hashlib
import json
import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from ci import flannel, lane_file
from ci.access import ClusterAccess
from ci.cluster import config_of
from ci.hermetic import flannel as hermetic_flannel
from ci.hermetic import golang, masquerading
from ci.hermetic.engine import Engine
from ci.hermetic.store import Store
from ci.places import Places, versions
from ci.step import Journal, SetupError, Step
from ci.ways import Official
from tests.tools import require_tool

BOTH = {"ipv4": "10.244.0.0/16", "ipv6": "fd00:10:244::/56"}
OWN, PLUGIN = "registry/flannel:v1", "registry/flannel-cni-plugin:v1-flannel1"
POD = {
    "initContainers": [
        {"name": "install-cni-plugin", "image": PLUGIN, "command": ["cp"], "args": ["-f", "/flannel", "/opt/cni/bin"]},
        {"name": "install-cni", "image": OWN},
    ],
    "containers": [{"name": "kube-flannel", "image": OWN}],
}
CONFIG = {"Network": "10.0.0.0/8", "EnableNFTables": False, "Backend": {"Type": "vxlan"}}
MANIFEST: list[dict[str, Any]] = [
    {"kind": "Namespace", "metadata": {"name": "kube-flannel"}},
    {"kind": "ConfigMap", "metadata": {"name": "kube-flannel-cfg"}, "data": {"net-conf.json": json.dumps(CONFIG)}},
    {"kind": "DaemonSet", "metadata": {"name": "kube-flannel-ds"}, "spec": {"template": {"spec": POD}}},
]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """A manifest of the published form."""
    path = tmp_path / "kube-flannel.yml"
    path.write_text(yaml.safe_dump_all(MANIFEST))
    return path


class There:
    """A cluster that notes what is run, and the Dockerfile of what is built."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.dockerfiles: list[str] = []

    def run(self, _step: object, *command: object, **_: object) -> None:
        self.ran.append([str(part) for part in command])
        if "build" in command:
            self.dockerfiles.append((Path(str(command[-1])) / "Dockerfile").read_text())


# --------------------------------------------------------------------------------------------------------------- lanes
@pytest.mark.parametrize(("name", "mode"), [("kind-flannel", "iptables"), ("kind-flannel-nftables", "nftables")])
def test_lanes_with_flannel_differ_in_the_service_proxy(name: str, mode: str) -> None:
    lane = lane_file.load(name)
    networking = yaml.safe_load(lane.kind_config.read_text())["networking"]
    assert (lane.network, networking["kubeProxyMode"], lane.pod_subnets) == ("flannel", mode, BOTH)
    assert not lane.needs, "every machine can run it"


@pytest.mark.parametrize(
    ("networking", "expected"),
    [
        ({}, {"ipv4": BOTH["ipv4"]}),
        ({"ipFamily": "ipv6"}, {"ipv6": BOTH["ipv6"]}),
        ({"ipFamily": "dual"}, BOTH),
        ({"ipFamily": "dual", "podSubnet": "fd01::/48, 10.1.0.0/16"}, {"ipv4": "10.1.0.0/16", "ipv6": "fd01::/48"}),
    ],
)
def test_pods_have_kinds_subnets_unless_the_config_names_others(
    tmp_path: Path, networking: dict[str, str], expected: dict[str, str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"networking": networking}))
    assert replace(lane_file.load("kind-iptables"), kind_config=config).pod_subnets == expected


def test_a_kept_cluster_of_another_add_on_is_not_used() -> None:
    plain, masquerades = (lane_file.load(name) for name in ("kind-iptables", "kind-masquerading"))
    assert plain.kind_config == masquerades.kind_config
    assert config_of(plain, hermetic=True) != config_of(masquerades, hermetic=True)
    assert f"# flannel {versions()['flannel']['version']}" in config_of(lane_file.load("kind-flannel"), hermetic=False)


# ------------------------------------------------------------------------------------------------------------- flannel
def test_flannel_gets_the_subnets_of_the_clusters_families_and_plugins_that_nodes_lack(manifest: Path) -> None:
    documents = flannel.adapted(flannel.documents_of(manifest), "plugins:1", BOTH)
    assert json.loads(documents[1]["data"]["net-conf.json"]) == {
        **CONFIG,
        "EnableIPv4": True,
        "Network": BOTH["ipv4"],
        "EnableIPv6": True,
        "IPv6Network": BOTH["ipv6"],
    }
    pod = documents[2]["spec"]["template"]["spec"]
    assert [each["image"] for each in (*pod["initContainers"], *pod["containers"])] == ["plugins:1", OWN, OWN]
    assert pod["initContainers"][0]["args"] == ["-f", "/flannel", "/bridge", "/opt/cni/bin/"]


def test_a_family_that_pods_do_not_have_is_off(manifest: Path) -> None:
    documents = flannel.adapted(flannel.documents_of(manifest), "plugins:1", {"ipv6": BOTH["ipv6"]})
    network = json.loads(documents[1]["data"]["net-conf.json"])
    assert (network["EnableIPv4"], network["EnableIPv6"], "Network" in network) == (False, True, False)


@pytest.mark.parametrize("gone", [1, 2])
def test_a_manifest_of_another_form_is_refused(gone: int) -> None:
    others = [document for at, document in enumerate(copy.deepcopy(MANIFEST)) if at != gone]
    with pytest.raises(SetupError, match="unexpected form"):
        flannel.adapted(others, "plugins:1", BOTH)


def test_flannel_is_installed_once_nodes_have_the_images_that_they_cannot_pull(manifest: Path, tmp_path: Path) -> None:
    there, loaded = There(), list[str]()
    called = tmp_path / "bridge"
    called.write_text("a plugin")
    parts = flannel.Flannel(manifest, called, (OWN,), "own-plugin:1")
    lane, journal = lane_file.load("kind-flannel"), Journal(tmp_path / "logs")
    flannel.install(parts, lane, lambda _, image: loaded.append(image), cast(ClusterAccess, there), journal)
    build, apply, wait = there.ran
    assert build[:3] == ["docker", "build", "--tag"]
    assert there.dockerfiles == ["FROM own-plugin:1\nCOPY bridge /\n"]
    assert loaded == [OWN, build[3]]
    assert Path(apply[-1]).read_text().count(build[3]) == 1
    assert wait[3:6] == ["rollout", "status", "daemonset/kube-flannel-ds"]


def test_the_official_path_takes_the_published_manifest_and_the_plugin_of_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golang.Build, "get", lambda *_: tmp_path / "built")
    places, journal = Places(tmp_path / "cache", tmp_path / "run"), Journal(tmp_path / "logs")
    path = places.artifacts / "flannel-manifest" / f"{versions()['flannel']['sha256']}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump_all(MANIFEST))
    assert flannel.published(places, journal) == flannel.Flannel(path, tmp_path / "built" / "bridge")
    there = There()
    parts = replace(flannel.published(places, journal), called=path)
    flannel.build(cast(ClusterAccess, there), parts, flannel.documents_of(path), journal)
    assert there.dockerfiles == [f"FROM {PLUGIN}\nCOPY bridge /\n"]
    add_on = cast(Any, Official(places, journal)._network(lane_file.load("kind-flannel")))
    assert (add_on.func, add_on.args[0].manifest) == (flannel.install, path)


def test_the_hermetic_path_builds_both_images_on_the_base_image(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = tmp_path / "built"
    (built / "files").mkdir(parents=True)
    manifest.rename(built / "files" / manifest.name)
    for name in (*golang.flannel().programs, "bridge"):
        (built / name).write_text(name)
    monkeypatch.setattr(golang.Build, "get", lambda *_: built)
    monkeypatch.setattr("ci.hermetic.apt.install", lambda *_: None)
    found: dict[str, tuple[str, dict[str, bool]]] = {}

    class Docker:
        def docker(self, _step: Step, *args: object) -> None:
            context = Path(str(args[-1]))
            files = [path for path in (context / "root").rglob("*") if path.is_file()]
            modes = {str(path.relative_to(context / "root")): bool(path.stat().st_mode & 0o111) for path in files}
            found[str(args[2])] = ((context / "Dockerfile").read_text(), modes)

    store, journal = Store(Places(tmp_path / "cache", tmp_path / "run")), Journal(tmp_path / "logs")
    parts = hermetic_flannel.make("base:1", store, cast(Engine, Docker()), journal)
    assert parts == flannel.Flannel(built / "files" / manifest.name, built / "bridge", (OWN,), PLUGIN)
    assert {text.splitlines()[0] for text, _ in found.values()} == {"FROM base:1"}
    assert found[OWN][1] == {"opt/bin/flanneld": True, "opt/bin/install-conf": True}
    assert found[PLUGIN][1] == {"flannel": True}


def test_versions_are_those_of_the_modules_and_only_a_build_with_c_has_another_key() -> None:
    builds = (golang.flannel(), golang.cni_plugins())
    for build in builds:
        build._check_version()
        assert build.version == versions()[build.name]["version"]
    assert builds[0].c == (platform.machine() == "x86_64")
    assert replace(builds[1], c=True).key != builds[1].key
    assert versions()["flannel"]["version"] in versions()["flannel"]["manifest"]


def test_the_manifest_of_the_module_is_the_published_one() -> None:
    folder = f"github.com/flannel-io/flannel@{versions()['flannel']['version']}"
    cache = os.environ.get("GOMODCACHE") or str(Path(os.environ.get("GOPATH") or Path.home() / "go") / "pkg" / "mod")
    path = Path(cache) / folder / "Documentation" / "kube-flannel.yml"
    if path.is_file():  # only where the lane was built
        assert hashlib.sha256(path.read_bytes()).hexdigest() == versions()["flannel"]["sha256"]


# --------------------------------------------------------------------------------------------------------- its plugin
SUBNETS = """\
FLANNEL_NETWORK=10.244.0.0/16
FLANNEL_SUBNET=10.244.1.129/25
FLANNEL_IPV6_NETWORK=fd00:10:244::/56
FLANNEL_IPV6_SUBNET=fd00:10:244:1::1/64
FLANNEL_MTU=1450
FLANNEL_IPMASQ=true
"""
RESULT = {"cniVersion": "1.0.0", "ips": []}


class Node:
    """A node's folders, with a plugin ``bridge`` that notes what it is called with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        bridge = folder / "bin" / "bridge"
        bridge.parent.mkdir()
        noting = (
            f'(echo "$CNI_COMMAND"; cat) >>{folder}/called\n[ "$CNI_COMMAND" = DEL ] || echo \'{json.dumps(RESULT)}\'\n'
        )
        bridge.write_text(f"#!/bin/sh\n{noting}")
        bridge.chmod(0o755)
        self.subnets = folder / "subnet.env"

    def call(self, command: str) -> tuple[int, Any]:
        """Call flannel's plugin; returns its exit code and its answer."""
        delegate = {"hairpinMode": True, "isDefaultGateway": True}
        said = {"name": "cbr0", "cniVersion": "1.0.0", "type": "flannel", "delegate": delegate}
        said |= {"subnetFile": str(self.subnets), "dataDir": str(self.folder / "kept")}
        own = {"CNI_COMMAND": command, "CNI_CONTAINERID": "abc", "CNI_PATH": str(self.folder / "bin")}
        done = subprocess.run(
            [hermetic_flannel.PLUGIN], input=json.dumps(said), env={**os.environ, **own}, capture_output=True, text=True
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else None

    @property
    def called(self) -> list[tuple[str, Any]]:
        """The commands that the bridge plugin got, each with its configuration."""
        lines = (self.folder / "called").read_text().splitlines()
        return [(command, json.loads(text)) for command, text in zip(lines[::2], lines[1::2], strict=True)]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    require_tool("jq")
    return Node(tmp_path)


def test_the_plugin_calls_the_bridge_with_what_flanneld_wrote_and_again_for_the_same_pod(node: Node) -> None:
    node.subnets.write_text(SUBNETS)
    assert node.call("ADD") == (0, RESULT)
    node.subnets.unlink()  # flanneld may be gone when a pod is
    assert [node.call("DEL"), node.call("DEL")] == [(0, None), (0, None)]
    (add, given), (remove, again) = node.called
    assert (add, remove) == ("ADD", "DEL")
    assert given == again
    assert given == {
        "name": "cbr0",
        "cniVersion": "1.0.0",
        "type": "bridge",
        "isGateway": True,
        "isDefaultGateway": True,
        "hairpinMode": True,
        "mtu": 1450,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": "10.244.1.128/25"}], [{"subnet": "fd00:10:244:1::0/64"}]],
            "routes": [{"dst": "10.244.0.0/16"}, {"dst": "fd00:10:244::/56"}],
        },
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "flanneld has not written it"),
        ("FLANNEL_MTU=1450\nnonsense\n", "cannot make"),
        ("FLANNEL_SUBNET=10.244.1.1/24\n", "cannot make"),
    ],
)
def test_the_plugin_says_in_cnis_form_what_is_wrong(node: Node, text: str | None, said: str) -> None:
    if text is not None:
        node.subnets.write_text(text)
    code, answer = node.call("ADD")
    assert (code, answer["code"]) == (1, 100)
    assert said in answer["msg"]
    assert not (node.folder / "called").exists()


# ------------------------------------------------------------------------------------------------------ masquerading
def test_kindnets_masquerading_has_the_rules_of_each_family_that_pods_have() -> None:
    document = yaml.safe_load(masquerading.manifest("base:1", BOTH))
    (container,) = document["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["args"]) == (
        "base:1",
        ["iptables", "10.244.0.0/16", "ip6tables", "fd00:10:244::/56"],
    )


def test_a_rule_that_is_there_is_not_added_again(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {
        # A table is a file of rules.
        "iptables": 'rule="$(shift 4; echo "$@")"; case "$4" in --check) grep -qxF -- "$rule" table ;; '
        '--append) echo "$rule" >>table ;; *) mkdir chain ;; esac',
        "sleep": "exit 1",  # a minute is over at once; the second one ends it
        "touch": 'echo "$1" >>ready; [ "$(wc -l <ready)" -lt 2 ]',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    document = yaml.safe_load(masquerading.manifest("base:1", {"ipv4": BOTH["ipv4"]}))
    (container,) = document["spec"]["template"]["spec"]["containers"]
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = [*container["command"], *container["args"]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1, done.stderr
    (_, _, ready) = container["readinessProbe"]["exec"]["command"]
    assert (tmp_path / "ready").read_text().splitlines() == [ready, ready]
    assert (tmp_path / "table").read_text().splitlines() == [
        "KIND-MASQ-AGENT --destination 10.244.0.0/16 --jump RETURN",
        "KIND-MASQ-AGENT --jump MASQUERADE",
        "POSTROUTING --match addrtype ! --dst-type LOCAL --jump KIND-MASQ-AGENT",
    ]
