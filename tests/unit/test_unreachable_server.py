"""Trouble on the way to an API server, in plain words."""

import pytest
import urllib3

from esipp.cluster.client import plain_reason


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        ("Pool(host='x', port=1): Read timed out. (read timeout=5.0)", "Read timed out. (read timeout=5.0)"),
        ("Connection(port=9): Failed: [Errno 111] Connection refused", "Failed: [Errno 111] Connection refused"),
        ("('Unable', Error(\"Connection(port=9): Connection refused\"))", "Connection refused"),
        ("no such name", "no such name"),
        ("", "Exception"),
    ],
)  # fmt: skip
def test_wrapping_is_taken_off(wrapped: str, plain: str) -> None:
    assert plain_reason(Exception(wrapped)) == plain


def test_the_reason_within_is_reported() -> None:
    outer = urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.SSLError("bad certificate"))
    assert plain_reason(outer) == "bad certificate"
