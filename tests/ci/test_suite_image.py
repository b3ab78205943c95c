"""The suite's own image, on either path: named by what is in it, and built by the same commands."""

from pathlib import Path
from typing import Any

import pytest

from ci import suite_image
from ci.access import ClusterAccess
from ci.hermetic.store import Store
from ci.places import ROOT, Places
from ci.step import Journal, SetupError


class There:
    """An environment that records what is run; ``has`` says whether the engine has the image."""

    path, node_image = "official", "node:1"

    def __init__(self, *, has: bool) -> None:
        self.has, self.ran = has, list[list[str]]()

    def ask(self, *_: Any) -> str | None:
        return "sha256:1" if self.has else None

    def run(self, _step: Any, *command: Any) -> None:
        self.ran.append([str(word) for word in command])


def test_it_is_named_by_its_content_its_base_and_its_kubectl() -> None:
    names = {suite_image.reference(base, kubectl) for base in (None, "base:1") for kubectl in ("node:1", "node:2")}
    assert len(names) == 4
    assert suite_image.reference(None, "node:1") in names, "and by nothing else"
    assert all(name.startswith(suite_image.NAME + ":") for name in names)
    assert all((ROOT / each).exists() for each in suite_image.SOURCES)


@pytest.mark.parametrize(("base", "options"), [(None, []), ("base:1", ["--build-arg", "BASE=base:1"])])
def test_it_is_built_of_the_checkout_with_the_nodes_kubectl(
    base: str | None, options: list[str], tmp_path: Path
) -> None:
    there: Any = There(has=False)
    image = suite_image.build(there, base, Journal(tmp_path))
    file = str(ROOT / "images" / "esipp" / "Dockerfile")
    assert there.ran == [
        *[["docker", "build", "--file", file, "--tag", image, "--build-arg", "KUBECTL=node:1", *options, str(ROOT)]]
    ]


def test_one_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    there: Any = There(has=True)
    suite_image.build(there, None, Journal(tmp_path))
    assert there.ran == []


def test_without_a_kept_cluster_it_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setenv("ESIPP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ESIPP_RUN", str(tmp_path / "run"))
    assert suite_image.main() == 4
    said = capsys.readouterr()
    assert "There is no kept cluster." in said.err
    assert said.out == "", "the reference alone may be captured"


def test_only_the_reference_goes_to_standard_output(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def provide(_there: ClusterAccess, _where: Places, journal: Journal) -> str:
        journal.line("built")
        return "suite:1"

    monkeypatch.setattr(suite_image, "provide", provide)
    monkeypatch.setattr(suite_image, "Journal", lambda _: FakeJournal())
    monkeypatch.setattr(ClusterAccess, "load", lambda _: ClusterAccess("official", "", "", ""))
    assert suite_image.main() == 0
    said = capsys.readouterr()
    assert said.out == "suite:1\n"
    assert said.err == "built\n"


class FakeJournal:
    """A journal without a folder."""

    def line(self, text: str) -> None:
        print(text)


# ------------------------------------------------------------------------------------------------ without a registry
class Engine:
    """An engine with a base image whose Python is of a version, or is none."""

    def __init__(self, python: str) -> None:
        self.python, self.built = python, list[list[str]]()

    def has_image(self, _reference: str) -> bool:
        return bool(self.built)

    def ask(self, *words: str) -> list[str]:
        return [self.python] if words[0] == "run" and self.python else []

    def docker(self, _step: Any, *words: Any) -> None:
        self.built.append([str(word) for word in words])
        self.file = Path(words[words.index("--file") + 1]).read_text()


def made(engine: Any, tmp_path: Path) -> str:
    return suite_image.make_base(
        "base:1", Store(Places(tmp_path / "cache", tmp_path)), engine, Journal(tmp_path / "logs")
    )


def test_packages_are_those_for_the_python_of_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[list[str]]()
    monkeypatch.setattr("ci.step.Step.run", lambda _step, command: asked.append([str(word) for word in command]))
    engine = Engine("3.11")
    image = made(engine, tmp_path)
    assert image == made(engine, tmp_path), "the second time nothing is made"
    ((command,), (built,)) = asked, engine.built
    assert "--python-version=3.11" in command
    assert {"--require-hashes", "--only-binary=:all:"} <= set(command)
    assert built[:3] == ["build", "--tag", image]
    assert engine.file == "FROM base:1\nCOPY packages /opt/esipp/packages\n"


def test_a_base_without_python_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="runs no python3"):
        made(Engine(""), tmp_path)
