"""Requests are counted as the API server's own metrics name them."""

import pytest

from esipp.cluster.client import ApiCalls, call_of


@pytest.mark.parametrize(
    ("method", "path", "query", "name"),
    [
        ("GET", "/api/v1/nodes", {}, "list nodes"),
        ("GET", "/api/v1/nodes", {"watch": "1"}, "watch nodes"),
        ("GET", "/api/v1/nodes/a.b", None, "get nodes"),
        ("GET", "/api/v1/namespaces", None, "list namespaces"),
        ("GET", "/api/v1/namespaces/x", None, "get namespaces"),
        ("DELETE", "/api/v1/namespaces/x", None, "delete namespaces"),
        ("GET", "/api/v1/namespaces/x/pods", None, "list pods"),
        ("GET", "/api/v1/namespaces/x/pods/y/log", None, "get pods/log"),
        ("PATCH", "/api/v1/namespaces/x/pods/y/status", None, "patch pods/status"),
        ("PUT", "/api/v1/namespaces/x/services/y", None, "update services"),
        ("POST", "/apis/apps/v1/namespaces/x/daemonsets", None, "create daemonsets"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", None, "create selfsubjectaccessreviews"),
        ("GET", "/version", None, "get /version"),
    ],
)
def test_what_a_request_is(method: str, path: str, query: dict[str, str] | None, name: str) -> None:
    assert call_of(method, path, query) == name


def test_the_most_frequent_is_reported_first() -> None:
    calls = ApiCalls()
    for path in ("/version", "/api/v1/nodes", "/api/v1/nodes"):
        calls.add("GET", path)
    assert list(calls.counts().items()) == [("list nodes", 2), ("get /version", 1)]
