"""Counter of API requests, by verb and resource, as in the API server's metrics and audit logs. Pure."""

import re
import threading
from collections import Counter
from collections.abc import Mapping

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

PATH = re.compile(
    r"/(?:api/v1|apis/[^/]+/[^/]+)/(?:namespaces/[^/]+/(?=[a-z]))?(?P<resource>[a-z]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<sub>.+))?)?"
)


def call_of(method: str, path: str, query: Mapping[str, str] | None = None) -> str:
    """The name of a request: ``list nodes``, ``watch pods``, ``get pods/log``; its path if it names no resource."""
    found = PATH.fullmatch(path)
    if found is None:
        return f"{VERBS.get(method, 'get')} {path}"
    verb = VERBS.get(method) or ("get" if found["name"] else "watch" if "watch" in (query or {}) else "list")
    return f"{verb} {found['resource']}" + (f"/{found['sub']}" if found["sub"] else "")


class ApiCalls:
    """A thread-safe counter of sent requests, whatever their result."""

    def __init__(self) -> None:
        self._counted: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, method: str, path: str, query: Mapping[str, str] | None = None) -> None:
        """Count a request."""
        with self._lock:
            self._counted[call_of(method, path, query)] += 1

    def told(self) -> dict[str, int]:
        """The counts so far, the most frequent first."""
        with self._lock:
            return dict(self._counted.most_common())
