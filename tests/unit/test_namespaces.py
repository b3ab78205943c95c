"""A run's namespace goes: also after the API server was away, and where a node with our pods is lost."""

import contextlib
from collections.abc import Callable
from typing import Any, cast

import pytest

from esipp.base.errors import HarnessError
from esipp.base.labels import FINALIZER
from esipp.base.waiting import Budget
from esipp.cluster import namespaces
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import insist, remove_namespace

QUICK = Budget("something", 0.2, need=1, spacing=0.001)


def failing(*troubles: Exception) -> Callable[[], str]:
    left = list(troubles)

    def do() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return do


def refusal(status: int) -> ApiError:
    return ApiError(status, "", "no", "DELETE x")


@pytest.mark.parametrize(
    "troubles",
    [
        [],
        [UnreachableError("away")] * 3,
        [refusal(503), refusal(429), refusal(500)],
        [UnreachableError("away"), refusal(401), refusal(403)],  # started again, it does not know all rights at once
    ],
)
def test_an_api_server_that_is_away_is_waited_for(troubles: list[Exception]) -> None:
    assert insist(failing(*troubles), QUICK) == "done"


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_a_refusal_is_reported(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "FORGOTTEN", 0.0)
    do = failing(refusal(status), UnreachableError("asked again"))
    with pytest.raises(ApiError) as refused:
        insist(do, QUICK)
    assert refused.value.status == status


def test_one_that_stays_away_is_reported() -> None:
    with pytest.raises(UnreachableError):
        insist(failing(*[UnreachableError("away")] * 10_000), QUICK)


class Slow:
    """A namespace whose pod goes only when it is deleted without grace; or never."""

    context = "home"

    def __init__(self, *, goes: bool) -> None:
        self.goes = goes
        self.pods = ["lost"]
        self.deleted: list[tuple[str, int | None]] = []

    def delete(self, path: str, *, grace: int | None = None) -> None:
        self.deleted.append((path.rpartition("/")[2], grace))
        if grace == 0 and self.goes:
            self.pods.clear()

    def list(self, collection: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name}} for name in self.pods if collection.endswith("/pods")]

    def wait_gone(self, path: str, *, budget: float) -> bool:
        return not self.pods

    def request(self, method: str, path: str) -> dict[str, Any]:
        waits = {"type": "NamespaceContentRemaining", "status": "True", "message": "pods. has 1 resource instances"}
        return {"status": {"conditions": [waits, {"type": "Other", "status": "False", "message": "all fine"}]}}


def test_pods_of_a_lost_node_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "LOST_AFTER", 0.0)
    slow = Slow(goes=True)
    remove_namespace(cast(Cluster, slow), "esipp-x")
    assert slow.deleted == [("esipp-x", None), ("lost", 1), ("lost", 0)]


def test_a_service_that_a_killed_run_kept_by_its_finalizer_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kept(Slow):
        def list(self, collection: str) -> list[dict[str, Any]]:
            finalizers = {"finalizers": ["cloud.example/lb", FINALIZER]} if collection.endswith("/services") else {}
            return [{"metadata": {"name": "held", **finalizers}}]

        def patch(self, path: str, body: dict[str, Any], kind: str) -> None:
            assert (path.rpartition("/")[0].rpartition("/")[2], kind) == ("services", "merge-patch")
            patched.append(body)

    patched: list[dict[str, Any]] = []
    monkeypatch.setattr(namespaces, "LOST_AFTER", 0.0)
    remove_namespace(cast(Cluster, Kept(goes=True)), "esipp-x")
    assert patched == [{"metadata": {"finalizers": ["cloud.example/lb"]}}], "others' finalizers stay"


def test_what_holds_a_namespace_is_reported() -> None:
    with pytest.raises(HarnessError) as stuck:
        remove_namespace(cast(Cluster, Slow(goes=False)), "esipp-x", Budget("gone", 0.0))
    assert stuck.value.sentence.endswith("s: pods. has 1 resource instances.")


def test_a_refusal_while_it_goes_is_not_the_last_word() -> None:
    refusals = [refusal(403), refusal(503)]

    class Forgetful(Slow):
        def wait_gone(self, path: str, *, budget: float) -> bool:
            if refusals:
                raise refusals.pop()
            return True

    remove_namespace(cast(Cluster, Forgetful(goes=True)), "esipp-x")
    assert not refusals


@pytest.mark.parametrize(("status", "expected"), [(409, False), (422, True)])
def test_one_that_is_going_already_need_not_be_deleted(status: int, expected: bool) -> None:
    class Going(Slow):
        def delete(self, path: str, *, grace: int | None = None) -> None:
            if path.endswith("esipp-x"):
                raise refusal(status)
            self.pods.clear()

    with pytest.raises(ApiError) if expected else contextlib.nullcontext():
        remove_namespace(cast(Cluster, Going(goes=True)), "esipp-x")
