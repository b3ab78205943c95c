"""The client of the API server; the only module that imports the kubernetes package.

Manifests are dicts, and answers are raw JSON. The package's generated models are stricter than the API server: a null
instead of a list raises. A test suite must not fail on its own types. The package provides what is hard: kubeconfig,
credentials and TLS.
"""

import contextlib
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3
import yaml

from esipp.base.customisation import NOTHING, Customisation
from esipp.base.errors import PreflightError, did_you_mean
from esipp.base.json import Json
from esipp.base.redaction import learn_authorization, learn_environment, learn_kubeconfig
from esipp.cluster.dialect import Dialect, dialect_of
from esipp.cluster.errors import NOT_THERE as NOT_THERE
from esipp.cluster.errors import ApiError as ApiError
from esipp.cluster.errors import UnreachableError as UnreachableError
from esipp.cluster.errors import refusal, too_old
from esipp.cluster.impersonation import impersonation
from esipp.cluster.paging import listed
from esipp.cluster.proxy import account_at, proxy_for, proxy_hint
from esipp.ledger.run import REQUEST_TIMEOUT, Settings

if TYPE_CHECKING:  # imported where it is used: no command without a cluster waits for it
    from kubernetes.client import ApiClient

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

    def counts(self) -> dict[str, int]:
        """The counts so far, the most frequent first."""
        with self._lock:
            return dict(self._counted.most_common())


VERSION = "/version"
CONNECT_TIMEOUT = 5.0
UNAUTHORIZED = 401
GONE = 410
"""The status of a server that no longer has the events since a resource version."""

REOPEN_SECONDS = 0.2
"""Pause before a watch that the server closed is reopened."""

LONGEST_WATCH = 1800.0
"""Maximum duration of a watch in seconds; then it is reopened where it ended. API servers also end watches, after 30
to 60 minutes (``--min-request-timeout``)."""


