"""As much of HTTP/1.1 as an echo server needs: the head of a request, read strictly, and a response."""

from __future__ import annotations

import time

MAX_BODY_BYTES = 65536
MAX_NONCE = 128
NONCE_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
TOKEN_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
           413: "Content Too Large", 431: "Request Header Fields Too Large", 503: "Service Unavailable",
           505: "HTTP Version Not Supported"}  # fmt: skip


def valid_nonce(nonce: bytes) -> bool:
    """Whether a client's nonce has the form that is echoed: 1 to 128 of letters, digits and ``._:-``."""
    return 0 < len(nonce) <= MAX_NONCE and not nonce.translate(None, NONCE_BYTES)


class HttpError(Exception):
    """A request that is answered with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Request:
    """The head of an HTTP/1 request."""

    __slots__ = ("headers", "length", "method", "path", "query", "version")

    def __init__(self, head: bytes) -> None:
        lines = head.replace(b"\r\n", b"\n").split(b"\n")
        if b"\r" in head.replace(b"\r\n", b"") or b"\0" in head:
            raise HttpError(400)
        words = lines[0].split(b" ")
        if len(words) != 3 or not words[0] or words[0].translate(None, TOKEN_BYTES):
            raise HttpError(400)
        self.method = words[0].decode()
        self.version = words[2].decode("latin-1")
        if self.version not in ("HTTP/1.1", "HTTP/1.0"):
            major = self.version[5:].split(".")[0]
            raise HttpError(505 if self.version.startswith("HTTP/") and major.isdecimal() else 400)
        self.headers: dict[str, list[str]] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon or not name or name.translate(None, TOKEN_BYTES):  # also folded and spaced names
                raise HttpError(400)
            self.headers.setdefault(name.decode().lower(), []).append(value.strip(b" \t").decode("latin-1"))
        hosts = self.headers.get("host", [])
        if len(hosts) > 1 or (not hosts and self.version == "HTTP/1.1"):
            raise HttpError(400)
        self.path, self.query = self._target(words[1].decode("latin-1"))
        self.length = self._length()

    def _target(self, target: str) -> tuple[str, str]:
        if not target.isascii() or not target.isprintable():
            raise HttpError(400)
        scheme, separator, rest = target.partition("://")
        if separator and scheme.lower() in ("http", "https"):  # as a proxy would be asked
            slash = rest.find("/")
            target = rest[slash:] if slash >= 0 else "/"
        if not target.startswith("/") and not (target == "*" and self.method == "OPTIONS"):
            raise HttpError(400)
        path, _, query = target.partition("?")
        return path, query

    def _length(self) -> int:
        lengths = self.headers.get("content-length", [])
        if not lengths:
            return 1 if "transfer-encoding" in self.headers else 0
        text = lengths[0]
        if len(lengths) > 1 or not (text.isascii() and text.isdigit()) or "transfer-encoding" in self.headers:
            raise HttpError(400)
        if len(text) > 10 or int(text) > MAX_BODY_BYTES:
            raise HttpError(413)
        return int(text)

    def asked(self) -> bytes | None:
        """What stands in the ``X-Esipp-Nonce`` header, or else in the query as ``nonce``: to be checked yet."""
        given = self.headers.get("x-esipp-nonce")
        if given is None:
            pairs = (pair.partition("=") for pair in self.query.split("&"))
            given = [value for key, _, value in pairs if key == "nonce"]
            for code, letter in (("%3A", ":"), ("%3a", ":"), ("%2F", "/"), ("%2f", "/")):
                given = [value.replace(code, letter) for value in given]
        if not given:
            return None
        if len(given) > 1:
            raise HttpError(400)
        return given[0].encode()


def reply(status: int, body: str, kind: str = "text/plain; charset=utf-8", head: bool = False) -> bytes:
    """An HTTP response as it goes over the wire, without its body where only the head was asked for."""
    payload = body.encode()
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    allow = "Allow: GET, HEAD\r\n" if status == 405 else ""
    lines = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nDate: {date}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(payload)}\r\n{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return lines.encode() + (b"" if head else payload)
