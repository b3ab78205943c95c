"""``esipp sign`` and ``verify``: a statement in an envelope, its signature by another program, and what spoils it."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from esipp.app import sign
from esipp.app.cli import main
from esipp.base.errors import ExitCode
from esipp.base.json import Json
from esipp.ledger.reading import LEDGER, read_run
from esipp.ledger.rejudging import records
from esipp.report.statement import PAYLOAD_TYPE, statement
from tests.frozen.cut import sealed, unpack
from tests.tools import needs_tool

pytestmark = needs_tool("openssl")

KINDS = {
    "ed25519": ["-algorithm", "ed25519"],
    "ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
}


def made_key(folder: Path, kind: str) -> tuple[str, str]:
    private, public = folder / f"{kind}.pem", folder / f"{kind}.pub"
    subprocess.run(["openssl", "genpkey", *KINDS[kind], "-out", private], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return str(private), str(public)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A ledger without what judges were given: that takes most of the time to read, and no statement has it."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    unpack("kind-iptables", folder)
    *stays, end = records(folder / LEDGER)
    return sealed([each for each in stays if each["record"] != "judged"], end)


@pytest.fixture
def run(ledger: str, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / LEDGER).write_text(ledger)
    return folder


def envelope(run: Path) -> Json:
    found: Json = json.loads((run / sign.ENVELOPE).read_text())
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_signed_is_verified_with_the_public_key_and_no_other(
    kind: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = made_key(tmp_path, kind)
    assert main(["sign", str(run), "--key", private]) == ExitCode.CONFORMANT
    assert main(["verify", str(run), "--key", public]) == ExitCode.CONFORMANT
    assert "VERIFIED: " in capsys.readouterr().out
    other = tmp_path / "other"
    other.mkdir()
    assert main(["verify", str(run), "--key", made_key(other, kind)[1]]) == ExitCode.NOT_CONFORMANT
    assert "NOT VERIFIED: no signature is of this key" in capsys.readouterr().out


def test_it_is_signed_as_dsse_says(run: Path, tmp_path: Path) -> None:
    """openssl alone verifies the encoding of the specification, without our code."""
    private, public = made_key(tmp_path, "ed25519")
    main(["sign", str(run), "--key", private])
    whole = envelope(run)
    payload = base64.b64decode(whole["payload"])
    message = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload)
    (tmp_path / "m").write_bytes(message)
    (tmp_path / "s").write_bytes(base64.b64decode(whole["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-sigfile", tmp_path / "s"]
    assert subprocess.run([*command, "-in", tmp_path / "m"], capture_output=True, check=False).returncode == 0
    data = json.loads(payload)
    assert data["_type"] == "https://in-toto.io/Statement/v1"
    assert all("decided" in json.dumps(subject) for subject in data["subject"])


def test_a_statement_that_was_changed_is_not_verified(run: Path, tmp_path: Path) -> None:
    private, public = made_key(tmp_path, "ed25519")
    main(["sign", str(run), "--key", private])
    whole = envelope(run)
    payload = json.loads(base64.b64decode(whole["payload"]))
    payload["predicate"]["result"] = "PASSED"
    whole["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    (run / sign.ENVELOPE).write_text(json.dumps(whole))
    assert main(["verify", str(run), "--key", public]) == ExitCode.NOT_CONFORMANT


def test_another_ledger_is_not_verified(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = made_key(tmp_path, "ed25519")
    main(["sign", str(run), "--key", private])
    changed = run / LEDGER
    changed.write_text(changed.read_text().replace('"samples":', '"samples": ', 1))
    assert main(["verify", str(run), "--key", public]) == ExitCode.NOT_CONFORMANT
    assert "is not about this ledger" in capsys.readouterr().out


def test_a_forged_statement_with_a_good_signature_is_held_against_the_ledger(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = made_key(tmp_path, "ed25519")
    main(["sign", str(run), "--key", private])
    payload = json.loads(base64.b64decode(envelope(run)["payload"]))
    payload["predicate"]["result"] = "WARNED" if payload["predicate"]["result"] == "PASSED" else "PASSED"
    forged = json.dumps(payload).encode()
    signed = {"sig": sign._signature(private, sign.encoded(forged))}
    whole = {"payloadType": PAYLOAD_TYPE, "payload": base64.b64encode(forged).decode(), "signatures": [signed]}
    (run / sign.ENVELOPE).write_text(json.dumps(whole))
    assert main(["verify", str(run), "--key", public]) == ExitCode.NOT_CONFORMANT
    assert "the ledger says something else of result" in capsys.readouterr().out


def signed_statement(run: Path) -> Json:
    return statement(read_run(run))


def test_a_summary_says_who_verified_what(run: Path, tmp_path: Path) -> None:
    private, public = made_key(tmp_path, "ed25519")
    main(["sign", str(run), "--key", private])
    file = tmp_path / "summary.json"
    verify = ["verify", str(run), "--key", public, "--summary"]
    main([*verify, str(file), "--verifier", "https://example.com/us"])
    summary = json.loads(file.read_text())
    assert summary["predicateType"] == "https://slsa.dev/verification_summary/v1"
    assert summary["predicate"]["verifier"]["id"] == "https://example.com/us"
    result = signed_statement(run)["predicate"]["result"]
    assert summary["predicate"]["verificationResult"] == ("FAILED" if result == "FAILED" else "PASSED")
    assert summary["subject"] == signed_statement(run)["subject"]


def test_a_summary_names_who_verified_and_is_written_or_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = made_key(tmp_path, "ed25519")
    main(["sign", str(run), "--key", private])
    verify = ["verify", str(run), "--key", public, "--summary", str(tmp_path / "nowhere" / "summary.json")]
    assert main(verify) == ExitCode.USAGE
    assert "--summary needs --verifier." in capsys.readouterr().err
    assert main([*verify, "--verifier", "https://example.com/us"]) == ExitCode.USAGE
    assert "nowhere/summary.json: No such file or directory.\n  hint: name another" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", '{"payloadType": "x"}', "[]"])
def test_a_file_that_is_no_envelope_is_reported(text: str, run: Path, tmp_path: Path) -> None:
    (run / sign.ENVELOPE).write_text(text)
    assert main(["verify", str(run), "--key", made_key(tmp_path, "ed25519")[1]]) == ExitCode.USAGE


def test_a_key_that_is_none_is_reported(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.pem").write_text("no key")
    assert main(["sign", str(run), "--key", str(tmp_path / "none.pem")]) == ExitCode.USAGE
    assert "openssl cannot use the key" in capsys.readouterr().err
    assert not (run / sign.ENVELOPE).exists()


def test_the_half_of_a_pair_that_a_command_does_not_take_is_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = made_key(tmp_path, "ed25519")
    assert main(["sign", str(run), "--key", public]) == ExitCode.USAGE
    assert "'esipp sign' takes the private key" in capsys.readouterr().err
    main(["sign", str(run), "--key", private])
    assert main(["verify", str(run), "--key", private]) == ExitCode.USAGE
    assert "'esipp verify' the public one" in capsys.readouterr().err


def test_without_openssl_that_is_reported(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", "/nowhere")
    assert shutil.which("openssl") is None
    assert main(["sign", str(run), "--key", "x"]) == ExitCode.USAGE
    assert "Cannot run openssl" in capsys.readouterr().err
