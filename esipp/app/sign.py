"""``esipp sign`` and ``esipp verify``: a run's statement in a DSSE envelope, signed with a key file or by an identity.

The envelope and what is signed: https://github.com/secure-systems-lab/dsse. openssl signs with a key file,
``keyless.py`` by an identity. The statement is rendered anew from the ledger, whose digest it has. cosign and other
tools for in-toto read both files, too. A verification summary (https://slsa.dev/spec/v1.1/verification_summary) says
who verified it, by what policy, with what result.
"""

import argparse
import base64
import binascii
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from esipp.app.exit_codes import OF_SIGNING, OF_VERIFYING
from esipp.base.errors import ExitCode, PreflightError, if_not_writable
from esipp.base.json import Json
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report.formats import written
from esipp.report.statement import PAYLOAD_TYPE, PREDICATE_TYPE, statement

ENVELOPE, BUNDLE = "statement.dsse.json", "statement.sigstore.json"
"""The files that are signed with a key, and by an identity."""

SUMMARY_TYPE = "https://slsa.dev/verification_summary/v1"
LEVELS = {"PASSED": "ESIPP_CONFORMANT", "WARNED": "ESIPP_CONFORMANT_WITH_RESERVATIONS"}
"""The levels that a verification summary names, by the result of the statement."""

HINT_KEY = (
    "'esipp sign' takes the private key, 'esipp verify' the public one. A new pair: "
    "openssl genpkey -algorithm ed25519 -out key.pem; openssl pkey -in key.pem -pubout -out key.pub."
)
HINT_SIGN = "'esipp sign RUN' writes one."
SECONDS = 30.0


def add_sign(commands: Any) -> None:
    """``esipp sign`` and ``esipp verify``."""
    signing = commands.add_parser(
        "sign", help="sign the statement of a recorded run, with a private key or by an identity", epilog=OF_SIGNING
    )
    signing.add_argument("run", metavar="RUN", help="the run's folder")
    by = signing.add_mutually_exclusive_group(required=True)
    by.add_argument("--key", metavar="FILE", help="private key in PEM: Ed25519, ECDSA or RSA")
    by.add_argument(
        "--keyless",
        action="store_true",
        help="sign by Sigstore, as this CI job, or as who logs in with a browser; a public log keeps the identity",
    )
    signing.add_argument(
        "--out", default=None, metavar="FILE", help=f"the signed statement (default: RUN/{ENVELOPE}; RUN/{BUNDLE})"
    )
    signing.set_defaults(command=_sign)
    verifying = commands.add_parser(
        "verify", help="verify a signed statement, and that it is about the ledger in its folder", epilog=OF_VERIFYING
    )
    verifying.add_argument("run", metavar="RUN", help="the run's folder")
    by = verifying.add_mutually_exclusive_group(required=True)
    by.add_argument("--key", metavar="FILE", help="public key in PEM")
    by.add_argument(
        "--identity", metavar="WHO", help="who must have signed by Sigstore: an email address, or the URL of a workflow"
    )
    verifying.add_argument("--issuer", default=None, metavar="URL", help="who must vouch for --identity")
    verifying.add_argument(
        "--offline",
        action="store_true",
        help="with --identity: ask Sigstore for no newer keys than those that its package brings, or asked for before",
    )
    verifying.add_argument(
        "--envelope", default=None, metavar="FILE", help=f"the signed statement (default: RUN/{ENVELOPE}; RUN/{BUNDLE})"
    )
    verifying.add_argument(
        "--summary", default=None, metavar="FILE", help="write a SLSA verification summary of the result to FILE"
    )
    verifying.add_argument("--verifier", default=None, metavar="URI", help="who verifies, in the summary")
    verifying.set_defaults(command=_verify)


def _sign(options: argparse.Namespace) -> int:
    run = read_run(Path(options.run))
    payload = json.dumps(_statement_of(run)).encode()
    if options.key:
        signed, by = json.dumps(_envelope_of(payload, options.key), indent=2) + "\n", f"with {options.key}"
    else:
        signed, by = _keyless().signed(payload)
    file = Path(options.out) if options.out else run.folder / (ENVELOPE if options.key else BUNDLE)
    with if_not_writable(f"Cannot write {file}", "name another with --out."):
        written(file, signed)
    print(f"{file}: signed {by}")
    print(run.conclusion.sentence)
    return int(ExitCode.CONFORMANT)


