# ruff: noqa: F811 - parameters are fixtures, which are imported
"""``esipp sign --keyless`` and ``verify --identity``, without a network.

A public bundle is verified with the keys that the package sigstore brings. It is a statement of sigstore's conformance
tests (``happy-path-intoto-in-dsse-v3``, https://github.com/sigstore/sigstore-conformance), so it is about no ledger of
ours. Sigstore's servers, which sign, are what is not real here.
"""

import base64
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sigstore import dsse, oidc
from sigstore.errors import TUFError
from sigstore.models import Bundle, ClientTrustConfig
from sigstore.sign import SigningContext
from sigstore.verify import Verifier

from esipp.app import sign
from esipp.app.cli import main
from esipp.base.errors import ExitCode
from esipp.ledger.reading import read_run
from esipp.report.statement import PAYLOAD_TYPE, statement
from tests.unit.test_sign import ledger, run  # noqa: F401 - fixtures, not used by their names

PUBLIC = (Path(__file__).parent / "recorded" / "sigstore-bundle.json").read_text()
REPOSITORY = "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon"
IDENTITY = f"{REPOSITORY}/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main"
ISSUER = "https://token.actions.githubusercontent.com"
WHO = ["--identity", IDENTITY, "--issuer", ISSUER]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys of Sigstore on this machine but those of the package, and no identity of a CI job."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: None)


def verify(run: Path, bundle: str, *options: str) -> int:
    (run / sign.BUNDLE).write_text(bundle)
    return main(["verify", str(run), "--offline", *options])


