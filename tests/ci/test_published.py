"""What a lane takes as it is published: what is run for it, what is left, and a manifest that is another one."""

import hashlib
from pathlib import Path
from typing import Any, cast

import pytest
import requests

from ci import published
from ci.access import ClusterAccess
from ci.places import CLUSTER, Places, versions
from ci.step import Journal, SetupError

MANIFEST = b"kind: DaemonSet\n"
PINNED = {"version": "v1", "manifest": "https://example.org/m.yaml", "sha256": hashlib.sha256(MANIFEST).hexdigest()}


class There:
    """A way to a cluster that notes what is run there."""

    def __init__(self, containers: str = "") -> None:
        self.ran: list[list[str]] = []
        self.asked: list[list[str]] = []
        self._containers = containers

    def run(self, _step: object, *command: object, **_: Any) -> None:
        self.ran.append([str(part) for part in command])

    def ask(self, *command: object, **_: Any) -> str:
        self.asked.append([str(part) for part in command])
        return self._containers if "ps" in command else ""


def answered(content: bytes, status: int = 200) -> requests.Response:
    answer = requests.Response()
    answer.status_code, answer._content = status, content
    return answer


@pytest.fixture
def where(tmp_path: Path) -> Places:
    return Places(tmp_path / "cache", tmp_path / "run")


def test_calico_is_applied_from_the_manifest_with_the_pinned_digest(
    where: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = versions()["calico"]["sha256"]
    there = There()
    path = where.artifacts / "calico-manifest" / f"{digest}.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(MANIFEST)
    monkeypatch.setattr("requests.get", lambda *_, **__: pytest.fail("it is there"))
    published.install(cast(ClusterAccess, there), ["calico"], where, Journal(tmp_path / "logs"))
    (command,) = there.ran
    assert command[0] == "kubectl"
    assert command[-4:] == ["apply", "--server-side", "--filename", str(path)]


def test_cloud_provider_kind_is_started_by_digest_beside_the_nodes_and_removed_with_what_it_made(
    where: Places, tmp_path: Path
) -> None:
    there = There("one two")
    published.install(cast(ClusterAccess, there), ["cloud-provider-kind"], where, Journal(tmp_path / "logs"))
    (command,) = there.ran
    assert command[:3] == ["docker", "run", "--detach"]
    assert command[command.index("--network") + 1] == "kind"
    assert "@sha256:" in command[-1]
    published.remove(cast(ClusterAccess, there))
    removed = [command[4:] for command in there.asked if "rm" in command]
    assert removed == [[published.CONTAINER], ["one", "two"]]
    (asked,) = [command for command in there.asked if "ps" in command]
    assert asked[-1].endswith(f"={CLUSTER}"), "of this cluster, and of no other"


def test_a_lane_that_takes_nothing_as_published_runs_nothing(where: Places, tmp_path: Path) -> None:
    there = There()
    published.install(cast(ClusterAccess, there), [], where, Journal(tmp_path / "logs"))
    published.remove(cast(ClusterAccess, there))
    assert there.ran == []
    assert [command for command in there.asked if "rm" in command] == [
        ["docker", "rm", "--force", "--volumes", published.CONTAINER]
    ]


def test_a_manifest_is_downloaded_once_and_refused_if_it_is_another_one(
    where: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(url: str, **_: object) -> requests.Response:
        asked.append(url)
        return answered(MANIFEST)

    monkeypatch.setattr("requests.get", answer)
    journal = Journal(tmp_path / "logs")
    for _ in range(2):
        assert published.fetch("Mine", PINNED, where, journal).read_bytes() == MANIFEST
    assert asked == [PINNED["manifest"]]
    with pytest.raises(SetupError, match="has the digest"):
        published.fetch("Mine", {**PINNED, "sha256": "0" * 64}, where, journal)
    assert not (where.artifacts / "mine-manifest" / f"{'0' * 64}.yaml").exists()


@pytest.mark.parametrize("answer", [None, answered(b"none such", 404)])
def test_a_manifest_that_cannot_be_had_is_said(
    answer: requests.Response | None, where: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object, **__: object) -> requests.Response:
        if answer is None:
            raise requests.ConnectionError("no route")
        return answer

    monkeypatch.setattr("requests.get", nothing)
    with pytest.raises(SetupError, match="Cannot download Mine's manifest") as refused:
        published.fetch("Mine", PINNED, where, Journal(tmp_path / "logs"))
    assert refused.value.hint
