"""How the API server says no, and that it says nothing at all."""

import json

import urllib3

from esipp.cluster.dialect import Dialect


class ApiError(Exception):
    """The API server's refusal: HTTP status, machine-readable reason, message."""

    def __init__(self, status: int, reason: str, message: str, request: str) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


NOT_THERE = "NotInThisVersion"
"""The reason of a refusal that is ours: a server of this age would not refuse, but do something else."""


class UnreachableError(Exception):
    """The API server did not answer at all."""


def too_old(dialect: Dialect, what: str, request: str) -> ApiError:
    """A request that was not sent, because such a server would take it for another one."""
    major, minor = dialect.version
    return ApiError(501, NOT_THERE, f"Kubernetes {major}.{minor} knows no {what}", request)


def refusal(response: urllib3.BaseHTTPResponse, request: str) -> ApiError:
    """What an answer that is none says."""
    raw = response.read(cache_content=True) or b""
    try:
        status = json.loads(raw)
        return ApiError(response.status, str(status.get("reason", "")), str(status.get("message", "")), request)
    except ValueError:
        return ApiError(response.status, response.reason or "", raw[:200].decode(errors="replace"), request)
