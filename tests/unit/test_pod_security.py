"""What a dry run of our namespace tells of Pod Security."""

from typing import Any, cast

import pytest

from esipp.cluster import NOT_THERE, ApiError, Cluster, UnreachableError
from esipp.errors import PreflightError
from esipp.pod_security import LEVEL, check_privileged, privileged_feature
from esipp.rows import Feature


class Api:
    """An API server that gives a new namespace this level, or fails."""

    def __init__(self, answer: str | Exception | None) -> None:
        self.answer = answer

    def request(self, method: str, path: str, *, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        assert (method, path, query) == ("POST", "/api/v1/namespaces", {"dryRun": "All"})
        assert body["metadata"]["labels"][LEVEL] == "privileged"
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"metadata": {"labels": {LEVEL: self.answer} if self.answer else {}}}


RESTRICTED = "the cluster gives a namespace of ours the Pod Security level restricted (a dry run)"


def found(answer: str | Exception | None) -> Feature:
    return privileged_feature(cast(Cluster, Api(answer)))


def refused(message: str, reason: str = "Forbidden") -> ApiError:
    return ApiError(403, reason, message, "POST /api/v1/namespaces")


@pytest.mark.parametrize(
    "answer",
    [
        "privileged",
        refused("Kubernetes 1.9 knows no dry run", NOT_THERE),
        refused('admission webhook "x" does not support dry run', "BadRequest"),
        UnreachableError("away"),
    ],
)
def test_where_nothing_speaks_against_it_it_is_there(answer: str | Exception) -> None:
    assert found(answer).present


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("restricted", RESTRICTED),
        (None, "the cluster gives a namespace of ours the Pod Security level none (a dry run)"),
        (
            refused("no such label"),
            "a namespace of Pod Security level privileged was refused (a dry run): no such label",
        ),
    ],
)
def test_what_the_cluster_does_instead_is_said(answer: str | Exception | None, why: str) -> None:
    feature = found(answer)
    assert not feature.present
    assert feature.why == why
    assert not feature.ours, "the cluster lacks it, not we"


def test_a_cluster_that_does_not_is_not_asked_anything_else() -> None:
    check_privileged(cast(Cluster, Api("privileged")))
    with pytest.raises(PreflightError) as refused:
        check_privileged(cast(Cluster, Api("restricted")))
    assert refused.value.sentence.endswith("does not admit: " + RESTRICTED + ".")
