"""CoreDNS of the hermetic path: kubeadm's own, but it must never ask a server outside of the cluster."""

import re
from pathlib import Path

import pytest
import yaml

from ci.access import ClusterAccess
from ci.hermetic import coredns, golang
from ci.hermetic.engine import Engine
from ci.hermetic.images import Builder
from ci.hermetic.store import Store
from ci.places import Places, versions
from ci.step import Journal, SetupError

COREFILE = """.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
"""
DEPLOYMENT = {
    "kind": "Deployment",
    "metadata": {"name": "coredns", "labels": {"k8s-app": "kube-dns"}},
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "containers": [{"image": "coredns:v1", "readinessProbe": {"httpGet": {"path": "/ready"}}}],
            }
        },
    },
}
SERVICE = {
    "kind": "Service",
    "metadata": {"name": "kube-dns", "resourceVersion": "0"},
    "spec": {"clusterIP": "fd00::a"},
}
CONFIG = {"kind": "ConfigMap", "metadata": {"name": "coredns"}, "data": {"Corefile": COREFILE}}
PRINTED = f"---\n{yaml.safe_dump_all([DEPLOYMENT, CONFIG, SERVICE])}"


def test_the_corefile_loses_what_leads_outside_and_nothing_else() -> None:
    made = coredns.isolated(COREFILE)
    cluster, elsewhere = made.split(coredns.ELSEWHERE)[0], coredns.ELSEWHERE
    assert made.endswith(elsewhere)
    given, left = COREFILE.splitlines(), cluster.splitlines()
    assert left[0] == "cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {"
    gone = [line.strip() for line in given[1:] if line not in left[1:]]
    assert [line.split()[0] for line in gone] == ["fallthrough", "forward", "max_concurrent", "loop"]
    assert [line for line in left[1:] if line not in given] == []
    assert made.count("{") == made.count("}")


def test_names_of_other_zones_are_denied_at_once() -> None:
    made = coredns.isolated(COREFILE)
    assert re.search(r"^\.:53 \{[^}]*template ANY ANY \{\s*rcode NXDOMAIN\s*\}", made, re.MULTILINE)
    assert "/etc/resolv.conf" not in made


@pytest.mark.parametrize("corefile", ["", ".:53 {\n    ready\n}\n", COREFILE.replace(".:53", ".:1053")])
def test_a_corefile_of_another_form_is_refused(corefile: str) -> None:
    with pytest.raises(SetupError, match="Corefile"):
        coredns.isolated(corefile)


def test_the_binary_has_every_plugin_that_the_corefile_names() -> None:
    imported = set(re.findall(r"coredns/plugin/(\w+)", (golang.MODULES / "coredns" / "main.go").read_text()))
    directives = {"prometheus" if name == "metrics" else name for name in imported}
    made = coredns.isolated(COREFILE)
    assert set(re.findall(r"^    (\w+)", made, re.MULTILINE)) <= directives
    assert not directives & set(coredns.OUTWARD)


def test_the_manifest_stays_kubeadm_s_but_for_one_replica_that_is_noticed_soon() -> None:
    deployment, config, service = yaml.safe_load_all(coredns.adapted(PRINTED))
    assert deployment["spec"]["replicas"] == 1
    pod = deployment["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", coredns.CONTROL_PLANE: ""}
    probe = pod["containers"][0]["readinessProbe"]
    assert probe == {"httpGet": {"path": "/ready"}, "periodSeconds": 1}
    assert config["data"]["Corefile"] == coredns.isolated(COREFILE)
    assert service == {**SERVICE, "metadata": {"name": "kube-dns"}}


class Scripted(ClusterAccess):
    """A cluster in which kubeadm prints this."""

    printed: str | None = PRINTED

    def ask(self, *command: str | Path, timeout: float = 30) -> str | None:
        return self.printed if coredns.PRINT in " ".join(map(str, command)) else None


def test_what_kubeadm_prints_is_applied_and_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[list[str]] = []
    monkeypatch.setattr(coredns, "kubectl", lambda there, step, *command: done.append([str(part) for part in command]))
    coredns.install(Scripted("hermetic", "", "", ""), Journal(tmp_path))
    assert [command[0] for command in done] == ["apply", "rollout"]
    applied = yaml.safe_load_all(Path(done[0][-1]).read_text())
    assert [document["kind"] for document in applied] == ["Deployment", "ConfigMap", "Service"]


def test_a_kubeadm_that_prints_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "printed", None)
    with pytest.raises(SetupError, match="kubeadm"):
        coredns.install(Scripted("hermetic", "", "", ""), Journal(tmp_path))


def test_every_image_that_kubeadm_names_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Places(tmp_path, tmp_path)
    journal = Journal(tmp_path / "logs")
    builder = Builder(versions()["kubernetes"]["default"], Store(where), Engine(where), journal)
    programs = {}
    for build in (builder.kubernetes, builder.kind, builder.metallb, *builder.others):
        programs[build.name] = tmp_path / build.name
        (programs[build.name] / "files").mkdir(parents=True)
        for name in build.programs:
            (programs[build.name] / name).touch()
    (programs["metallb"] / "files" / "metallb-native.yaml").touch()
    made: list[tuple[str, str]] = []
    monkeypatch.setattr(builder, "_program_image", lambda step, image, program: made.append((image, program.name)))
    monkeypatch.setattr(builder, "_on_base", lambda step, image, program: made.append((image, program.name)))
    wanted = [f"r.example/{name}:v1" for name in ("kube-apiserver", "kube-proxy", "coredns/coredns", "pause", "etcd")]
    with journal.step("make images") as step:
        inside = builder._component_images(step, programs, wanted)
    assert set(wanted) <= set(inside)
    assert ("r.example/coredns/coredns:v1", "coredns") in made
