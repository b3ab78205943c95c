"""Who is answered: with a token, only those whose requests begin with it.

A UDP answer is longer than its question, and a source address can be forged. Without a token anybody could have this
server send to a third party. With one, a stranger gets silence.
"""

from __future__ import annotations

from _operator import _compare_digest as same  # hmac and secrets would import for longer than all of this takes

TYPE_CHECKING = False  # as typing has it, without importing typing
if TYPE_CHECKING:
    from images.echoserver.http1 import MAX_NONCE, NONCE_BYTES, valid_nonce
else:  # in the image these files lie side by side and are no package
    from http1 import MAX_NONCE, NONCE_BYTES, valid_nonce

MAX_TOKEN = 64


class Admission:
    """Tells requests that may be answered from others; without a token, every valid nonce is admitted."""

    def __init__(self, token: str = "") -> None:
        if len(token) > MAX_TOKEN or token.encode().translate(None, NONCE_BYTES):
            raise ValueError(f"1 to {MAX_TOKEN} letters, digits or ._:-")
        self.start = f"{token}/".encode() if token else b""
        self.longest = len(self.start) + MAX_NONCE

    def knows(self, asked: bytes) -> bool:
        """Whether a request begins with the token, whatever follows."""
        return not self.start or same(asked[: len(self.start)], self.start)

    def nonce(self, asked: bytes) -> bytes | None:
        """The nonce of ``TOKEN/NONCE``; None if the token or the form of the nonce is wrong."""
        nonce = asked[len(self.start) :]
        return nonce if self.knows(asked) and valid_nonce(nonce) else None


EVERYBODY = Admission()
