"""Lists that come in pages, so that no API server has to put thousands of objects into one answer. Pure.

Kubernetes documentation, "API Concepts: Retrieving large results sets in chunks": what comes page by page is as it was
when the first was asked for, and a server keeps that for some minutes only. Servers before 1.8 send everything at once.
"""

from collections.abc import Callable, Mapping
from typing import Any

from esipp.cluster.errors import ApiError

Json = dict[str, Any]
Ask = Callable[[Mapping[str, str]], Json]

PAGE = 500
"""Objects in an answer: as many as kubectl asks for (``--chunk-size``)."""

EXPIRED = 410
"""The status of a refusal to go on with a list that is too old."""


def listed(ask: Ask, query: Mapping[str, str], most: int | None = None) -> list[Json]:
    """The items of a list, all of them as of one moment.

    A list that has become too old while it was read is begun anew, once; then it is asked for whole.

    Args:
        ask: asks for one answer, by a query.
        query: what narrows the list.
        most: so many are enough; what is left of the last page comes with them.

    Raises:
        ApiError: the server refused.
        UnreachableError: it did not answer.
    """
    for _ in range(2):
        items: list[Json] = []
        after: dict[str, str] = {}
        try:
            while True:
                answer = ask({**query, "limit": str(PAGE), **after})
                items += answer.get("items") or []
                token = (answer.get("metadata") or {}).get("continue")
                if not token or (most is not None and len(items) >= most):
                    return items
                after = {"continue": str(token)}
        except ApiError as refused:
            if refused.status != EXPIRED or not after:
                raise
    return list(ask(query).get("items") or [])
