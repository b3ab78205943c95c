"""What images are pulled with: copied or made, only what is needed, and never printed."""

import base64
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from esipp.base import redaction
from esipp.base.customisation import PULL_SECRET, Customisation
from esipp.base.errors import ExitCode, PreflightError
from esipp.base.json import Json
from esipp.base.labels import labels_of
from esipp.base.redaction import Redactor
from esipp.checks.catalog import HOUSE
from esipp.checks.rights import Right
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.rights import all_rights, of_pull_secret
from esipp.ledger.run import Run, Settings
from esipp.preflight.preflight import examine
from esipp.testbed import pull_secret
from esipp.testbed.pull_secret import KINDS, OF_A_FILE, load, manifest
from esipp.testbed.source_ranges import SourceRanges
from tests.unit.rights_world import Guarded, granted
from tests.unit.test_source_ranges import arranged
from tests.unit.world import CHECKS

IMAGE = "registry.example/esipp/echoserver:1"
AUTH, OTHER = "dXNlcjpwYXNzd29yZC1vZi1vdXJz", "c29tZWJvZHk6ZWxzZXMtcGFzc3dvcmQ="
KEY = ".dockerconfigjson"
CREATE, GET = of_pull_secret("there", "pull")[::-1]


def encoded(document: Json) -> str:
    return base64.b64encode(json.dumps(document).encode()).decode()


def decoded(found: Json | None) -> Json:
    assert found is not None
    return cast(Json, json.loads(base64.b64decode(found["data"][KEY])))


THERE = {"type": OF_A_FILE, "data": {KEY: encoded({"auths": {"registry.example": {"auth": AUTH}}}), "more": "eA=="}}


class Holding(Guarded):
    """A cluster that holds this Secret, or fails in this way."""

    def __init__(self, answer: Json | Exception = THERE, rights: Iterable[Right] = (CREATE, GET)) -> None:
        super().__init__({*all_rights(), *rights})
        self.answer = answer
        self.asked: list[str] = []

    def request(self, method: str, path: str, **more: Any) -> Json:
        if "/secrets/" in path:
            self.asked.append(f"{method} {path}")
            if isinstance(self.answer, Exception):
                raise self.answer
            return {"metadata": {"name": "pull", "annotations": {"x": "y"}}, **self.answer}
        return super().request(method, path, **more)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Redactor:
    """What is learned here is forgotten."""
    fresh = Redactor()
    monkeypatch.setattr(redaction, "KNOWN", fresh)
    monkeypatch.setattr(pull_secret, "KNOWN", fresh)
    return fresh


def loaded(cluster: Holding, source: str = "there/pull", image: str = IMAGE) -> Json | None:
    return load(cast(Cluster, cluster), source, image)


def test_none_is_asked_for() -> None:
    cluster = Holding(rights=())
    assert loaded(cluster, "") is None
    assert cluster.asked == []


def test_of_a_secret_only_what_pulls_is_copied() -> None:
    cluster = Holding()
    assert loaded(cluster) == {"type": OF_A_FILE, "data": {KEY: THERE["data"][KEY]}}
    assert cluster.asked == ["GET /api/v1/namespaces/there/secrets/pull"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_both_types_are_copied(kind: str) -> None:
    found = loaded(Holding({"type": kind, "data": {KINDS[kind]: "eyJ9"}}))
    assert found == {"type": kind, "data": {KINDS[kind]: "eyJ9"}}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"type": "Opaque", "data": {KEY: "eA=="}}, "of type Opaque has no credentials for images"),
        ({"type": OF_A_FILE, "data": {}}, "has no credentials for images"),
        ({"type": OF_A_FILE}, "has no credentials for images"),
        (ApiError(404, "NotFound", 'secrets "pull" not found', "GET"), 'there/pull: secrets "pull" not found'),
        (UnreachableError("gone"), "Cannot read --image-pull-secret there/pull: gone"),
    ],
)
def test_one_that_cannot_be_had_is_reported(answer: Any, sentence: str) -> None:
    with pytest.raises(PreflightError) as refused:
        loaded(Holding(answer))
    assert sentence in refused.value.sentence
    assert refused.value.exit_code is ExitCode.USAGE


# -------------------------------------------------------------------------------------------------------------- a file
def config(folder: Path, document: Any) -> str:
    path = folder / "config.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return f"file:{path}"


AUTHS = {"auths": {"registry.example": {"auth": AUTH}, "other.example": {"auth": OTHER}}, "HttpHeaders": {"x": "y"}}