class Cluster:
    """A cluster, named by a kubeconfig context.

    ``calls`` counts the requests.

    Args:
        context: name of the context; there is no default, so that esipp never uses a cluster by accident.
        kubeconfig: the file, or None for $KUBECONFIG and then ~/.kube/config.
        customisation: the customisation of every created object.
        as_user: whom to impersonate (``--as``); empty for what the kubeconfig says.
        request_timeout: the time limit of one request in seconds, except for watches and where a caller sets another.

    Raises:
        PreflightError: there is no such file or context, or the credentials are unusable.
    """

    def __init__(
        self,
        context: str,
        kubeconfig: str | None = None,
        customisation: Customisation = NOTHING,
        *,
        as_user: str = "",
        request_timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        self.context = context
        self.kubeconfig = kubeconfig
        self.customisation = customisation
        self.as_user = as_user
        self.request_timeout = request_timeout
        try:
            # not list_kube_config_contexts: it fails on a file without a current-context, which esipp does not use
            merged = _kubeconfig(kubeconfig)
            learn_kubeconfig(merged)
            learn_environment(os.environ)
            names = _contexts_of(merged)
        except UNREADABLE as broken:
            why = " ".join(str(broken).split()).rstrip(".")
            raise PreflightError(
                f"Cannot use the kubeconfig {kubeconfig or '($KUBECONFIG or ~/.kube/config)'}: {why}.",
                "name the file with --kubeconfig or $KUBECONFIG.",
            ) from None
        if context not in names:
            raise PreflightError(
                f"There is no context '{context}' in the kubeconfig.",
                f"{did_you_mean(context, names)}available contexts: {', '.join(names)}."
                if names
                else f"{kubeconfig or os.environ.get('KUBECONFIG') or '~/.kube/config'} names none, or does not exist.",
            )
        self._impersonation = impersonation(merged, context, as_user)
        self._api = self._log_in()
        self._logging_in = threading.Lock()
        self.server = str(self._api.configuration.host)
        self._dialect: Dialect | None = None
        self.calls = ApiCalls()

    @classmethod
    def of(cls, settings: Settings) -> "Cluster":
        """The cluster of a run, with what the user wants of it."""
        return cls(
            settings.context,
            settings.kubeconfig,
            settings.customisation,
            as_user=settings.as_user,
            request_timeout=settings.request_timeout,
        )

    @property
    def kubectl(self) -> list[str]:
        """The beginning of a command line of kubectl that uses the same cluster as the same user."""
        file = ["--kubeconfig", str(Path(self.kubeconfig))] if self.kubeconfig else []
        return ["kubectl", "--context", self.context, *file, *(["--as", self.as_user] if self.as_user else [])]

    def _log_in(self) -> "ApiClient":
        """Load server, credentials and proxy from the kubeconfig; a credential plugin runs again."""
        from kubernetes import client, config

        settings = client.Configuration(proxy="", no_proxy="")  # proxy.py selects the proxy, not the library
        try:
            config.load_kube_config(
                config_file=_location(self.kubeconfig),
                context=self.context,
                client_configuration=settings,
                persist_config=False,
            )
            settings.retries = urllib3.Retry(0)  # a lost request fails at once; callers that may wait do so themselves
            settings.proxy = settings.proxy or proxy_for(str(settings.host), os.environ)
            if settings.proxy and account_at(settings.proxy):
                settings.proxy_headers = urllib3.make_headers(proxy_basic_auth=account_at(settings.proxy))
            return client.ApiClient(configuration=settings)
        except (
            config.ConfigException, OSError, ValueError, TypeError, ImportError, urllib3.exceptions.HTTPError
        ) as broken:  # fmt: skip
            raise PreflightError(
                f"Cannot use the server, credentials or proxy of context '{self.context}': {broken}.",
                f"check that 'kubectl --context {self.context} get nodes' works.",
            ) from None

    def _log_in_again(self, refused: "ApiClient") -> bool:
        """After the server refused credentials, whether the file or its plugin now has other ones."""
        with self._logging_in:
            if self._api is refused:  # no other thread was here before
                with contextlib.suppress(PreflightError):
                    self._api = self._log_in()
            with contextlib.suppress(OSError):  # a certificate file was removed
                return _credentials(self._api) != _credentials(refused)
            return False

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: Mapping[str, str] | None = None,
        read_timeout: float | None = None,
        content: str = "application/json",
        warnings: list[str] | None = None,
    ) -> Json:
        """Send a request and return the JSON answer.

        ``content`` is the media type of the body; ``warnings`` receives the server's warnings. Objects have the form of
        current Kubernetes, whatever the server's version (dialect.py).

        Raises:
            ApiError: the server refused, or is too old for such a request, which then was not sent.
            UnreachableError: the server does not answer.
            PreflightError: the server does not report its version; ``version`` would have raised before.
        """
        dialect = dialect_of("") if path == VERSION else self.dialect
        if query and "dryRun" in query and not dialect.dry_runs:
            raise too_old(dialect, "dry runs, and would create the object", f"{method} {path}")
        if "apply-patch" in content and not dialect.applies:
            raise too_old(dialect, "server-side apply", f"{method} {path}")
        body = self.customisation.on(method, path, body, content)
        out = None if body is None else dialect.out(method, path, body)
        try:
            timeout = read_timeout or self.request_timeout
            response = self._send(method, path, out, query, timeout, content=content)
        except ApiError as refused:
            raise ApiError(
                refused.status, refused.reason, dialect.refusal(refused.message), f"{method} {path}"
            ) from None
        if warnings is not None:
            warnings += response.headers.getlist("Warning")
        return dialect.back(path, dict(json.loads(response.data or b"{}")))

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """GET something that is not JSON, such as a pod's log."""
        return bytes(self._send("GET", path, None, query, self.request_timeout).data).decode(errors="replace")

    def _send(
        self,
        method: str,
        path: str,
        body: Json | None,
        query: Mapping[str, str] | None,
        read_timeout: float,
        stream: bool = False,
        content: str = "application/json",
    ) -> urllib3.BaseHTTPResponse:
        """Send a request, and again with fresh credentials if the server no longer accepts the current ones."""
        api = self._api
        try:
            return self._send_by(api, method, path, body, query, read_timeout, stream, content)
        except ApiError as refused:
            if refused.status != UNAUTHORIZED or not self._log_in_again(api):
                raise
        return self._send_by(self._api, method, path, body, query, read_timeout, stream, content)

    def _send_by(
        self,
        api: "ApiClient",
        method: str,
        path: str,
        body: Json | None,
        query: Mapping[str, str] | None,
        read_timeout: float,
        stream: bool,
        content: str,
    ) -> urllib3.BaseHTTPResponse:
        arguments = api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content},
            body=body,
            auth_settings=["BearerToken"],
        )
        headers = urllib3.HTTPHeaderDict(arguments[2])
        for name, value in self._impersonation:
            headers.add(name, value)
        learn_authorization(str(headers.get("authorization") or ""))
        self.calls.add(method, path, query)
        try:
            response: urllib3.BaseHTTPResponse = api.call_api(
                *arguments[:2], headers, *arguments[3:], _request_timeout=(CONNECT_TIMEOUT, read_timeout)
            ).response
            if response.status >= 400:
                raise refusal(response, f"{method} {path}")
            if not stream:
                response.read(cache_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as broken:
            raise UnreachableError(plain_reason(broken)) from None
        return response

    def create(self, collection: str, manifest: Json) -> Json:
        """POST an object to a collection such as ``/api/v1/namespaces/x/pods``."""
        return self.request("POST", collection, body=manifest)

    def patch(self, path: str, body: Json, how: str = "strategic-merge-patch") -> Json:
        """PATCH an object; ``how`` is ``strategic-merge-patch``, ``merge-patch`` or ``apply-patch`` (with a query)."""
        return self.request("PATCH", path, body=body, content=f"application/{how}+json")

    def list(self, collection: str, **query: str) -> list[Json]:
        """The items of a collection, in pages (paging.py); ``labelSelector="a=b"`` and the like narrow it."""
        return listed(lambda page: self.request("GET", collection, query=page), query)

    def delete(self, path: str, *, grace: int | None = None) -> None:
        """DELETE an object; it is no error if it is already gone."""
        body: Json = {"propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self.request("DELETE", path, body=body)
        except ApiError as refused:
            if refused.status != 404:
                raise

    def watch(
        self,
        collection: str,
        *,
        budget: float,
        waits: bool = True,
        known: dict[str, Json] | None = None,
        **query: str,
    ) -> Iterator[tuple[str, Json]]:
        """Watch a collection for at most ``budget`` seconds (``math.inf``: no limit).

        Yields ``(event type, object)``: first the existing objects as ``ADDED``, then changes. ``EMPTY`` with a
        nameless object means that the snapshot had none. The watch ends silently when the time is over; the caller
        knows what is still missing. A watch that the server closes continues where it ended. A broken watch is reopened
        with a new snapshot, also after a time without a server. An object that is missing in the new snapshot, or was
        replaced by one of the same name, is then ``DELETED`` in its last known state. A caller that uses the arrival
        times of events sets ``waits`` to False, and the watch then ends when the server is unavailable. ``known`` keeps
        the last states for a caller that watches again after a refusal.

        Raises:
            ApiError: the server refused.
            UnreachableError: no server answers, and the time is over or ``waits`` is False.
        """
        deadline = time.monotonic() + budget
        pause = threading.Event()
        known = {} if known is None else known
        while True:
            try:
                snapshot = self.request("GET", collection, query=query)
            except UnreachableError:
                if not waits or time.monotonic() >= deadline:
                    raise
                pause.wait(REOPEN_SECONDS)
                continue
            items = {_name_of(item): item for item in snapshot.get("items") or []}
            gone = [each for name, each in known.items() if name not in items or _uid_of(items[name]) != _uid_of(each)]
            for item in gone:
                yield "DELETED", item
            known.clear()
            known.update(items)
            for item in items.values():
                yield "ADDED", item
            if not items:
                yield "EMPTY", {"metadata": {"name": ""}}
            version = str(snapshot.get("metadata", {}).get("resourceVersion", ""))
            while True:  # as long as the server closes each part of the watch in an orderly way
                left = min(deadline - time.monotonic(), LONGEST_WATCH)
                if left <= 0:
                    return
                whole = False
                opened = {**query, "watch": "1", "resourceVersion": version, "timeoutSeconds": str(max(1, int(left)))}
                try:
                    response = self._send("GET", collection, None, opened, left + 1, stream=True)
                    try:
                        for line in lines_of(response):
                            event = json.loads(line)
                            if event["type"] == "ERROR":
                                break
                            item = self.dialect.back(collection, event["object"])
                            version = str(item["metadata"].get("resourceVersion") or version)
                            if event["type"] == "DELETED":
                                known.pop(_name_of(item), None)
                            else:
                                known[_name_of(item)] = item
                            yield str(event["type"]), item
                        else:
                            whole = bool(version)
                    finally:
                        response.close()
                except ApiError as refused:
                    if refused.status != GONE:
                        raise
                except (UnreachableError, urllib3.exceptions.HTTPError, OSError):
                    if time.monotonic() >= deadline:
                        return
                if not whole:
                    break
                pause.wait(REOPEN_SECONDS)  # do not flood a server that closes at once
            pause.wait(REOPEN_SECONDS)

    def wait_for(
        self,
        collection: str,
        done: Callable[[Json], bool],
        names: set[str],
        *,
        budget: float,
        tell: Callable[[str], None] = lambda _state: None,
        key: Callable[[Json], str] = lambda item: str(item["metadata"]["name"]),
        **query: str,
    ) -> dict[str, Json]:
        """Watch until every named object is ``done``, the time is over, or one of them is deleted.

        Returns the last state of each object that exists. ``tell`` is called with the number of unfinished objects
        whenever something has changed. ``key`` returns the name of an object.
        """
        last: dict[str, Json] = {}
        right: set[str] = set()
        for kind, item in self.watch(collection, budget=budget, waits=True, known=None, **query):
            name = key(item)
            if name not in names:
                continue
            if kind == "DELETED":
                last.pop(name, None)
                break
            last[name] = item
            right.discard(name)
            right |= {each for each in names - right if each in last and done(last[each])}
            tell(f"{len(names - right)} of {len(names)} are left")
            if right == names:
                break
        return last

    def exists(self, path: str) -> bool:
        """Whether an object exists."""
        try:
            self.request("GET", path)
        except ApiError as refused:
            if refused.status == 404:
                return False
            raise
        return True

    def wait_gone(self, path: str, *, budget: float) -> bool:
        """Wait until an object is deleted; False if it still exists when the time is over."""
        collection, _, name = path.rpartition("/")
        for kind, _ in self.watch(collection, budget=budget, fieldSelector=f"metadata.name={name}"):
            if kind in ("DELETED", "EMPTY"):
                return True
        return not self.exists(path)

    def version(self) -> str:
        """``gitVersion`` of the API server.

        Raises:
            PreflightError: the server does not answer or refuses the credentials.
        """
        try:
            version = str(self.request("GET", VERSION, read_timeout=10)["gitVersion"])
        except UnreachableError as silent:
            raise PreflightError(
                f"The API server {self.server} of context '{self.context}' does not answer: {silent}.",
                "check that the cluster is up and that this machine can reach it (one of ci/conformance: ./ci/enter)."
                + proxy_hint(os.environ),
            ) from None
        except ApiError as refused:
            raise PreflightError(
                f"The API server {self.server} refuses the credentials of context '{self.context}': {refused.message}.",
                f"check that 'kubectl --context {self.context} get nodes' works.",
            ) from None
        self._dialect = dialect_of(version)
        return version

    def date(self) -> str:
        """The server's time from the ``Date`` header of an answer (RFC 9110), in whole seconds; empty without one."""
        return str(self._send("GET", VERSION, None, None, self.request_timeout).headers.get("Date") or "")

    @property
    def dialect(self) -> Dialect:
        """The API dialect of this server, selected once by its version.

        Raises:
            PreflightError: as ``version`` does.
        """
        if self._dialect is None:
            self.version()
        assert self._dialect is not None
        return self._dialect

    def may(
        self, verb: str, resource: str, *, group: str = "", namespace: str | None = None, name: str | None = None
    ) -> bool:
        """Whether the account has a right; ``resource`` may have a subresource (``pods/exec``), ``name`` one object."""
        resource, _, subresource = resource.partition("/")
        attributes: Json = {"verb": verb, "resource": resource, "subresource": subresource, "group": group}
        if namespace:
            attributes["namespace"] = namespace
        if name:
            attributes["name"] = name
        review = {
            "apiVersion": f"authorization.k8s.io/{self.dialect.access_review}",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self.create(f"/apis/{review['apiVersion']}/selfsubjectaccessreviews", review)
        return bool(answer.get("status", {}).get("allowed"))


def _name_of(item: Json) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _uid_of(item: Json) -> str:
    return str(item["metadata"].get("uid", ""))


UNREADABLE = (ValueError, OSError, yaml.YAMLError, TypeError, AttributeError, KeyError)
"""What an unreadable kubeconfig raises."""


def _location(file: str | None) -> str:
    """Where the kubeconfig is; the kubernetes package would read $KUBECONFIG only once."""
    return file or os.environ.get("KUBECONFIG") or "~/.kube/config"


def _kubeconfig(file: str | None) -> Json:
    """The kubeconfig, merged from all its files.

    Raises:
        one of UNREADABLE: it cannot be read.
    """
    from kubernetes.config import ConfigException, kube_config

    try:
        merged = kube_config.KubeConfigMerger(_location(file)).config
    except ConfigException as broken:
        raise ValueError(*broken.args) from None
    return merged.value if merged else {}


def current_context(kubeconfig: str | None) -> str:
    """The current context of a kubeconfig; empty without one."""
    with contextlib.suppress(*UNREADABLE):
        return str(_kubeconfig(kubeconfig).get("current-context") or "")
    return ""


def contexts(kubeconfig: str | None) -> list[str]:
    """The names of the contexts of a kubeconfig, sorted; none if it cannot be read."""
    with contextlib.suppress(*UNREADABLE):
        return _contexts_of(_kubeconfig(kubeconfig))
    return []


def _contexts_of(merged: Json) -> list[str]:
    return sorted(str(each["name"]) for each in merged.get("contexts") or [])


def _credentials(api: "ApiClient") -> tuple[Any, ...]:
    """The credentials in use; certificates by their content, because their files are temporary."""
    settings = api.configuration
    files = [Path(each).read_bytes() for each in (settings.cert_file, settings.key_file) if each]
    return settings.api_key.get("BearerToken"), settings.username, settings.password, *files


# ----------------------------------------------------------------------------------------------------------------- HTTP
def lines_of(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The lines of a streamed body, as they arrive."""
    rest = b""
    for chunk in response.stream(amt=None, decode_content=True):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole


def plain_reason(broken: BaseException) -> str:
    """The innermost message in a chain of wrapped network errors."""
    reason = getattr(broken, "reason", None)
    if isinstance(reason, BaseException):
        return plain_reason(reason)
    text = str(broken).rpartition("): ")[2] or str(broken) or type(broken).__name__
    while text[-1:] in ("'", '"') or (text.endswith(")") and text.count(")") > text.count("(")):
        text = text[:-1]  # rest of the removed wrapping
    return text.lstrip("\"'")
