"""Errors of the API server: refusals and missing answers."""

import json

import urllib3

from esipp.cluster.dialect import Dialect


class ApiError(Exception):
    """A refusal of the API server: HTTP status, machine-readable reason, message."""

    def __init__(self, status: int, reason: str, message: str, request: str) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


NOT_THERE = "NotInThisVersion"
"""The reason of a refusal by esipp itself: a server of this version would not refuse, but do something else."""


class UnreachableError(Exception):
    """The API server did not answer."""


def too_old(dialect: Dialect, what: str, request: str) -> ApiError:
    """The refusal of a request that esipp did not send, because such a server would misunderstand it."""
    major, minor = dialect.version
    return ApiError(501, NOT_THERE, f"Kubernetes {major}.{minor} does not support {what}", request)


def refusal(response: urllib3.BaseHTTPResponse, request: str) -> ApiError:
    """The error of a response with an error status."""
    raw = response.read(cache_content=True) or b""
    try:
        status = json.loads(raw)
        return ApiError(response.status, str(status.get("reason", "")), str(status.get("message", "")), request)
    except ValueError:
        return ApiError(response.status, response.reason or "", raw[:200].decode(errors="replace"), request)
