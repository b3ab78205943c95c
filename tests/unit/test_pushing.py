"""``esipp images push``: an image from a file to a registry that asks for a token, with no docker about."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from esipp.app.cli import main
from esipp.app.images import registry
from esipp.base.errors import ExitCode
from esipp.testbed.images import this_version

CONFIG = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode()
LAYERS = [b"base" * 5000, gzip.compress(b"files" * 100)]
ACCOUNT = base64.b64encode(b"someone:a-password").decode()


class Kept(ThreadingHTTPServer):
    """A registry with its parts by digest, and its tags."""

    blobs: dict[str, bytes]
    tags: dict[str, bytes]
    asked: list[str]
    refuses: bool


class Handler(BaseHTTPRequestHandler):
    """The part of the distribution protocol that a push uses."""

    server: Kept
    protocol_version = "HTTP/1.1"

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append(f"{self.command} {url.path}")
        if url.path == "/token":
            good = self.headers["Authorization"] == f"Basic {ACCOUNT}" and parse_qs(url.query)["service"] == ["kept"]
            self.answer(200 if good else 401, json.dumps({"token": "t" * 20} if good else {}).encode())
        elif self.headers.get("Authorization") != f"Bearer {'t' * 20}":
            realm = f'Bearer realm="http://{self.headers["Host"]}/token",service="kept",scope="repository:x:push"'
            self.answer(401, WWW_Authenticate=realm)
        elif self.server.refuses:
            self.answer(403, json.dumps({"errors": [{"message": "read only"}]}).encode())
        else:
            self.taken(url.path, parse_qs(url.query), content)

    def taken(self, path: str, query: dict[str, list[str]], content: bytes) -> None:
        _, _, digest = path.rpartition("/")
        if self.command == "HEAD":
            self.answer(200 if digest in self.server.blobs else 404)
        elif self.command == "POST":
            self.answer(202, Location="/uploads/1?state=x")
        elif "/manifests/" in path:
            self.server.tags[path] = content
            self.answer(201)
        else:
            assert query["state"] == ["x"]
            (wanted,) = query["digest"]
            assert wanted == f"sha256:{hashlib.sha256(content).hexdigest()}"
            self.server.blobs[wanted] = content
            self.answer(201)

    do_GET = do_HEAD = do_POST = do_PUT = handle_any  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def kept() -> Iterator[Kept]:
    server = Kept(("127.0.0.1", 0), Handler)
    server.blobs, server.tags, server.asked, server.refuses = {}, {}, [], False
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A file as of ``docker save``."""
    parts = {"config.json": CONFIG, **{f"{n}/layer.tar": layer for n, layer in enumerate(LAYERS)}}
    entry = {"Config": "config.json", "RepoTags": [this_version()], "Layers": ["0/layer.tar", "1/layer.tar"]}
    parts["manifest.json"] = json.dumps([entry]).encode()
    with tarfile.open(tmp_path / "echo.tar", "w") as packed:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return tmp_path / "echo.tar"


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Kept) -> str:
    """Docker's config file with the registry's account; returns the registry."""
    host = f"127.0.0.1:{kept.server_port}"
    (tmp_path / "config.json").write_text(json.dumps({"auths": {host: {"auth": ACCOUNT}, "other": {"auth": "eDp5"}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # no docker
    return host


def test_the_image_arrives_whole(kept: Kept, bundle: Path, account: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "push", f"{account}/mirror", "--bundle", str(bundle)]) == ExitCode.CONFORMANT
    ((path, manifest),) = kept.tags.items()
    name, _, tag = this_version().removeprefix("localhost/").partition(":")
    assert path == f"/v2/mirror/{name}/manifests/{tag}"
    data = json.loads(manifest)
    assert kept.blobs[data["config"]["digest"]] == CONFIG
    assert [gzip.decompress(kept.blobs[each["digest"]]) for each in data["layers"]] == [LAYERS[0], b"files" * 100]
    assert [len(kept.blobs[each["digest"]]) for each in data["layers"]] == [each["size"] for each in data["layers"]]
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    assert capsys.readouterr().out == f"{account}/mirror/{name}@{digest}\n"


def test_what_is_there_is_not_sent_again(kept: Kept, bundle: Path, account: str) -> None:
    for _ in range(2):
        assert main(["images", "push", account, "--bundle", str(bundle)]) == ExitCode.CONFORMANT
    assert sum(each.startswith("POST") for each in kept.asked) == 3, "two layers and a configuration, once"


def test_a_refusal_is_reported(kept: Kept, bundle: Path, account: str, capsys: pytest.CaptureFixture[str]) -> None:
    kept.refuses = True
    assert main(["images", "push", account, "--bundle", str(bundle)]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "answers 403 to HEAD" in said
    assert "a-password" not in said


def test_without_an_account_the_refusal_is_reported(
    kept: Kept, bundle: Path, account: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").unlink()
    assert main(["images", "push", account, "--bundle", str(bundle)]) == ExitCode.USAGE
    assert "docker login" in capsys.readouterr().err
    assert not kept.tags


def test_a_registry_that_is_not_there_is_reported(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "push", "localhost:9", "--bundle", str(bundle)]) == ExitCode.USAGE
    assert "The registry localhost:9 does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_file_that_is_no_bundle_is_reported(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    assert main(["images", "push", "localhost:9", "--bundle", str(tmp_path / "x.tar")]) == ExitCode.USAGE
    assert "Cannot read" in capsys.readouterr().err


def test_another_versions_bundle_is_reported(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESIPP_IMAGE_BASE", "another")  # its name is a hash of its content
    assert main(["images", "push", "localhost:9", "--bundle", str(bundle)]) == ExitCode.USAGE
    assert "bundle it with this version" in capsys.readouterr().err


def test_a_credential_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-kept"
    helper.write_text('#!/bin/sh\nread -r host\nprintf \'{"Username": "%s", "Secret": "s3"}\' "$host"\n')
    helper.chmod(0o755)
    (tmp_path / "config.json").write_text('{"credHelpers": {"r.example": "kept"}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert registry.account_of("r.example") == registry.Account("r.example", "s3")
    assert registry.account_of("other.example") == registry.Account()
