"""HTTP helpers for API responses: lines of a streamed body, and readable network errors."""

from collections.abc import Iterator

import urllib3


def lines_of(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The lines of a streamed body, as they arrive."""
    rest = b""
    for chunk in response.stream(amt=None, decode_content=True):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole


def plain_reason(broken: BaseException) -> str:
    """The innermost message in a chain of wrapped network errors."""
    reason = getattr(broken, "reason", None)
    if isinstance(reason, BaseException):
        return plain_reason(reason)
    text = str(broken).rpartition("): ")[2] or str(broken) or type(broken).__name__
    while text[-1:] in ("'", '"') or (text.endswith(")") and text.count(")") > text.count("(")):
        text = text[:-1]  # rest of the removed wrapping
    return text.lstrip("\"'")
