"""``esipp sign`` and ``esipp verify``: a run's statement in a DSSE envelope, signed with a key file by openssl.

The envelope and what is signed: https://github.com/secure-systems-lab/dsse. The statement is rendered anew from the
ledger, whose digest it has. cosign and other tools for in-toto read the envelope, too. A verification summary
(https://slsa.dev/spec/v1.1/verification_summary) says who verified it, by what policy, with what result.
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
from typing import Any

from esipp.app.exit_codes import OF_SIGNING, OF_VERIFYING
from esipp.base.errors import ExitCode, PreflightError, if_not_writable
from esipp.base.json import Json
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report.formats import written
from esipp.report.statement import PREDICATE_TYPE, statement

PAYLOAD_TYPE = "application/vnd.in-toto+json"
ENVELOPE, SUMMARY = "statement.dsse.json", "verification-summary.json"
SUMMARY_TYPE = "https://slsa.dev/verification_summary/v1"
LEVELS = {"PASSED": "ESIPP_CONFORMANT", "WARNED": "ESIPP_CONFORMANT_WITH_RESERVATIONS"}
"""The levels that a verification summary names, by the result of the statement."""

HINT_KEY = (
    "make a pair: openssl genpkey -algorithm ed25519 -out key.pem; openssl pkey -in key.pem -pubout -out key.pub."
)
SECONDS = 30.0


def add_sign(commands: Any) -> None:
    """``esipp sign`` and ``esipp verify``."""
    signing = commands.add_parser(
        "sign", help="sign the statement of a recorded run with a private key", epilog=OF_SIGNING
    )
    signing.add_argument("run", metavar="RUN", help="the run's folder")
    signing.add_argument("--key", required=True, metavar="FILE", help="private key in PEM: Ed25519, ECDSA or RSA")
    signing.add_argument("--out", default=None, metavar="FILE", help=f"the envelope (default: RUN/{ENVELOPE})")
    signing.set_defaults(command=_sign)
    verifying = commands.add_parser(
        "verify", help="verify a signed statement, and that it is about the ledger in its folder", epilog=OF_VERIFYING
    )
    verifying.add_argument("run", metavar="RUN", help="the run's folder")
    verifying.add_argument("--key", required=True, metavar="FILE", help="public key in PEM")
    verifying.add_argument("--envelope", default=None, metavar="FILE", help=f"default: RUN/{ENVELOPE}")
    verifying.add_argument(
        "--summary", default=None, metavar="FILE", help="write a SLSA verification summary of the result to FILE"
    )
    verifying.add_argument("--verifier", default="", metavar="URI", help="who verifies, in the summary")
    verifying.set_defaults(command=_verify)


def _sign(options: argparse.Namespace) -> int:
    run = read_run(Path(options.run))
    try:
        payload = json.dumps(statement(run)).encode()
    except ValueError as nothing:
        raise PreflightError(f"There is nothing to sign: {nothing}.", "a run on a cluster records digests.") from None
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": _key_id(options.key, private=True), "sig": _signature(options.key, encoded(payload))}],
    }
    file = Path(options.out) if options.out else run.folder / ENVELOPE
    with if_not_writable(f"Cannot write {file}", "name another with --out."):
        written(file, json.dumps(envelope, indent=2) + "\n")
    print(f"{file}: {run.conclusion.sentence}")
    return int(ExitCode.CONFORMANT)


def _verify(options: argparse.Namespace) -> int:
    run = read_run(Path(options.run))
    file = Path(options.envelope) if options.envelope else run.folder / ENVELOPE
    payload, signatures = _envelope(file)
    good = any(_holds(options.key, encoded(payload), signature) for signature in signatures)
    wrong = "no signature is of this key, or the statement was changed" if not good else _contradiction(payload, run)
    result = _statement(payload)["predicate"]["result"] if not wrong else "FAILED"
    if options.summary:
        summary = verification_summary(run, payload, result, options.verifier, file)
        written(Path(options.summary), json.dumps(summary, indent=2) + "\n")
    if wrong:
        print(f"NOT VERIFIED: {wrong}")
        return int(ExitCode.NOT_CONFORMANT)
    print(f"VERIFIED: {result}; {run.conclusion.sentence}")
    return int(ExitCode.CONFORMANT)


def encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding of a statement."""
    return b" ".join(
        (b"DSSEv1", str(len(PAYLOAD_TYPE)).encode(), PAYLOAD_TYPE.encode(), str(len(payload)).encode(), payload)
    )


def _envelope(file: Path) -> tuple[bytes, list[bytes]]:
    """The payload and the signatures of an envelope."""
    try:
        whole = json.loads(file.read_text(encoding="utf-8"))
        if whole["payloadType"] != PAYLOAD_TYPE:
            raise ValueError(f"its payload is {whole['payloadType']}")
        payload = base64.b64decode(whole["payload"], validate=True)
        return payload, [base64.b64decode(each["sig"], validate=True) for each in whole["signatures"]]
    except OSError as broken:
        raise PreflightError(f"Cannot read {file}: {broken.strerror}.", "'esipp sign RUN' writes one.") from None
    except (ValueError, KeyError, TypeError, binascii.Error) as broken:
        raise PreflightError(f"{file} is no DSSE envelope: {broken}.", "'esipp sign RUN' writes one.") from None


def _statement(payload: bytes) -> Json:
    found: Json = json.loads(payload)
    return found


def _contradiction(payload: bytes, run: RecordedRun) -> str:
    """What of a statement the ledger beside it does not bear out; empty if all is."""
    try:
        stated = _statement(payload)
        if stated["predicateType"] != PREDICATE_TYPE:
            return f"the statement is another one, {stated['predicateType']}"
        signed = {each["digest"]["sha256"] for each in stated["predicate"]["configuration"]}
    except (ValueError, KeyError, TypeError):
        return "the statement is not one of esipp"
    if run.sha256 not in signed:
        return f"the statement is not about this ledger, whose digest is {run.sha256}"
    mine = statement(run)
    parts = ("result", "passedTests", "warnedTests", "failedTests")
    different = [key for key in parts if mine["predicate"][key] != stated["predicate"].get(key)]
    different += ["subject"] if mine["subject"] != stated["subject"] else []
    return f"the ledger says something else of {', '.join(different)}" if different else ""


def verification_summary(run: RecordedRun, payload: bytes, result: str, verifier: str, envelope: Path) -> Json:
    """A SLSA verification summary attestation of the run's subjects.

    Args:
        run: the run.
        payload: the statement that was verified.
        result: that of the statement, or FAILED if it did not hold.
        verifier: who verified it, as a URI.
        envelope: the file of the signed statement.
    """
    stated = _statement(payload)
    return {
        "_type": stated["_type"],
        "subject": stated["subject"],
        "predicateType": SUMMARY_TYPE,
        "predicate": {
            "verifier": {"id": verifier or "https://esipp.dev/verify", "version": {"esipp": run.header["suite"]}},
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


def _key_id(key: str, *, private: bool) -> str:
    """The SHA-256 digest of the public key's DER form."""
    made = _openssl(["pkey", *([] if private else ["-pubin"]), "-in", key, "-pubout", "-outform", "DER"], None)
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
