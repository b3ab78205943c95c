"""``esipp images``: what a run of this version needs, and what it is called elsewhere."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ci.cluster import ECHO
from ci.loadbalancer import IMAGE
from esipp.app.cli import main
from esipp.base.errors import ExitCode
from esipp.checks.catalog import HOUSE
from esipp.testbed import images

Ask = Callable[..., str]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*words: str) -> str:
        assert main(["images", *words]) == ExitCode.CONFORMANT
        return capsys.readouterr().out

    return asked


def test_they_are_those_that_ci_builds() -> None:
    assert [each.reference for each in images.images()] == [ECHO.reference(None), IMAGE.reference(None)]
    assert images.this_version() == ECHO.reference(None)
    assert next(each.needed for each in images.images()) == "always"


def test_each_says_what_it_is_built_from() -> None:
    for image in images.images():
        dockerfile = (HOUSE / image.source / "Dockerfile").read_text()
        assert f"ARG BASE={image.base}\n" in dockerfile
        assert "@sha256:" in image.base


def test_as_json_it_is_an_object_a_line(ask: Ask) -> None:
    found = [json.loads(line) for line in ask("--format", "json").splitlines()]
    assert [each["reference"] for each in found] == [each.reference for each in images.images()]
    assert {name for each in found for name in each} == {"reference", "purpose", "source", "needed", "base"}


def test_as_markdown_it_is_a_table(ask: Ask) -> None:
    lines = ask("--format", "markdown").splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith(f"| `{images.this_version()}` |")


def test_at_a_registry(ask: Ask) -> None:
    found = [
        json.loads(line)["reference"] for line in ask("--format=json", "--registry", "r.example:5000/m").splitlines()
    ]
    assert found == [each.reference.replace("localhost/", "r.example:5000/m/") for each in images.images()]


def test_text_ends_with_commands(ask: Ask) -> None:
    assert "esipp images push r.example/mirror\n" in ask("--registry", "r.example/mirror")
    assert "esipp run --context kind-NAME " in ask()


def test_without_a_checkout_that_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(images, "HOUSE", tmp_path)
    assert main(["images"]) == ExitCode.USAGE


def test_a_registry_that_is_none_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "--registry", "https://r.example"]) == ExitCode.USAGE
    assert "is not a valid registry" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reference", "host"),
    [
        ("echo:1", "docker.io"),
        ("esipp/echo", "docker.io"),
        ("localhost/esipp/echo", "localhost"),
        ("r.example/esipp/echo:1", "r.example"),
        ("r:5000/echo@sha256:ab", "r:5000"),
    ],
)
def test_which_registry_an_image_is_pulled_from(reference: str, host: str) -> None:
    assert images.registry_of(reference) == host


def test_the_page_names_the_same_commands() -> None:
    page = (HOUSE / "docs" / "deploying.md").read_text()
    for word in ("esipp images push", "skopeo copy", "esipp images load", "esipp images bundle"):
        assert word in page
    assert all(re.search(rf"`--{option}\b", page) for option in ("label", "annotation", "node-selector", "toleration"))
