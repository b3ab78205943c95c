"""The echo image of a run that names none: a release's, or on kind one of our own sources."""

import json
from pathlib import Path

import pytest

from esipp.base.errors import PreflightError
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
    *import*) cat > /dev/null ;;
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
