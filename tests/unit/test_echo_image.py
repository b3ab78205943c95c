"""The echo image of a run that names none: a release's, or on kind one of our own sources. ``esipp images ACTION``."""

import json
from pathlib import Path

import pytest

from esipp.app.cli import main
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.catalog import HOUSE
from esipp.ledger.run import Settings
from esipp.testbed import echo_image
from esipp.testbed.images import this_version

DOCKER = """#!/bin/sh
echo "docker $*" >> "$LOG"
case "$*" in
    *"images list"*) case "$*" in *has-it*) echo "$WANTED" ;; esac ;;
    "image inspect"*) test -n "$BUILT" && echo sha256:1 ;;
    build*) test -z "$FAILS" || { echo "no such base" >&2; exit 1; } ;;
    save*) echo saved > "$3" ;;
    load*) echo "Loaded image: it" ;;
    *import*) test "$(cat)" = saved || exit 1 ;;
    ps*) echo "$NODES" ;;
    inspect*) cat "$INSPECTED" ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker that notes what it is asked; returns the notes."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("WANTED", this_version())
    return tmp_path / "log"


def of_kind(*names: str) -> echo_image.EchoImage:
    return echo_image.EchoImage(this_version(), {name: ("docker", "exec", name) for name in names})


def test_it_is_built_and_loaded_into_the_nodes_that_lack_it(docker: Path) -> None:
    echo_image.provide(of_kind("has-it", "lacks-it"), lambda _: None)
    asked = docker.read_text().splitlines()
    assert f"docker build --quiet --tag {this_version()} {HOUSE / 'images/echoserver'}" in asked
    (imported,) = [line for line in asked if "import" in line]
    assert imported.startswith("docker exec --interactive lacks-it ctr --namespace=k8s.io images import")


def test_nothing_is_done_where_all_nodes_have_it(docker: Path) -> None:
    echo_image.provide(of_kind("has-it"), lambda _: None)
    assert len(docker.read_text().splitlines()) == 1


def test_what_docker_has_is_not_built_again(docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILT", "yes")
    echo_image.provide(of_kind("lacks-it"), lambda _: None)
    assert "docker build" not in docker.read_text()


def test_a_build_that_fails_is_reported(docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", "yes")
    with pytest.raises(PreflightError, match="no such base") as raised:
        echo_image.provide(of_kind("lacks-it"), lambda _: None)
    assert "ESIPP_IMAGE_BASE" in str(raised.value)


def test_a_docker_that_does_not_run_is_not_a_base_that_is_missing(
    docker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?"
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "{refusal}" >&2\nexit 1\n')
    assert main(["images", "build"]) == ExitCode.USAGE
    assert f"failed: {refusal}\n  hint: check that 'docker info' works." in capsys.readouterr().err


def test_another_base_makes_another_image(docker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = this_version()
    monkeypatch.setenv("ESIPP_IMAGE_BASE", "mirror/python:3")
    assert this_version() != own
    echo_image.build(this_version(), lambda _: None)
    assert "--build-arg=BASE=mirror/python:3 " in docker.read_text()


def test_a_releases_image_goes_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = "r.example/echoserver@sha256:" + "a" * 64
    (tmp_path / echo_image.RELEASED).write_text(json.dumps({"reference": reference}))
    monkeypatch.setattr(echo_image, "HOUSE", tmp_path)
    assert echo_image.default_image("https://127.0.0.1:1") == echo_image.EchoImage(reference, {})


def test_an_image_that_is_named_is_taken() -> None:
    settings = Settings("nowhere", image="r.example/mine:1")
    assert echo_image.with_image(settings, print) is settings


# ---------------------------------------------------------------------------------------------------- as commands
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: kind-here, context: {cluster: c, user: u}}]
"""


