"""Pushes an image from an archive to a registry, by the OCI distribution protocol and without docker.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md; tokens:
https://distribution.github.io/distribution/spec/auth/token/
"""

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urljoin

import requests

from esipp.base.errors import PreflightError
from esipp.base.redaction import KNOWN
from esipp.testbed.images import registry_of
from esipp.testbed.pull_secret import is_for

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
GZIP = b"\x1f\x8b"
SECONDS = 120.0
LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""Registries on this machine speak HTTP, as docker assumes, too."""


@dataclass(frozen=True)
class Blob:
    """A part of an image: its file, and how a manifest describes it."""

    file: Path
    media_type: str
    digest: str
    size: int

    def described(self) -> dict[str, Any]:
        """The descriptor in a manifest."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def push(archive: Path, reference: str, at: str) -> str:
    """Push an image.

    Args:
        archive: a file as ``docker save`` and ``esipp images bundle`` write it.
        reference: the image's name in the archive.
        at: its name in the registry, with a tag.

    Returns:
        The digest, by which nodes pull exactly this image.

    Raises:
        PreflightError: the archive lacks the image, or the registry refuses it or does not answer.
    """
    name, _, tag = at.partition("/")[2].rpartition(":")
    with tempfile.TemporaryDirectory(prefix="esipp-push-") as place:
        config, layers = _unpacked(archive, reference, Path(place))
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config.described()}
        manifest["layers"] = [each.described() for each in layers]
        registry = Registry(registry_of(at), name)
        try:
            for blob in (*layers, config):
                registry.upload(blob)
            return registry.publish(tag, json.dumps(manifest).encode())
        except requests.RequestException as broken:
            raise PreflightError(
                f"The registry {registry_of(at)} does not answer: {type(broken).__name__}.",
                "check its name and port; for a private authority set REQUESTS_CA_BUNDLE.",
            ) from None


class Registry:
    """A repository in a registry."""

    def __init__(self, host: str, name: str) -> None:
        plain = host.rpartition(":")[0] in LOCAL or host in LOCAL
        server = "registry-1.docker.io" if host == "docker.io" else host
        self._base = f"{'http' if plain else 'https'}://{server}/v2/{name}/"
        self._host = host
        self._session = requests.Session()
        self._account = account_of(host)
        self._authorization: str | None = None

    def upload(self, blob: Blob) -> None:
        """Upload a part of an image, unless the registry has it."""
        if self._ask("HEAD", f"blobs/{blob.digest}", good=(200, 404)).status_code == 200:
            return
        began = self._ask("POST", "blobs/uploads/", good=(202,))
        where = urljoin(began.url, began.headers["Location"])
        where += f"{'&' if '?' in where else '?'}digest={blob.digest}"
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}
        with blob.file.open("rb") as content:
            self._ask("PUT", where, good=(201,), headers=headers, data=content)

    def publish(self, tag: str, manifest: bytes) -> str:
        """Give the tag to a manifest whose parts are there; return the digest."""
        self._ask("PUT", f"manifests/{tag}", good=(201,), headers={"Content-Type": MANIFEST}, data=manifest)
        return f"sha256:{hashlib.sha256(manifest).hexdigest()}"

    def _ask(
        self,
        method: str,
        path: str,
        *,
        good: tuple[int, ...],
        headers: Mapping[str, str] | None = None,
        data: bytes | IO[bytes] | None = None,
    ) -> requests.Response:
        def send() -> requests.Response:
            more = {"Authorization": self._authorization} if self._authorization else {}
            url = urljoin(self._base, path)
            return self._session.request(
                method, url, headers={**(headers or {}), **more}, data=data, timeout=SECONDS, allow_redirects=False
            )

        answer = send()
        if answer.status_code == 401:
            self._authorization = self._authorized(answer.headers.get("WWW-Authenticate", ""))
            if data is not None and not isinstance(data, bytes):
                data.seek(0)
            answer = send()
        if answer.status_code not in good:
            hint = "check the account in docker's config.json ('docker login'), and that it may push there."
            raise PreflightError(
                f"The registry {self._host} answers {answer.status_code} to {method} {path.partition('?')[0]}"
                f"{_said(answer)}.", hint if answer.status_code in (401, 403) else "check the registry and the path.",
            )  # fmt: skip
        return answer

    def _authorized(self, challenge: str) -> str | None:
        """The value of the header that a challenge asks for."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() != "bearer":
            return self._account.basic.get("Authorization")
        fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        asked = {name: fields[name] for name in ("service", "scope") if name in fields}
        realm, identity = fields.get("realm", ""), self._account.identity
        if identity:
            form = {**asked, "grant_type": "refresh_token", "refresh_token": identity, "client_id": "esipp"}
            answer = self._session.post(realm, data=form, timeout=SECONDS)
        else:
            answer = self._session.get(realm, params=asked, headers=self._account.basic, timeout=SECONDS)
        try:
            found = answer.json()
            token = str(found.get("token") or found["access_token"])
        except (ValueError, KeyError, AttributeError):
            return None  # the refusal of the request itself says more
        KNOWN.learn("registry token", token)
        return f"Bearer {token}"


@dataclass(frozen=True)
class Account:
    """An account of a registry; ``identity`` is a refresh token in the place of user and password."""

    user: str = ""
    password: str = ""
    identity: str = ""

    @property
    def basic(self) -> dict[str, str]:
        """The header of HTTP basic authentication; empty without a password."""
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"} if self.password else {}


def account_of(host: str) -> Account:
    """The account for a registry in docker's config file, or with its credential helper; empty without one.

    Raises:
        PreflightError: the helper fails.
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        whole = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        entries = {name: each for name, each in (whole.get("auths") or {}).items() if is_for(name, host)}
        helper = (whole.get("credHelpers") or {}).get(host) or (whole.get("credsStore") if entries else None)
    except (OSError, ValueError, AttributeError):
        return Account()
    if helper:
        return _learned(_of_helper(str(helper), next(iter(entries), host)))
    for entry in entries.values():
        user, _, password = base64.b64decode(entry.get("auth") or "").decode(errors="replace").partition(":")
        if password or entry.get("identitytoken"):
            return _learned(Account(user, password, str(entry.get("identitytoken") or "")))
    return Account()


