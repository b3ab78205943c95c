"""Signatures without a key of one's own, by Sigstore (https://docs.sigstore.dev/about/overview).

A certificate that lives for ten minutes names who signed and who vouches for it, and a public log shows that the
signature was made meanwhile. Only ``esipp sign --keyless`` and ``esipp verify --identity`` import this module: the
package sigstore is an extra.
"""

import logging
import sys
from pathlib import Path

from cryptography import x509
from sigstore import dsse, errors, oidc
from sigstore.models import Bundle, ClientTrustConfig, InvalidBundle
from sigstore.sign import SigningContext
from sigstore.verify import Verifier, policy

from esipp.base.errors import PreflightError
from esipp.report.statement import PAYLOAD_TYPE

ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
"""The extension of a certificate that names who vouches for its identity
(https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md)."""

HINT_IDENTITY = (
    "on GitHub, the job needs 'permissions: id-token: write'; on GitLab, 'id_tokens' with SIGSTORE_ID_TOKEN and the "
    "audience sigstore; elsewhere, use a terminal, or --key."
)


def signed(payload: bytes) -> tuple[str, str]:
    """Sign an in-toto statement.

    Returns:
        The bundle, as JSON, and words that say who signed.

    Raises:
        PreflightError: nothing says who signs, or Sigstore does not sign.
    """
    try:
        ambient = oidc.detect_credential()
        if not ambient and not sys.stdin.isatty():
            raise PreflightError("No CI job and no terminal says who signs.", HINT_IDENTITY)
        trust = ClientTrustConfig.production()
        token = (
            oidc.IdentityToken(ambient)
            if ambient
            else oidc.Issuer(trust.signing_config.get_oidc_url()).identity_token()
        )
        with SigningContext.from_trust_config(trust).signer(token) as signer:
            bundle = signer.sign_dsse(dsse.Statement(payload))
    except PreflightError:
        raise
    except Exception as broken:  # its clients of servers raise classes that are private to the package
        raise PreflightError(f"Sigstore does not sign: {_told(broken)}.", HINT_IDENTITY) from broken
    return bundle.to_json() + "\n", _signer(bundle.signing_certificate)


def verified(text: str, file: Path, identity: str, issuer: str, *, offline: bool) -> tuple[bytes, str]:
    """Verify a bundle: its certificate, its entry in the log, and its signature.

    Args:
        text: the bundle.
        file: where it is, for messages.
        identity: who must have signed.
        issuer: who must vouch for that.
        offline: whether to take Sigstore's keys as they are on this machine.

    Returns:
        The statement that was signed, and why the signature does not hold; empty if it does.

    Raises:
        PreflightError: the file is no bundle, or Sigstore's keys are not to be had.
    """
    logging.getLogger("sigstore").setLevel(logging.ERROR)  # it warns of what --offline asks for
    try:
        bundle = Bundle.from_json(text)
        kind, payload = Verifier.production(offline=offline).verify_dsse(
            bundle, policy.Identity(identity=identity, issuer=issuer)
        )
    except InvalidBundle as broken:
        first = str(broken).partition("\n")[0]
        raise PreflightError(
            f"{file} is no Sigstore bundle: {first}.", "'esipp sign RUN --keyless' writes one."
        ) from None
    except errors.TUFError as broken:
        raise PreflightError(
            f"Cannot get Sigstore's keys: {_told(broken)}.", "--offline takes those on this machine."
        ) from broken
    except errors.Error as broken:
        return b"", f"the signature does not hold: {broken}"
    return (payload, "") if kind == PAYLOAD_TYPE else (b"", f"its payload is {kind}")


def _signer(certificate: x509.Certificate) -> str:
    """Who signed, by a certificate, as the options of ``esipp verify``."""
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = [*names.get_values_for_type(x509.RFC822Name), *names.get_values_for_type(x509.UniformResourceIdentifier)]
    issuer = certificate.extensions.get_extension_for_oid(ISSUER).value
    vouches = issuer.value.decode() if isinstance(issuer, x509.UnrecognizedExtension) else ""
    return f"by --identity {' '.join(found)} --issuer {vouches}"


def _told(broken: BaseException) -> str:
    """What went wrong, with its cause."""
    parts = [str(each) or type(each).__name__ for each in (broken, broken.__cause__) if each]
    return ": ".join(parts).rstrip(".")