def test_a_true_bundle_about_something_else_holds_and_is_not_ours(
    run: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verify(run, PUBLIC, *WHO) == ExitCode.NOT_CONFORMANT
    assert "NOT VERIFIED: the statement is another one, https://slsa.dev/provenance/v1" in capsys.readouterr().out


@pytest.mark.parametrize("who", [["--identity", "us@example.com"], ["--issuer", "https://accounts.example.com"]])
def test_another_identity_or_issuer_is_refused(
    who: list[str],
    run: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verify(run, PUBLIC, *WHO, *who) == ExitCode.NOT_CONFORMANT
    assert "NOT VERIFIED: the signature does not hold: Certificate's" in capsys.readouterr().out


def test_a_changed_statement_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(PUBLIC)
    changed = base64.b64decode(whole["dsseEnvelope"]["payload"]).replace(b"a.txt", b"b.txt")
    whole["dsseEnvelope"]["payload"] = base64.b64encode(changed).decode()
    assert verify(run, json.dumps(whole), *WHO) == ExitCode.NOT_CONFORMANT
    assert "the signature does not hold" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"payloadType": "application/vnd.in-toto+json"}'])
def test_what_is_no_bundle_is_reported(text: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(run, text, *WHO) == ExitCode.USAGE
    assert "is no Sigstore bundle: " in capsys.readouterr().err


def test_keys_that_cannot_be_had_are_no_verdict(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def no_network(*, offline: bool) -> Verifier:
        assert not offline
        raise TUFError("Failed to refresh TUF metadata")

    monkeypatch.setattr(Verifier, "production", no_network)
    (run / sign.BUNDLE).write_text(PUBLIC)
    assert main(["verify", str(run), *WHO]) == ExitCode.USAGE
    assert "Cannot get Sigstore's keys" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [(WHO[:2], "--identity needs --issuer"), (["--key", "k", "--issuer", ISSUER], "belong to --identity")],
)
def test_options_that_say_nothing_alone_are_refused(
    options: list[str],
    said: str,
    run: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["verify", str(run), *options]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


# -------------------------------------------------------------------------------------------------------------- signing
class Servers:
    """Sigstore's servers, which sign whatever they get with a key of their own, under the certificate of the bundle."""

    def __init__(self) -> None:
        self.who: list[str] = []
        self.key = ec.generate_private_key(ec.SECP256R1())

    @contextmanager
    def signer(self, token: oidc.IdentityToken) -> Iterator[Any]:
        self.who.append(token.issuer)
        yield SimpleNamespace(sign_dsse=self._signed)

    def _signed(self, statement: dsse.Statement) -> Bundle:
        public = Bundle.from_json(PUBLIC)
        return Bundle._from_parts(public.signing_certificate, dsse._sign(self.key, statement), public.log_entry)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    made, real = Servers(), ClientTrustConfig.production
    monkeypatch.setattr(ClientTrustConfig, "production", lambda offline=False: real(offline=True) if offline else None)
    monkeypatch.setattr(SigningContext, "from_trust_config", lambda _: made)
    return made


def as_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "repo:us/ours:ref", "aud": "sigstore", "iat": now, "exp": now + 300}
    token = jwt.encode({**claims, "job_workflow_ref": "us/ours"}, "k" * 32, algorithm="HS256")
    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: token)


def test_a_job_of_ci_signs_as_itself(
    run: Path,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    as_a_job(monkeypatch)
    assert main(["sign", str(run), "--keyless"]) == ExitCode.CONFORMANT
    assert servers.who == [ISSUER]
    assert f"{sign.BUNDLE}: signed by --identity {IDENTITY} --issuer {ISSUER}\n" in capsys.readouterr().out
    whole = json.loads((run / sign.BUNDLE).read_text())
    assert json.loads(base64.b64decode(whole["dsseEnvelope"]["payload"])) == statement(read_run(run))


def test_a_signature_of_another_key_than_the_certificates_is_refused(
    run: Path,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    as_a_job(monkeypatch)
    main(["sign", str(run), "--keyless"])
    assert main(["verify", str(run), "--offline", *WHO]) == ExitCode.NOT_CONFORMANT
    assert "the signature does not hold" in capsys.readouterr().out


def test_a_statement_whose_signature_holds_is_held_against_the_ledger(
    run: Path,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The library's own verification is replaced: only Sigstore's servers can make a signature that it accepts."""
    as_a_job(monkeypatch)
    main(["sign", str(run), "--keyless"])
    kind = PAYLOAD_TYPE
    monkeypatch.setattr(
        Verifier, "verify_dsse", lambda _self, bundle, _policy: (kind, bundle._dsse_envelope._inner.payload)
    )
    assert main(["verify", str(run), "--offline", *WHO]) == ExitCode.CONFORMANT
    assert f"VERIFIED: signed by {IDENTITY}; the ledger yields the same statement" in capsys.readouterr().out
    kind = "text/plain"
    assert main(["verify", str(run), "--offline", *WHO]) == ExitCode.NOT_CONFORMANT
    assert "its payload is text/plain" in capsys.readouterr().out
    kind = PAYLOAD_TYPE
    changed = run / "ledger.jsonl"
    changed.write_text(changed.read_text().replace('"samples":', '"samples": ', 1))
    assert main(["verify", str(run), "--offline", *WHO]) == ExitCode.NOT_CONFORMANT


def test_without_a_job_and_a_terminal_nobody_signs(
    run: Path,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    assert main(["sign", str(run), "--keyless"]) == ExitCode.USAGE
    assert "No CI job and no terminal says who signs.\n  hint: on GitHub" in capsys.readouterr().err
    assert (servers.who, (run / sign.BUNDLE).exists()) == ([], False)


def test_what_the_servers_refuse_is_reported(
    run: Path,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    as_a_job(monkeypatch)
    monkeypatch.setattr(SigningContext, "from_trust_config", lambda _: 1 / 0)
    assert main(["sign", str(run), "--keyless"]) == ExitCode.USAGE
    assert "Sigstore does not sign: division by zero.\n  hint: " in capsys.readouterr().err


def test_without_the_package_that_is_said(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delitem(sys.modules, "esipp.app.keyless", raising=False)
    monkeypatch.delattr("esipp.app.keyless", raising=False)
    monkeypatch.setitem(sys.modules, "sigstore", None)
    for command in (["sign", str(run), "--keyless"], ["verify", str(run), "--offline", *WHO]):
        (run / sign.BUNDLE).write_text(PUBLIC)
        assert main(command) == ExitCode.USAGE
        assert "need the package sigstore.\n  hint: pipx inject esipp sigstore" in capsys.readouterr().err