def _of_helper(helper: str, host: str) -> Account:
    """The account that a docker credential helper keeps (https://github.com/docker/docker-credential-helpers)."""
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"], input=host, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        found = json.loads(done.stdout)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        raise PreflightError(f"{program} gives no account for {host}.", f"log in: docker login {host}.") from None
    return Account(identity=secret) if user == "<token>" else Account(user, secret)


def _learned(account: Account) -> Account:
    for secret in (account.password, account.identity):
        KNOWN.learn("registry account", secret)
    return account


def _said(answer: requests.Response) -> str:
    """What the registry's error says."""
    try:
        return f": {answer.json()['errors'][0]['message']}"
    except (ValueError, KeyError, IndexError, TypeError):
        return ""


def _unpacked(archive: Path, reference: str, place: Path) -> tuple[Blob, list[Blob]]:
    """The parts of an image: its configuration and its layers, compressed.

    Raises:
        PreflightError: the file is no such archive, or lacks the image.
    """
    try:
        with tarfile.open(archive) as packed:
            images = json.loads(_member(packed, "manifest.json").read())
            here = [each for each in images if reference in (each.get("RepoTags") or ())]
            if not here:
                names = ", ".join(tag for each in images for tag in each.get("RepoTags") or ()) or "no name"
                raise PreflightError(f"{archive} has no {reference}, but {names}.", "bundle it with this version.")
            config = _kept(_member(packed, here[0]["Config"]), place / "config", CONFIG)
            layers = [
                _kept(_member(packed, layer), place / f"layer-{number}", LAYER)
                for number, layer in enumerate(here[0]["Layers"])
            ]
    except (OSError, ValueError, KeyError, TypeError, tarfile.TarError) as broken:
        raise PreflightError(
            f"Cannot read {archive}: {broken}.", "use a file of 'esipp images bundle' or 'docker save'."
        ) from None
    return config, layers


def _member(packed: tarfile.TarFile, name: str) -> IO[bytes]:
    found = packed.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def _kept(content: IO[bytes], file: Path, media_type: str) -> Blob:
    """Write a part to a file of its own; layers are compressed the same way each time."""
    start = content.read(2)
    content.seek(0)
    with file.open("wb") as out:
        if media_type == LAYER and start != GZIP:
            with gzip.GzipFile(fileobj=out, mode="wb", filename="", mtime=0, compresslevel=6) as packed:
                shutil.copyfileobj(content, packed, 1 << 20)
        else:
            shutil.copyfileobj(content, out, 1 << 20)
    with file.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return Blob(file, media_type, f"sha256:{digest}", file.stat().st_size)