def test_of_a_file_only_the_images_registry_is_taken(tmp_path: Path) -> None:
    cluster = Holding(rights=(CREATE,))
    found = loaded(cluster, config(tmp_path, AUTHS))
    assert found is not None
    assert found["type"] == OF_A_FILE
    assert decoded(found) == {"auths": {"registry.example": {"auth": AUTH}}}
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("entry", "image", "fits"),
    [
        ("https://index.docker.io/v1/", "esipp/echo:1", True),
        ("docker.io", "echo", True),
        ("https://registry.example/v2/", IMAGE, True),
        ("registry.example:5000", IMAGE, False),
        ("registry.example:5000", "registry.example:5000/echo", True),
        ("example", IMAGE, False),
        ("docker.io", IMAGE, False),
    ],
)
def test_which_entry_is_for_an_image(entry: str, image: str, fits: bool, tmp_path: Path) -> None:
    source = config(tmp_path, {"auths": {entry: {"auth": AUTH}}})
    if fits:
        assert decoded(loaded(Holding(), source, image)) == {"auths": {entry: {"auth": AUTH}}}
    else:
        with pytest.raises(PreflightError, match="has no credentials for"):
            loaded(Holding(), source, image)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"auths": {"registry.example": {}}, "credsStore": "desktop"}, "only the credential helper desktop"),
        ({"credHelpers": {"registry.example": "gcloud"}}, "only the credential helper gcloud"),
        ({"auths": {}}, "has no credentials for registry.example."),
        ("[]", "it is not a docker config file"),
        ("{", "it is not a docker config file"),
        ('{"auths": 7}', "it is not a docker config file"),
    ],
)
def test_a_file_that_has_nothing_is_reported(document: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(PreflightError) as refused:
        loaded(Holding(), config(tmp_path, document))
    assert sentence in refused.value.sentence
    assert refused.value.hint


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="No such file"):
        loaded(Holding(), f"file:{tmp_path / 'none'}")


# ------------------------------------------------------------------------------------------ never printed, and gone
def test_what_is_in_it_is_known_and_hidden(known: Redactor) -> None:
    found = loaded(Holding())
    assert found is not None
    for secret in (AUTH, found["data"][KEY], "user:password-of-ours", "password-of-ours"):
        assert secret not in known.text(f"it says {secret} aloud")


def test_the_ledger_has_its_name_only(tmp_path: Path) -> None:
    customisation = Customisation(pull_secret="there/pull", labels=(("x", "y"),))  # noqa: S106 - a name, no password
    run = Run(Settings(context="home", out=str(tmp_path / "run"), customisation=customisation), say=lambda _: None)
    run.begin(CHECKS[:1], 0)
    found = loaded(Holding())
    run.record("note", about="x", note=json.dumps(found))
    run.end()
    text = (tmp_path / "run" / "ledger.jsonl").read_text()
    header = json.loads(text.splitlines()[0])
    assert header["created_with"] == ["--label=x=y", "--image-pull-secret=there/pull"]
    assert "--image-pull-secret=there/pull" in header["command"]
    assert AUTH not in text
    assert THERE["data"][KEY] not in text


def test_it_lives_in_the_runs_namespace_under_a_name_of_ours() -> None:
    found = loaded(Holding())
    assert found is not None
    made = manifest("r", found)
    assert made["metadata"] == {"name": PULL_SECRET, "labels": labels_of("r")}
    assert (made["type"], made["data"]) == (found["type"], found["data"])


def test_it_is_there_before_any_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(Holding())
    assert found is not None
    made, testbed = arranged(monkeypatch, SourceRanges(), pull_secret=found)
    kinds = [each["kind"] for each in made]
    assert kinds[:3] == ["Namespace", "Lease", "Secret"]
    assert {"DaemonSet", "Pod"} <= set(kinds[3:])
    assert made[2] == manifest(testbed.run, found)
    assert AUTH not in repr(testbed)
    assert "Secret" not in {each["kind"] for each in arranged(monkeypatch, SourceRanges())[0]}


# --------------------------------------------------------------------------------------------------------------- rights
@pytest.mark.parametrize("lost", [CREATE, GET], ids=str)
def test_a_right_that_is_missing_is_reported_before_anything_is_made(lost: Right) -> None:
    cluster = Holding(rights={CREATE, GET} - {lost})
    named = Customisation(pull_secret="there/pull")  # noqa: S106 - a name, no password
    settings = Settings(context="home", outside="none", image=IMAGE, customisation=named)
    with pytest.raises(PreflightError) as refused:
        examine(cast(Cluster, cluster), settings)
    assert str(lost) in refused.value.sentence
    assert "docs/rights.md" in refused.value.hint
    assert cluster.asked == []


def test_preflight_reads_it_and_makes_facts_of_what_was_given() -> None:
    named = Customisation(pull_secret="there/pull")  # noqa: S106 - a name, no password
    settings = Settings(context="home", outside="none", image=IMAGE, customisation=named)
    found = examine(cast(Cluster, Holding()), settings)
    assert found.facts["created.pulls-with"] == "there/pull"
    assert found.decided["created.pulls-with"] == "given on the command line"
    assert AUTH not in repr(found)


def test_nobody_is_granted_it_by_default() -> None:
    assert not set(of_pull_secret("there", "pull")) & all_rights()


def test_the_page_grants_exactly_what_it_takes() -> None:
    page = (HOUSE / "docs" / "rights.md").read_text()
    section = page.partition("## Pull secrets")[2]
    (text,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    documents = [each for each in yaml.safe_load_all(text) if each]
    roles = [each for each in documents if each["kind"] in ("Role", "ClusterRole")]
    rules = [(role["metadata"].get("namespace", ""), rule) for role in roles for rule in role["rules"]]
    place, name = "images", "pull"
    assert set(granted(rules)) == set(of_pull_secret(place, name))
    bound = {each["roleRef"]["name"] for each in documents if each["kind"].endswith("Binding")}
    assert bound == {each["metadata"]["name"] for each in roles}
