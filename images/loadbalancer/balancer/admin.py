"""The admin endpoint: the view as it is, and the decisions as they come. Read only."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Collection
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .decisions import Decisions

SIGN_OF_LIFE_SECONDS = 2.0
MOST_DIGITS = 18  # of a decision's number


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str, port: int, view: Callable[[], Any], decisions: Decisions) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.view, self.decisions = view, decisions
        super().__init__((address, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader went away: no matter."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Answer one request; every connection carries one only."""
        self.close_connection = True
        try:
            url = urlsplit(self.path)
        except ValueError:  # no host such as [::
            self._answer(HTTPStatus.BAD_REQUEST, json.dumps({"error": "that is no URL"}))
            return
        if url.path == "/view":
            self._answer(HTTPStatus.OK, json.dumps(self.server.view()))
        elif url.path == "/decisions":
            after = parse_qs(url.query).get("after", ["0"])[0]
            if after.isascii() and after.isdigit() and len(after) <= MOST_DIGITS:
                self._stream(int(after))
            else:
                self._answer(HTTPStatus.BAD_REQUEST, json.dumps({"error": "after is the number of a decision"}))
        else:
            self._answer(HTTPStatus.NOT_FOUND, json.dumps({"error": "there are /view and /decisions?after=SEQ"}))

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, seq: int) -> None:
        """Send what came after, and then what comes, until the reader goes or the balancer ends."""
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/jsonl")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        self._chunk("\n")  # the reader is connected: it misses nothing from here on
        decisions = self.server.decisions
        while not decisions.closed:
            found, lost = decisions.after(seq, SIGN_OF_LIFE_SECONDS)
            lines = [json.dumps({"seq": seq + lost, "kind": "lost", "lost": lost})] if lost else []
            lines += [json.dumps(decision) for decision in found]
            self._chunk("".join(f"{line}\n" for line in lines) or "\n")
            if found:
                seq = found[-1]["seq"]
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nobody reads it."""


class Admin:
    """Serves on each of some addresses, so that VIPs keep that port for their Services."""

    def __init__(self, addresses: Collection[str], port: int, view: Callable[[], Any], decisions: Decisions) -> None:
        self._servers = [_Server(address, port, view, decisions) for address in addresses]
        self.ports = [server.server_address[1] for server in self._servers]

    def start(self) -> None:
        """Serve in threads."""
        for server in self._servers:
            threading.Thread(target=server.serve_forever, args=[0.1], name="admin", daemon=True).start()

    def close(self) -> None:
        """Take no more."""
        for server in self._servers:
            server.shutdown()
            server.server_close()
