"""HAProxy's view: the servers' status, by ``show stat`` on its stats socket, or by the CSV of its stats page.

Only that one question is asked. The columns are those of HAProxy's management guide, 9.1 (CSV format), and are found by
their names, as versions have more of them.
"""

import base64
import csv
import http.client
import socket
import time
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from esipp.loadbalancers.views.model import Asked, Member, Places, State, Unavailable, View, Why

SECONDS = 5.0
QUESTION = b"show stat\n"
SERVER = "2"  # column "type"


class HAProxyView:
    """What one HAProxy says.

    ``where`` is the path of its stats socket, or the URL of its stats page.
    """

    provider = "haproxy"
    interval = 0.5
    lag = 0.0

    def __init__(self, places: Places, where: str) -> None:
        self.places = places
        self._where = where
        self._shown = urlsplit(where)._replace(netloc=urlsplit(where).netloc.rpartition("@")[2]).geturl()

    def ask(self, service: Asked) -> View:
        """The servers that are nodes at one of the Service's node ports.

        Raises:
            Unavailable: it does not answer, or does not know the Service.
        """
        asked = time.monotonic()
        try:
            told = _page(self._where) if self._where.startswith("http") else _socket(self._where)
        except (OSError, http.client.HTTPException) as broken:
            raise Unavailable(
                Why.FAILED, f"HAProxy at {self._shown} does not answer: {broken}.",
                "is it there, does it have a stats socket or page, and may we read it?",
            ) from None  # fmt: skip
        rows = list(read(told))
        members = tuple(self._members(rows, service))
        if not members:
            ports = ", ".join(map(str, sorted(service.node_ports))) or "none"
            raise Unavailable(
                Why.NOT_FOUND, f"HAProxy at {self._shown} has no server at the node ports of {service.name} ({ports}).",
                "is it set up for this Service?",
            )  # fmt: skip
        return View(self.provider, self._shown, asked, time.monotonic(), members)

    def _members(self, rows: list[dict[str, str]], service: Asked) -> Iterator[Member]:
        for row in rows:
            address, _, port = row.get("addr", "").rpartition(":")
            known = address.strip("[]")
            if row.get("type") != SERVER or (port.isdigit() and int(port) not in service.node_ports):
                continue
            node = self.places.find(known or None, row["svname"])
            # without addresses, which only an operator's level shows, a server's name must be the node's
            if not known and (node is None or service.name.partition("/")[2] not in row["pxname"]):
                continue
            word = row["status"]
            shown = (
                row.get("check_status"),
                row.get("last_chk"),
                f"for {row['lastchg']} s" if row.get("lastchg") else "",
            )
            target = f"{row['pxname']}/{row['svname']}"
            yield Member(target, node, state_of(word), word, ", ".join(each for each in shown if each))


def state_of(word: str) -> State:
    """From HAProxy's word: ``UP``, ``UP 1/3`` (going down), ``DOWN 1/2`` (going up), ``MAINT``, ``no check`` …"""
    first = word.partition(" ")[0]
    if first == "UP":
        return State.HEALTHY
    return State.UNHEALTHY if first in ("DOWN", "MAINT", "DRAIN", "NOLB") else State.UNKNOWN


def read(told: str) -> Iterator[dict[str, str]]:
    """The rows of the CSV, by the names of their columns.

    Raises:
        Unavailable: it is none.
    """
    head, _, rest = told.lstrip().partition("\n")
    names = head.removeprefix("# ").strip().rstrip(",").split(",")
    if not head.startswith("# ") or not {"pxname", "svname", "status"} <= set(names):
        raise Unavailable(
            Why.GARBLED, f"HAProxy did not answer with its statistics: {head[:100] or 'nothing'}",
            "the address of a stats page ends in ;csv",
        )  # fmt: skip
    for row in csv.reader(rest.splitlines()):
        if len(row) >= len(names):
            yield dict(zip(names, row, strict=False))


def _socket(path: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(SECONDS)
        sock.connect(path.removeprefix("unix:").removeprefix("//"))
        sock.sendall(QUESTION)
        answer = b""
        while data := sock.recv(1 << 16):
            answer += data
    return answer.decode(errors="replace")


def _page(url: str) -> str:
    """By no proxy that the environment names."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=SECONDS)
    headers = {}
    if parts.username:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    try:
        path = parts.path or "/"
        connection.request("GET", path if path.endswith(";csv") else f"{path};csv", headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    finally:
        connection.close()
    if answer.status in (401, 403):
        raise Unavailable(Why.LOGIN, f"HAProxy's stats page answers {answer.status}.", "http://user:password@host/…")
    if answer.status != http.client.OK:
        raise Unavailable(Why.FAILED, f"HAProxy's stats page answers {answer.status}.", "is it the right address?")
    return body
