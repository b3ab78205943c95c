"""NetworkPolicies that others put into our namespace are lifted, or told; nothing is done where there are none."""

from typing import Any, cast

import pytest

from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.errors import HarnessError
from esipp.labels import labels_of
from esipp.network_policies import OURS, check, lift, unseen


class Api:
    """A namespace with these policies; it may refuse ours, or that we look."""

    def __init__(self, *names: str, refuses: bool = False, hides: bool = False) -> None:
        self.found: list[dict[str, Any]] = [{"metadata": {"name": name}} for name in names]
        self.refuses, self.hides = refuses, hides

    def list(self, collection: str) -> list[dict[str, Any]]:
        assert collection == "/apis/networking.k8s.io/v1/namespaces/esipp-x/networkpolicies"
        if self.hides:
            raise ApiError(403, "Forbidden", "no", "GET")
        return self.found

    def create(self, collection: str, manifest: dict[str, Any]) -> None:
        if self.refuses:
            raise ApiError(403, "Forbidden", "no", "POST")
        self.found.append(manifest)


def lifted(api: Api) -> list[str]:
    return lift(cast(Cluster, api), "esipp-x", "x")


@pytest.mark.parametrize("api", [Api(), Api("deny", hides=True)])
def test_where_none_is_seen_nothing_is_made(api: Api) -> None:
    before = list(api.found)
    assert lifted(api) == []
    assert api.found == before
    check(cast(Cluster, api), "esipp-x", lifted=False)


def test_they_are_lifted_by_one_that_allows_everything() -> None:
    api = Api("deny", "audit")
    assert lifted(api) == ["audit", "deny"]
    ours = api.found[-1]
    assert (ours["metadata"]["name"], ours["metadata"]["labels"]) == (OURS, labels_of("x"))
    assert ours["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{}],
        "egress": [{}],
    }
    api.found.append({"metadata": {"name": "one-more"}})
    check(cast(Cluster, api), "esipp-x", lifted=True)


def test_where_ours_is_refused_that_is_told() -> None:
    with pytest.raises(HarnessError, match="NetworkPolicy deny was put into our namespace"):
        lifted(Api("deny", refuses=True))


def test_one_that_came_while_we_looked_is_told() -> None:
    with pytest.raises(HarnessError, match="NetworkPolicy late was put into our namespace meanwhile"):
        check(cast(Cluster, Api("late")), "esipp-x", lifted=False)


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (None, ""),
        (ApiError(404, "NotFound", "no such resource", "GET"), ""),
        (ApiError(501, "", "Kubernetes 1.2 knows none", "GET"), ""),
        (ApiError(403, "Forbidden", "may not list", "GET"), "may not list"),
        (UnreachableError("away"), "away"),
    ],
)
def test_that_they_cannot_be_seen_is_told(trouble: Exception | None, why: str) -> None:
    class Mute(Api):
        def list(self, collection: str) -> list[dict[str, Any]]:
            if trouble:
                raise trouble
            return []

    assert unseen(cast(Cluster, Mute()), "esipp-x") == why