def _verify(options: argparse.Namespace) -> int:
    _complete(options)
    run = read_run(Path(options.run))
    mine = _statement_of(run)
    file = Path(options.envelope) if options.envelope else run.folder / (ENVELOPE if options.key else BUNDLE)
    if options.key:
        payload, signatures = _envelope(file)
        good = any(_holds(options.key, encoded(payload), signature) for signature in signatures)
        wrong = "" if good else "no signature is of this key, or the statement was changed"
    else:
        payload, wrong = _keyless().verified(
            _text(file), file, options.identity, options.issuer, offline=options.offline
        )
    wrong = wrong or _contradiction(payload, mine, run.sha256)
    result = "FAILED" if wrong else mine["predicate"]["result"]
    if options.summary:
        summary = verification_summary(run, mine, result, options.verifier, file)
        with if_not_writable(f"Cannot write {options.summary}", "name another with --summary."):
            written(Path(options.summary), json.dumps(summary, indent=2) + "\n")
    if wrong:
        print(f"NOT VERIFIED: {wrong}")
        return int(ExitCode.NOT_CONFORMANT)
    print(f"VERIFIED: signed by {options.key or options.identity}; the ledger yields the same statement: {result}")
    print(run.conclusion.sentence)
    return int(ExitCode.CONFORMANT)


def _complete(options: argparse.Namespace) -> None:
    """Refuse an option that says nothing without another one."""
    if options.identity and not options.issuer:
        raise PreflightError(
            "--identity needs --issuer, or anybody could vouch for it.",
            "'esipp sign --keyless' prints both; that of GitHub's workflows is https://token.actions.githubusercontent.com.",
        )
    if options.key and (options.issuer or options.offline):
        raise PreflightError("--issuer and --offline belong to --identity, not to --key.", "leave them out.")
    if options.summary and not options.verifier:
        raise PreflightError("--summary needs --verifier.", "a URI that names who verifies, such as your team's page.")


def _statement_of(run: RecordedRun) -> Json:
    """The statement that the ledger yields.

    Raises:
        PreflightError: it yields none.
    """
    try:
        return statement(run)
    except ValueError as nothing:
        raise PreflightError(f"This run has no statement: {nothing}.", "a run on a cluster records digests.") from None


def _keyless() -> ModuleType:
    """What signs by Sigstore.

    Raises:
        PreflightError: its package is not installed.
    """
    try:
        from esipp.app import keyless
    except ImportError:
        raise PreflightError(
            "Keyless signatures need the package sigstore.",
            "pipx inject esipp sigstore, or pip install 'esipp[keyless]'.",
        ) from None
    return keyless


def _envelope_of(payload: bytes, key: str) -> Json:
    """A payload in an envelope, with the signature of a key."""
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": _key_id(key), "sig": _signature(key, encoded(payload))}],
    }


def encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding of a statement."""
    return b" ".join(
        (b"DSSEv1", str(len(PAYLOAD_TYPE)).encode(), PAYLOAD_TYPE.encode(), str(len(payload)).encode(), payload)
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as broken:
        raise PreflightError(f"Cannot read {file}: {broken.strerror}.", HINT_SIGN) from None
    except UnicodeDecodeError as broken:
        raise PreflightError(f"{file} is no signed statement: {broken}.", HINT_SIGN) from None


def _envelope(file: Path) -> tuple[bytes, list[bytes]]:
    """The payload and the signatures of an envelope."""
    try:
        whole = json.loads(_text(file))
        if whole["payloadType"] != PAYLOAD_TYPE:
            raise ValueError(f"its payload is {whole['payloadType']}")
        payload = base64.b64decode(whole["payload"], validate=True)
        return payload, [base64.b64decode(each["sig"], validate=True) for each in whole["signatures"]]
    except (ValueError, KeyError, TypeError, binascii.Error) as broken:
        raise PreflightError(f"{file} is no DSSE envelope: {broken}.", HINT_SIGN) from None


def _contradiction(payload: bytes, mine: Json, ledger: str) -> str:
    """What of a statement differs from the ledger's own; empty if nothing does.

    Args:
        payload: the statement that was signed.
        mine: the statement that the ledger beside it yields.
        ledger: the digest of that ledger.
    """
    try:
        stated = json.loads(payload)
        if stated["predicateType"] != PREDICATE_TYPE:
            return f"the statement is another one, {stated['predicateType']}"
        signed = {each["digest"]["sha256"] for each in stated["predicate"]["configuration"]}
    except (ValueError, KeyError, TypeError):
        return "the statement is not one of esipp"
    if ledger not in signed:
        return f"the statement is not about this ledger, whose digest is {ledger}"
    parts = ("result", "passedTests", "warnedTests", "failedTests")
    different = [key for key in parts if mine["predicate"][key] != stated["predicate"].get(key)]
    different += ["subject"] if mine["subject"] != stated.get("subject") else []
    return f"the ledger says something else of {', '.join(different)}" if different else ""


def verification_summary(run: RecordedRun, mine: Json, result: str, verifier: str, envelope: Path) -> Json:
    """A SLSA verification summary attestation of the run's subjects.

    Args:
        run: the run.
        mine: the statement that its ledger yields.
        result: that of the statement, or FAILED if it did not hold.
        verifier: who verified it, as a URI.
        envelope: the file of the signed statement.
    """
    return {
        "_type": mine["_type"],
        "subject": mine["subject"],
        "predicateType": SUMMARY_TYPE,
        "predicate": {
            "verifier": {"id": verifier, "version": {"esipp": run.header["suite"]}},
            "timeVerified": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "resourceUri": f"cluster:{run.header['context']}",
            "policy": {"uri": f"esipp:fail-on={run.header['fail_on']}"},
            "inputAttestations": [
                {"uri": envelope.name, "digest": {"sha256": hashlib.sha256(envelope.read_bytes()).hexdigest()}}
            ],
            "verificationResult": "PASSED" if result in LEVELS else "FAILED",
            "verifiedLevels": [LEVELS[result]] if result in LEVELS else [],
        },
    }


# ---------------------------------------------------------------------------------------------------------- openssl
def _signature(key: str, message: bytes) -> str:
    with tempfile.TemporaryDirectory(prefix="esipp-sign-") as place:
        (Path(place) / "message").write_bytes(message)
        made = _openssl(["pkeyutl", "-sign", *_way(key, private=True), "-inkey", key], Path(place) / "message")
    return base64.b64encode(made).decode()


def _holds(key: str, message: bytes, signature: bytes) -> bool:
    with tempfile.TemporaryDirectory(prefix="esipp-sign-") as place:
        (Path(place) / "message").write_bytes(message)
        (Path(place) / "signature").write_bytes(signature)
        command = ["pkeyutl", "-verify", *_way(key, private=False), "-pubin", "-inkey", key]
        command += ["-sigfile", str(Path(place) / "signature")]
        return _ran(command, Path(place) / "message").returncode == 0


def _way(key: str, *, private: bool) -> list[str]:
    """The options for a kind of key: Ed25519 signs the message itself, others its digest."""
    described = _openssl(["pkey", *([] if private else ["-pubin"]), "-in", key, "-noout", "-text"], None).decode()
    return ["-rawin"] if "ED25519" in described.upper() else ["-rawin", "-digest", "sha256"]


def _key_id(key: str) -> str:
    """The SHA-256 digest of the DER form of a private key's public half."""
    made = _openssl(["pkey", "-in", key, "-pubout", "-outform", "DER"], None)
    return hashlib.sha256(made).hexdigest()


def _openssl(arguments: Sequence[str], content: Path | None) -> bytes:
    done = _ran(arguments, content)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise PreflightError(f"openssl cannot use the key: {said[0] if said else done.returncode}.", HINT_KEY)
    return done.stdout


def _ran(arguments: Sequence[str], content: Path | None) -> subprocess.CompletedProcess[bytes]:
    more = ["-in", str(content)] if content else []
    try:
        return subprocess.run(
            ["openssl", *arguments, *more], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as broken:
        raise PreflightError(f"Cannot run openssl: {broken}.", "install openssl 3.") from None
