"""Paged lists, so that no API server has to put thousands of objects into one answer. Pure.

Kubernetes documentation, "API Concepts: Retrieving large results sets in chunks": all pages show the state at the time
of the first request. A server keeps that state only for some minutes. Servers before 1.8 send everything at once.
"""

from collections.abc import Callable, Mapping

from esipp.base.json import Json
from esipp.cluster.errors import ApiError

Ask = Callable[[Mapping[str, str]], Json]

PAGE = 500
"""Objects per page, as many as kubectl requests (``--chunk-size``)."""

EXPIRED = 410
"""The status of a refusal to continue an expired list."""


def listed(ask: Ask, query: Mapping[str, str], most: int | None = None) -> list[Json]:
    """The items of a list, all from the same point in time.

    A list that expires while it is read is read again once, and then requested without pages.

    Args:
        ask: requests one page.
        query: the query, such as a selector.
        most: stop after the page that reaches this number of items.

    Raises:
        ApiError: the server refused.
        UnreachableError: the server did not answer.
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
