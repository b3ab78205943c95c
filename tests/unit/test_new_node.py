"""A further node of a kind cluster: made as another one is, and joined by its configuration. No docker."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.checks.model import Family
from esipp.probing import new_node
from esipp.probing.new_node import copy_images, join_config, options_like, remove

NODE: Json = {
    "Image": "sha256:0a1b",
    "Config": {
        "Labels": {"io.x-k8s.kind.cluster": "esipp", "io.x-k8s.kind.role": "worker", "other": "x"},
        "Env": ["KIND_EXPERIMENTAL_CONTAINERD_SNAPSHOTTER", "container=docker"],
        "Volumes": {"/var": {}},
    },
    "HostConfig": {
        "Privileged": True,
        "CgroupnsMode": "private",
        "UsernsMode": "",
        "SecurityOpt": ["seccomp=unconfined", "label=disable"],
        "Tmpfs": {"/run": "", "/tmp": "size=1g"},  # noqa: S108 - of a container
        "Binds": ["/lib/modules:/lib/modules:ro"],
        "Sysctls": {"net.ipv6.conf.all.disable_ipv6": "0"},
        "Devices": [],
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 1},
    },
    "NetworkSettings": {"Networks": {"kind": {"IPAddress": "192.0.2.4", "GlobalIPv6Address": "2001:db8::4"}}},
}


def test_it_is_made_as_kind_made_another_one() -> None:
    assert " ".join(options_like(NODE)) == (
        "--tty --rm --init=false --network kind --privileged --cgroupns private"
        " --label io.x-k8s.kind.cluster=esipp --label io.x-k8s.kind.role=worker"
        " --security-opt seccomp=unconfined --security-opt label=disable"
        " --tmpfs /run --tmpfs /tmp:size=1g --volume /lib/modules:/lib/modules:ro --volume /var"
        " --sysctl net.ipv6.conf.all.disable_ipv6=0"
        " --env KIND_EXPERIMENTAL_CONTAINERD_SNAPSHOTTER --env container=docker"
    )


def test_a_container_of_a_control_plane_makes_a_worker_without_its_published_ports() -> None:
    labels = {**NODE["Config"]["Labels"], "io.x-k8s.kind.role": "control-plane"}
    host = {**NODE["HostConfig"], "PortBindings": {"6443/tcp": [{"HostPort": "1"}]}}
    made = " ".join(options_like({**NODE, "Config": {**NODE["Config"], "Labels": labels}, "HostConfig": host}))
    assert "kind.role=worker" in made
    assert "publish" not in made


BETA_4 = """\
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: abcdef.0123456789abcdef}]
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
controlPlane: {localAPIEndpoint: {advertiseAddress: 192.0.2.3}}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs:
  - {name: node-ip, value: "192.0.2.3,2001:db8::3"}
  - {name: provider-id, value: kind://docker/esipp/esipp-worker}
  - {name: node-labels, value: "tier=a"}
discovery:
  bootstrapToken: {apiServerEndpoint: "esipp-control-plane:6443", token: abcdef.0123456789abcdef}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
"""
ADDRESSES = {Family.IPV4: "192.0.2.9", Family.IPV6: "2001:db8::9"}


@pytest.mark.parametrize("listed", [True, False])
def test_it_joins_by_the_configuration_of_another_node(listed: bool) -> None:
    text = BETA_4
    if not listed:  # v1beta3
        (_, join, _) = yaml.safe_load_all(BETA_4)
        arguments = join["nodeRegistration"]["kubeletExtraArgs"]
        join["nodeRegistration"]["kubeletExtraArgs"] = {each["name"]: each["value"] for each in arguments}
        text = yaml.safe_dump(join)
    made: Any = yaml.safe_load(join_config(text, "esipp-r1-joined", ADDRESSES, "new.token", {"esipp.dev/run": "r1"}))
    arguments = made["nodeRegistration"]["kubeletExtraArgs"]
    assert isinstance(arguments, list) is listed
    assert ({each["name"]: each["value"] for each in arguments} if listed else arguments) == {
        "node-ip": "192.0.2.9,2001:db8::9",
        "provider-id": "kind://docker/esipp/esipp-r1-joined",
        "node-labels": "tier=a,esipp.dev/run=r1",
    }
    assert made["discovery"]["bootstrapToken"] == {
        "apiServerEndpoint": "esipp-control-plane:6443", "token": "new.token",
    }  # fmt: skip
    assert "controlPlane" not in made


def test_its_addresses_are_of_the_families_of_the_other_node() -> None:
    text = BETA_4.replace("192.0.2.3,2001:db8::3", "2001:db8::3")
    made = yaml.safe_load(join_config(text, "n", ADDRESSES, "t", {}))
    assert made["nodeRegistration"]["kubeletExtraArgs"][0]["value"] == "2001:db8::9"


def test_a_node_without_such_a_configuration_is_reported() -> None:
    with pytest.raises(HarnessError, match="no JoinConfiguration"):
        join_config("kind: InitConfiguration", "n", ADDRESSES, "t", {})


def test_only_a_container_of_this_owner_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, removed = {"esipp.dev/owner": "host/1"}, list[str]()

    def docker(*words: str) -> SimpleNamespace:
        if words[0] == "rm":
            removed.append(words[-1])
            return SimpleNamespace(returncode=0, stdout="", stderr="")
        there = words[-1] == "esipp-r1-joined" and not removed
        said = json.dumps([{"Config": {"Labels": labels}}])
        return SimpleNamespace(returncode=int(not there), stdout=said, stderr="Error: No such container: x\n")

    monkeypatch.setattr(new_node, "docker", docker)
    assert not remove("esipp-r1-joined", "other/2")
    assert not remove("esipp-r2-joined", "host/1")
    assert remove("esipp-r1-joined", "host/1")
    assert removed == ["esipp-r1-joined"]
    assert not remove("esipp-r1-joined", "host/1"), "there is nothing left to remove"


def test_an_engine_that_does_not_answer_is_no_proof_that_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = SimpleNamespace(returncode=1, stdout="", stderr="Cannot connect to the Docker daemon\n")
    monkeypatch.setattr(new_node, "docker", lambda *words: broken)
    with pytest.raises(HarnessError, match="Cannot inspect container n: Cannot connect"):
        remove("n", "host/1")


DOCKER = """#!/bin/sh
case "$*" in
  "exec source"*ls*) printf '%s\\n' registry.example/speaker:1 docker.io/library/base:2 other:3 sha256:0a ;;
  "exec target"*ls*) echo docker.io/library/base:2 ;;
  "exec source"*export*) shift 6; echo "$@" >"$STATE/source.tar" ;;
  "cp source:"*) cp "$STATE/source.tar" "$3" ;;
  "cp "*) cp "$2" "$STATE/target.tar" ;;
  *import*) [ ! -e "$STATE/full" ] || { echo "no space left" >&2; exit 1; }; mv "$STATE/target.tar" "$STATE/imported" ;;
  "exec source rm"*) rm "$STATE/source.tar" ;;
  "exec target rm"*) rm -f "$STATE/target.tar" ;;
esac
"""


def test_only_images_that_it_lacks_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("STATE", str(tmp_path))
    wanted = {"registry.example/speaker:1", "base:2", "of-no-node:4"}
    assert copy_images("source", "target", wanted) == ["registry.example/speaker:1"]
    assert (tmp_path / "imported").read_text() == "/var/target.tar registry.example/speaker:1\n"
    assert copy_images("source", "target", {"base:2"}) == []
    (tmp_path / "full").touch()
    with pytest.raises(HarnessError, match=r"Cannot copy registry.example/speaker:1 to target: no space left"):
        copy_images("source", "target", wanted)
    assert not list(tmp_path.glob("*.tar")), "nothing is left in either container"