@pytest.fixture
def kind(docker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A kind cluster of two nodes in that docker; returns the options that name it."""
    nodes = []
    for name, role in (("one", "control-plane"), ("two", "worker")):
        labels = {"io.x-k8s.kind.cluster": "here", "io.x-k8s.kind.role": role}
        ports = {"6443/tcp": [{"HostIp": "127.0.0.1", "HostPort": "1"}]} if name == "one" else {}
        nodes.append({"Name": f"/{name}", "Config": {"Labels": labels}, "NetworkSettings": {"Ports": ports}})
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    monkeypatch.setenv("NODES", "one two")
    monkeypatch.setenv("INSPECTED", str(tmp_path / "nodes.json"))
    return ["--context", "kind-here", "--kubeconfig", str(tmp_path / "kubeconfig")]


def test_build_prints_the_name_of_what_it_built(docker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "build"]) == ExitCode.CONFORMANT
    assert capsys.readouterr().out == f"{this_version()}\n"
    assert f"docker build --quiet --tag {this_version()} {HOUSE / 'images/echoserver'}\n" in docker.read_text()


def test_bundle_builds_the_image_and_writes_it_to_the_file(
    docker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "echo.tar"
    assert main(["images", "bundle", str(file)]) == ExitCode.CONFORMANT
    assert capsys.readouterr().out == f"{file}\n"
    assert file.read_text() == "saved\n"
    _, built, saved = docker.read_text().splitlines()
    assert built.startswith("docker build ")
    assert saved == f"docker save --output {file} {this_version()}"


def test_a_bundle_that_cannot_be_written_is_reported(docker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("/proc/self")  # no file can be made in it, not even by root
    assert main(["images", "bundle", str(folder / "echo.tar")]) == ExitCode.USAGE
    assert "'docker save --output' failed: " in capsys.readouterr().err


def test_nothing_is_built_for_a_bundle_in_no_folder(docker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "bundle", "/nowhere/echo.tar"]) == ExitCode.USAGE
    assert "There is no folder /nowhere.\n  hint: make it, or name another FILE." in capsys.readouterr().err
    assert not docker.exists(), "docker was not asked"


def test_load_without_a_cluster_is_into_docker(
    docker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "echo.tar").write_text("saved")
    assert main(["images", "load", str(tmp_path / "echo.tar")]) == ExitCode.CONFORMANT
    assert capsys.readouterr().out == "Loaded image: it\n"
    assert docker.read_text() == f"docker load --input {tmp_path}/echo.tar\n"


def test_load_into_kind_is_into_every_node(
    docker: Path, kind: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "echo.tar").write_text("saved")
    assert main(["images", "load", str(tmp_path / "echo.tar"), *kind]) == ExitCode.CONFORMANT
    assert capsys.readouterr().out == "one\ntwo\n"
    imports = [line for line in docker.read_text().splitlines() if " images import " in line]
    assert sorted(line.split()[3] for line in imports) == ["one", "two"]


def test_load_of_what_no_node_takes_is_reported(
    kind: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "echo.tar").write_text("no image")
    assert main(["images", "load", str(tmp_path / "echo.tar"), *kind]) == ExitCode.USAGE
    assert "'docker exec --interactive' failed: 1." in capsys.readouterr().err


def test_load_into_nodes_that_are_elsewhere_is_reported(
    kind: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NODES", "")
    (tmp_path / "echo.tar").write_text("saved")
    assert main(["images", "load", str(tmp_path / "echo.tar"), *kind]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "The nodes of kind-here are no containers of this machine's docker." in said
    assert "esipp images push" in said


def test_load_of_a_file_that_is_not_there_is_reported(docker: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "load", "/nowhere/echo.tar"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "There is no file /nowhere/echo.tar.\n  hint: 'esipp images bundle FILE' writes one." in said


@pytest.mark.parametrize("words", [["build"], ["bundle", "echo.tar"], ["push", "r.example"], ["load", __file__]])
def test_without_docker_each_says_so(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["images", *words]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "esipp: Cannot run docker: it is not on PATH.\n  hint: use a machine that has docker; " in said
