"""The API server: list and watch, which survive its restarts, and patches of a Service's status."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .objects import Json, Key

ANSWER_SECONDS = 10.0
WATCH_SECONDS = 240  # then the server ends the watch, and it is begun anew from where it was
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 3.0
TROUBLE = (OSError, http.client.HTTPException, ValueError, KeyError)
Sink = Callable[[str, list[Json]], None]


class ApiError(OSError):
    """The API server said no."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


class Api:
    """Requests with a ServiceAccount's token, which is read anew for each: it may be renewed."""

    def __init__(self, server: str, ca: Path | None, token: Path | None) -> None:
        self._url = urlsplit(server)
        self._ca, self._token = ca, token

    def _open(self, method: str, path: str, body: Json | None, seconds: float) -> http.client.HTTPResponse:
        host, port = self._url.hostname or "", self._url.port
        connection: http.client.HTTPConnection
        if self._url.scheme == "https":
            context = ssl.create_default_context(cafile=str(self._ca) if self._ca else None)
            connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=seconds)
        headers = {"Accept": "application/json", "Connection": "close", "User-Agent": "esipp-reference"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token.read_text().strip()}"
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
        try:
            connection.connect()
            _keep_alive(connection.sock)
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            if answer.status >= 300:
                with answer:
                    raise ApiError(answer.status, answer.read(2000).decode(errors="replace"))
        except BaseException:
            connection.close()
            raise
        return answer  # with Connection: close it owns the socket

    def ask(self, method: str, path: str, body: Json | None = None) -> Any:
        """One request, one JSON answer."""
        with self._open(method, path, body, ANSWER_SECONDS) as answer:
            return json.loads(answer.read())

    def watch(self, path: str, version: str) -> Iterator[Json]:
        """Events after a resource version, until the server ends the watch."""
        query = f"?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}"
        with self._open("GET", path + query, None, WATCH_SECONDS + ANSWER_SECONDS) as answer:
            for line in answer:
                yield json.loads(line)


def _keep_alive(sock: socket.socket) -> None:
    """Notice within ten seconds that the other side is gone without a word: its node was stopped, say."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 4)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


class Follower(threading.Thread):
    """Follows one kind of object for as long as the process lives.

    The sink gets ``all`` with the whole list, then ``changed`` and ``gone`` with one object each; after any trouble
    everything is listed again, so that what happened meanwhile is not missed.
    """

    def __init__(self, api: Api, path: str, sink: Sink) -> None:
        super().__init__(name=f"watch {path}", daemon=True)
        self._api, self._path, self._sink = api, path, sink
        self._closing = threading.Event()

    def close(self) -> None:
        """Go no further than the request under way."""
        self._closing.set()

    def run(self) -> None:
        """List and watch, again and again."""
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                self._follow()
            except TROUBLE as error:
                gone = isinstance(error, ApiError) and error.status == 410
                if time.monotonic() - began > LONGEST_PAUSE:
                    pause = FIRST_PAUSE  # it went well for a while
                if not gone and not self._closing.is_set():
                    print(f"watching {self._path}: {error}; again in {pause:.1f} s", file=sys.stderr, flush=True)
                self._closing.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _follow(self) -> None:
        listing = self._api.ask("GET", self._path)
        self._sink("all", listing["items"])
        version = listing["metadata"]["resourceVersion"]
        while not self._closing.is_set():
            began = time.monotonic()
            for event in self._api.watch(self._path, version):
                document = event["object"]
                if event["type"] == "ERROR":
                    raise ApiError(document.get("code", 500), document.get("message", ""))
                version = document["metadata"]["resourceVersion"]
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._sink("changed", [document])
                elif event["type"] == "DELETED":
                    self._sink("gone", [document])
            if time.monotonic() - began < 1:
                self._closing.wait(FIRST_PAUSE)  # a server that ends every watch at once is not to be asked without end


class StatusWriter(threading.Thread):
    """Patches the status of Services, one after the other; only the newest wish for each counts."""

    def __init__(self, api: Api) -> None:
        super().__init__(name="status", daemon=True)
        self._api = api
        self._wishes: dict[Key, list[Json]] = {}
        self._changed = threading.Condition()

    def write(self, key: Key, ingress: list[Json]) -> None:
        """Ask for a Service's ingress to be this."""
        with self._changed:
            self._wishes[key] = ingress
            self._changed.notify()

    def run(self) -> None:
        """Patch what was asked for; a wish that failed is tried again unless the Service is gone."""
        pause = FIRST_PAUSE
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._wishes))
                key = next(iter(self._wishes))
                ingress = self._wishes.pop(key)
            namespace, name = key
            path = f"/api/v1/namespaces/{namespace}/services/{name}/status"
            try:
                self._api.ask("PATCH", path, {"status": {"loadBalancer": {"ingress": ingress or None}}})
                pause = FIRST_PAUSE
            except TROUBLE as error:
                if isinstance(error, ApiError) and error.status in (404, 422):
                    continue  # it is gone, or no balancer's any more: the watch tells
                print(f"status of {namespace}/{name}: {error}; again in {pause:.1f} s", file=sys.stderr, flush=True)
                with self._changed:
                    self._wishes.setdefault(key, ingress)
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
